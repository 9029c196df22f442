//! Where the most repeated contents were seen, without a place for every content.
//!
//! When the count of a content comes to a level, it is offered as a candidate with the place of that block. A bounded
//! number of candidates is kept: the highest levels, and within one level the smallest fingerprints. Levels are every
//! number below 64, and above it those with at most six significant bits. So a content that ends among the ten most
//! repeated (ties by smallest fingerprint) lost its place only if a thousand others have as many copies to within 3 %.
//! Contents with a single copy are candidates too: in a union of sets they may have many.

use super::locked;
use crate::fingerprint::Fingerprint;
use serde::{Deserialize, Serialize};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Candidates kept; twice as many before they are cut.
const KEPT: usize = 1024;

/// Somewhere that a content was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The file.
    pub path: String,
    /// Where its block begins in the file, in bytes.
    pub offset_bytes: u64,
}

struct Candidate {
    copies: u64,
    fingerprint: Fingerprint,
    place: Place,
}

pub(crate) struct Candidates {
    /// What a new candidate must exceed: the level of the least one kept, and its fingerprint's first half.
    level: AtomicU64,
    high: AtomicU64,
    held: Mutex<Vec<Candidate>>,
}

/// What a new candidate must exceed.
#[derive(Clone, Copy)]
pub(crate) struct Bound {
    level: u64,
    high: u64,
}

impl Bound {
    #[inline]
    pub(crate) fn admits(self, copies: u64, fingerprint: Fingerprint) -> bool {
        copies >= self.level
            && (copies > self.level || fingerprint.high <= self.high)
            && is_level(copies)
    }
}

fn is_level(copies: u64) -> bool {
    let significant = 64 - copies.leading_zeros();
    copies.trailing_zeros() >= significant.saturating_sub(6)
}

impl Candidates {
    pub(super) fn new() -> Self {
        Self {
            level: AtomicU64::new(0),
            high: AtomicU64::new(u64::MAX),
            held: Mutex::new(Vec::new()),
        }
    }

    /// Read without a lock: a stale or torn bound only lets in what is cut later, or loses one of many equals.
    #[inline]
    pub(crate) fn bound(&self) -> Bound {
        Bound { level: self.level.load(Ordering::Relaxed), high: self.high.load(Ordering::Relaxed) }
    }

    pub(crate) fn offer(&self, copies: u64, fingerprint: Fingerprint, place: Place) {
        let mut held = locked(&self.held);
        held.push(Candidate { copies, fingerprint, place });
        if held.len() < 2 * KEPT {
            return;
        }
        cut(&mut held);
        if let Some(least) = held.get(KEPT - 1) {
            self.level.store(least.copies, Ordering::Relaxed);
            self.high.store(least.fingerprint.high, Ordering::Relaxed);
        }
    }

    /// The places kept, in ascending order of fingerprints.
    pub(crate) fn places(&self) -> Vec<(Fingerprint, Place)> {
        let mut held = std::mem::take(&mut *locked(&self.held));
        cut(&mut held);
        held.sort_unstable_by_key(|candidate| candidate.fingerprint);
        held.into_iter().map(|candidate| (candidate.fingerprint, candidate.place)).collect()
    }
}

/// Leaves the best candidates in order, each content once, at its highest level.
fn cut(held: &mut Vec<Candidate>) {
    held.sort_by_key(|candidate| (candidate.fingerprint, std::cmp::Reverse(candidate.copies)));
    held.dedup_by_key(|candidate| candidate.fingerprint);
    held.sort_by_key(|candidate| (std::cmp::Reverse(candidate.copies), candidate.fingerprint));
    held.truncate(KEPT);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_at_most_six_significant_bits() {
        for (copies, level) in
            [(2, true), (63, true), (64, true), (65, false), (66, true), (1 << 40, true)]
        {
            assert_eq!(is_level(copies), level, "{copies}");
        }
        assert!(!is_level((1 << 40) + 1));
    }

    #[test]
    fn the_most_repeated_of_many_keep_their_places() {
        let candidates = Candidates::new();
        let fingerprint =
            |index: u64| Fingerprint { high: gemelo_base::random::mix64(index), low: index };
        let place = |index: u64| Place { path: String::new(), offset_bytes: index };
        for copies in 2..60u64 {
            for index in 0..20_000 / copies {
                let fingerprint = fingerprint(index);
                if candidates.bound().admits(copies, fingerprint) {
                    candidates.offer(copies, fingerprint, place(index));
                }
            }
        }
        let places = candidates.places();
        assert_eq!(places.len(), KEPT);
        let mut most: Vec<u64> = (0..20_000 / 59).collect();
        most.sort_by_key(|index| fingerprint(*index));
        for index in most.into_iter().take(10) {
            assert!(places.contains(&(fingerprint(index), place(index))), "{index}");
        }
    }
}
