//! The buckets of the index, which grow one by one (linear hashing).

use super::super::layout::IndexEdit;
use super::bucket::{self, BucketEntry, RUN_BITS, Run, Shape, bits_of};
use super::room::{Room, Slot, units_of};

/// Entries of a bucket on average, above which another bucket is added. With more, the runs of a
/// bucket would cost less and changing it more.
const MEAN_ENTRIES: u64 = 384;
/// Buckets for which memory is taken at once.
const PLACES_AT_ONCE: usize = 4096;
/// Words of a line of the processor's caches.
const LINE_WORDS: usize = 8;
/// The least bits of a tag. Buckets are not split beyond.
const MIN_TAG_BITS: u32 = 1;

/// The slot of a bucket, and its shape. The bits of its tags follow from its number.
#[derive(Clone, Copy)]
struct BucketPlace {
    slot: u32,
    entries: u16,
    /// Units of the slot, shifted by [`PBN_BITS_FIELD`], and the bits of a PBN less 1.
    units_and_pbn_bits: u16,
}

/// Bits of the number of bits of a PBN.
const PBN_BITS_FIELD: u32 = 6;

impl BucketPlace {
    const EMPTY: Self = Self { slot: 0, entries: 0, units_and_pbn_bits: 0 };

    const fn new(slot: Slot, entries: usize, pbn_bits: u32) -> Self {
        let units_and_pbn_bits = slot.units << PBN_BITS_FIELD | (pbn_bits - 1) as u16;
        Self { slot: slot.number, entries: entries as u16, units_and_pbn_bits }
    }

    const fn slot(self) -> Slot {
        Slot { units: self.units_and_pbn_bits >> PBN_BITS_FIELD, number: self.slot }
    }

    const fn pbn_bits(self) -> u32 {
        (self.units_and_pbn_bits & ((1 << PBN_BITS_FIELD) - 1)) as u32 + 1
    }
}

/// A hash table of PBNs.
pub(super) struct Table {
    /// Bits of a hash that the table uses.
    hash_bits: u32,
    places: Vec<BucketPlace>,
    room: Room,
    entries: u64,
}

impl Table {
    pub(super) fn new(hash_bits: u32) -> Self {
        assert!(hash_bits > RUN_BITS + MIN_TAG_BITS, "a hash has the bits of a run and a tag");
        Self { hash_bits, places: vec![BucketPlace::EMPTY], room: Room::new(), entries: 0 }
    }

    /// A table of empty buckets for these entries, which are to be put there. `None` if no table of
    /// a store with PBNs below `pbn_end` is like this.
    pub(super) fn of_saved(
        hash_bits: u32,
        (entries, buckets): (u64, u64),
        pbn_end: u64,
    ) -> Option<Self> {
        // Each PBN may have a stale entry beside its own.
        let can_be = 1..=pbn_end.saturating_mul(2) / MEAN_ENTRIES + 1;
        let buckets = usize::try_from(buckets).ok().filter(|_| can_be.contains(&buckets))?;
        let levels = buckets.next_power_of_two().ilog2();
        (levels + RUN_BITS + MIN_TAG_BITS <= hash_bits).then_some(())?;
        Some(Self { places: vec![BucketPlace::EMPTY; buckets], entries, ..Self::new(hash_bits) })
    }

    /// Fills an empty bucket. Returns `false` if it would be too large.
    pub(super) fn put_saved(&mut self, bucket: usize, shape: Shape, words: &[u64]) -> bool {
        let is_counted = u16::try_from(shape.entries).is_ok();
        if !is_counted || !self.resize(bucket, shape) {
            return false;
        }
        self.set_shape(bucket, shape);
        let slot = self.places[bucket].slot();
        self.room.words_mut(slot).iter_mut().zip(words).for_each(|(to, word)| *to = *word);
        true
    }

    pub(super) const fn buckets(&self) -> usize {
        self.places.len()
    }

    /// Bits of a hash that choose the bucket, for the bucket of this number.
    fn level(&self, bucket: usize) -> u32 {
        let buckets = self.places.len();
        let level = buckets.next_power_of_two().ilog2();
        let half = (1 << level) / 2;
        let is_split = bucket >= half || bucket + half < buckets;
        if level == 0 || is_split { level } else { level - 1 }
    }

    fn bucket_of(&self, hash: u64) -> usize {
        let buckets = self.places.len();
        let mask = buckets.next_power_of_two() as u64 - 1;
        let bucket = (hash & mask) as usize;
        if bucket < buckets { bucket } else { bucket & (mask >> 1) as usize }
    }

    pub(super) fn shape(&self, bucket: usize) -> Shape {
        let place = self.places[bucket];
        let tag_bits = self.hash_bits - RUN_BITS - self.level(bucket);
        Shape { entries: usize::from(place.entries), tag_bits, pbn_bits: place.pbn_bits() }
    }

