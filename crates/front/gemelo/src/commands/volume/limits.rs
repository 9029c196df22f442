//! Options for the limits of volumes.

use clap::Args;
use gemelo_base::units::format_size;
use gemelo_base::values::{Size, Span};
use gemelo_format::VolumeLimits;

/// The rates of all volumes together.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Rates {
    /// Most operations a second of all volumes together, beside the limits of each
    #[arg(long, value_name = "COUNT")]
    iops: Option<u64>,
    /// Most bytes a second that are read and written in all volumes together
    #[arg(long, value_name = "SIZE")]
    bytes_per_second: Option<Size>,
    /// Time for which these rates are saved up while nothing is done [default: 1s]
    #[arg(long, value_name = "DURATION")]
    burst: Option<Span>,
}

impl Rates {
    pub(crate) fn limits(self) -> VolumeLimits {
        let milliseconds = |span: Span| u64::try_from(span.0.as_millis()).unwrap_or(u64::MAX);
        VolumeLimits {
            operations_per_s: self.iops,
            bytes_per_s: self.bytes_per_second.map(|size| size.0),
            burst_ms: self.burst.map(milliseconds),
            ..VolumeLimits::default()
        }
    }
}

/// The limits of load and the quota of a volume in few words, for a cell of a table.
pub(super) fn in_short(limits: VolumeLimits) -> String {
    let parts = [
        limits.operations_per_s.map(|count| format!("{count} operations/s")),
        limits.bytes_per_s.map(|bytes| format!("{}/s", format_size(bytes))),
        limits.quota_bytes.map(|bytes| format!("quota {}", format_size(bytes))),
        limits.reserve_bytes.map(|bytes| format!("reserved {}", format_size(bytes))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
}

/// The limits that are set, as names and values.
pub(super) fn rows(limits: VolumeLimits) -> Vec<[String; 2]> {
    let size = |limit: Option<u64>| limit.map(format_size);
    let rows = [
        ("operations a second", limits.operations_per_s.map(|count| count.to_string())),
        ("bytes a second", size(limits.bytes_per_s)),
        ("burst", limits.burst_ms.map(|burst| format!("{burst} ms"))),
        ("quota", size(limits.quota_bytes)),
        ("reserved", size(limits.reserve_bytes)),
    ];
    let set = rows.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
    set.collect()
}
