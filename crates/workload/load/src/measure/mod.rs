//! Measurements of a run: latencies, throughput, time spent generating, processor time and memory.

mod histogram;
mod recorder;
mod timeline;
mod usage;

pub use histogram::{Latencies, LatencyHistogram, LatencySummary};
pub use recorder::IntervalPart;
pub(crate) use recorder::{Accumulator, Recorder, Side};
pub use timeline::Phase;
pub(crate) use timeline::Timeline;
pub use usage::Usage;
pub(crate) use usage::forget_peak_memory;
