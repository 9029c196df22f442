//! Computes the figures that papers publish of traces: data written and read, its distinct places
//! and contents, and its hot places.
//!
//! Counting is exact and therefore needs memory: 25 bytes for every place touched and 40 for every
//! distinct content. Hash tables grow by doubling, so they take up to two and a half times this.
//! [`MemoryLimit`] bounds the sum.

mod figures;
mod profile;
mod table;

pub use figures::{Concentration, DeviceStats, HotPlace, Stats};
use gemelo_base::Classified;
pub use profile::AccessProfile;

use crate::blocks::{BlockError, Blocks, TouchedBlock};
use crate::record::{ContentHash, Record, TraceOperation};
use gemelo_content::{Distribution, DistributionError, DuplicateClass};
use profile::{Arrivals, LONG_RUN_BYTES};
use std::collections::HashMap;
use table::{Contents, PlaceKey, PlaceState, Places};
use thiserror::Error;

/// The most bytes that the tables of a trace may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimit(pub u64);

/// The reason why a trace cannot be counted.
#[derive(Debug, Clone, PartialEq, Eq, Error, Classified)]
pub enum StatError {
    /// The block size does not fit the hashes.
    #[kind(source)]
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The tables exceed the memory limit.
    #[kind(Exhausted, remedy = MemoryForTrace)]
    #[error(
        "after {records} records the tables of places and contents take {used_bytes} bytes; the \
         limit is {limit_bytes}"
    )]
    Memory {
        /// Records counted so far.
        records: u64,
        /// Size of the tables in bytes.
        used_bytes: u64,
        /// Memory limit in bytes.
        limit_bytes: u64,
    },
    /// A device or block number is too large for the tables.
    #[kind(BadInput)]
    #[error(
        "block {block} of device {device} is beyond 2^48 blocks or 65,536 devices: the file is not \
         a trace"
    )]
    Place {
        /// Number of the device.
        device: u32,
        /// Number of the block.
        block: u64,
    },
}

/// The rule for counting the copies of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyCounting {
    /// Every write is a copy. A load that writes as many blocks should have this distribution.
    Writes,
    /// Every place that holds the content at the end is a copy. Storage has this distribution after
    /// a replay.
    AtEnd,
}

/// Counts the records of a trace.
#[derive(Debug)]
pub struct Statistics {
    block_bytes: u64,
    limit: MemoryLimit,
    places: Places,
    contents: Contents,
    devices: Vec<Device>,
    totals: Totals,
    arrivals: Arrivals,
    /// Blocks counted since the last check of the memory limit.
    unchecked: u64,
}

/// Sums over all records.
#[derive(Debug, Default, Clone, Copy)]
struct Totals {
    records: u64,
    reads: u64,
    writes: u64,
    trims: u64,
    flushes: u64,
    read_bytes: u64,
    written_bytes: u64,
    read_blocks: u64,
    written_blocks: u64,
    /// Blocks written with a known content.
    hashed_writes: u64,
    read_places: u64,
    written_places: u64,
    /// Places that were read with a known content before they were written.
    populated: u64,
    contradictions: u64,
    unaligned: u64,
    sequential: u64,
    /// Bytes of long runs that have ended.
    long_run_bytes: u64,
    first_ns: Option<u64>,
    last_ns: u64,
}

/// Sums over the records of one device.
#[derive(Debug, Clone, Copy)]
struct Device {
    records: u64,
    read_bytes: u64,
    written_bytes: u64,
    first_byte: u64,
    end_byte: u64,
    /// End of the last operation.
    last_end: u64,
    /// Bytes of the current run, in which each operation began where the one before it ended.
    run_bytes: u64,
}

/// Blocks between two checks of the memory limit.
const CHECK_EVERY: u64 = 1 << 14;

impl Statistics {
    /// Creates empty statistics in blocks of `block_bytes`, at least 1.
    #[must_use]
    pub fn new(block_bytes: u64, limit: MemoryLimit) -> Self {
        Self {
            block_bytes: block_bytes.max(1),
            limit,
            places: HashMap::default(),
            contents: Contents::default(),
            devices: Vec::new(),
            totals: Totals::default(),
            arrivals: Arrivals::default(),
            unchecked: 0,
        }
    }

    /// Counts a record.
    ///
    /// # Errors
    /// If the record's hashes do not fit the block size, or the memory limit is exceeded.
    #[inline]
    pub fn add(&mut self, record: &Record) -> Result<(), StatError> {
        self.count(record)?;
        let blocks = Blocks::new(record, self.block_bytes)?;
        if record.operation == TraceOperation::Trim {
            self.trim(record.device, blocks);
            return Ok(());
        }
        for touched in blocks {
            let key = PlaceKey::new(record.device, touched.block)
                .ok_or(StatError::Place { device: record.device, block: touched.block })?;
            self.touch(record.operation, key, touched);
            self.unchecked += 1;
        }
        if self.unchecked >= CHECK_EVERY {
            self.unchecked = 0;
            self.check_memory()?;
        }
        Ok(())
    }

    /// Removes the content of trimmed blocks. Only known blocks count as touched, as a trim can
    /// cover a whole device.
    fn trim(&mut self, device: u32, blocks: Blocks<'_>) {
        let Self { places, contents, .. } = self;
        if blocks.size_hint().0 < places.len() {
            for key in blocks.filter_map(|touched| PlaceKey::new(device, touched.block)) {
                if let Some(place) = places.get_mut(&key) {
                    contents.replace(&mut place.content, None);
                }
            }
            return;
        }
        let range = blocks.range();
        for (key, place) in places {
            if key.device() == device && range.contains(&key.block()) {
                contents.replace(&mut place.content, None);
            }
        }
    }

