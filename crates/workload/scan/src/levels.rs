//! A bounded sample of contents that does not depend on the order in which contents arrive.
//!
//! At level j, a content is in the sample if the last 64 bits of its fingerprint begin with j
//! zeros. The level is the lowest one at which the sample's weight is within its limit (the "die
//! level" of Gibbons, VLDB 2001). The weight only grows, so it suffices to raise the level whenever
//! the limit is exceeded. The sample is therefore uniform over distinct contents, and the samples
//! of two data sets combine to the sample of their union.

use crate::fingerprint::ScanFingerprint;
use std::collections::HashMap;

/// Returns the highest last 64 bits of a fingerprint that is in a sample of this level.
pub(crate) fn highest_low(level: u32) -> u64 {
    u64::MAX.checked_shr(level).unwrap_or(0)
}

/// The highest level: one content in 2^63 is in the sample.
pub(crate) const MAX_LEVEL: u32 = 63;

#[derive(Debug)]
pub(crate) struct LevelSample<Value> {
    held: HashMap<ScanFingerprint, Value>,
    weigh: fn(&Value) -> u64,
    weight: u64,
    max_weight: u64,
    level: u32,
}

impl<Value> LevelSample<Value> {
    pub(crate) fn new(max_weight: u64, weigh: fn(&Value) -> u64) -> Self {
        Self { held: HashMap::new(), weigh, weight: 0, max_weight, level: 0 }
    }

    pub(crate) fn level(&self) -> u32 {
        self.level
    }

    pub(crate) fn admits(&self, fingerprint: ScanFingerprint) -> bool {
        fingerprint.low <= highest_low(self.level)
    }

    /// Raises the level to at least `level` and drops the contents that it excludes.
    pub(crate) fn raise_to(&mut self, level: u32) {
        if level <= self.level {
            return;
        }
        self.level = level.min(MAX_LEVEL);
        let (highest, weigh) = (highest_low(self.level), self.weigh);
        let mut weight = 0;
        self.held.retain(|fingerprint, value| {
            let kept = fingerprint.low <= highest;
            weight += if kept { weigh(value) } else { 0 };
            kept
        });
        self.weight = weight;
    }

    /// Adds a content if the sample admits it and does not hold it yet.
    pub(crate) fn insert(&mut self, fingerprint: ScanFingerprint, value: impl FnOnce() -> Value) {
        if !self.admits(fingerprint) || self.held.contains_key(&fingerprint) {
            return;
        }
        let value = value();
        self.weight += (self.weigh)(&value);
        self.held.insert(fingerprint, value);
        while self.weight > self.max_weight && self.level < MAX_LEVEL {
            self.raise_to(self.level + 1);
        }
    }

    /// Returns the sample, in ascending order of fingerprints.
    pub(crate) fn into_sorted(self) -> Vec<(ScanFingerprint, Value)> {
        let mut sorted: Vec<_> = self.held.into_iter().collect();
        sorted.sort_unstable_by_key(|(fingerprint, _)| *fingerprint);
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::mix64;
    use proptest::prelude::*;

    fn sample_of(numbers: impl Iterator<Item = u64>, level: u32) -> LevelSample<u64> {
        let mut sample = LevelSample::new(100, |_| 1);
        sample.raise_to(level);
        for number in numbers {
            sample.insert(ScanFingerprint { high: mix64(number), low: mix64(!number) }, || number);
        }
        sample
    }

    proptest! {
        #[test]
        fn samples_of_parts_unite_to_the_sample_of_the_whole(
            cut in 0u64..5000, count in 1u64..5000
        ) {
            let cut = cut.min(count);
            let first = sample_of(0..cut, 0);
            let second = sample_of(cut..count, 0);
            let level = first.level().max(second.level());
            let parts = first.into_sorted().into_iter().chain(second.into_sorted());
            let parts = parts.map(|(_, number)| number);
            let united = sample_of(parts, level);
            let whole = sample_of((0..count).rev(), 0);
            prop_assert_eq!(united.level(), whole.level());
            prop_assert!(whole.held.len() as u64 >= count.min(25));
            prop_assert_eq!(united.into_sorted(), whole.into_sorted());
        }
    }
}
