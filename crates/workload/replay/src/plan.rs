//! Plans a replay in the first reading of the trace: the location of each place on the target, and
//! its content before the start.
//!
//! The plan needs 40 to 90 bytes of memory for every distinct place, as its table grows by
//! doubling.

use crate::contents::content_of_hash;
use gemelo_base::{Classified, StopFlag};
use gemelo_content::BlockContent;
use gemelo_trace::{BlockError, Blocks, Record, RecordSource, TraceError, TraceOperation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::str::FromStr;
use thiserror::Error;

/// The rule that maps places of the trace to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MapRule {
    /// Every place keeps its offset. A target that is too small is refused.
    #[default]
    Refuse,
    /// Places beyond the end of the target wrap around to its beginning.
    Fold,
    /// Places are contiguous, in the order in which the trace first touches them.
    Dense,
}

impl FromStr for MapRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "refuse" => Ok(Self::Refuse),
            "fold" => Ok(Self::Fold),
            "dense" => Ok(Self::Dense),
            _ => Err(format!("'{text}' is not a way to map places: use refuse, fold or dense")),
        }
    }
}

/// The size of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capacity {
    /// The target grows as needed: a new file.
    AsNeeded,
    /// The target has this number of bytes.
    Bytes(u64),
}

/// Options for planning a replay.
#[derive(Debug, Clone, Copy)]
pub struct PlanOptions {
    /// Block size in bytes.
    pub block_bytes: u64,
    /// Rule for mapping places.
    pub map: MapRule,
    /// Size of the target.
    pub capacity: Capacity,
}

/// The reason why a replay cannot be planned.
#[derive(Debug, Error, Classified)]
pub enum PlanError {
    /// Reading the trace failed.
    #[kind(source)]
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The block size does not fit the hashes.
    #[kind(source)]
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The target is too small.
    #[kind(BadInput, remedy = FoldOrDense)]
    #[error("the trace reaches to byte {need_bytes}, but the target has {have_bytes} bytes")]
    TooSmall {
        /// Size of the target in bytes.
        have_bytes: u64,
        /// Size needed for the trace in bytes.
        need_bytes: u64,
    },
    /// The size of the target is unknown or zero, which folding does not permit.
    #[kind(BadInput, remedy = FoldToSize)]
    #[error("places can be folded only into a target of known size")]
    NoCapacity,
    /// The trace has more places than 32 bits can number.
    #[kind(BadInput)]
    #[error("the trace has more than 2^32 places: take fewer records or devices")]
    TooManyPlaces,
    /// The trace has no reads and no writes.
    #[kind(BadInput)]
    #[error("the trace has no read or write to replay: take other records or devices")]
    Empty,
    /// The stop flag was raised.
    #[kind(Failed)]
    #[error("interrupted")]
    Stopped,
}

/// A block on a device of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Source {
    device: u32,
    block: u64,
}

/// The content that a place needs before the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// The place needs no content, because it is written first.
    Nothing,
    Content(BlockContent),
    /// The place is read first, and the trace has no hash for it.
    Drawn,
}

/// A trace laid out on a target.
#[derive(Debug)]
pub struct ReplayPlan {
    options: PlanOptions,
    /// Number of blocks used on the target. All used blocks are below this number.
    target_blocks: u64,
    /// First block of each device on the target.
    bases: Vec<u64>,
    numbers: HashMap<Source, u32>,
    /// Contents to write before the start, in order of block.
    pub(crate) populate: Vec<(u64, Initial)>,
    /// Number of records.
    pub records: u64,
    /// Number of reads and writes.
    pub requests: u64,
    /// Number of trims.
    pub trims: u64,
    /// Blocks written whose contents come from the distribution.
    pub drawn_writes: u64,
    /// Places that were mapped by wrapping around.
    pub folded_places: u64,
    /// Requests that do not begin and end at block boundaries. They are widened to whole blocks.
    pub widened: u64,
    /// Number of blocks in the largest request.
    pub longest_blocks: u64,
    /// Time from the first record to the last.
    pub duration_ns: u64,
}

