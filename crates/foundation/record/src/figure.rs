//! The figures of one run: single numbers, latency curves and time series, each with a name that
//! is the same for all results of a kind.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The direction in which a figure improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// A higher value is better, such as operations a second.
    Higher,
    /// A lower value is better, such as a latency or the space used.
    Lower,
    /// The value describes the run and is not a merit, such as the number of operations.
    Neither,
}

/// One number of a run.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Figure {
    /// Name of the figure: an optional part before a slash, such as the kind of operation, then
    /// the quantity. The last word is the unit: `write/operations_per_s`, `read/latency_p99_ns`,
    /// `space/data_bytes`, `usage/cpu_share`.
    pub name: String,
    /// The value, in the unit of the name.
    pub value: f64,
    /// The direction in which the figure improves.
    pub better: Better,
}

/// The distribution of a latency in one run.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Curve {
    /// Name of the curve, such as `write/latency_ns`.
    pub name: String,
    /// Pairs of a latency in nanoseconds and the number of operations with it, in ascending order.
    pub counts: Vec<[u64; 2]>,
}

/// A quantity over the time of one run.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Series {
    /// Name of the quantity, with its unit as the last word, such as `write/bytes_per_s`.
    pub name: String,
    /// Pairs of the nanoseconds since the start of the run and the value, in order of time.
    pub points: Vec<(u64, f64)>,
}

/// All figures of one run.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Stats {
    /// Single numbers. Names are unique.
    pub figures: Vec<Figure>,
    /// Distributions of latencies, one for each kind of operation.
    #[serde(default)]
    pub curves: Vec<Curve>,
    /// Quantities that were taken repeatedly during the run.
    #[serde(default)]
    pub series: Vec<Series>,
}

impl Stats {
    /// Returns the value of the figure with this name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }

    /// Adds a figure. A value that is not finite is left out, because JSON cannot represent it.
    pub fn push(&mut self, name: impl Into<String>, value: f64, better: Better) {
        if value.is_finite() {
            self.figures.push(Figure { name: name.into(), value, better });
        }
    }
}
