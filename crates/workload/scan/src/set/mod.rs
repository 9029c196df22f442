//! The counting set: the number of copies of every fingerprint, counted by many threads at once.
//!
//! The first bits of a fingerprint select one of 256 shards. Each shard has a lock, which is taken
//! once for a batch of blocks. Without a memory limit, counting is exact. With one, it stays exact
//! by writing sorted runs to a temporary file, or it covers a sample: the contents with the
//! smallest fingerprints (in their last 64 bits), whose counts are exact.

mod candidates;
mod sample;
mod sorted;
mod spill;
mod table;

pub(crate) use candidates::Candidates;
pub use candidates::ContentLocation;
pub(crate) use sample::{MIN_SAMPLE_BYTES, SampleLimit};
pub(crate) use table::Counted;

use crate::fingerprint::ScanFingerprint;
use spill::{Run, SpillFile};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use table::{MIN_SLOTS, SHARD_BITS, Table};

/// The number of shards: far more than threads, so that two threads rarely need the same lock.
pub(crate) const SHARDS: usize = 1 << SHARD_BITS;

/// A block for the set: its fingerprint, its length in bytes (high half of the last field), and a
/// mark of the sender (low half).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Record {
    pub(crate) high: u64,
    pub(crate) low: u64,
    pub(crate) length_and_mark: u64,
}

impl Record {
    #[inline]
    pub(crate) fn new(fingerprint: ScanFingerprint, length_bytes: u32, mark: u32) -> Self {
        let length_and_mark = u64::from(length_bytes) << 32 | u64::from(mark);
        Self { high: fingerprint.high, low: fingerprint.low, length_and_mark }
    }

    #[inline]
    fn fingerprint(&self) -> ScanFingerprint {
        ScanFingerprint { high: self.high, low: self.low }
    }
}

/// Returns the shard that counts a fingerprint.
#[inline]
pub(crate) fn shard_of(fingerprint: ScanFingerprint) -> usize {
    (fingerprint.high >> (64 - SHARD_BITS)) as usize
}

/// A content whose count has just reached a level at which it may be among the most repeated; see
/// [`Candidates`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rise {
    pub(crate) fingerprint: ScanFingerprint,
    pub(crate) copies: u64,
    pub(crate) mark: u32,
}

/// The memory limit of a set, and the method by which the set keeps it.
#[derive(Debug, Clone)]
pub(crate) enum SetLimit {
    /// The set grows without a limit.
    None,
    /// The set writes runs to a temporary file in `directory`.
    Spill { memory_bytes: u64, directory: PathBuf },
    /// The set keeps the contents with the smallest fingerprints.
    Sample { memory_bytes: u64 },
}

struct Spill {
    memory_bytes: u64,
    directory: PathBuf,
    runs: Mutex<Runs>,
}

#[derive(Default)]
struct Runs {
    file: Option<SpillFile>,
    /// The runs of each shard.
    shards: Vec<Vec<Run>>,
}

pub(crate) struct CountingSet {
    shards: Box<[Mutex<Table>]>,
    allocated_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    spill: Option<Spill>,
    pub(crate) sample: Option<SampleLimit>,
    pub(crate) candidates: Candidates,
}

/// Locks a mutex. A lock that was poisoned by a panic still guards consistent values, because they
/// change in steps that cannot fail.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the initial number of slots of a shard. Initial sizes are staggered over one step of
/// growth, so that the shards do not all grow at once and the unused share of memory stays
/// constant.
fn first_slots(shard: usize) -> usize {
    (MIN_SLOTS as f64 * 1.2f64.powf(shard as f64 / SHARDS as f64)).round() as usize
}

