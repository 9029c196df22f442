//! Makes a trace from a distribution of contents, a pattern, a read share and an arrival process.
//! It makes one record at a time, as fast as records can be written.
//!
//! A request of several blocks becomes one record for each block, all with the same time, as in the
//! FIU traces. The share of blocks written is exact, and the blocks written carry the distribution
//! exactly. A block that is read holds the content last written there. A block that was not written
//! before gets a content of another distribution, which it keeps until it is written.
//!
//! It needs 8 bytes of memory for every place of the regions of reads and writes.

mod arrival;
mod footprint;
mod presets;

pub use arrival::{Arrival, ArrivalError};
use gemelo_base::Classified;
pub use presets::{DataAmount, Preset, presets};

use crate::TraceError;
use crate::record::{ContentHash, Names, Record, RecordSource, TraceOperation};
use arrival::Times;
use gemelo_base::random::{Random, mix_pair};
use gemelo_content::{
    Assignment, BlockContent, ContentError, ContentId, ContentSpec, Distribution, DistributionError,
};
use gemelo_pattern::{Pattern, Positions};
use thiserror::Error;

/// The figures of the trace to make.
#[derive(Debug, Clone, PartialEq)]
pub struct SynthesisSpec {
    /// Number of records, one for each block of a request.
    pub records: u64,
    /// Block size in bytes, a multiple of 512.
    pub block_bytes: u64,
    /// Bytes of data for each hash: 512 or 4096, at most the block size.
    pub hash_bytes: u32,
    /// Contents of the blocks written.
    pub written: Distribution,
    /// Contents of places that are read before they are written.
    pub populated: Distribution,
    /// Blocks written as a share of all blocks, 0 to 1.
    pub write_share: f64,
    /// Pattern of requests within their region.
    pub pattern: Pattern,
    /// Distinct places written, in blocks.
    pub written_places: u64,
    /// Distinct places read, in blocks.
    pub read_places: u64,
    /// Places that are both written and read, in blocks.
    pub shared_places: u64,
    /// Mean number of blocks in a request, at least 1. The distribution is geometric.
    pub request_blocks: f64,
    /// Distribution of requests over time.
    pub arrival: Arrival,
    /// Mean number of records a second.
    pub records_per_s: f64,
    /// Seed of all random choices.
    pub seed: u64,
}

/// The reason why a trace cannot be made.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum SynthesisError {
    /// A figure is outside its range.
    #[error("{what} is {value}; it must be {range}")]
    Range {
        /// Name of the figure.
        what: &'static str,
        /// Given value.
        value: String,
        /// Permitted values.
        range: &'static str,
    },
    /// The contents cannot be assigned to blocks.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The distribution is invalid.
    #[error(transparent)]
    Distribution(#[from] DistributionError),
}

/// Most places of both regions, which take 8 GiB of memory.
const MAX_PLACES: u64 = 1 << 30;
/// Longest request in blocks: 1 MiB of 4 KiB blocks, a usual limit of devices.
const MAX_REQUEST_BLOCKS: u64 = 256;
/// Names of the device and the process in synthesized traces.
const DEVICE: &[u8] = b"6,0";
const PROCESS: (u32, &[u8]) = (1, b"gemelo");

/// Keys that separate the random streams of a trace.
const WRITES: u64 = 1;
const READS: u64 = 2;
const TIMES: u64 = 3;
const CHOICES: u64 = 4;
/// Key that separates the contents of populated places from those written.
const POPULATED_KEY: u64 = 0x706f_7075;

/// The word of blocks of zeros.
const ZEROS: u64 = 1;

/// The generator of a trace.
#[derive(Debug)]
pub struct Synthesis {
    names: Names,
    device: u32,
    command: u32,
    block_bytes: u64,
    hash_bytes: u32,
    seed: u64,
    writes: Side,
    reads: Side,
    times: Times,
    choices: Random,
    /// Reciprocal of the logarithm of the probability that a request has another block, or 0 if
    /// each has one block.
    goes_on: f64,
    /// Content of each place, as the first word of its hash; [`ZEROS`] for zeros, and 0 if it has
    /// none yet.
    holds: Vec<u64>,
    request: RequestRemainder,
}

