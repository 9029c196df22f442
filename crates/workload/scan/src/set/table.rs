//! The hash table of one shard: fingerprints with their copies and lengths, in ascending order of
//! fingerprints.
//!
//! The table uses open addressing with linear probing. The home slot of a fingerprint grows with
//! the fingerprint, and entries are kept in order. A search therefore ends at the first greater
//! entry, growing and writing out are one forward pass, and entries never need to be sorted. An
//! entry takes 24 bytes, and between 0.73 and 0.88 of the slots are used.

use crate::fingerprint::ScanFingerprint;
use std::collections::HashMap;

/// The first and the last 64 bits of the fingerprint, then the copies (low half) and the length in
/// bytes (high half). A slot with 0 copies is free.
type Slot = [u64; 3];

const FREE: Slot = [0; 3];

/// The slots past the last home, for entries that were pushed back. At a use of 0.88, probes are so
/// short that the last homes rarely push more entries than this; if they do, the table grows early.
const SLACK_SLOTS: usize = 32;

/// The number of slots in an empty table.
pub(super) const MIN_SLOTS: usize = 64;

/// The use at which a table grows, and its new size, both in percent. Between two growths the mean
/// of 24 bytes / use is 30 bytes an entry.
const FULL_PERCENT: usize = 88;
const GROWTH_PERCENT: usize = 120;

/// The copies that are moved to a separate map when the 32 bits of a slot are full.
const CARRY: u64 = 1 << 31;

/// A content with its count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) fingerprint: ScanFingerprint,
    pub(crate) copies: u64,
    pub(crate) length_bytes: u32,
}

#[derive(Debug)]
pub(super) struct Table {
    slots: Vec<Slot>,
    homes: usize,
    used: usize,
    carried: HashMap<ScanFingerprint, u64>,
}

/// The number of fingerprint bits that select the shard.
pub(super) const SHARD_BITS: u32 = 8;

impl Table {
    pub(super) fn new(homes: usize) -> Self {
        let homes = homes.max(MIN_SLOTS);
        Self { slots: vec![FREE; homes + SLACK_SLOTS], homes, used: 0, carried: HashMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.used
    }

    pub(super) fn allocated_bytes(&self) -> u64 {
        let carried = self.carried.capacity() * size_of::<(ScanFingerprint, u64)>();
        (self.slots.capacity() * size_of::<Slot>() + carried) as u64
    }

    /// Returns the additional bytes of the table if it must grow for this many new contents.
    pub(super) fn growth_bytes(&self, contents: usize) -> Option<u64> {
        let must_grow = (self.used + contents) * 100 >= self.homes * FULL_PERCENT;
        must_grow.then(|| {
            ((self.homes * GROWTH_PERCENT / 100 + 1 - self.homes) * size_of::<Slot>()) as u64
        })
    }

    /// Removes all contents and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.slots.fill(FREE);
        self.used = 0;
        self.carried.clear();
    }

    #[inline]
    fn home(&self, high: u64) -> usize {
        // The first bits are the same for all fingerprints of a shard.
        ((u128::from(high << SHARD_BITS) * self.homes as u128) >> 64) as usize
    }

    /// Loads the cache lines in which the fingerprint will be searched. The result has no meaning;
    /// the caller uses it so that the compiler keeps the loads.
    #[inline]
    pub(super) fn warm(&self, fingerprint: ScanFingerprint) -> u64 {
        let home = self.home(fingerprint.high);
        self.slots.get(home).map_or(0, |slot| slot[2])
            ^ self.slots.get(home + 5).map_or(0, |slot| slot[2])
    }

    /// Adds copies of a content. Returns its number of copies, up to 2^32.
    #[inline]
    pub(super) fn add(
        &mut self,
        fingerprint: ScanFingerprint,
        length_bytes: u32,
        copies: u32,
    ) -> u64 {
        if self.used * 100 >= self.homes * FULL_PERCENT {
            self.grow();
        }
        let key = (fingerprint.high, fingerprint.low);
        let mut at = self.home(fingerprint.high);
        while let Some(slot) = self.slots.get_mut(at) {
            if slot[2] == 0 || (slot[0], slot[1]) > key {
                break;
            }
            if (slot[0], slot[1]) == key {
                return self.raise(at, fingerprint, copies);
            }
            at += 1;
        }
        self.insert(at, [key.0, key.1, u64::from(length_bytes) << 32 | u64::from(copies)]);
        u64::from(copies)
    }

    fn raise(&mut self, at: usize, fingerprint: ScanFingerprint, copies: u32) -> u64 {
        let Some(slot) = self.slots.get_mut(at) else { return 0 };
        let sum = (slot[2] & u64::from(u32::MAX)) + u64::from(copies);
        // At least one copy must stay, because a slot with 0 copies is free.
        let kept = if sum > u64::from(u32::MAX) { (sum - 1) % CARRY + 1 } else { sum };
        if kept != sum {
            *self.carried.entry(fingerprint).or_insert(0) += sum - kept;
        }
        slot[2] = slot[2] >> 32 << 32 | kept;
        sum
    }

    fn insert(&mut self, at: usize, new: Slot) {
        let free = self.slots.get(at..).and_then(|tail| tail.iter().position(|slot| slot[2] == 0));
        if let Some(distance) = free {
            self.slots.copy_within(at..at + distance, at + 1);
            if let Some(slot) = self.slots.get_mut(at) {
                *slot = new;
            }
            self.used += 1;
        } else {
            // The slack at the end is full.
            self.grow();
            let fingerprint = ScanFingerprint { high: new[0], low: new[1] };
            self.add(fingerprint, (new[2] >> 32) as u32, new[2] as u32);
        }
    }

