//! The figures of a trace, ready to be printed and kept.

use super::table::Place;
use super::{Counting, Statistics};
use crate::record::Names;
use serde::{Deserialize, Serialize};

/// The figures of a trace. Blocks are of `block_bytes`; what the trace does not say is `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Size of a block in bytes.
    pub block_bytes: u64,
    /// Records.
    pub records: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Trims.
    pub trims: u64,
    /// Flushes.
    pub flushes: u64,
    /// From the first record to the last.
    pub duration_ns: u64,
    /// The same in days.
    pub days: f64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Blocks written, every write counting.
    pub written_blocks: u64,
    /// Distinct blocks written by place ("unique by offset").
    pub written_places: u64,
    /// Distinct blocks written by content ("unique by content").
    pub written_contents: Option<u64>,
    /// Blocks read, every read counting.
    pub read_blocks: u64,
    /// Distinct blocks read by place.
    pub read_places: u64,
    /// Distinct blocks read by content.
    pub read_contents: Option<u64>,
    /// Blocks written to distinct contents written: what deduplication saves on writing.
    pub dedup_ratio_written: Option<f64>,
    /// Places that hold a content at the end to distinct contents they hold: the dedup ratio of storage after a replay,
    /// with the places that were populated.
    pub dedup_ratio_at_end: Option<f64>,
    /// Places that hold a known content at the end.
    pub places_at_end: u64,
    /// Distinct contents they hold.
    pub contents_at_end: u64,
    /// Places that were read before they were written, which a replay has to populate.
    pub populated_places: u64,
    /// Reads of a block that the trace itself says to hold something else.
    pub contradictions: u64,
    /// Bytes of all distinct blocks touched.
    pub touched_bytes: u64,
    /// From the first to the last byte touched, of all devices together ("ranges accessed").
    pub range_bytes: u64,
    /// Writes of a place that was written before, a second.
    pub rewrites_per_s: Option<f64>,
    /// Records a second, on average.
    pub records_per_s: Option<f64>,
    /// Variance of records in a second to their mean: 1 of a Poisson process, more of bursts.
    pub dispersion: Option<f64>,
    /// Share of reads and writes that begin where the one before them on the device ended, 0 to 1.
    pub sequential_share: f64,
    /// Share of reads and writes that are not whole blocks, 0 to 1.
    pub unaligned_share: f64,
    /// Where writes go.
    pub hot_writes: Vec<Concentration>,
    /// Where reads go.
    pub hot_reads: Vec<Concentration>,
    /// The places with the most reads and writes.
    pub hottest: Vec<HotPlace>,
    /// One row for each device, in order of appearance.
    pub devices: Vec<DeviceFigures>,
    /// Bytes that the tables of this count took.
    pub memory_bytes: u64,
}

/// What share of the accesses goes to the places with the most of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Concentration {
    /// Share of the places that are accessed at all, 0 to 1.
    pub places_share: f64,
    /// Share of the accesses that go to them, 0 to 1.
    pub accesses_share: f64,
}

/// A place and how often it was accessed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotPlace {
    /// The device's name.
    pub device: String,
    /// The block.
    pub block: u64,
    /// Reads of it.
    pub reads: u64,
    /// Writes of it.
    pub writes: u64,
}

/// One device of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFigures {
    /// The device's name.
    pub device: String,
    /// Its records.
    pub records: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// Bytes read from it.
    pub read_bytes: u64,
    /// From its first to its last byte touched.
    pub range_bytes: u64,
}

/// Shares of places at which accesses are told.
const SHARES: [f64; 5] = [0.01, 0.05, 0.1, 0.2, 0.5];
/// Places that are told by name.
const HOTTEST: usize = 10;
/// Devices that are told apart.
const MOST_DEVICES: usize = 1000;

const DAY_NS: f64 = 86_400e9;

fn ratio(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

impl Statistics {
    /// The figures so far.
    #[must_use]
    pub fn figures(&self, names: &Names) -> Figures {
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
        let at_end =
            self.distribution(Counting::AtEnd).ok().map(|distribution| distribution.summary());
        let moved = totals.reads + totals.writes + totals.trims;
        Figures {
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
            dedup_ratio_written: ratio(totals.hashed_writes, written_contents),
            dedup_ratio_at_end: at_end.map(|summary| summary.dedup_ratio()),
            places_at_end: at_end.map_or(0, |summary| summary.blocks),
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

    /// Accesses of each place that has any, the most first.
    pub(super) fn sorted_accesses(&self, accesses: impl Fn(&Place) -> u32) -> Vec<u32> {
        let mut counts: Vec<u32> =
            self.places.values().map(accesses).filter(|count| *count > 0).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    fn concentration(&self, accesses: impl Fn(&Place) -> u32) -> Vec<Concentration> {
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
        let accesses = |place: &Place| u64::from(place.reads) + u64::from(place.writes);
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

    fn device_figures(&self, names: &Names) -> Vec<DeviceFigures> {
        let devices = self.devices.iter().enumerate().filter(|(_, device)| device.records > 0);
        let told = devices.take(MOST_DEVICES).map(|(number, device)| DeviceFigures {
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
