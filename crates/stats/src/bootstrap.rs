//! Intervals by resampling, for statistics that have no formula.

use crate::distribution::{normal_cdf, normal_quantile};
use crate::{Confidence, Interval, Sample};
use gemelo_base::random::Random;

/// The number of resamples and the seed of their choice. The same seed gives the same interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resampling {
    /// The number of resamples, from 100 to 100,000.
    count: u32,
    seed: u64,
}

impl Resampling {
    /// 2000 resamples are enough for 95 % intervals (Efron and Tibshirani, section 14.2).
    pub const USUAL: Self = Self { count: 2000, seed: 1 };

    /// Creates the choice. The number of resamples is brought into the range of 100 to 100,000:
    /// fewer leave no tail, and more are not worth their time.
    #[must_use]
    pub fn new(count: u32, seed: u64) -> Self {
        Self { count: count.clamp(100, 100_000), seed }
    }
}

/// Returns the percentile interval of a statistic. Source: Efron and Tibshirani, "An Introduction
/// to the Bootstrap" (1993), section 13.3.
///
/// It is `None` for a single value, or if the statistic is not finite. The intervals of small
/// samples are too narrow: prefer a formula where there is one.
#[must_use]
pub fn bootstrap_percentile(
    sample: &Sample,
    statistic: impl Fn(&Sample) -> f64,
    confidence: Confidence,
    resampling: Resampling,
) -> Option<Interval> {
    let tail = confidence.error_share() / 2.0;
    between(
        &replicates(&[sample], |parts| of_one(parts, &statistic), resampling)?,
        tail,
        1.0 - tail,
    )
}

/// Returns the percentile interval of the ratio of a statistic of two samples, `changed` / `base`,
/// each of which is resampled alone.
#[must_use]
pub fn bootstrap_ratio(
    base: &Sample,
    changed: &Sample,
    statistic: impl Fn(&Sample) -> f64,
    confidence: Confidence,
    resampling: Resampling,
) -> Option<Interval> {
    let ratio = |parts: &[Sample]| match parts {
        [base, changed] => statistic(changed) / statistic(base),
        _ => f64::NAN,
    };
    let tail = confidence.error_share() / 2.0;
    between(&replicates(&[base, changed], ratio, resampling)?, tail, 1.0 - tail)
}

/// Returns the bias-corrected and accelerated interval (BCa) of a statistic. Source: Efron, "Better
/// bootstrap confidence intervals", Journal of the American Statistical Association 82 (1987).
///
/// It is `None` for a single value, or if the statistic is not finite.
#[must_use]
pub fn bootstrap_bca(
    sample: &Sample,
    statistic: impl Fn(&Sample) -> f64,
    confidence: Confidence,
    resampling: Resampling,
) -> Option<Interval> {
    let replicates = replicates(&[sample], |parts| of_one(parts, &statistic), resampling)?;
    let observed = statistic(sample);
    if replicates.first() == replicates.last() {
        return Interval::new(observed, observed);
    }
    let below = replicates.partition_point(|value| *value < observed);
    let not_above = replicates.partition_point(|value| *value <= observed);
    let share = (below + not_above) as f64 / (2 * replicates.len()) as f64;
    let bias = normal_quantile(share);
    let acceleration = acceleration(sample, &statistic)?;
    let corrected = |probability: f64| {
        let z = bias + normal_quantile(probability);
        normal_cdf(bias + z / (1.0 - acceleration * z))
    };
    let tail = confidence.error_share() / 2.0;
    between(&replicates, corrected(tail), corrected(1.0 - tail))
}

fn of_one(parts: &[Sample], statistic: impl Fn(&Sample) -> f64) -> f64 {
    parts.first().map_or(f64::NAN, statistic)
}

/// Returns the statistics of resamples in ascending order.
fn replicates(
    samples: &[&Sample],
    statistic: impl Fn(&[Sample]) -> f64,
    resampling: Resampling,
) -> Option<Vec<f64>> {
    if samples.iter().any(|sample| sample.count() < 2) {
        return None;
    }
    let mut random = Random::new(resampling.seed);
    let mut replicates = Vec::with_capacity(resampling.count as usize);
    for _ in 0..resampling.count {
        let parts: Option<Vec<Sample>> =
            samples.iter().map(|sample| resample(sample, &mut random)).collect();
        let value = statistic(&parts?);
        if !value.is_finite() {
            return None;
        }
        replicates.push(value);
    }
    replicates.sort_by(f64::total_cmp);
    Some(replicates)
}

fn resample(sample: &Sample, random: &mut Random) -> Option<Sample> {
    let values = sample.values();
    let drawn = values.iter().filter_map(|_| {
        let place = random.below(values.len() as u64);
        values.get(place as usize).copied()
    });
    Sample::new(drawn).ok()
}

/// Returns the acceleration by the jackknife: a sixth of the skewness of the statistic's values
/// without one value each.
fn acceleration(sample: &Sample, statistic: impl Fn(&Sample) -> f64) -> Option<f64> {
    let values = sample.values();
    let without = |place: usize| {
        let (before, after) = values.split_at(place);
        Sample::new(before.iter().chain(after.iter().skip(1)).copied()).ok()
    };
    let partial: Option<Vec<f64>> =
        (0..values.len()).map(|place| without(place).map(|part| statistic(&part))).collect();
    let partial = partial?;
    let mean = partial.iter().sum::<f64>() / partial.len() as f64;
    let moment = |power: i32| partial.iter().map(|value| (mean - value).powi(power)).sum::<f64>();
    let spread = moment(2);
    Some(if spread > 0.0 { moment(3) / (6.0 * spread.powf(1.5)) } else { 0.0 })
}

/// Returns the interval between two quantiles of values in ascending order, interpolated linearly.
fn between(ascending: &[f64], low: f64, high: f64) -> Option<Interval> {
    let quantile = |probability: f64| {
        let place = probability * (ascending.len() - 1) as f64;
        let lower = ascending.get(place.floor() as usize)?;
        let upper = ascending.get(place.ceil() as usize)?;
        Some(lower + (upper - lower) * place.fract())
    };
    Interval::new(quantile(low)?, quantile(high)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let sample = Sample::new([1.0, 4.0, 2.0, 8.0, 5.0, 7.0]).unwrap();
        let interval = |seed| {
            bootstrap_bca(&sample, Sample::median, Confidence::USUAL, Resampling::new(500, seed))
        };
        assert!(interval(1).is_some());
        assert_eq!(interval(1), interval(1));
        let one = Sample::new([1.0]).unwrap();
        assert_eq!(bootstrap_bca(&one, Sample::mean, Confidence::USUAL, Resampling::USUAL), None);
    }

    #[test]
    fn a_ratio_that_divides_by_zero_has_no_interval() {
        let sample = Sample::new([0.0, 1.0]).unwrap();
        let ratio =
            bootstrap_ratio(&sample, &sample, Sample::median, Confidence::USUAL, Resampling::USUAL);
        assert_eq!(ratio, None);
    }
}
