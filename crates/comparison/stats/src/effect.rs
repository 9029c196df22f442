//! Effect sizes: the size of a difference in units that do not depend on the figure.

use crate::Sample;
use crate::ranks::pairs_above;
use statrs::function::gamma::ln_gamma;

/// Returns Hedges' g: the difference `changed` - `base` of the means in units of the pooled
/// deviation, corrected for the bias of small samples. Source: Hedges, "Distribution theory for
/// Glass's estimator of effect size", Journal of Educational Statistics 6 (1981).
///
/// It is `None` if a sample has a single value or if no sample has any spread.
#[must_use]
pub fn hedges_g(base: &Sample, changed: &Sample) -> Option<f64> {
    let freedom_of = |sample: &Sample| sample.count() as f64 - 1.0;
    let freedom = freedom_of(base) + freedom_of(changed);
    let squares = base.variance()? * freedom_of(base) + changed.variance()? * freedom_of(changed);
    let deviation = (squares / freedom).sqrt();
    let half = freedom / 2.0;
    let correction = (ln_gamma(half) - half.ln() / 2.0 - ln_gamma(half - 0.5)).exp();
    let effect = correction * (changed.mean() - base.mean()) / deviation;
    effect.is_finite().then_some(effect)
}

/// Returns Cliff's delta, from -1 to 1: the share of pairs in which the value of `changed` is
/// higher, less the share in which it is lower. Source: Cliff, "Dominance statistics",
/// Psychological Bulletin 114 (1993).
#[must_use]
pub fn cliffs_delta(base: &Sample, changed: &Sample) -> f64 {
    let pairs = base.count() as f64 * changed.count() as f64;
    2.0 * pairs_above(base, changed) / pairs - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delta_counts_pairs() {
        let [low, high] = [[1.0, 2.0], [3.0, 4.0]].map(|values| Sample::new(values).unwrap());
        assert_eq!([cliffs_delta(&low, &high), cliffs_delta(&high, &low)], [1.0, -1.0]);
        assert_eq!(cliffs_delta(&low, &low), 0.0);
    }

    #[test]
    fn values_without_spread_have_no_standardised_effect() {
        let [three, four] = [[3.0; 2], [4.0; 2]].map(|values| Sample::new(values).unwrap());
        assert_eq!(hedges_g(&three, &four), None);
    }
}
