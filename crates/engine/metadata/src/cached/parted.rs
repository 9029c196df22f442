//! A hash table in parts that grow one by one, so that no insertion moves many entries. It is
//! changed while others wait for the state, and a table of half a million entries in one piece
//! takes up to 100 ms to grow.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// A part of the largest tables has some ten thousand entries.
const PARTS: usize = 64;
/// The first bit of a hash that chooses the part. The table itself needs those below and above.
const PART_SHIFT: u32 = 40;

/// A hash table. All hashes are of 64 good bits.
pub(super) struct PartedTable<T> {
    parts: Vec<HashTable<T>>,
    entries: usize,
}

impl<T> Default for PartedTable<T> {
    fn default() -> Self {
        Self { parts: (0..PARTS).map(|_| HashTable::new()).collect(), entries: 0 }
    }
}

const fn part(hash: u64) -> usize {
    (hash >> PART_SHIFT) as usize % PARTS
}

impl<T> PartedTable<T> {
    pub(super) fn find(&self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        self.parts[part(hash)].find(hash, is_it)
    }

    pub(super) fn find_mut(&mut self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<&mut T> {
        self.parts[part(hash)].find_mut(hash, is_it)
    }

    /// Adds an entry, beside others of the same hash.
    pub(super) fn add(&mut self, hash: u64, entry: T, hash_of: impl Fn(&T) -> u64) {
        self.parts[part(hash)].insert_unique(hash, entry, hash_of);
        self.entries += 1;
    }

    /// Sets an entry. Returns the one that was replaced.
    pub(super) fn set(
        &mut self,
        hash: u64,
        entry: T,
        is_it: impl FnMut(&T) -> bool,
        hash_of: impl Fn(&T) -> u64,
    ) -> Option<T> {
        match self.parts[part(hash)].entry(hash, is_it, hash_of) {
            Entry::Occupied(mut known) => Some(std::mem::replace(known.get_mut(), entry)),
            Entry::Vacant(place) => {
                place.insert(entry);
                self.entries += 1;
                None
            }
        }
    }

    pub(super) fn remove(&mut self, hash: u64, is_it: impl FnMut(&T) -> bool) {
        if let Ok(entry) = self.parts[part(hash)].find_entry(hash, is_it) {
            entry.remove();
            self.entries -= 1;
        }
    }

    /// Keeps the entries that are to stay.
    pub(super) fn retain(&mut self, mut stays: impl FnMut(&T) -> bool) {
        self.parts.iter_mut().for_each(|part| part.retain(|entry| stays(entry)));
        self.entries = self.parts.iter().map(HashTable::len).sum();
    }

    /// Removes all entries, and keeps their memory for others.
    pub(super) fn clear(&mut self) {
        self.parts.iter_mut().for_each(HashTable::clear);
        self.entries = 0;
    }

    /// Bytes of memory of the parts.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.parts.iter().map(HashTable::allocation_size).sum()
    }

    pub(super) const fn len(&self) -> usize {
        self.entries
    }

    /// All entries, in any order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.parts.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::mix64;
    use std::cell::Cell;

    #[test]
    fn an_insertion_moves_a_small_part_of_the_entries() {
        const ENTRIES: u64 = 100_000;
        let (mut table, moved) = (PartedTable::default(), Cell::new(0));
        let hash_of = |number: &u64| {
            moved.set(moved.get() + 1);
            mix64(*number)
        };
        let mut most = 0;
        for number in 0..ENTRIES {
            moved.set(0);
            table.add(mix64(number), number, hash_of);
            most = most.max(moved.get());
        }
        assert!(most > 0 && most < 2 * ENTRIES / PARTS as u64, "{most} were moved at once");
        let find = |table: &PartedTable<u64>, number: u64| {
            table.find(mix64(number), |of| *of == number).copied()
        };
        assert!((0..ENTRIES).all(|number| find(&table, number) == Some(number)));
        (0..ENTRIES).step_by(2).for_each(|number| table.remove(mix64(number), |of| *of == number));
        assert_eq!(table.len() as u64, ENTRIES / 2);
        assert!((0..ENTRIES).all(|number| find(&table, number).is_some() == (number % 2 == 1)));
        assert_eq!(
            table.iter().sum::<u64>(),
            (0..ENTRIES).filter(|number| number % 2 == 1).sum::<u64>()
        );
        table.retain(|number| *number < 10);
        assert_eq!((table.len(), find(&table, 9), find(&table, 11)), (5, Some(9), None));
        let bytes = table.allocated_bytes();
        table.clear();
        assert_eq!((table.len(), find(&table, 9), table.allocated_bytes()), (0, None, bytes));
    }
}
