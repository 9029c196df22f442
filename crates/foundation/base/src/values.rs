//! Sizes, durations and shares as values of options and of keys in job files.

use crate::units::{self, UnitError};
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use std::time::Duration;

/// A size in bytes, written as `4096`, `4k` or `1.5g`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Size(pub u64);

/// A duration, written as `300`, `300s` or `5m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span(pub Duration);

/// A share from 0 to 1, written as a percentage: `25` or `12.5%`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Percent(pub f64);

impl FromStr for Size {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        units::parse_size(text).map(Self)
    }
}

impl FromStr for Span {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        units::parse_duration(text).map(Self)
    }
}

impl FromStr for Percent {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        units::parse_percent(text).map(Self)
    }
}

/// Parses a number of operations a second: `250`, `0.5`, `100k` (100,000) or `2m` (2,000,000).
///
/// # Errors
/// Fails with a text for the user if it is not such a number.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1e3),
        None => text.strip_suffix(['m', 'M']).map_or((text, 1.0), |digits| (digits, 1e6)),
    };
    let number = digits.parse::<f64>().ok().map(|number| number * factor);
    number
        .filter(|number| number.is_finite())
        .ok_or_else(|| "give a number of operations a second, such as 250, 100k or 2m".to_owned())
}

#[cfg(test)]
mod tests {
    use super::parse_rate;

    #[test]
    fn rates_have_decimal_suffixes() {
        for (text, rate) in [("250", 250.0), ("0.5", 0.5), ("100k", 1e5), ("1.5M", 1.5e6)] {
            assert_eq!(parse_rate(text), Ok(rate), "{text}");
        }
        for text in ["", "k", "1g", "10kk", "inf", "nan", "1e400"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }
}
