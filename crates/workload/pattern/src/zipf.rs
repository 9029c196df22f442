//! Draws Zipf-distributed ranks at a constant cost for any number of ranks, by rejection-inversion
//! (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
//! distributions", ACM TOMACS 6(3), 1996).
//!
//! h(x) = x^-theta, continued to the reals; H is its integral. A height is drawn uniformly from the
//! range of H between the start of rank 1 and 1/2 past the last rank. The inverse of H maps it to a
//! point, which is rounded to a rank. The rank is rejected if the height lies outside the bar of
//! the rank. More than nine draws in ten are accepted.

use gemelo_base::random::Random;

/// Draws ranks from 1 to `ranks`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Zipf {
    ranks: f64,
    theta: f64,
    /// Values of H at the start of rank 1 and at 1/2 past the last rank.
    near: f64,
    far: f64,
    /// A rank at most this far above the drawn point is accepted without evaluating its bar.
    squeeze: f64,
}

impl Zipf {
    pub(super) fn new(ranks: u64, theta: f64) -> Self {
        let ranks = ranks as f64;
        let mut zipf = Self { ranks, theta, near: 0.0, far: 0.0, squeeze: 0.0 };
        zipf.near = zipf.integral(1.5) - 1.0;
        zipf.far = zipf.integral(ranks + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.bar(2.0));
        zipf
    }

    #[inline]
    pub(super) fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let height = self.far + random.unit() * (self.near - self.far);
            let point = self.inverse(height);
            let rank = (point + 0.5).floor().clamp(1.0, self.ranks);
            if rank - point <= self.squeeze || height >= self.integral(rank + 0.5) - self.bar(rank)
            {
                return rank as u64;
            }
        }
    }

    /// Returns h(x).
    fn bar(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// Returns H(x) = (x^(1-theta) - 1) / (1-theta), or ln x if theta is 1. The form used is exact
    /// near 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.theta) * log;
        if power.abs() < 1e-8 { log * (1.0 + power / 2.0) } else { power.exp_m1() / power * log }
    }

    fn inverse(&self, y: f64) -> f64 {
        let scaled = (y * (1.0 - self.theta)).max(-1.0);
        if scaled.abs() < 1e-8 {
            (y * (1.0 - scaled / 2.0)).exp()
        } else {
            (scaled.ln_1p() / scaled * y).exp()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns Pearson's chi-square over the first ranks one by one and the rest together.
    fn chi_square(ranks: u64, theta: f64, seed: u64) -> (f64, usize) {
        const DRAWS: u32 = 200_000;
        let alone = ranks.min(20) as usize;
        let weight = |rank: u64| (rank as f64).powf(-theta);
        let total: f64 = (1..=ranks).map(weight).sum();
        let mut expected: Vec<f64> =
            (1..=alone as u64).map(|rank| weight(rank) / total * f64::from(DRAWS)).collect();
        expected.push((f64::from(DRAWS) - expected.iter().sum::<f64>()).max(0.0));
        let mut counts = vec![0f64; alone + 1];
        let (zipf, mut random) = (Zipf::new(ranks, theta), Random::new(seed));
        for _ in 0..DRAWS {
            let rank = zipf.rank(&mut random);
            assert!((1..=ranks).contains(&rank));
            counts[(rank as usize - 1).min(alone)] += 1.0;
        }
        let cells = counts.iter().zip(&expected).filter(|(_, expected)| **expected >= 5.0);
        let terms: Vec<f64> =
            cells.map(|(count, expected)| (count - expected).powi(2) / expected).collect();
        (terms.iter().sum(), terms.len() - 1)
    }

    #[test]
    fn ranks_follow_the_distribution() {
        for (case, (ranks, theta)) in [
            (1000, 0.0),
            (1000, 0.5),
            (1000, 0.99),
            (1000, 1.0),
            (100_000, 1.2),
            (50, 3.0),
            (2, 1.0),
        ]
        .into_iter()
        .enumerate()
        {
            let seed = 40 + case as u64;
            let (found, freedom) = chi_square(ranks, theta, seed);
            // The bound is the mean of chi-square and 4.5 standard deviations, with room for its
            // skew.
            let most = freedom as f64 + 4.5 * (2.0 * freedom as f64).sqrt() + 6.0;
            assert!(found < most, "ranks {ranks}, theta {theta}, seed {seed}: {found} > {most}");
        }
    }

    #[test]
    fn a_thousand_million_ranks_cost_no_more() {
        let (zipf, mut random) = (Zipf::new(1_000_000_000, 0.99), Random::new(5));
        let drawn: Vec<u64> = (0..100_000).map(|_| zipf.rank(&mut random)).collect();
        // The share of rank 1 is 1 / H(10^9, 0.99), about 1 / 23.8.
        let first = drawn.iter().filter(|rank| **rank == 1).count() as f64 / 100_000.0;
        assert!((first * 23.8 - 1.0).abs() < 0.1, "seed 5: {first}");
        assert!(drawn.iter().any(|rank| *rank > 100_000_000));
        assert_eq!(Zipf::new(1, 0.99).rank(&mut random), 1);
    }
}
