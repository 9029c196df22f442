//! Time series: a quantity over the time of one run, whose values depend on each other.

use crate::autocorrelation::{MAX_LAGGED, integrated_time};
use crate::ratio::{Moments, fieller};
use crate::sample::{is_usable, mean_of};
use crate::{Confidence, Estimate, Interval, Sample};
use gemelo_base::Classified;
use thiserror::Error;

/// The fewest points of a time series. The autocorrelation of fewer is unknown.
pub const FEWEST_POINTS: usize = 20;

/// The fewest independent values that carry an interval. With fewer, the series is shorter than
/// its own memory, and its mean says nothing of a longer run.
const FEWEST_INDEPENDENT: f64 = 5.0;

/// The error for values that are not a time series.
#[derive(Debug, Clone, PartialEq, Error, Classified)]
#[kind(BadInput)]
pub enum TimelineError {
    /// The series is too short.
    #[error("the time series has {points} points, but {FEWEST_POINTS} are needed: run longer")]
    TooShort {
        /// Number of points.
        points: usize,
    },
    /// A value is not a number, or too large for sums of squares.
    #[error("the value {value} cannot be used: values are from -1e150 to 1e150")]
    OutOfRange {
        /// The value that is out of range.
        value: f64,
    },
}

/// The values of a time series at equal distances, in order of time: at least [`FEWEST_POINTS`].
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    values: Vec<f64>,
}

impl Timeline {
    /// Creates a time series.
    ///
    /// # Errors
    /// Fails if there are fewer than [`FEWEST_POINTS`] values, or if one is not finite.
    pub fn new(values: Vec<f64>) -> Result<Self, TimelineError> {
        if let Some(value) = values.iter().copied().find(|value| !is_usable(*value)) {
            return Err(TimelineError::OutOfRange { value });
        }
        if values.len() < FEWEST_POINTS {
            return Err(TimelineError::TooShort { points: values.len() });
        }
        Ok(Self { values })
    }

    /// Returns the values in order of time.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// Returns the arithmetic mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        mean_of(&self.values)
    }

    /// Returns the series itself, or, if it has more than `most` values, the averages of groups of
    /// neighbours. A group at the end that is not full is left out.
    pub(crate) fn averaged(&self, most: usize) -> Vec<f64> {
        let width = self.values.len().div_ceil(most).max(1);
        self.values.chunks_exact(width).map(mean_of).collect()
    }

    /// Returns the moments that an interval of the mean needs, or `None` if the series has too few
    /// independent values. All of them are moments of the averages, because averaging changes the
    /// variance and the number of independent values together.
    fn moments(&self) -> Option<Moments> {
        let averages = self.averaged(MAX_LAGGED);
        let count = averages.len() as f64 / integrated_time(&averages);
        let mean = self.mean();
        let variance = Sample::new(averages).ok()?.variance()?;
        let freedom = count - 1.0;
        (count >= FEWEST_INDEPENDENT).then_some(Moments { mean, variance, count, freedom })
    }
}

/// Returns the ratio `changed` / `base` of the means over time, with Fieller's interval for the
/// effective numbers of independent values: the count divided by the
/// [autocorrelation time](crate::autocorrelation_time). Source: Geyer, Statistical Science 7
/// (1992), section 3.
///
/// The interval covers the noise within the two runs alone. It says nothing of the spread from run
/// to run, which is often larger.
#[must_use]
pub fn ratio_over_time(
    base: &Timeline,
    changed: &Timeline,
    confidence: Confidence,
) -> Option<Estimate> {
    let value = changed.mean() / base.mean();
    let interval = base
        .moments()
        .zip(changed.moments())
        .and_then(|(base, changed)| fieller(&base, &changed, confidence));
    let is_negative = |series: &Timeline| series.values().iter().any(|value| *value < 0.0);
    let interval = if is_negative(base) || is_negative(changed) {
        interval
    } else {
        interval.and_then(Interval::not_below_zero)
    };
    value.is_finite().then_some(Estimate { value, interval })
}
