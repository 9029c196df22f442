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
