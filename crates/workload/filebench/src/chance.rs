//! Random variables: the three types of `randvar` and the eight of `cvar`.

use gemelo_base::random::Random;

/// A random variable. The caller's random stream decides each draw.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomVariable {
    /// Distribution of the values before rounding and bounds.
    pub law: Law,
    /// Least value; smaller draws become this one.
    pub min: f64,
    /// Largest value; larger draws become this one.
    pub max: f64,
    /// Values are rounded to multiples of this number; 0 disables rounding.
    pub round: f64,
}

/// A distribution from which a script draws random numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum Law {
    /// Uniform distribution between two bounds.
    Uniform {
        /// Lower bound.
        lower: f64,
        /// Upper bound.
        upper: f64,
    },
    /// Gamma distribution, shifted by `offset`.
    Gamma {
        /// Shape. Below 1, most values are close to the offset.
        shape: f64,
        /// Scale: mean divided by shape.
        scale: f64,
        /// Number added to every value.
        offset: f64,
    },
    /// Ranges of values, each with a percentage. Values are uniform within a range.
    Table(Vec<TableRow>),
    /// Erlang distribution: the sum of `order` exponential values.
    Erlang {
        /// Number of exponential values.
        order: u32,
        /// Mean of the sum.
        mean: f64,
    },
    /// Exponential distribution.
    Exponential {
        /// Mean of the values.
        mean: f64,
    },
    /// Log-normal distribution: e to the power of a normal value.
    LogNormal {
        /// Standard deviation of the normal value.
        shape: f64,
        /// Mean of the normal value.
        scale: f64,
    },
    /// Normal distribution.
    Normal {
        /// Mean of the values.
        mean: f64,
        /// Standard deviation of the values.
        sigma: f64,
    },
    /// Triangular distribution.
    Triangular {
        /// Lower bound.
        lower: f64,
        /// Upper bound.
        upper: f64,
        /// Most likely value.
        mode: f64,
    },
    /// Weibull distribution.
    Weibull {
        /// Shape parameter.
        shape: f64,
        /// Scale parameter.
        scale: f64,
    },
}

/// One range of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableRow {
    /// Share of the values in this range and all ranges before it, 0 to 1.
    pub cumulative: f64,
    /// Lower bound of the values.
    pub from: f64,
    /// Upper bound of the values.
    pub to: f64,
}

/// Returns a number above 0 and at most 1, whose logarithm is finite.
fn positive_unit(random: &mut Random) -> f64 {
    1.0 - random.unit()
}

/// Draws from the standard normal distribution by the polar method (Marsaglia and Bray 1964).
fn standard_normal(random: &mut Random) -> f64 {
    loop {
        let (x, y) = (2.0 * random.unit() - 1.0, 2.0 * random.unit() - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

/// Draws from the gamma distribution of scale 1 by the squeeze of a cubed normal (Marsaglia and
/// Tsang 2000). A shape below 1 is reached by the power of a uniform number.
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
    /// Creates a variable with this distribution, without rounding or bounds.
    #[must_use]
    pub const fn new(law: Law) -> Self {
        Self { law, min: f64::MIN, max: f64::MAX, round: 0.0 }
    }

    /// Draws the next value.
    pub fn draw(&self, random: &mut Random) -> f64 {
        let value = self.law.draw(random);
        let value =
            if self.round > 0.0 { (value / self.round).round() * self.round } else { value };
        value.max(self.min).min(self.max)
    }

    /// Returns the mean of ten thousand draws from a fixed stream.
    #[must_use]
    pub fn mean(&self) -> f64 {
        const DRAWS: u32 = 10_000;
        let mut random = Random::new(1);
        (0..DRAWS).map(|_| self.draw(&mut random)).sum::<f64>() / f64::from(DRAWS)
    }
}

#[cfg(test)]
pub(crate) mod tests;
