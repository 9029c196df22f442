//! Describes the accesses of a trace in the terms of a job.

use super::Statistics;
use gemelo_pattern::Pattern;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The accesses of a trace in the terms of a job, so that `gemelo bench` can run a similar load.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct AccessProfile {
    /// Writes as a share of reads and writes, 0 to 1.
    pub write_share: f64,
    /// Mean size of a request in bytes.
    pub request_bytes: f64,
    /// Pattern that comes nearest to the accesses.
    pub pattern: Pattern,
    /// Bytes of all distinct blocks touched.
    pub touched_bytes: u64,
    /// Mean number of reads a second.
    pub reads_per_s: f64,
    /// Mean number of writes a second.
    pub writes_per_s: f64,
}

/// Share of bytes in long runs from which a trace counts as sequential.
const MOSTLY_SEQUENTIAL: f64 = 0.5;
/// Length from which a run of contiguous requests is long: twice the default read-ahead of Linux.
/// Shorter runs are single requests that were recorded block by block, as in the FIU traces.
pub(super) const LONG_RUN_BYTES: u64 = 256 << 10;
/// Distance from even accesses below which hot spots are attributed to chance.
const NEARLY_EVEN: f64 = 0.1;

impl Statistics {
    /// Returns the access profile of the trace.
    ///
    /// The hot spot ends where the share of accesses exceeds the share of places most, which is the
    /// point of the Lorenz curve that Pietra's index measures. The curve becomes one step with the
    /// same largest inequality.
    #[must_use]
    pub fn access_profile(&self) -> AccessProfile {
        let totals = &self.totals;
        let requests = totals.reads + totals.writes;
        let of_requests =
            |part: u64| if requests == 0 { 0.0 } else { part as f64 / requests as f64 };
        let duration_s = totals.last_ns.saturating_sub(totals.first_ns.unwrap_or(0)) as f64 / 1e9;
        let per_s = |count: u64| if duration_s > 0.0 { count as f64 / duration_s } else { 0.0 };
        let bytes = totals.read_bytes.saturating_add(totals.written_bytes);
        let in_runs = self.bytes_in_long_runs();
        let is_sequential = bytes > 0 && in_runs as f64 / bytes as f64 >= MOSTLY_SEQUENTIAL;
        AccessProfile {
            write_share: of_requests(totals.writes),
            request_bytes: of_requests(bytes),
            pattern: if is_sequential { Pattern::Sequential } else { self.hot_spot() },
            touched_bytes: self.places.len() as u64 * self.block_bytes,
            reads_per_s: per_s(totals.reads),
            writes_per_s: per_s(totals.writes),
        }
    }

    /// Returns the bytes of long runs, including runs that have not ended.
    fn bytes_in_long_runs(&self) -> u64 {
        let under_way =
            self.devices.iter().map(|device| device.run_bytes).filter(|run| *run >= LONG_RUN_BYTES);
        self.totals.long_run_bytes + under_way.sum::<u64>()
    }

    fn hot_spot(&self) -> Pattern {
        let counts = self.sorted_accesses(|place| place.reads.saturating_add(place.writes));
        let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        let mut best = (0.0, Pattern::Uniform);
        let mut seen = 0;
        for (index, count) in counts.iter().enumerate() {
            seen += u64::from(*count);
            let accesses = seen as f64 / total as f64;
            let blocks = (index + 1) as f64 / counts.len() as f64;
            if accesses - blocks > best.0 {
                let hot = Pattern::Hotspot {
                    accesses_percent: tenths(accesses * 100.0),
                    blocks_percent: tenths(blocks * 100.0).max(MIN_PERCENT),
                };
                best = (accesses - blocks, hot);
            }
        }
        if best.0 < NEARLY_EVEN { Pattern::Uniform } else { best.1 }
    }
}

/// Least share of blocks in a hot spot. Shares are rounded to a tenth of a percent.
const MIN_PERCENT: f64 = 0.1;

fn tenths(percent: f64) -> f64 {
    (percent * 10.0).round() / 10.0
}

/// Sums over the number of records in each second.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Arrivals {
    first_second: Option<u64>,
    second: u64,
    in_second: u64,
    sum: f64,
    sum_of_squares: f64,
}

const SECOND_NS: u64 = 1_000_000_000;

impl Arrivals {
    #[inline]
    pub(super) fn add(&mut self, time_ns: u64) {
        let second = time_ns / SECOND_NS;
        self.first_second.get_or_insert(second);
        // A time that goes back is counted in the current second.
        if second > self.second {
            self.close();
            self.second = second;
        }
        self.in_second += 1;
    }

    fn close(&mut self) {
        let count = self.in_second as f64;
        self.sum += count;
        self.sum_of_squares += count * count;
        self.in_second = 0;
    }

    /// Returns variance divided by mean of the records in a second, or `None` for less than two
    /// seconds.
    pub(super) fn dispersion(mut self) -> Option<f64> {
        self.close();
        let seconds = (self.second.saturating_sub(self.first_second?) + 1) as f64;
        if seconds < 2.0 {
            return None;
        }
        let mean = self.sum / seconds;
        Some((self.sum_of_squares / seconds - mean * mean) / mean)
    }
}
