//! The options of a replay.

use gemelo_target::Engine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The speed of a replay.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Speed {
    /// The recorded gaps are divided by this factor.
    Times(f64),
    /// Operations start as fast as the target completes them.
    Unlimited,
}

/// The error for a text that names no speed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is not a speed: use a factor above 0, such as 1, 40 or 640, or max")]
pub struct SpeedError(String);

impl FromStr for Speed {
    type Err = SpeedError;

    fn from_str(text: &str) -> Result<Self, SpeedError> {
        if text == "max" {
            return Ok(Self::Unlimited);
        }
        let factor = text.parse::<f64>().ok().filter(|factor| *factor > 0.0 && factor.is_finite());
        factor.map(Self::Times).ok_or_else(|| SpeedError(text.to_owned()))
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(factor) => write!(formatter, "{factor}"),
            Self::Unlimited => formatter.write_str("max"),
        }
    }
}

gemelo_base::text_in_results!(Speed);

/// Options for a replay.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ReplayOptions {
    /// Speed of the replay.
    pub speed: Speed,
    /// Number of processes. Each is a thread that owns a part of the target.
    pub processes: u32,
    /// Operations that each process keeps in flight.
    pub queue_depth: usize,
    /// Way in which operations are submitted to the system.
    pub engine: Engine,
    /// `true` if every read is checked.
    pub verify: bool,
}

impl ReplayOptions {
    /// Most processes of a replay.
    pub const MAX_PROCESSES: u32 = 1024;
}