    pub(super) fn words(&self, bucket: usize) -> &[u64] {
        self.room.words(self.places[bucket].slot())
    }

    /// The bucket of a hash, and the hash's rest.
    fn place_of(&self, hash: u64) -> (usize, u64) {
        let hash = hash & ((1 << self.hash_bits) - 1);
        let bucket = self.bucket_of(hash);
        (bucket, hash >> self.level(bucket))
    }

    /// Brings the buckets of some hashes into the processor's caches, all at once: the changes
    /// after it would wait for one after another.
    pub(super) fn touch(&self, hashes: impl Iterator<Item = u64>) {
        let seen = hashes.fold(0, |seen, hash| {
            let (bucket, rest) = self.place_of(hash);
            let words = self.words(bucket);
            // A change moves what is behind its entry.
            let run = rest >> (self.hash_bits - RUN_BITS - self.level(bucket));
            let from = (words.len() * run as usize) >> RUN_BITS;
            let lines = words[from..].iter().step_by(LINE_WORDS);
            lines.fold(seen, |seen, word| seen ^ word)
        });
        std::hint::black_box(seen);
    }

    /// Calls a function with PBNs whose contents may have this hash, at most `most`.
    pub(super) fn candidates(&self, hash: u64, most: usize, found: impl FnMut(u64)) {
        let (bucket, rest) = self.place_of(hash);
        bucket::candidates(self.words(bucket), self.shape(bucket), rest, most, found);
    }

    /// Gives a bucket a slot for this shape; the words of the old slot are copied. Returns `false`
    /// if no slot is as large.
    fn resize(&mut self, bucket: usize, shape: Shape) -> bool {
        let place = self.places[bucket];
        let old = place.slot();
        let Some(units) = units_of(shape.words()) else { return false };
        if units != old.units {
            let new = self.room.take(units, bucket as u32);
            let words: Vec<u64> = self.room.words(old).to_vec();
            self.room.words_mut(new).iter_mut().zip(words).for_each(|(to, from)| *to = from);
            self.places[bucket] =
                BucketPlace::new(new, usize::from(place.entries), place.pbn_bits());
            if let Some(moved) = self.room.give_back(old) {
                let place = self.places[moved as usize];
                let (entries, bits) = (usize::from(place.entries), place.pbn_bits());
                self.places[moved as usize] = BucketPlace::new(old, entries, bits);
            }
        }
        true
    }

    fn set_shape(&mut self, bucket: usize, shape: Shape) {
        let slot = self.places[bucket].slot();
        self.places[bucket] = BucketPlace::new(slot, shape.entries, shape.pbn_bits);
    }

    /// Writes a bucket anew. Returns `false` if it would be too large.
    fn rewrite(&mut self, bucket: usize, shape: Shape, entries: &[BucketEntry]) -> bool {
        if !self.resize(bucket, shape) {
            return false;
        }
        self.set_shape(bucket, shape);
        if shape.entries > 0 {
            bucket::write(self.room.words_mut(self.places[bucket].slot()), shape, entries);
        }
        true
    }

    /// Adds an entry, unless it is there.
    fn add(&mut self, hash: u64, pbn: u64) {
        let (bucket, rest) = self.place_of(hash);
        let (entry, shape) = (BucketEntry { rest, pbn }, self.shape(bucket));
        let is_added = if shape.entries == 0 {
            let pbn_bits = bits_of(pbn);
            self.rewrite(bucket, Shape { entries: 1, pbn_bits, ..shape }, &[entry])
        } else {
            let run = bucket::run_to_add(self.words(bucket), shape, entry);
            run.is_some_and(|run| self.insert(bucket, entry, &run))
        };
        self.entries += u64::from(is_added);
        if self.entries > self.places.len() as u64 * MEAN_ENTRIES {
            self.split_next();
        }
    }

    /// Adds an entry to its run of a bucket. Returns `false` if the bucket would be too large.
    fn insert(&mut self, bucket: usize, entry: BucketEntry, run: &Run) -> bool {
        let mut shape = self.shape(bucket);
        let pbn_bits = bits_of(entry.pbn).max(shape.pbn_bits);
        let after = Shape { entries: shape.entries + 1, pbn_bits, ..shape };
        if !self.resize(bucket, after) {
            return false;
        }
        let words = self.room.words_mut(self.places[bucket].slot());
        if pbn_bits > shape.pbn_bits {
            shape = bucket::widen(words, shape, pbn_bits);
        }
        bucket::add(words, shape, entry, run);
        self.set_shape(bucket, after);
        true
    }

    /// Removes an entry, if it is there.
    fn remove(&mut self, hash: u64, pbn: u64) {
        let (bucket, rest) = self.place_of(hash);
        let shape = self.shape(bucket);
        let words = self.room.words_mut(self.places[bucket].slot());
        if bucket::remove(words, shape, BucketEntry { rest, pbn }) {
            let after = Shape { entries: shape.entries - 1, ..shape };
            let is_resized = self.resize(bucket, after);
            assert!(is_resized, "a bucket that becomes smaller has a slot");
            self.set_shape(bucket, after);
            self.entries -= 1;
        }
    }

