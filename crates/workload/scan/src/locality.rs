//! Locality: the distances between copies of a content, in bytes of the scan's order.
//!
//! The order is that of the walk: files in the order of their directories' lists, each from its
//! first byte to its last. While reading, a place is recorded as (batch of files, offset in the
//! batch). When all batches are read, their sizes give the bytes before each batch. Only the first
//! [`MAX_COPIES`] copies of a sampled content are used, so no content can fill the sample. Zero
//! blocks are not used. Files with several hard links are not used either, because their place
//! depends on which link is found first.

use crate::fingerprint::ScanFingerprint;
use crate::levels::{MAX_LEVEL, highest_low};
use crate::set::locked;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The most copies in the whole sample.
pub(crate) const MAX_OCCURRENCES: u64 = 16 * 1024;

/// The most copies of one content in the sample.
pub(crate) const MAX_COPIES: usize = 1024;

/// A copy of a sampled content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Occurrence {
    pub(crate) fingerprint: ScanFingerprint,
    /// The number of the batch of files, in the order of the walk.
    pub(crate) batch: u32,
    /// The offset from the start of the batch.
    pub(crate) offset_bytes: u64,
}

/// The contents that already have [`MAX_COPIES`] copies in the sample, with the (batch, offset) of
/// the last one. Later copies are of no use. Without this map, a content that makes up half of the
/// data would be collected and dropped again and again.
pub(crate) type Saturated = Arc<HashMap<ScanFingerprint, (u32, u64)>>;

/// Collects occurrences from many threads.
pub(crate) struct LocalitySampler {
    highest_low: AtomicU64,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    occurrences: Vec<Occurrence>,
    level: u32,
    saturated: Saturated,
}

/// The sample: its level, and its contents in ascending order, each with its places in the scan in
/// ascending order.
pub(crate) struct LocalitySample {
    pub(crate) level: u32,
    pub(crate) contents: Vec<(ScanFingerprint, Vec<u64>)>,
}

impl LocalitySampler {
    pub(crate) fn new() -> Self {
        Self { highest_low: AtomicU64::new(u64::MAX), held: Mutex::new(Held::default()) }
    }

    /// Returns the highest last 64 bits of a fingerprint in the sample.
    #[inline]
    pub(crate) fn highest_low(&self) -> u64 {
        self.highest_low.load(Ordering::Relaxed)
    }

    /// Takes the occurrences that a thread collected. Returns the contents that need no more
    /// copies.
    pub(crate) fn take(&self, collected: &mut Vec<Occurrence>) -> Saturated {
        let mut held = locked(&self.held);
        let highest = highest_low(held.level);
        held.occurrences.extend(collected.drain(..).filter(|copy| copy.fingerprint.low <= highest));
        if held.occurrences.len() as u64 >= 2 * MAX_OCCURRENCES {
            held.cut();
            self.highest_low.store(highest_low(held.level), Ordering::Relaxed);
        }
        Arc::clone(&held.saturated)
    }

    /// Returns the sample. `batch_starts` gives the bytes before each batch.
    pub(crate) fn finish(self, batch_starts: &[u64]) -> LocalitySample {
        let mut held = self.held.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        held.cut();
        let place = |copy: &Occurrence| {
            let start = batch_starts.get(copy.batch as usize).copied().unwrap_or(0);
            start.saturating_add(copy.offset_bytes)
        };
        let contents = held.occurrences.chunk_by(|a, b| a.fingerprint == b.fingerprint);
        let contents = contents
            .filter_map(|copies| {
                Some((copies.first()?.fingerprint, copies.iter().map(place).collect()))
            })
            .collect();
        LocalitySample { level: held.level, contents }
    }
}

impl Held {
    /// Keeps the first copies of each content, and raises the level until the sample is within its
    /// limit.
    fn cut(&mut self) {
        self.occurrences.sort_unstable();
        let mut same = 0;
        let mut last = None;
        let mut saturated = HashMap::new();
        self.occurrences.retain(|copy| {
            same = if last == Some(copy.fingerprint) { same + 1 } else { 1 };
            last = Some(copy.fingerprint);
            if same == MAX_COPIES {
                saturated.insert(copy.fingerprint, (copy.batch, copy.offset_bytes));
            }
            same <= MAX_COPIES
        });
        self.saturated = Arc::new(saturated);
        while self.occurrences.len() as u64 > MAX_OCCURRENCES && self.level < MAX_LEVEL {
            self.level += 1;
            let highest = highest_low(self.level);
            self.occurrences.retain(|copy| copy.fingerprint.low <= highest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::mix64;

    fn occurrence(content: u64, batch: u32, offset_bytes: u64) -> Occurrence {
        Occurrence {
            fingerprint: ScanFingerprint { high: content, low: mix64(content) },
            batch,
            offset_bytes,
        }
    }

    #[test]
    fn a_content_in_excess_takes_part_with_its_first_copies() {
        let sampler = LocalitySampler::new();
        let mut copies: Vec<_> =
            (0..100_000u32).rev().map(|batch| occurrence(1, batch, 4096)).collect();
        copies.extend([occurrence(2, 7, 0), occurrence(2, 3, 0)]);
        for part in copies.chunks(1000) {
            sampler.take(&mut part.to_vec());
        }
        let starts: Vec<u64> = (0..100_000).map(|batch| batch * 8192).collect();
        let sample = sampler.finish(&starts);
        assert_eq!(sample.level, 0);
        let lengths: Vec<usize> = sample.contents.iter().map(|(_, places)| places.len()).collect();
        assert_eq!(lengths, [MAX_COPIES, 2]);
        assert_eq!(sample.contents[0].1[..2], [4096, 8192 + 4096]);
        assert_eq!(sample.contents[1].1, [3 * 8192, 7 * 8192]);
    }

    #[test]
    fn the_sample_does_not_depend_on_the_order_of_arrival() {
        let copies: Vec<_> =
            (0..200_000u64).map(|n| occurrence(n / 3, (n % 1000) as u32, n)).collect();
        let collect = |copies: &mut dyn Iterator<Item = &Occurrence>| {
            let sampler = LocalitySampler::new();
            for copy in copies {
                sampler.take(&mut vec![*copy]);
            }
            sampler.finish(&[])
        };
        let (forward, backward) = (collect(&mut copies.iter()), collect(&mut copies.iter().rev()));
        assert!(forward.level > 0 && forward.contents.len() > 2000);
        assert_eq!(forward.level, backward.level);
        assert_eq!(forward.contents, backward.contents);
    }
}
