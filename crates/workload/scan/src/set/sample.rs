//! The sample of contents with the smallest fingerprints ("bottom-k"; Gibbons, "Distinct Sampling
//! for Highly-Accurate Answers to Distinct Values Queries and Event Reports", VLDB 2001).
//!
//! Membership depends only on the fingerprint, so every copy of a sampled content is counted, and
//! the sample is uniform over distinct contents.

use super::locked;
use super::table::Table;
use crate::fingerprint::ScanFingerprint;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The memory of one entry in bytes: 24 bytes at the use of 0.73 that a table has after it grew,
/// and 8 bytes to select the sample at the end.
const BYTES_PER_ENTRY: u64 = 34 + 8;

/// The size at which the tables are cut, in quarters of the sample.
const FULL_QUARTERS: u64 = 6;

/// The minimum number of contents in a sample: figures of smaller samples are too uncertain to be
/// useful.
pub(crate) const MIN_SAMPLE: u64 = 1024;

/// The minimum memory of a sample, in bytes.
pub(crate) const MIN_SAMPLE_BYTES: u64 =
    MIN_SAMPLE * FULL_QUARTERS / 4 * BYTES_PER_ENTRY + EMPTY_BYTES;

/// The memory of empty tables, rounded up, in bytes.
const EMPTY_BYTES: u64 = 1 << 20;

pub(crate) struct SampleLimit {
    /// The highest last 64 bits of fingerprints that are counted.
    highest_low: AtomicU64,
    entries: AtomicU64,
    max_entries: u64,
    contents: u64,
    lowering: Mutex<()>,
}

impl SampleLimit {
    pub(super) fn new(memory_bytes: u64) -> Self {
        let max_entries = memory_bytes.saturating_sub(EMPTY_BYTES) / BYTES_PER_ENTRY;
        Self {
            highest_low: AtomicU64::new(u64::MAX),
            entries: AtomicU64::new(0),
            max_entries,
            contents: (max_entries * 4 / FULL_QUARTERS).max(1),
            lowering: Mutex::new(()),
        }
    }

    /// Returns the number of contents in the final sample (k), if the data has that many.
    pub(crate) fn contents(&self) -> u64 {
        self.contents
    }

    /// Returns the highest last 64 bits that are still counted; `u64::MAX` while all contents are.
    pub(crate) fn highest_low(&self) -> u64 {
        self.highest_low.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn holds(&self, fingerprint: ScanFingerprint) -> bool {
        fingerprint.low <= self.highest_low()
    }

    pub(super) fn added(&self, entries: u64) {
        self.entries.fetch_add(entries, Ordering::Relaxed);
    }

    /// Cuts the tables if they are full. The limit falls before any table is cut, and it is read
    /// under each table's lock, so a content that was cut is never counted again.
    pub(super) fn lower_if_full(&self, shards: &[Mutex<Table>]) {
        let is_full = || self.entries.load(Ordering::Relaxed) > self.max_entries;
        if !is_full() {
            return;
        }
        let _only_one = locked(&self.lowering);
        if !is_full() {
            return;
        }
        let before = self.highest_low();
        // Each step goes halfway from the new limit back to the old one, until the limit holds at
        // least the whole sample.
        let wanted = self.contents as f64 * 1.1 / self.max_entries as f64;
        let mut after = (before as f64 * wanted) as u64;
        while before - after > 1 && count_below(shards, after) < self.contents {
            after += (before - after) / 2;
        }
        self.highest_low.store(after, Ordering::Relaxed);
        for shard in shards {
            let mut table = locked(shard);
            let entries = table.len();
            table.retain(|fingerprint| fingerprint.low <= after);
            self.entries.fetch_sub((entries - table.len()) as u64, Ordering::Relaxed);
        }
    }
}

fn count_below(shards: &[Mutex<Table>], highest_low: u64) -> u64 {
    let held =
        |table: &Table| table.iter().filter(|entry| entry.fingerprint.low <= highest_low).count();
    shards.iter().map(|shard| held(&locked(shard)) as u64).sum()
}