/// The remaining reads, or the remaining writes.
#[derive(Debug)]
struct Side {
    left: u64,
    positions: Positions,
    is_sequential: bool,
    first_place: u64,
    places: u64,
    contents: Option<Assignment>,
    /// Contents used so far.
    given: u64,
}

/// The rest of the request whose records are being made.
#[derive(Debug, Default, Clone, Copy)]
struct RequestRemainder {
    time_ns: u64,
    is_write: bool,
    place: u64,
    left: u64,
}

fn range(what: &'static str, value: &dyn std::fmt::Display, range: &'static str) -> SynthesisError {
    SynthesisError::Range { what, value: value.to_string(), range }
}

impl SynthesisSpec {
    fn check(&self) -> Result<(), SynthesisError> {
        if self.records == 0 {
            return Err(range("the number of records", &0, "at least 1"));
        }
        if !self.block_bytes.is_multiple_of(512) || !(512..=1 << 24).contains(&self.block_bytes) {
            return Err(range(
                "the block size",
                &self.block_bytes,
                "a multiple of 512 up to 16 MiB",
            ));
        }
        let hash_bytes = u64::from(self.hash_bytes);
        if !matches!(self.hash_bytes, 512 | 4096) || !self.block_bytes.is_multiple_of(hash_bytes) {
            return Err(range(
                "the number of bytes for each hash",
                &hash_bytes,
                "512 or 4096, and a divisor of the block size",
            ));
        }
        if !(0.0..=1.0).contains(&self.write_share) {
            return Err(range(
                "the share of writes",
                &(self.write_share * 100.0),
                "from 0 to 100 %",
            ));
        }
        let most = MAX_REQUEST_BLOCKS as f64 / 4.0;
        if !(1.0..=most).contains(&self.request_blocks) {
            return Err(range(
                "the mean number of blocks in a request",
                &self.request_blocks,
                "from 1 to 64",
            ));
        }
        if !(self.records_per_s > 0.0 && self.records_per_s.is_finite()) {
            return Err(range("the rate", &self.records_per_s, "above 0 records a second"));
        }
        Ok(())
    }

    /// Returns the number of blocks written.
    #[must_use]
    pub fn written_blocks(&self) -> u64 {
        (self.records as f64 * self.write_share).round() as u64
    }
}

impl Synthesis {
    /// Begins a trace.
    ///
    /// # Errors
    /// If a figure is outside its range.
    pub fn new(spec: &SynthesisSpec) -> Result<Self, SynthesisError> {
        spec.check()?;
        let writes_left = spec.written_blocks();
        let reads_left = spec.records - writes_left;
        let write_region = footprint::places_for(spec.pattern, writes_left, spec.written_places);
        let read_region = footprint::places_for(spec.pattern, reads_left, spec.read_places);
        let shared = spec.shared_places.min(write_region).min(read_region);
        let total = write_region.saturating_add(read_region) - shared;
        if total > MAX_PLACES {
            return Err(range(
                "the number of places",
                &total,
                "at most 2^30: ask for fewer records or places",
            ));
        }
        let assignment = |distribution: &Distribution, blocks: u64, seed| {
            let contents = ContentSpec::new(distribution.clone(), spec.block_bytes as usize, seed);
            (blocks > 0).then(|| Assignment::new(&contents, blocks, 1)).transpose()
        };
        let populated_seed = mix_pair(spec.seed, POPULATED_KEY);
        let side = |stream, left, first_place, places, contents| Side {
            left,
            positions: Positions::new(spec.pattern, places, spec.seed, stream),
            is_sequential: spec.pattern == Pattern::Sequential,
            first_place,
            places,
            contents,
            given: 0,
        };
        let written = assignment(&spec.written, writes_left, spec.seed)?;
        let populated =
            assignment(&spec.populated, spec.read_places.min(reads_left), populated_seed)?;
        let mut names = Names::default();
        let end_chance = 1.0 / spec.request_blocks;
        Ok(Self {
            device: names.device(DEVICE).unwrap_or(0),
            command: names.command(PROCESS.1),
            names,
            block_bytes: spec.block_bytes,
            hash_bytes: spec.hash_bytes,
            seed: spec.seed,
            writes: side(WRITES, writes_left, 0, write_region, written),
            reads: side(READS, reads_left, write_region - shared, read_region, populated),
            times: Times::new(
                spec.arrival,
                spec.records_per_s / spec.request_blocks,
                mix_pair(spec.seed, TIMES),
            ),
            choices: Random::new(mix_pair(spec.seed, CHOICES)),
            goes_on: if end_chance < 1.0 { 1.0 / (1.0 - end_chance).ln() } else { 0.0 },
            holds: vec![0; usize::try_from(total).unwrap_or(0)],
            request: RequestRemainder::default(),
        })
    }

