//! The figures of a trace, ready to be printed and stored.

use super::table::PlaceState;
use super::{CopyCounting, Statistics};
use crate::record::Names;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The figures of a trace. Blocks have `block_bytes`. Figures that the trace does not determine are
/// `None`.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Stats {
    /// Block size in bytes.
    pub block_bytes: u64,
    /// Number of records of all kinds.
    pub records: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Number of trims.
    pub trims: u64,
    /// Number of flushes.
    pub flushes: u64,
    /// Time from the first record to the last.
    pub duration_ns: u64,
    /// The same time in days.
    pub days: f64,
    /// Bytes of all writes, counted at every write.
    pub written_bytes: u64,
    /// Bytes of all reads, counted at every read.
    pub read_bytes: u64,
    /// Blocks written, counted at every write.
    pub written_blocks: u64,
    /// Distinct blocks written, by place ("unique by offset").
    pub written_places: u64,
    /// Distinct blocks written, by content ("unique by content").
    pub written_contents: Option<u64>,
    /// Blocks read, counted at every read.
    pub read_blocks: u64,
    /// Distinct blocks read, by place.
    pub read_places: u64,
    /// Distinct blocks read, by content.
    pub read_contents: Option<u64>,
    /// Blocks of zeros among those written.
    pub written_zero_blocks: u64,
    /// Blocks written divided by distinct contents written, both without zeros: the saving of
    /// deduplication on writes.
    pub dedup_ratio_written: Option<f64>,
    /// The same with zeros as a content like any other.
    pub dedup_ratio_written_with_zeros: Option<f64>,
    /// Places that hold a content at the end divided by the distinct contents they hold, both
    /// without zeros. This is the dedup ratio of storage after a replay, populated places included.
    pub dedup_ratio_at_end: Option<f64>,
    /// The same with zeros as a content like any other.
    pub dedup_ratio_at_end_with_zeros: Option<f64>,
    /// Places that hold a known content at the end.
    pub places_at_end: u64,
    /// Places that hold zeros at the end.
    pub zero_places_at_end: u64,
    /// Distinct contents held at the end, without zeros.
    pub contents_at_end: u64,
    /// Places that were read before they were written. A replay has to populate them.
    pub populated_places: u64,
    /// Reads whose hash differs from the content that the trace left in the block.
    pub contradictions: u64,
    /// Bytes of all distinct blocks touched.
    pub touched_bytes: u64,
    /// Bytes from the first to the last byte touched, summed over all devices ("ranges accessed").
    pub range_bytes: u64,
    /// Writes a second to places that were written before.
    pub rewrites_per_s: Option<f64>,
    /// Mean number of records a second.
    pub records_per_s: Option<f64>,
    /// Variance divided by mean of the records in a second. It is 1 for a Poisson process and
    /// larger for bursts.
    pub dispersion: Option<f64>,
    /// Share of reads, writes and trims that begin where the operation before them on the device
    /// ended, 0 to 1.
    pub sequential_share: f64,
    /// Share of reads, writes and trims that do not consist of whole blocks, 0 to 1.
    pub unaligned_share: f64,
    /// Concentration of the writes on places.
    pub hot_writes: Vec<Concentration>,
    /// Concentration of the reads on places.
    pub hot_reads: Vec<Concentration>,
    /// The places with the most reads and writes.
    pub hottest: Vec<HotPlace>,
    /// Figures of each device, in the order of their first record.
    pub devices: Vec<DeviceStats>,
    /// Bytes of the tables that were needed for counting.
    pub memory_bytes: u64,
}

/// The share of accesses that goes to the most accessed places.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Concentration {
    /// Share of the accessed places, 0 to 1.
    pub places_share: f64,
    /// Share of the accesses that goes to these places, 0 to 1.
    pub accesses_share: f64,
}

/// A place and its number of accesses.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct HotPlace {
    /// Name of the device.
    pub device: String,
    /// Block number on the device.
    pub block: u64,
    /// Reads of the block.
    pub reads: u64,
    /// Writes of the block.
    pub writes: u64,
}

/// The figures of one device of a trace.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DeviceStats {
    /// Name of the device.
    pub device: String,
    /// Records of the device.
    pub records: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// Bytes read from it.
    pub read_bytes: u64,
    /// Bytes from the first to the last byte touched.
    pub range_bytes: u64,
}

/// Shares of places for which the share of accesses is computed.
const SHARES: [f64; 5] = [0.01, 0.05, 0.1, 0.2, 0.5];
/// Number of most accessed places in the figures.
const HOTTEST: usize = 10;
/// Most devices with figures of their own.
const MAX_DEVICES: usize = 1000;

const DAY_NS: f64 = 86_400e9;