    fn count(&mut self, record: &Record) -> Result<(), StatError> {
        let index = record.device as usize;
        if index > usize::from(u16::MAX) {
            return Err(StatError::Place { device: record.device, block: 0 });
        }
        if self.devices.len() <= index {
            self.devices.resize(index + 1, Device::EMPTY);
        }
        let device = &mut self.devices[index];
        let totals = &mut self.totals;
        totals.records += 1;
        totals.first_ns =
            Some(totals.first_ns.map_or(record.time_ns, |first| first.min(record.time_ns)));
        totals.last_ns = totals.last_ns.max(record.time_ns);
        self.arrivals.add(record.time_ns);
        device.records += 1;
        if record.operation == TraceOperation::Flush {
            totals.flushes += 1;
            return Ok(());
        }
        let unit = self.block_bytes;
        let is_aligned =
            record.offset_bytes.is_multiple_of(unit) && record.length_bytes.is_multiple_of(unit);
        totals.unaligned += u64::from(!is_aligned);
        if record.offset_bytes == device.last_end {
            totals.sequential += 1;
            device.run_bytes = device.run_bytes.saturating_add(record.length_bytes);
        } else {
            if device.run_bytes >= LONG_RUN_BYTES {
                totals.long_run_bytes += device.run_bytes;
            }
            device.run_bytes = record.length_bytes;
        }
        device.last_end = record.end_bytes();
        device.first_byte = device.first_byte.min(record.offset_bytes);
        device.end_byte = device.end_byte.max(record.end_bytes());
        match record.operation {
            TraceOperation::Read => {
                totals.reads += 1;
                totals.read_bytes += record.length_bytes;
                device.read_bytes += record.length_bytes;
            }
            TraceOperation::Write => {
                totals.writes += 1;
                totals.written_bytes += record.length_bytes;
                device.written_bytes += record.length_bytes;
            }
            TraceOperation::Trim | TraceOperation::Flush => totals.trims += 1,
        }
        Ok(())
    }

    #[inline]
    fn touch(&mut self, operation: TraceOperation, key: PlaceKey, touched: TouchedBlock) {
        let place = self.places.entry(key).or_default();
        match operation {
            TraceOperation::Read => {
                self.totals.read_blocks += 1;
                self.totals.read_places += u64::from(place.reads == 0);
                let is_first = place.reads == 0 && place.writes == 0;
                place.reads = place.reads.saturating_add(1);
                if let Some(hash) = touched.content {
                    Self::note_read(&mut self.contents, &mut self.totals, place, is_first, hash);
                }
            }
            TraceOperation::Write => {
                self.totals.written_blocks += 1;
                self.totals.written_places += u64::from(place.writes == 0);
                place.writes = place.writes.saturating_add(1);
                let content = touched.content.map(|hash| self.contents.written(hash));
                self.totals.hashed_writes += u64::from(content.is_some());
                self.contents.replace(&mut place.content, content);
            }
            TraceOperation::Trim | TraceOperation::Flush => {}
        }
    }

    #[inline]
    fn note_read(
        contents: &mut Contents,
        totals: &mut Totals,
        place: &mut PlaceState,
        is_first: bool,
        hash: ContentHash,
    ) {
        let content = contents.read(hash);
        if is_first {
            totals.populated += 1;
            contents.replace(&mut place.content, Some(content));
        } else if place.content.is_some_and(|known| known != content) {
            totals.contradictions += 1;
        }
    }

    /// Returns the bytes that the tables take now.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let places = self.places.capacity() * (size_of::<(PlaceKey, PlaceState)>() + 1);
        (places + self.contents.memory_bytes()) as u64
    }

    #[cold]
    fn check_memory(&self) -> Result<(), StatError> {
        let used_bytes = self.memory_bytes();
        if used_bytes > self.limit.0 {
            let limit_bytes = self.limit.0;
            return Err(StatError::Memory {
                records: self.totals.records,
                used_bytes,
                limit_bytes,
            });
        }
        Ok(())
    }

    /// Returns the distribution of duplicates. Blocks of unknown content do not count.
    ///
    /// # Errors
    /// If the trace has no known contents.
    pub fn distribution(&self, counting: CopyCounting) -> Result<Distribution, DistributionError> {
        let copies = |content: &table::Content| match counting {
            CopyCounting::Writes => content.writes,
            CopyCounting::AtEnd => content.places,
        };
        let mut classes: HashMap<u32, u64> = HashMap::new();
        for content in self.contents.without_zeros() {
            let copies = copies(content);
            if copies > 0 {
                *classes.entry(copies - 1).or_default() += 1;
            }
        }
        let classes = classes.into_iter().map(|(duplicates, contents)| DuplicateClass {
            duplicates: u64::from(duplicates),
            contents,
        });
        Distribution::with_zeros(classes, u64::from(copies(&self.contents.zeros())))
    }
}

impl Device {
    const EMPTY: Self = Self {
        records: 0,
        read_bytes: 0,
        written_bytes: 0,
        first_byte: u64::MAX,
        end_byte: 0,
        last_end: u64::MAX,
        run_bytes: 0,
    };
}

#[cfg(test)]
mod tests;