/// The content of a block before the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Initial {
    Content(BlockContent),
    /// Number of a content of the distribution.
    Drawn(u64),
}

/// Records between two checks of the stop flag.
const CHECK_EVERY: u64 = 1 << 14;

#[derive(Default)]
struct SeenPlaces {
    places: Vec<(Source, Before)>,
    numbers: HashMap<Source, u32>,
    /// Blocks of each device up to the last one touched.
    device_blocks: Vec<u64>,
}

impl ReplayPlan {
    /// Reads a trace to its end and plans its replay.
    ///
    /// # Errors
    /// If reading fails, or the trace does not fit the target.
    pub fn new(
        source: &mut impl RecordSource,
        options: PlanOptions,
        stop: &StopFlag,
    ) -> Result<Self, PlanError> {
        let mut plan = Self {
            options,
            target_blocks: 0,
            bases: Vec::new(),
            numbers: HashMap::new(),
            populate: Vec::new(),
            records: 0,
            requests: 0,
            trims: 0,
            drawn_writes: 0,
            folded_places: 0,
            widened: 0,
            longest_blocks: 0,
            duration_ns: 0,
        };
        let mut seen = SeenPlaces::default();
        let mut record = Record::new();
        let (mut first_ns, mut last_ns) = (None, 0);
        while source.next_record(&mut record)? {
            first_ns.get_or_insert(record.time_ns);
            last_ns = record.time_ns.max(last_ns);
            plan.look_at(&record, &mut seen)?;
            if plan.records.is_multiple_of(CHECK_EVERY) && stop.is_raised() {
                return Err(PlanError::Stopped);
            }
        }
        if plan.requests == 0 {
            return Err(PlanError::Empty);
        }
        plan.duration_ns = last_ns.saturating_sub(first_ns.unwrap_or(0));
        plan.lay_out(seen)?;
        Ok(plan)
    }

    fn look_at(&mut self, record: &Record, seen: &mut SeenPlaces) -> Result<(), PlanError> {
        match record.operation {
            TraceOperation::Trim => {
                self.records += 1;
                self.trims += 1;
                return Ok(());
            }
            TraceOperation::Flush => {
                self.records += 1;
                return Ok(());
            }
            TraceOperation::Read | TraceOperation::Write => {
                self.records += 1;
                self.requests += 1;
            }
        }
        let unit = self.options.block_bytes;
        let is_whole =
            record.offset_bytes.is_multiple_of(unit) && record.length_bytes.is_multiple_of(unit);
        self.widened += u64::from(!is_whole);
        let blocks = Blocks::new(record, unit)?;
        self.longest_blocks = self.longest_blocks.max(blocks.size_hint().0 as u64);
        let is_write = record.operation == TraceOperation::Write;
        for touched in blocks {
            let before = match (is_write, touched.content) {
                (true, content) => {
                    self.drawn_writes += u64::from(content.is_none());
                    Before::Nothing
                }
                (false, Some(hash)) => Before::Content(content_of_hash(hash)),
                (false, None) => Before::Drawn,
            };
            seen.touch(Source { device: record.device, block: touched.block }, before)?;
        }
        Ok(())
    }

    /// Maps every place to the target, and selects the places to populate.
    fn lay_out(&mut self, seen: SeenPlaces) -> Result<(), PlanError> {
        let block_bytes = self.options.block_bytes;
        let mut end = 0u64;
        for blocks in &seen.device_blocks {
            self.bases.push(end);
            end = end.saturating_add(*blocks);
        }
        let capacity = match self.options.capacity {
            Capacity::AsNeeded => None,
            Capacity::Bytes(bytes) => Some(bytes / block_bytes),
        };
        let need = if self.options.map == MapRule::Dense { seen.places.len() as u64 } else { end };
        self.numbers =
            if self.options.map == MapRule::Dense { seen.numbers } else { HashMap::new() };
        self.target_blocks = match (self.options.map, capacity) {
            (MapRule::Fold, None) => return Err(PlanError::NoCapacity),
            (MapRule::Fold, Some(have)) => need.min(have),
            (_, Some(have)) if need > have => {
                return Err(PlanError::TooSmall {
                    have_bytes: have.saturating_mul(block_bytes),
                    need_bytes: need.saturating_mul(block_bytes),
                });
            }
            _ => need,
        };
        if self.target_blocks == 0 {
            return Err(PlanError::NoCapacity);
        }
        self.choose_populated(&seen.places);
        Ok(())
    }

