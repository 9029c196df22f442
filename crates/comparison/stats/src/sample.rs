//! A sample: independent repetitions of one figure.

use gemelo_base::Classified;
use thiserror::Error;

/// The largest magnitude of a value. The sum of the squares of 10^8 such values is still finite.
pub const LARGEST_VALUE: f64 = 1e150;

/// The error for values that are not a sample.
#[derive(Debug, Clone, PartialEq, Error, Classified)]
#[kind(BadInput)]
pub enum SampleError {
    /// The list of values is empty.
    #[error("a sample needs at least one value: repeat the measurement")]
    Empty,
    /// A value is not a number, or too large for sums of squares.
    #[error("the value {value} cannot be used: values are from -1e150 to 1e150")]
    OutOfRange {
        /// The value that is out of range.
        value: f64,
    },
}

/// Independent repetitions of one figure: at least one value, all finite.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    ascending: Vec<f64>,
    mean: f64,
    variance: Option<f64>,
}

impl Sample {
    /// Creates a sample of these values, in any order.
    ///
    /// # Errors
    /// Fails if there is no value, or if a value is not finite or exceeds [`LARGEST_VALUE`].
    pub fn new(values: impl IntoIterator<Item = f64>) -> Result<Self, SampleError> {
        let mut ascending: Vec<f64> = values.into_iter().collect();
        if let Some(value) = ascending.iter().copied().find(|value| !is_usable(*value)) {
            return Err(SampleError::OutOfRange { value });
        }
        if ascending.is_empty() {
            return Err(SampleError::Empty);
        }
        ascending.sort_by(f64::total_cmp);
        let mean = mean_of(&ascending);
        let variance = variance_of(&ascending, mean);
        Ok(Self { ascending, mean, variance })
    }

    /// Returns the values in ascending order.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.ascending
    }

    /// Returns the natural logarithms of the values, or `None` if a value is not positive.
    #[must_use]
    pub fn logarithms(&self) -> Option<Self> {
        if self.lowest() <= 0.0 {
            return None;
        }
        Self::new(self.ascending.iter().map(|value| value.ln())).ok()
    }

    /// Returns `true` if all values are the same.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.ascending.first() == self.ascending.last()
    }

    /// Returns the number of values, at least 1.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ascending.len()
    }

    /// Returns the arithmetic mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Returns the unbiased variance (sum of squares divided by the count less one), or `None` for
    /// a single value.
    #[must_use]
    pub fn variance(&self) -> Option<f64> {
        self.variance
    }

    /// Returns the square root of the variance, or `None` for a single value.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }

    /// Returns the median: the middle value, or the mean of the two middle values.
    #[must_use]
    pub fn median(&self) -> f64 {
        median_of_ascending(&self.ascending)
    }

    /// Returns the lowest value.
    #[must_use]
    pub fn lowest(&self) -> f64 {
        self.ascending.first().copied().unwrap_or(f64::NAN)
    }

    /// Returns the highest value.
    #[must_use]
    pub fn highest(&self) -> f64 {
        self.ascending.last().copied().unwrap_or(f64::NAN)
    }
}

/// Returns `true` if sums of squares of such values are finite.
pub(crate) fn is_usable(value: f64) -> bool {
    value.abs() <= LARGEST_VALUE
}

/// Returns the mean in two passes: the second pass adds the mean of the rounding errors. Equal
/// values give exactly their value.
pub(crate) fn mean_of(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let first = values.iter().sum::<f64>() / count;
    first + values.iter().map(|value| value - first).sum::<f64>() / count
}

fn variance_of(values: &[f64], mean: f64) -> Option<f64> {
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    if values.first() == values.last() {
        // Rounding of the mean must not give equal values a spread.
        return Some(0.0);
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some(squares / freedom as f64)
}

/// Returns the median of values in ascending order, or NaN for none.
pub(crate) fn median_of_ascending(ascending: &[f64]) -> f64 {
    let upper = ascending.get(ascending.len() / 2).copied().unwrap_or(f64::NAN);
    if ascending.len() % 2 == 1 {
        return upper;
    }
    let lower = ascending.get((ascending.len() / 2).wrapping_sub(1)).copied();
    lower.unwrap_or(f64::NAN) / 2.0 + upper / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_no_numbers_are_refused() {
        assert_eq!(Sample::new([]), Err(SampleError::Empty));
        for value in [f64::NAN, f64::INFINITY, -1e151] {
            let error = Sample::new([1.0, value]).unwrap_err();
            assert!(matches!(error, SampleError::OutOfRange { .. }), "{error}");
        }
    }

    #[test]
    fn equal_values_have_no_spread_whatever_their_rounding() {
        let sample = Sample::new([0.1; 7]).unwrap();
        assert_eq!((sample.mean(), sample.variance()), (0.1, Some(0.0)));
        assert_eq!(Sample::new([3.0]).unwrap().variance(), None);
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(Sample::new([5.0, 1.0, 2.0]).unwrap().median(), 2.0);
        assert_eq!(Sample::new([5.0, 1.0, 2.0, 4.0]).unwrap().median(), 3.0);
    }
}
