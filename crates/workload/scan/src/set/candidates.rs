//! The places of the most repeated contents, found without storing a place for every content.
//!
//! A content whose count reaches a level is offered as a candidate with the place of that block. A
//! bounded number of candidates is kept: those at the highest levels, and within one level those
//! with the smallest fingerprints. Levels are every number below 64, and above it the numbers with
//! at most six significant bits. A content that ends among the ten most repeated (ties go to the
//! smallest fingerprint) therefore lacks a place only if a thousand others have as many copies to
//! within 3 %. Contents with a single copy are candidates too, because they may have many in a
//! merge of sets.

use super::locked;
use crate::fingerprint::ScanFingerprint;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of candidates that are kept. Twice as many are collected before they are cut.
const KEPT: usize = 1024;

/// A place where a content was seen.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ContentLocation {
    /// The path of the file.
    pub path: String,
    /// The offset of the block in the file, in bytes.
    pub offset_bytes: u64,
}

struct Candidate {
    copies: u64,
    fingerprint: ScanFingerprint,
    place: ContentLocation,
}

pub(crate) struct Candidates {
    /// The bound of new candidates: the level of the last candidate kept, and the first half of its
    /// fingerprint.
    level: AtomicU64,
    high: AtomicU64,
    held: Mutex<Vec<Candidate>>,
}

/// The bound that a new candidate must reach.
#[derive(Clone, Copy)]
pub(crate) struct Bound {
    level: u64,
    high: u64,
}

impl Bound {
    #[inline]
    pub(crate) fn admits(self, copies: u64, fingerprint: ScanFingerprint) -> bool {
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

    /// Reads the bound without a lock. A stale or torn bound admits candidates that are cut later,
    /// or loses one of many with equal counts.
    #[inline]
    pub(crate) fn bound(&self) -> Bound {
        Bound { level: self.level.load(Ordering::Relaxed), high: self.high.load(Ordering::Relaxed) }
    }

    pub(crate) fn offer(&self, copies: u64, fingerprint: ScanFingerprint, place: ContentLocation) {
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

    /// Returns the places, in ascending order of fingerprints.
    pub(crate) fn places(&self) -> Vec<(ScanFingerprint, ContentLocation)> {
        let mut held = std::mem::take(&mut *locked(&self.held));
        cut(&mut held);
        held.sort_unstable_by_key(|candidate| candidate.fingerprint);
        held.into_iter().map(|candidate| (candidate.fingerprint, candidate.place)).collect()
    }
}

/// Keeps the best candidates in order. Each content is kept once, at its highest level.
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
            |index: u64| ScanFingerprint { high: gemelo_base::random::mix64(index), low: index };
        let place = |index: u64| ContentLocation { path: String::new(), offset_bytes: index };
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