    /// Selects the blocks to populate: those that the trace reads before it writes them.
    fn choose_populated(&mut self, places: &[(Source, Before)]) {
        let folds = self.options.map == MapRule::Fold;
        let mut met = std::collections::HashSet::new();
        let mut drawn = 0;
        for (source, before) in places {
            let Some(block) = self.target_block(source.device, source.block) else { continue };
            if folds {
                let is_beyond = self.identity(source.device, source.block) != block;
                self.folded_places += u64::from(is_beyond);
                if !met.insert(block) {
                    continue;
                }
            }
            let initial = match before {
                Before::Nothing => continue,
                Before::Content(id) => Initial::Content(*id),
                Before::Drawn => {
                    drawn += 1;
                    Initial::Drawn(drawn - 1)
                }
            };
            self.populate.push((block, initial));
        }
        self.populate.sort_unstable_by_key(|(block, _)| *block);
    }

    #[inline]
    fn identity(&self, device: u32, block: u64) -> u64 {
        self.bases.get(device as usize).copied().unwrap_or(0).saturating_add(block)
    }

    /// Returns the block of a place on the target, or `None` for a place that the first reading did
    /// not meet.
    #[inline]
    pub(crate) fn target_block(&self, device: u32, block: u64) -> Option<u64> {
        let found = match self.options.map {
            MapRule::Refuse => self.identity(device, block),
            MapRule::Fold => self.identity(device, block) % self.target_blocks,
            MapRule::Dense => u64::from(*self.numbers.get(&Source { device, block })?),
        };
        (found < self.target_blocks).then_some(found)
    }

    /// Returns the bytes of the target that the replay uses.
    #[must_use]
    pub const fn target_bytes(&self) -> u64 {
        self.target_blocks.saturating_mul(self.options.block_bytes)
    }

    /// Returns the number of blocks that the replay uses; they start at block 0.
    #[must_use]
    pub const fn target_blocks(&self) -> u64 {
        self.target_blocks
    }

    /// Returns the block size in bytes.
    #[must_use]
    pub const fn block_bytes(&self) -> u64 {
        self.options.block_bytes
    }

    /// Returns the rule for mapping places.
    #[must_use]
    pub const fn map(&self) -> MapRule {
        self.options.map
    }

    /// Returns the number of blocks written before the start.
    #[must_use]
    pub const fn populated_blocks(&self) -> u64 {
        self.populate.len() as u64
    }

    /// Returns the number of blocks, written or populated, whose contents come from the
    /// distribution.
    #[must_use]
    pub fn drawn_blocks(&self) -> u64 {
        self.drawn_writes + self.drawn_populated()
    }

    pub(crate) fn drawn_populated(&self) -> u64 {
        self.populate.iter().filter(|(_, initial)| matches!(initial, Initial::Drawn(_))).count()
            as u64
    }
}

impl SeenPlaces {
    #[inline]
    fn touch(&mut self, source: Source, before: Before) -> Result<(), PlanError> {
        let index = source.device as usize;
        if self.device_blocks.len() <= index {
            self.device_blocks.resize(index + 1, 0);
        }
        let end = &mut self.device_blocks[index];
        *end = (*end).max(source.block + 1);
        if let Entry::Vacant(vacant) = self.numbers.entry(source) {
            let number = u32::try_from(self.places.len()).map_err(|_| PlanError::TooManyPlaces)?;
            vacant.insert(number);
            self.places.push((source, before));
        }
        Ok(())
    }
}