    fn grow(&mut self) {
        while !self.grow_once() {}
    }

    /// Grows in place, so that the allocator need not hold the old and the new slots at once.
    /// Returns `false` if the last entries do not fit, so that the table must grow again.
    fn grow_once(&mut self) -> bool {
        self.homes = self.homes * GROWTH_PERCENT / 100 + 1;
        let slots = self.homes + SLACK_SLOTS;
        self.slots.reserve_exact(slots - self.slots.len());
        self.slots.resize(slots, FREE);
        self.pack_at_the_end();
        // Each entry moves down, to its home or past its predecessor. It never passes entries that
        // have yet to move, unless the last entries do not fit.
        let mut next = 0;
        for from in slots - self.used..slots {
            let Some(slot) = self.slots.get_mut(from).map(std::mem::take) else { break };
            let to = self.home(slot[0]).max(next);
            let fits = to <= from;
            if let Some(place) = self.slots.get_mut(to.min(from)) {
                *place = slot;
            }
            if !fits {
                return false;
            }
            next = to + 1;
        }
        true
    }

    /// Moves all entries, in order, to the last slots.
    fn pack_at_the_end(&mut self) {
        let mut to = self.slots.len();
        for from in (0..self.slots.len()).rev() {
            let Some(slot) =
                self.slots.get_mut(from).filter(|slot| slot[2] != 0).map(std::mem::take)
            else {
                continue;
            };
            to -= 1;
            if let Some(place) = self.slots.get_mut(to) {
                *place = slot;
            }
        }
    }

    /// Keeps only the contents that `keep` accepts. The memory is not released.
    pub(super) fn retain(&mut self, keep: impl Fn(ScanFingerprint) -> bool) {
        let mut next = 0;
        for from in 0..self.slots.len() {
            let Some(slot) = self.slots.get_mut(from).map(std::mem::take) else { break };
            if slot[2] == 0 {
                continue;
            }
            let fingerprint = ScanFingerprint { high: slot[0], low: slot[1] };
            if !keep(fingerprint) {
                self.used -= 1;
                self.carried.remove(&fingerprint);
                continue;
            }
            // Entries stay in order. An entry never lies before its home, and the removal of
            // entries before it only lets it move closer to its home.
            let to = self.home(slot[0]).max(next);
            if let Some(place) = self.slots.get_mut(to) {
                *place = slot;
            }
            next = to + 1;
        }
    }

    /// Returns the contents, in ascending order of fingerprints.
    pub(super) fn iter(&self) -> impl Iterator<Item = Counted> + '_ {
        self.slots.iter().filter(|slot| slot[2] != 0).map(|slot| {
            let fingerprint = ScanFingerprint { high: slot[0], low: slot[1] };
            let carried = if self.carried.is_empty() {
                0
            } else {
                self.carried.get(&fingerprint).copied().unwrap_or(0)
            };
            Counted {
                fingerprint,
                copies: carried + (slot[2] & u64::from(u32::MAX)),
                length_bytes: (slot[2] >> 32) as u32,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::Random;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn counted(table: &Table) -> Vec<(ScanFingerprint, u64)> {
        table.iter().map(|counted| (counted.fingerprint, counted.copies)).collect()
    }

    proptest! {
        /// Keys with few different homes make long runs, and keys at the very end use up the slack.
        #[test]
        fn a_table_is_an_ordered_map(
            keys in proptest::collection::vec((0u64..40, 0u64..20, any::<bool>()), 0..2000)
        ) {
            let mut table = Table::new(0);
            let mut expected = BTreeMap::new();
            for (high, low, at_the_end) in keys {
                let high = if at_the_end { u64::MAX >> 8 } else { high << 50 };
                let fingerprint = ScanFingerprint { high, low };
                let count = expected.entry(fingerprint).or_insert(0u64);
                *count += 1;
                prop_assert_eq!(table.add(fingerprint, 7, 1), *count);
            }
            prop_assert_eq!(counted(&table), expected.clone().into_iter().collect::<Vec<_>>());
            prop_assert_eq!(table.len(), expected.len());
            table.retain(|fingerprint| fingerprint.low % 3 == 0);
            expected.retain(|fingerprint, _| fingerprint.low % 3 == 0);
            for (fingerprint, count) in &mut expected {
                *count += 1;
                prop_assert_eq!(table.add(*fingerprint, 7, 1), *count);
            }
            prop_assert_eq!(counted(&table), expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn counts_above_32_bits_stay_exact() {
        let mut table = Table::new(0);
        let fingerprint = ScanFingerprint { high: 5, low: 6 };
        for _ in 0..5 {
            table.add(fingerprint, 4096, u32::MAX);
        }
        table.add(fingerprint, 4096, 1);
        let all: Vec<Counted> = table.iter().collect();
        assert_eq!(
            all,
            [Counted { fingerprint, copies: 5 * u64::from(u32::MAX) + 1, length_bytes: 4096 }]
        );
    }

    #[test]
    fn a_growing_table_uses_between_27_and_33_bytes_an_entry() {
        let mut table = Table::new(0);
        let mut random = Random::new(1);
        for count in 1..50_000u64 {
            let fingerprint = ScanFingerprint { high: random.next_u64() >> SHARD_BITS, low: 0 };
            table.add(fingerprint, 4096, 1);
            if count > 5_000 {
                let each = table.allocated_bytes() as f64 / count as f64;
                assert!((27.0..33.5).contains(&each), "{each} bytes at {count}");
            }
        }
    }
}
