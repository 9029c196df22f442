//! Sizes, durations and percentages as the values of options.

use gemelo_base::units::{self, UnitError};
use std::str::FromStr;
use std::time::Duration;

/// Bytes: `4096`, `4k`, `1.5g`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) u64);

/// A duration: `300`, `300s`, `5m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

/// A share of 0 to 1, written as a percentage: `25`, `12.5%`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Percent(pub(crate) f64);

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

/// Bytes of a block: 1 byte to 1 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockSize(pub(crate) u64);

/// The largest block size, above every unit of deduplication.
const MOST_BLOCK_BYTES: u64 = 1 << 30;

impl FromStr for BlockSize {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bytes = units::parse_size(text)?;
        if !(1..=MOST_BLOCK_BYTES).contains(&bytes) {
            return Err(UnitError {
                text: text.to_owned(),
                expected: "a block size from 1 to 1g, such as 4k",
            });
        }
        Ok(Self(bytes))
    }
}

/// A switch that is on unless it is turned off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnOff {
    /// Do it.
    On,
    /// Do without.
    Off,
}

impl OnOff {
    pub(crate) const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}