    /// Adds or removes an entry.
    pub(super) fn edit(&mut self, edit: &IndexEdit) {
        let IndexEdit { hash, pbn, comes } = *edit;
        if comes { self.add(hash, pbn) } else { self.remove(hash, pbn) }
    }

    /// Adds a bucket, and moves entries there from the one that had them.
    fn split_next(&mut self) {
        let fresh = self.places.len();
        let source = fresh ^ (1 << fresh.ilog2());
        let (level, shape) = (self.level(source), self.shape(source));
        if shape.tag_bits <= MIN_TAG_BITS {
            return;
        }
        let all = bucket::entries(self.words(source), shape);
        if self.places.len() == self.places.capacity() {
            self.places.reserve_exact(PLACES_AT_ONCE.max(self.places.len() / 8));
        }
        self.places.push(BucketPlace::EMPTY);
        assert!(self.level(source) == level + 1, "a split bucket has one level more");
        for (bucket, odd) in [(source, 0), (fresh, 1)] {
            let own = all.iter().filter(|entry| entry.rest & 1 == odd);
            let entries: Vec<BucketEntry> =
                own.map(|entry| BucketEntry { rest: entry.rest >> 1, pbn: entry.pbn }).collect();
            let pbn_bits = entries.iter().map(|entry| bits_of(entry.pbn)).max().unwrap_or(1);
            let shape = Shape { entries: entries.len(), tag_bits: shape.tag_bits - 1, pbn_bits };
            let is_written = self.rewrite(bucket, shape, &entries);
            assert!(is_written, "half of a bucket has a slot");
        }
    }

    pub(super) const fn entries(&self) -> u64 {
        self.entries
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        self.room.bytes() + (self.places.capacity() * size_of::<BucketPlace>()) as u64
    }
}

#[cfg(test)]
impl Table {
    /// Bytes of [`Room::open_bytes`].
    pub(super) fn open_bytes(&self) -> u64 {
        self.room.open_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::{Random, mix64};
    use std::collections::BTreeSet;

    fn candidates(table: &Table, hash: u64) -> Vec<u64> {
        let mut found = Vec::new();
        table.candidates(hash, 1000, |pbn| found.push(pbn));
        found
    }

    #[test]
    fn it_has_what_a_set_has_while_it_grows_and_shrinks() {
        for seed in 0..3 {
            let (mut table, mut random) = (Table::new(34), Random::new(seed));
            let mut set = BTreeSet::new();
            for round in 0..60_000u32 {
                // Some hashes come again and again, with other PBNs.
                let hash = mix64(random.below(1 << (6 + seed * 6)));
                let pbn = 1 + random.below(1 << (1 + round / 1700));
                if random.below(100) < if round < 40_000 { 70 } else { 20 } {
                    let is_full = candidates(&table, hash).len() >= 30;
                    if !is_full {
                        table.add(hash, pbn);
                        set.insert((hash, pbn));
                    }
                } else if let Some(known) = set.range((hash, 0)..).next().copied() {
                    table.remove(known.0, known.1);
                    set.remove(&known);
                } else {
                    table.remove(hash, pbn);
                }
            }
            assert_eq!(table.entries(), set.len() as u64);
            for (hash, pbn) in &set {
                assert!(candidates(&table, *hash).contains(pbn), "{hash:x} {pbn}");
            }
            set.iter().for_each(|(hash, pbn)| table.remove(*hash, *pbn));
            assert_eq!(table.entries(), 0);
            assert!(table.bytes() < 100_000, "an empty table takes {} bytes", table.bytes());
        }
    }

    #[test]
    fn a_pbn_of_more_bits_is_not_taken_for_one_with_another_tag() {
        let mut table = Table::new(16);
        let hash = |tag: u64| 5 << 7 | tag;
        table.add(hash(3), 33);
        // With 6 bits for a PBN, the seventh of this one would be the first of the tag.
        table.add(hash(2), 64 + 33);
        assert_eq!(candidates(&table, hash(2)), [64 + 33]);
        assert_eq!(candidates(&table, hash(3)), [33]);
        let mut narrow = Table::new(16);
        narrow.add(hash(3), 33);
        narrow.remove(hash(2), 64 + 33);
        assert_eq!(candidates(&narrow, hash(3)), [33]);
    }

    #[test]
    fn a_content_that_is_stored_very_often_takes_bounded_work() {
        let mut table = Table::new(34);
        (1..10_000).for_each(|pbn| table.add(77, pbn));
        assert!((30..100).contains(&table.entries()), "{} entries", table.entries());
    }
}
