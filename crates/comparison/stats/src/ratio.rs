//! Ratios of means and of medians, with confidence intervals.

use crate::distribution::student_factor;
use crate::ranks::ShiftBounds;
use crate::sample::median_of_ascending;
use crate::welch::{StandardError, combined_error};
use crate::{Confidence, Estimate, Interval, Sample, difference_of_means};

/// The largest number of pairs whose ratios are computed: 32 MB.
const MAX_PAIRS: usize = 1 << 22;

/// Returns the ratio `changed` / `base` of the means with Fieller's interval: all ratios ρ for
/// which the mean of `changed` - ρ · `base` does not differ from zero. Source: Fieller, "Some
/// problems in interval estimation", Journal of the Royal Statistical Society B 16 (1954). The
/// variances may differ; the degrees of freedom are those of Satterthwaite at the estimated ratio
/// (Tamhane and Logan, "Finding the maximum safe dose level for heteroscedastic data", 2004).
///
/// It is for figures that can be zero, which have no logarithm; [`ratio_of_geometric_means`] is for
/// all others. The interval of values that are not negative ends at zero.
///
/// The ratio is `None` if the mean of `base` is zero. The interval is `None` if a sample has a
/// single value, if no sample has any spread, or if the mean of `base` does not differ from zero:
/// the ratio is unbounded then.
#[must_use]
pub fn ratio_of_means(base: &Sample, changed: &Sample, confidence: Confidence) -> Option<Estimate> {
    let moments = |sample: &Sample| {
        let count = sample.count() as f64;
        Some(Moments {
            mean: sample.mean(),
            variance: sample.variance()?,
            count,
            freedom: count - 1.0,
        })
    };
    let value = finite(changed.mean() / base.mean())?;
    let interval = moments(base)
        .zip(moments(changed))
        .and_then(|(base, changed)| fieller(&base, &changed, confidence));
    let interval = if base.lowest() >= 0.0 && changed.lowest() >= 0.0 {
        interval.and_then(Interval::not_below_zero)
    } else {
        interval
    };
    Some(Estimate { value, interval })
}

/// The moments from which Fieller's interval is computed.
pub(crate) struct Moments {
    pub(crate) mean: f64,
    /// Variance of one value.
    pub(crate) variance: f64,
    /// Number of independent values.
    pub(crate) count: f64,
    pub(crate) freedom: f64,
}

/// Returns the ends of Fieller's interval: the roots of (y - ρx)² = t² (v + ρ²u), where u and v are
/// the squared standard errors of the means x and y.
pub(crate) fn fieller(
    base: &Moments,
    changed: &Moments,
    confidence: Confidence,
) -> Option<Interval> {
    let ratio = finite(changed.mean / base.mean)?;
    let error = combined_error(
        [ratio * ratio * base.variance, changed.variance],
        [base.count, changed.count],
        [base.freedom, changed.freedom],
    );
    let StandardError::Some { freedom, .. } = error else { return None };
    let factor = student_factor(confidence, freedom);
    // All terms are divided by the square of the mean of the base.
    let u = base.variance / base.count / base.mean / base.mean;
    let v = changed.variance / changed.count / base.mean / base.mean;
    let g = factor * factor * u;
    if g >= 1.0 {
        return None;
    }
    let root = factor * ((1.0 - g) * v + ratio * ratio * u).sqrt();
    Interval::new((ratio - root) / (1.0 - g), (ratio + root) / (1.0 - g))
}

/// Returns the ratio `changed` / `base` of the geometric means, with Welch's interval of the
/// difference of the logarithms. It fits values whose spread grows with their size. Source: Bland
/// and Altman, "The use of transformation when comparing two means", BMJ 312 (1996).
///
/// It is `None` if a value is not positive.
#[must_use]
pub fn ratio_of_geometric_means(
    base: &Sample,
    changed: &Sample,
    confidence: Confidence,
) -> Option<Estimate> {
    let (base, changed) = base.logarithms().zip(changed.logarithms())?;
    Some(difference_of_means(&base, &changed, confidence).exponential())
}

