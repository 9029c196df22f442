//! Locality: how far apart the copies of a content lie, in bytes of the scan's order.
//!
//! The order is that of the walk: files as their directories list them, each from its first byte to its last. A
//! place in it is first known as (batch of files, bytes into the batch); when all batches are read, their sizes make
//! the bytes before each. Of a sampled content the first [`MOST_COPIES`] copies take part, so that no content can
//! fill the sample. Zero blocks take no part, nor do files with several hard links, whose place depends on which link
//! was met first.

use crate::fingerprint::Fingerprint;
use crate::levels::{MOST_LEVEL, highest_low};
use crate::set::locked;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Copies in the whole sample.
pub(crate) const MOST_OCCURRENCES: u64 = 16 * 1024;

/// Copies of one content that take part.
pub(crate) const MOST_COPIES: usize = 1024;

/// A copy of a sampled content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Occurrence {
    pub(crate) fingerprint: Fingerprint,
    /// Number of the batch of files, in the order of the walk.
    pub(crate) batch: u32,
    /// Bytes from the batch's start.
    pub(crate) offset_bytes: u64,
}

/// Contents that have all the copies they can have in the sample, with (batch, offset) of the last: later copies are
/// of no use. Without this, a content that half of the data consists of would be collected and cut without end.
pub(crate) type Saturated = Arc<HashMap<Fingerprint, (u32, u64)>>;

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

/// The sample: contents in ascending order, each with its places in the scan in ascending order, and the level.
pub(crate) struct LocalitySample {
    pub(crate) level: u32,
    pub(crate) contents: Vec<(Fingerprint, Vec<u64>)>,
}

impl LocalitySampler {
    pub(crate) fn new() -> Self {
        Self { highest_low: AtomicU64::new(u64::MAX), held: Mutex::new(Held::default()) }
    }

    /// The highest last 64 bits that are in the sample.
    #[inline]
    pub(crate) fn highest_low(&self) -> u64 {
        self.highest_low.load(Ordering::Relaxed)
    }

    /// Takes over what a thread has collected; tells which contents need no further copies.
    pub(crate) fn take(&self, collected: &mut Vec<Occurrence>) -> Saturated {
        let mut held = locked(&self.held);
        let highest = highest_low(held.level);
        held.occurrences.extend(collected.drain(..).filter(|copy| copy.fingerprint.low <= highest));
        if held.occurrences.len() as u64 >= 2 * MOST_OCCURRENCES {
            held.cut();
            self.highest_low.store(highest_low(held.level), Ordering::Relaxed);
        }
        Arc::clone(&held.saturated)
    }

    /// The sample, with the bytes before each batch.
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
    /// Leaves the first copies of each content, and no more contents than fit.
    fn cut(&mut self) {
        self.occurrences.sort_unstable();
        let mut same = 0;
        let mut last = None;
        let mut saturated = HashMap::new();
        self.occurrences.retain(|copy| {
            same = if last == Some(copy.fingerprint) { same + 1 } else { 1 };
            last = Some(copy.fingerprint);
            if same == MOST_COPIES {
                saturated.insert(copy.fingerprint, (copy.batch, copy.offset_bytes));
            }
            same <= MOST_COPIES
        });
        self.saturated = Arc::new(saturated);
        while self.occurrences.len() as u64 > MOST_OCCURRENCES && self.level < MOST_LEVEL {
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
            fingerprint: Fingerprint { high: content, low: mix64(content) },
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
        assert_eq!(lengths, [MOST_COPIES, 2]);
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