impl CountingSet {
    pub(crate) fn new(limit: SetLimit) -> Self {
        let shards: Box<[_]> =
            (0..SHARDS).map(|shard| Mutex::new(Table::new(first_slots(shard)))).collect();
        let allocated: u64 = shards.iter().map(|shard| locked(shard).allocated_bytes()).sum();
        let (spill, sample) = match limit {
            SetLimit::None => (None, None),
            SetLimit::Spill { memory_bytes, directory } => {
                let runs = Runs { file: None, shards: vec![Vec::new(); SHARDS] };
                (Some(Spill { memory_bytes, directory, runs: Mutex::new(runs) }), None)
            }
            SetLimit::Sample { memory_bytes } => (None, Some(SampleLimit::new(memory_bytes))),
        };
        Self {
            shards,
            allocated_bytes: AtomicU64::new(allocated),
            peak_bytes: AtomicU64::new(allocated),
            spill,
            sample,
            candidates: Candidates::new(),
        }
    }

    /// Counts a batch of blocks that all belong to `shard`. Adds contents to `rises` that have
    /// reached a level.
    ///
    /// # Errors
    /// Fails if the temporary file cannot be written. The batch is counted all the same.
    pub(crate) fn insert(
        &self,
        shard: usize,
        batch: &[Record],
        rises: &mut Vec<Rise>,
    ) -> io::Result<()> {
        let Some(lock) = self.shards.get(shard) else { return Ok(()) };
        let mut table = locked(lock);
        let mut spilled = Ok(());
        if let Some(spill) = &self.spill
            && self.is_too_full(&table, batch.len(), spill)
        {
            drop(table);
            spilled = self.spill(spill, lock, batch.len());
            table = locked(lock);
        }
        let (before, entries_before) = (table.allocated_bytes(), table.len());
        let warmed = batch.iter().fold(0, |sum, record| sum ^ table.warm(record.fingerprint()));
        std::hint::black_box(warmed);
        let bound = self.candidates.bound();
        for record in batch {
            let fingerprint = record.fingerprint();
            if self.sample.as_ref().is_some_and(|sample| !sample.holds(fingerprint)) {
                continue;
            }
            let copies = table.add(fingerprint, (record.length_and_mark >> 32) as u32, 1);
            if bound.admits(copies, fingerprint) {
                rises.push(Rise { fingerprint, copies, mark: record.length_and_mark as u32 });
            }
        }
        let (after, entries) = (table.allocated_bytes(), table.len());
        drop(table);
        let allocated =
            self.allocated_bytes.fetch_add(after - before, Ordering::Relaxed) + after - before;
        self.peak_bytes.fetch_max(allocated, Ordering::Relaxed);
        if let Some(sample) = &self.sample {
            sample.added((entries - entries_before) as u64);
            sample.lower_if_full(&self.shards);
        }
        spilled
    }

    /// Returns whether a batch could make the table grow beyond the memory limit.
    fn is_too_full(&self, table: &Table, batch: usize, spill: &Spill) -> bool {
        table.growth_bytes(batch).is_some_and(|bytes| {
            self.allocated_bytes.load(Ordering::Relaxed).saturating_add(bytes) > spill.memory_bytes
        })
    }

    /// Writes all shards out, one after another, because the table of `full` has no room for a
    /// batch. A thread that finds another thread doing so waits: if it went on, a slow disk would
    /// let the tables grow past any limit. The tables keep their memory for the next contents.
    fn spill(&self, spill: &Spill, full: &Mutex<Table>, batch: usize) -> io::Result<()> {
        let mut runs = locked(&spill.runs);
        if !self.is_too_full(&locked(full), batch, spill) {
            return Ok(());
        }
        let Runs { file, shards } = &mut *runs;
        let file = match file {
            Some(file) => file,
            None => file.insert(SpillFile::create(&spill.directory)?),
        };
        for (lock, runs) in self.shards.iter().zip(shards) {
            let mut table = locked(lock);
            if table.len() > 0 {
                runs.push(file.append(table.iter())?);
                table.clear();
            }
        }
        Ok(())
    }

    /// Returns the peak memory of the tables, in bytes.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.peak_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes that were written to temporary files.
    pub(crate) fn spilled_bytes(&self) -> u64 {
        let runs = self.spill.as_ref().map(|spill| locked(&spill.runs));
        runs.and_then(|runs| runs.file.as_ref().map(SpillFile::length_bytes)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
