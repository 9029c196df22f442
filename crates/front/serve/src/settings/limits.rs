//! The limits of volumes, whose values the record of a volume has.

use super::{Setting, Value};
use gemelo_format::VolumeLimits;
use std::time::Duration;

/// The burst of a volume for which nothing is to be saved up.
const SHORTEST_BURST_MS: u64 = 1;

impl Setting {
    /// Returns whether the setting is a limit of a volume.
    pub(crate) fn is_limit(&self) -> bool {
        matches!(self.name, "iops" | "bytes-per-second" | "burst" | "quota" | "reserve")
    }

    /// Returns the limit of this name, if it is set.
    pub(crate) fn limit_of(&self, limits: VolumeLimits) -> Option<Value> {
        match self.name {
            "iops" => limits.operations_per_s.map(Value::Count),
            "bytes-per-second" => limits.bytes_per_s.map(Value::Size),
            "burst" => {
                let burst = limits.burst_ms.map(Duration::from_millis);
                burst.map(Value::Span)
            }
            "quota" => limits.quota_bytes.map(Value::Size),
            "reserve" => limits.reserve_bytes.map(Value::Size),
            _ => None,
        }
    }

    /// Sets the limit of this name. No value, and a rate or a size of 0, are none.
    pub(crate) fn set_limit(&self, limits: &mut VolumeLimits, value: &Option<Value>) {
        let number = match value {
            Some(Value::Count(number) | Value::Size(number)) => Some(*number),
            Some(Value::Span(span)) => {
                Some(u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(SHORTEST_BURST_MS))
            }
            _ => None,
        };
        let number = number.filter(|number| *number > 0);
        match self.name {
            "iops" => limits.operations_per_s = number,
            "bytes-per-second" => limits.bytes_per_s = number,
            "burst" => limits.burst_ms = number,
            "quota" => limits.quota_bytes = number,
            "reserve" => limits.reserve_bytes = number,
            _ => {}
        }
    }
}
