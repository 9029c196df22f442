//! Values by PBN whose keys take 4 bytes, however large the data store is.

use super::parted::PartedTable;

/// The golden ratio of 2^64, whose multiples lie far apart (Knuth, TAOCP 3, 6.4).
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// Values by PBN: a table for each 2^32 of them.
pub(super) struct ByPbn<V> {
    tables: Vec<PartedTable<(u32, V)>>,
}

impl<V> Default for ByPbn<V> {
    fn default() -> Self {
        Self { tables: Vec::new() }
    }
}

/// The number of a PBN's table, and its key there.
const fn split(pbn: u64) -> (usize, u32) {
    ((pbn >> u32::BITS) as usize, pbn as u32)
}

const fn join(table: usize, key: u32) -> u64 {
    (table as u64) << u32::BITS | key as u64
}

/// A hash of good bits at both ends: the halves of the product have those of all bits of the key.
const fn hash(key: u32) -> u64 {
    let product = (key as u64).wrapping_mul(GOLDEN_RATIO);
    product ^ product >> u32::BITS
}

impl<V> ByPbn<V> {
    pub(super) fn get(&self, pbn: u64) -> Option<&V> {
        let (table, key) = split(pbn);
        let found = self.tables.get(table)?.find(hash(key), |(of, _)| *of == key);
        found.map(|(_, value)| value)
    }

    pub(super) fn has(&self, pbn: u64) -> bool {
        self.get(pbn).is_some()
    }

    /// Sets a value. Returns the one that was replaced.
    pub(super) fn insert(&mut self, pbn: u64, value: V) -> Option<V> {
        let (table, key) = split(pbn);
        if table >= self.tables.len() {
            self.tables.resize_with(table + 1, PartedTable::default);
        }
        let table = &mut self.tables[table];
        let replaced =
            table.set(hash(key), (key, value), |(of, _)| *of == key, |(of, _)| hash(*of));
        replaced.map(|(_, value)| value)
    }

    pub(super) fn remove(&mut self, pbn: u64) {
        let (table, key) = split(pbn);
        if let Some(table) = self.tables.get_mut(table) {
            table.remove(hash(key), |(of, _)| *of == key);
        }
    }

    /// Removes all values, and keeps their memory for others.
    pub(super) fn clear(&mut self) {
        self.tables.iter_mut().for_each(PartedTable::clear);
    }

    pub(super) fn len(&self) -> usize {
        self.tables.iter().map(PartedTable::len).sum()
    }

    /// Bytes of memory of the tables.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.tables.iter().map(PartedTable::allocated_bytes).sum()
    }

    /// All values, in any order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &V)> {
        let tables = self.tables.iter().enumerate();
        tables.flat_map(|(number, table)| {
            table.iter().map(move |(key, value)| (join(number, *key), value))
        })
    }

    /// All values in the order of their PBNs.
    pub(super) fn sorted(&self) -> Vec<(u64, V)>
    where
        V: Copy,
    {
        let mut all: Vec<(u64, V)> = self.iter().map(|(pbn, value)| (pbn, *value)).collect();
        all.sort_unstable_by_key(|(pbn, _)| *pbn);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::Random;
    use std::collections::BTreeMap;

    #[test]
    fn it_has_what_a_map_has_also_beyond_32_bits() {
        let mut random = Random::new(3);
        let (mut by_pbn, mut map) = (ByPbn::default(), BTreeMap::new());
        for round in 0..4000u64 {
            let pbn = (random.below(3) << 32) + random.below(2) * 0xffff_ff00 + random.below(200);
            match random.below(3) {
                0 => {
                    by_pbn.remove(pbn);
                    map.remove(&pbn);
                }
                _ => {
                    by_pbn.insert(pbn, round);
                    map.insert(pbn, round);
                }
            }
            assert_eq!(by_pbn.get(pbn), map.get(&pbn));
        }
        assert_eq!(by_pbn.len(), map.len());
        assert!(by_pbn.sorted().into_iter().eq(map));
        by_pbn.clear();
        assert!(by_pbn.len() == 0 && by_pbn.sorted().is_empty());
    }
}
