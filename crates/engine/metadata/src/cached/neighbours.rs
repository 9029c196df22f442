//! Contents that lie beside those that an index of a sample has found, in bounded memory.
//!
//! Data that is written again usually comes in the order in which it was written before, and fresh
//! contents get PBNs in that order. So the records around a content of the sample tell the PBNs of
//! the contents that are looked up with it and after it (M. Lillibridge et al., *Sparse indexing*,
//! FAST 2009). An entry may be out of date; the record of its PBN decides.

use gemelo_format::{Fingerprint, Part, Pbn};
use std::collections::{HashMap, VecDeque};

/// Memory of an entry with its share of the lists, at most.
const ENTRY_BYTES: u64 = 48;
/// PBNs of a group, whose records are in one page.
pub(super) const GROUP: u64 = Part::Fingerprints.array_entries() as u64;

/// PBNs by the lower half of the fingerprint. The groups that were read first are forgotten first.
pub(super) struct Neighbours {
    max_groups: usize,
    pbns: HashMap<u64, u64>,
    /// The groups in the order in which they were read.
    groups: VecDeque<u64>,
    /// The hashes of each of them.
    hashes: HashMap<u64, Vec<u64>>,
}

/// The most groups that so many bytes hold.
fn groups_of(bytes: u64) -> usize {
    usize::try_from(bytes / (ENTRY_BYTES * GROUP)).unwrap_or(usize::MAX).max(2)
}

impl Neighbours {
    pub(super) fn new(bytes: u64) -> Self {
        Self {
            max_groups: groups_of(bytes),
            pbns: HashMap::new(),
            groups: VecDeque::new(),
            hashes: HashMap::new(),
        }
    }

    /// Lets it have more bytes.
    pub(super) fn grow(&mut self, bytes: u64) {
        self.max_groups = groups_of(bytes);
    }

    /// Bytes of memory, at most.
    pub(super) fn bytes(&self) -> u64 {
        self.pbns.capacity() as u64 * ENTRY_BYTES
    }

    /// Adds the group of a content that was found, unless it has this content already, and the next
    /// group, unless it is known.
    pub(super) fn add_missing(&self, pbn: Pbn, hash: u64, missing: &mut Vec<u64>) {
        let (number, group) = (pbn.number(), pbn.number() / GROUP);
        let is_told = self.hashes.contains_key(&group) && self.pbns.get(&hash) == Some(&number);
        let next = group + 1;
        missing.extend((!is_told).then_some(group));
        missing.extend((!self.hashes.contains_key(&next)).then_some(next));
    }

    pub(super) fn add(&mut self, group: u64, contents: impl Iterator<Item = (u64, u64)>) {
        if self.hashes.contains_key(&group) {
            self.groups.retain(|other| *other != group);
            self.forget(group);
        }
        while self.groups.len() >= self.max_groups {
            let Some(oldest) = self.groups.pop_front() else { break };
            self.forget(oldest);
        }
        let mut hashes = Vec::with_capacity(GROUP as usize);
        for (hash, pbn) in contents {
            self.pbns.insert(hash, pbn);
            hashes.push(hash);
        }
        self.groups.push_back(group);
        self.hashes.insert(group, hashes);
    }

    fn forget(&mut self, group: u64) {
        for hash in self.hashes.remove(&group).into_iter().flatten() {
            // A group that was read later may have the same content.
            if self.pbns.get(&hash).is_some_and(|pbn| pbn / GROUP == group) {
                self.pbns.remove(&hash);
            }
        }
    }

    pub(super) fn find(&self, wanted: Fingerprint) -> Option<u64> {
        self.pbns.get(&wanted.low()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(group: u64, first_hash: u64) -> impl Iterator<Item = (u64, u64)> {
        (first_hash..).zip(group * GROUP..(group + 1) * GROUP)
    }

    #[test]
    fn a_group_that_is_read_again_leaves_nothing_of_what_it_had() {
        let mut neighbours = Neighbours::new(0);
        for round in 0..100 {
            neighbours.add(7, contents(7, round * 1000));
            neighbours.add(8, contents(8, round * 1000 + 500));
        }
        assert_eq!(neighbours.pbns.len(), 2 * GROUP as usize);
        assert_eq!(neighbours.pbns.get(&99_001), Some(&(7 * GROUP + 1)));
        // The oldest goes, but for a content that the newer one has, too.
        neighbours.add(9, contents(9, 99_500));
        assert_eq!(neighbours.pbns.len(), GROUP as usize);
        neighbours.add(10, contents(10, 0));
        assert_eq!(neighbours.pbns.get(&99_500), Some(&(9 * GROUP)));
    }
}
