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