    /// Returns the number of records still to be made.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.writes.left + self.reads.left
    }

    /// Draws the next request. Returns `false` after the last one.
    fn next_request(&mut self) -> bool {
        let left = self.left();
        if left == 0 {
            return false;
        }
        // The probability of each kind is its share of the remaining blocks, so both counts come
        // out exactly.
        let is_write = self.choices.below(left) < self.writes.left;
        let more = ((1.0 - self.choices.unit()).ln() * self.goes_on) as u64;
        let side = if is_write { &mut self.writes } else { &mut self.reads };
        let blocks = (1 + more).min(MAX_REQUEST_BLOCKS).min(side.left).min(side.places);
        let mut start = side.positions.next_block();
        if side.is_sequential {
            for _ in 1..blocks {
                side.positions.next_block();
            }
        }
        start = start.min(side.places - blocks);
        let place = side.first_place + start;
        self.request =
            RequestRemainder { time_ns: self.times.next_ns(), is_write, place, left: blocks };
        true
    }

    /// Returns the first word of the hash of a content of one of the two distributions.
    #[inline]
    fn word(&self, content: BlockContent, key: u64) -> u64 {
        match content {
            BlockContent::Zeros => ZEROS,
            BlockContent::Id(_) => mix_pair(self.seed ^ key, content.to_bits()).max(ZEROS + 1),
        }
    }

    #[inline]
    fn content_at(&mut self, place: u64, is_write: bool) -> u64 {
        let held = self.holds.get(place as usize).copied().unwrap_or(0);
        if !is_write && held != 0 {
            return held;
        }
        let (side, key) =
            if is_write { (&mut self.writes, 0) } else { (&mut self.reads, POPULATED_KEY) };
        let one = || ContentId::shared(0).into();
        let content = side.contents.as_ref().map_or_else(one, |all| all.content(0, side.given));
        side.given += 1;
        let word = self.word(content, key);
        if let Some(held) = self.holds.get_mut(place as usize) {
            *held = word;
        }
        word
    }
}

impl RecordSource for Synthesis {
    #[inline]
    fn next_record(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        if self.request.left == 0 && !self.next_request() {
            return Ok(false);
        }
        let RequestRemainder { time_ns, is_write, place, .. } = self.request;
        self.request.left -= 1;
        self.request.place += 1;
        if is_write {
            self.writes.left -= 1;
        } else {
            self.reads.left -= 1;
        }
        let word = self.content_at(place, is_write);
        record.time_ns = time_ns;
        record.device = self.device;
        (record.process, record.command) = (PROCESS.0, self.command);
        record.offset_bytes = place * self.block_bytes;
        record.length_bytes = self.block_bytes;
        record.operation = if is_write { TraceOperation::Write } else { TraceOperation::Read };
        record.hash_bytes = self.hash_bytes;
        record.hashes.clear();
        let parts = self.block_bytes / u64::from(self.hash_bytes);
        let zeros = ContentHash::of_zeros(self.hash_bytes).filter(|_| word == ZEROS);
        let hash = |part| {
            let other = || (u128::from(word) << 64) | u128::from(mix_pair(part, word));
            zeros.unwrap_or_else(|| ContentHash(other()))
        };
        record.hashes.extend((0..parts).map(hash));
        Ok(true)
    }

    fn names(&self) -> &Names {
        &self.names
    }
}

#[cfg(test)]
mod tests;