fn ratio(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

impl Statistics {
    /// Returns the figures of all records so far.
    #[must_use]
    pub fn figures(&self, names: &Names) -> Stats {
        let totals = &self.totals;
        let duration_ns = totals.last_ns.saturating_sub(totals.first_ns.unwrap_or(0));
        let duration_s = duration_ns as f64 / 1e9;
        let per_s = |count: u64| (duration_ns > 0).then(|| count as f64 / duration_s);
        let contents = self.contents.counts();
        let has_contents = !contents.is_empty();
        let count = |is: &dyn Fn(&super::table::Content) -> bool| {
            contents.iter().filter(|c| is(c)).count() as u64
        };
        let written_contents = count(&|content| content.writes > 0);
        let written_zero_blocks = u64::from(self.contents.zeros().writes);
        let at_end =
            self.distribution(CopyCounting::AtEnd).ok().map(|distribution| distribution.summary());
        let moved = totals.reads + totals.writes + totals.trims;
        Stats {
            block_bytes: self.block_bytes,
            records: totals.records,
            reads: totals.reads,
            writes: totals.writes,
            trims: totals.trims,
            flushes: totals.flushes,
            duration_ns,
            days: duration_ns as f64 / DAY_NS,
            written_bytes: totals.written_bytes,
            read_bytes: totals.read_bytes,
            written_blocks: totals.written_blocks,
            written_places: totals.written_places,
            written_contents: has_contents.then_some(written_contents),
            read_blocks: totals.read_blocks,
            read_places: totals.read_places,
            read_contents: has_contents.then(|| count(&|content| content.reads > 0)),
            written_zero_blocks,
            dedup_ratio_written: ratio(
                totals.hashed_writes - written_zero_blocks,
                written_contents - u64::from(written_zero_blocks > 0),
            ),
            dedup_ratio_written_with_zeros: ratio(totals.hashed_writes, written_contents),
            dedup_ratio_at_end: at_end.map(|summary| summary.dedup_ratio()),
            dedup_ratio_at_end_with_zeros: at_end.map(|it| it.dedup_ratio_with_zeros()),
            places_at_end: at_end.map_or(0, |summary| summary.blocks),
            zero_places_at_end: at_end.map_or(0, |summary| summary.zero_blocks),
            contents_at_end: at_end.map_or(0, |summary| summary.distinct),
            populated_places: totals.populated,
            contradictions: totals.contradictions,
            touched_bytes: self.places.len() as u64 * self.block_bytes,
            range_bytes: self.devices.iter().map(super::Device::range_bytes).sum(),
            rewrites_per_s: per_s(totals.written_blocks - totals.written_places),
            records_per_s: per_s(totals.records),
            dispersion: self.arrivals.dispersion(),
            sequential_share: ratio(totals.sequential, moved).unwrap_or(0.0),
            unaligned_share: ratio(totals.unaligned, moved).unwrap_or(0.0),
            hot_writes: self.concentration(|place| place.writes),
            hot_reads: self.concentration(|place| place.reads),
            hottest: self.hottest(names),
            devices: self.device_figures(names),
            memory_bytes: self.memory_bytes(),
        }
    }

    /// Returns the accesses of each accessed place, in descending order.
    pub(super) fn sorted_accesses(&self, accesses: impl Fn(&PlaceState) -> u32) -> Vec<u32> {
        let mut counts: Vec<u32> =
            self.places.values().map(accesses).filter(|count| *count > 0).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    fn concentration(&self, accesses: impl Fn(&PlaceState) -> u32) -> Vec<Concentration> {
        let counts = self.sorted_accesses(accesses);
        let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        if total == 0 {
            return Vec::new();
        }
        let told = SHARES.map(|places_share| {
            let places = (counts.len() as f64 * places_share).ceil() as usize;
            let hot: u64 = counts.iter().take(places).map(|count| u64::from(*count)).sum();
            Concentration { places_share, accesses_share: hot as f64 / total as f64 }
        });
        told.to_vec()
    }

    fn hottest(&self, names: &Names) -> Vec<HotPlace> {
        let accesses = |place: &PlaceState| u64::from(place.reads) + u64::from(place.writes);
        let mut hottest: Vec<_> = Vec::with_capacity(HOTTEST + 1);
        for (key, place) in &self.places {
            let rank = (std::cmp::Reverse(accesses(place)), *key);
            if hottest.len() == HOTTEST && hottest.last().is_some_and(|(last, _)| *last < rank) {
                continue;
            }
            let at = hottest.partition_point(|(other, _)| *other < rank);
            hottest.insert(at, (rank, *place));
            hottest.truncate(HOTTEST);
        }
        let told = hottest.into_iter().map(|((_, key), place)| HotPlace {
            device: String::from_utf8_lossy(names.device_name(key.device())).into_owned(),
            block: key.block(),
            reads: u64::from(place.reads),
            writes: u64::from(place.writes),
        });
        told.collect()
    }

    fn device_figures(&self, names: &Names) -> Vec<DeviceStats> {
        let devices = self.devices.iter().enumerate().filter(|(_, device)| device.records > 0);
        let told = devices.take(MAX_DEVICES).map(|(number, device)| DeviceStats {
            device: String::from_utf8_lossy(names.device_name(number as u32)).into_owned(),
            records: device.records,
            written_bytes: device.written_bytes,
            read_bytes: device.read_bytes,
            range_bytes: device.range_bytes(),
        });
        told.collect()
    }
}

impl super::Device {
    const fn range_bytes(&self) -> u64 {
        self.end_byte.saturating_sub(self.first_byte)
    }
}
