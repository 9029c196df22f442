//! Random variables: the three kinds of `randvar` and the eight of `cvar`.

use gemelo_base::random::Random;

/// A random variable; every draw comes from the stream of whoever draws.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomVariable {
    /// How values are distributed, before rounding and bounds.
    pub law: Law,
    /// Values below are raised to it.
    pub min: f64,
    /// Values above are lowered to it.
    pub max: f64,
    /// Values are rounded to multiples of it; 0 leaves them alone.
    pub round: f64,
}

/// A probability law.
#[derive(Debug, Clone, PartialEq)]
pub enum Law {
    /// Every value between two bounds is equally likely.
    Uniform {
        /// Lower bound.
        lower: f64,
        /// Upper bound.
        upper: f64,
    },
    /// Gamma, moved up by `offset`.
    Gamma {
        /// Shape; below 1 most values are tiny.
        shape: f64,
        /// Scale: mean over shape.
        scale: f64,
        /// Added to every value.
        offset: f64,
    },
    /// Ranges with a percentage each, uniform inside.
    Table(Vec<TableRow>),
    /// The sum of `order` exponentials.
    Erlang {
        /// How many exponentials.
        order: u32,
        /// Mean of the sum.
        mean: f64,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean: f64,
    },
    /// e to the power of a normal.
    LogNormal {
        /// Standard deviation of the normal.
        shape: f64,
        /// Mean of the normal.
        scale: f64,
    },
    /// Normal.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        sigma: f64,
    },
    /// Triangular.
    Triangular {
        /// Lower bound.
        lower: f64,
        /// Upper bound.
        upper: f64,
        /// The most likely value.
        mode: f64,
    },
    /// Weibull.
    Weibull {
        /// Shape.
        shape: f64,
        /// Scale.
        scale: f64,
    },
}

/// A row of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableRow {
    /// Share of the values that fall up to the end of this row, 0 to 1.
    pub cumulative: f64,
    /// First value.
    pub from: f64,
    /// Last value.
    pub to: f64,
}

/// A number above 0 and at most 1, of which logarithms can be taken.
fn positive_unit(random: &mut Random) -> f64 {
    1.0 - random.unit()
}

/// Standard normal: the polar method (Marsaglia and Bray 1964).
fn standard_normal(random: &mut Random) -> f64 {
    loop {
        let (x, y) = (2.0 * random.unit() - 1.0, 2.0 * random.unit() - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

/// Gamma of scale 1: squeeze of a cubed normal (Marsaglia and Tsang 2000); below shape 1 by the power of a uniform.
pub(crate) fn standard_gamma(shape: f64, random: &mut Random) -> f64 {
    if shape < 1.0 {
        let larger = standard_gamma(shape + 1.0, random);
        return larger * positive_unit(random).powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let normal = standard_normal(random);
        let cube = (1.0 + c * normal).powi(3);
        if cube > 0.0 {
            let limit = 0.5 * normal * normal + d - d * cube + d * cube.ln();
            if positive_unit(random).ln() < limit {
                return d * cube;
            }
        }
    }
}

impl Law {
    fn draw(&self, random: &mut Random) -> f64 {
        match self {
            Self::Uniform { lower, upper } => lower + (upper - lower) * random.unit(),
            Self::Gamma { shape, scale, offset } => offset + scale * standard_gamma(*shape, random),
            Self::Table(rows) => draw_from_table(rows, random),
            Self::Erlang { order, mean } => {
                let sum: f64 = (0..*order).map(|_| -positive_unit(random).ln()).sum();
                sum * mean / f64::from((*order).max(1))
            }
            Self::Exponential { mean } => -mean * positive_unit(random).ln(),
            Self::LogNormal { shape, scale } => (scale + shape * standard_normal(random)).exp(),
            Self::Normal { mean, sigma } => mean + sigma * standard_normal(random),
            Self::Triangular { lower, upper, mode } => {
                let width = upper - lower;
                if width <= 0.0 {
                    return *lower;
                }
                let unit = random.unit();
                let peak = (mode - lower) / width;
                let place = if unit <= peak {
                    (peak * unit).sqrt()
                } else {
                    1.0 - ((1.0 - peak) * (1.0 - unit)).sqrt()
                };
                lower + width * place
            }
            Self::Weibull { shape, scale } => {
                scale * (-positive_unit(random).ln()).powf(1.0 / shape)
            }
        }
    }
}

fn draw_from_table(rows: &[TableRow], random: &mut Random) -> f64 {
    let unit = random.unit();
    let index =
        rows.partition_point(|row| row.cumulative <= unit).min(rows.len().saturating_sub(1));
    let Some(row) = rows.get(index) else { return 0.0 };
    row.from + (row.to - row.from) * random.unit()
}

impl RandomVariable {
    /// A variable of this law, without rounding or bounds.
    #[must_use]
    pub const fn new(law: Law) -> Self {
        Self { law, min: f64::MIN, max: f64::MAX, round: 0.0 }
    }

    /// The next value.
    pub fn draw(&self, random: &mut Random) -> f64 {
        let value = self.law.draw(random);
        let value =
            if self.round > 0.0 { (value / self.round).round() * self.round } else { value };
        value.max(self.min).min(self.max)
    }

    /// The mean, from ten thousand draws of a fixed stream.
    #[must_use]
    pub fn mean(&self) -> f64 {
        const DRAWS: u32 = 10_000;
        let mut random = Random::new(1);
        (0..DRAWS).map(|_| self.draw(&mut random)).sum::<f64>() / f64::from(DRAWS)
    }
}

#[cfg(test)]
pub(crate) mod tests;