/// Returns the ratio by which `changed` is a scaled `base`: the median of the ratios of all pairs,
/// with the interval of the ratios that the rank test does not reject. It is the shift of Hodges
/// and Lehmann with the interval of Moses, on a logarithmic scale, so it assumes nothing of the
/// distribution. Sources: Hodges and Lehmann, Annals of Mathematical Statistics 34 (1963);
/// Hollander and Wolfe, "Nonparametric Statistical Methods", section 4.3.
///
/// It is `None` if a value is not positive, or if there are more than 4 million pairs. It has no
/// interval if the samples are too small: a level of 95 % needs four values a side.
#[must_use]
pub fn ratio_of_medians(
    base: &Sample,
    changed: &Sample,
    confidence: Confidence,
) -> Option<Estimate> {
    let pairs = base.count().saturating_mul(changed.count());
    if base.lowest() <= 0.0 || changed.lowest() <= 0.0 || pairs > MAX_PAIRS {
        return None;
    }
    let mut ratios = Vec::with_capacity(pairs);
    for value in changed.values() {
        ratios.extend(base.values().iter().map(|other| value / other));
    }
    ratios.sort_by(f64::total_cmp);
    let interval = ShiftBounds::of(base.count(), changed.count(), confidence).and_then(|bounds| {
        Interval::new(*ratios.get(bounds.left_out)?, *ratios.iter().rev().nth(bounds.left_out)?)
    });
    Some(Estimate { value: finite(median_of_ascending(&ratios))?, interval })
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values.iter().copied()).unwrap()
    }

    #[test]
    fn a_base_that_may_be_zero_has_no_bounded_ratio() {
        let changed = sample(&[5.0, 6.0]);
        let near_zero = ratio_of_means(&sample(&[-1.0, 1.5]), &changed, Confidence::USUAL);
        assert_eq!(near_zero.unwrap().interval, None);
        assert_eq!(ratio_of_means(&sample(&[0.0]), &changed, Confidence::USUAL), None);
        assert_eq!(ratio_of_medians(&sample(&[0.0]), &changed, Confidence::USUAL), None);
        assert_eq!(ratio_of_geometric_means(&sample(&[0.0]), &changed, Confidence::USUAL), None);
    }

    #[test]
    fn values_without_spread_have_a_ratio_of_unknown_noise() {
        let (base, changed) = (sample(&[2.0; 3]), sample(&[3.0; 3]));
        for estimate in [ratio_of_means, ratio_of_geometric_means] {
            let ratio = estimate(&base, &changed, Confidence::USUAL).unwrap();
            assert!((ratio.value - 1.5).abs() < 1e-12, "{ratio:?}");
            assert_eq!(ratio.interval, None);
        }
    }

    #[test]
    fn a_ratio_of_figures_that_can_be_zero_does_not_go_below_zero() {
        let changed = sample(&[0.0, 5.0, 0.0]);
        let ratio = ratio_of_means(&sample(&[10.0, 11.0, 9.0]), &changed, Confidence::USUAL);
        assert_eq!(ratio.unwrap().interval.unwrap().low(), 0.0);
    }

    #[test]
    fn scaled_values_have_the_scale_as_their_ratio() {
        let base = sample(&[1.0, 1.1, 1.2, 1.3, 1.4]);
        let changed = sample(&[2.0, 2.2, 2.4, 2.6, 2.8]);
        for estimate in [ratio_of_means, ratio_of_medians, ratio_of_geometric_means] {
            let ratio = estimate(&base, &changed, Confidence::USUAL).unwrap();
            assert!((ratio.value - 2.0).abs() < 1e-9, "{ratio:?}");
            assert!(ratio.interval.unwrap().contains(2.0), "{ratio:?}");
        }
    }
}
