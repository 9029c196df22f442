//! Options for the limits of volumes.

use clap::Args;
use gemelo_base::units::format_size;
use gemelo_base::values::{Size, Span};
use gemelo_format::VolumeLimits;

/// The rates of a volume, or of all volumes together.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Rates {
    /// Most operations a second: of the volume, or of all that are served together; 0 for no limit
    #[arg(long, value_name = "COUNT")]
    iops: Option<u64>,
    /// Most bytes that are read and written a second, of the same; 0 for no limit
    #[arg(long, value_name = "SIZE")]
    bytes_per_second: Option<Size>,
    /// Time for which these rates are saved up while nothing is done [default: 1s]
    #[arg(long, value_name = "DURATION")]
    burst: Option<Span>,
}

/// The space of a volume.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Space {
    /// Most data that the volume may hold: every block that is not zeros counts, whether others
    /// have the same content or not, and snapshots do not; 0 for no limit
    #[arg(long, value_name = "SIZE")]
    quota: Option<Size>,
    /// Data for which the pool keeps room, so that others cannot fill it; 0 for none
    #[arg(long, value_name = "SIZE")]
    reserve: Option<Size>,
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

    pub(crate) fn with(self, space: Space) -> VolumeLimits {
        let bytes = |size: Option<Size>| size.map(|size| size.0);
        let (quota_bytes, reserve_bytes) = (bytes(space.quota), bytes(space.reserve));
        VolumeLimits { quota_bytes, reserve_bytes, ..self.limits() }
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
