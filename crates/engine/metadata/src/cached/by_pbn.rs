//! Values by PBN whose keys take 4 bytes, however large the data store is.

use std::collections::BTreeMap;

/// Values by PBN, in the order of the PBNs: a map for each 2^32 of them.
pub(super) struct ByPbn<V> {
    parts: Vec<BTreeMap<u32, V>>,
}

impl<V> Default for ByPbn<V> {
    fn default() -> Self {
        Self { parts: Vec::new() }
    }
}

/// The number of a PBN's part, and its key there.
const fn split(pbn: u64) -> (usize, u32) {
    ((pbn >> u32::BITS) as usize, pbn as u32)
}

const fn join(part: usize, key: u32) -> u64 {
    (part as u64) << u32::BITS | key as u64
}

impl<V> ByPbn<V> {
    fn part_mut(&mut self, part: usize) -> &mut BTreeMap<u32, V> {
        if part >= self.parts.len() {
            self.parts.resize_with(part + 1, BTreeMap::new);
        }
        &mut self.parts[part]
    }

    pub(super) fn get(&self, pbn: u64) -> Option<&V> {
        let (part, key) = split(pbn);
        self.parts.get(part)?.get(&key)
    }

    pub(super) fn has(&self, pbn: u64) -> bool {
        self.get(pbn).is_some()
    }

    pub(super) fn insert(&mut self, pbn: u64, value: V) {
        let (part, key) = split(pbn);
        self.part_mut(part).insert(key, value);
    }

    pub(super) fn remove(&mut self, pbn: u64) {
        let (part, key) = split(pbn);
        self.parts.get_mut(part).map(|part| part.remove(&key));
    }

    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(BTreeMap::len).sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &V)> {
        self.from(0)
    }

    /// The values of the PBNs from this one on.
    pub(super) fn from(&self, first: u64) -> impl Iterator<Item = (u64, &V)> {
        let (first_part, first_key) = split(first);
        self.parts.iter().enumerate().skip(first_part).flat_map(move |(part, values)| {
            let first_key = if part == first_part { first_key } else { 0 };
            values.range(first_key..).map(move |(key, value)| (join(part, *key), value))
        })
    }

    pub(super) fn pbns(&self) -> impl Iterator<Item = u64> {
        self.iter().map(|(pbn, _)| pbn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::Random;

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
        for first in [0, 100, 0xffff_ffff, 1 << 32, (1 << 32) + 100, 5 << 32] {
            assert!(by_pbn.from(first).eq(map.range(first..).map(|(pbn, value)| (*pbn, value))));
        }
    }
}
