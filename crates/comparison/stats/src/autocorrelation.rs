//! The dependence between the values of a time series.

use crate::Timeline;
use crate::sample::mean_of;

/// The most values for which autocovariances are computed; longer series are averaged to this
/// length first. The work can reach its square: 16 million steps.
pub(crate) const MAX_LAGGED: usize = 1 << 12;

/// Returns the integrated autocorrelation time: the number of values of the series that carry as
/// much information on the mean as one independent value. It is at least 1. The autocorrelations
/// are summed in pairs, as long as the sum of a pair is positive and not above the pair before
/// (initial monotone sequence). Source: Geyer, "Practical Markov Chain Monte Carlo", Statistical
/// Science 7 (1992), section 3.3.
#[must_use]
pub fn autocorrelation_time(series: &Timeline) -> f64 {
    let averages = series.averaged(MAX_LAGGED);
    let width = series.count() as f64 / averages.len() as f64;
    // The variance of the mean is the same for the values and for their averages.
    let share = spread_of(&averages) / spread_of(series.values());
    let share = if share.is_finite() { share } else { 1.0 };
    (width * share * integrated_time(&averages)).clamp(1.0, series.count() as f64)
}

/// Returns the mean of the squared distances from the mean.
fn spread_of(values: &[f64]) -> f64 {
    let mean = mean_of(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64
}

/// Returns the integrated autocorrelation time of these values, from 1 to their number.
pub(crate) fn integrated_time(values: &[f64]) -> f64 {
    let mean = mean_of(values);
    let distances: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let lagged = |lag: usize| {
        let later = distances.iter().skip(lag);
        distances.iter().zip(later).map(|(one, other)| one * other).sum::<f64>()
    };
    let spread = lagged(0);
    if spread <= 0.0 {
        return 1.0;
    }
    let (mut sum, mut before) = (0.0, f64::INFINITY);
    for lag in (0..values.len().saturating_sub(1)).step_by(2) {
        let pair = (lagged(lag) + lagged(lag + 1)) / spread;
        if pair <= 0.0 {
            break;
        }
        before = pair.min(before);
        sum += before;
    }
    (2.0 * sum - 1.0).clamp(1.0, values.len().max(1) as f64)
}
