//! The places of borrowed contents, in memory.

use crate::record::Elsewhere;
use gemelo_domain::MemberId;
use gemelo_format::Pbn;

/// Blocks of a group. A group without borrowed blocks takes 8 bytes.
const GROUP_BLOCKS: usize = 256;

/// The places of a group's blocks.
#[derive(Debug)]
struct GroupPlaces {
    /// Entries that are in use.
    used: usize,
    /// Home and PBN; a PBN of 0 is no entry.
    entries: [[u32; 2]; GROUP_BLOCKS],
}

/// A table from PBN to the place of its content: 8 bytes for each block of a group that has a
/// borrowed one.
#[derive(Debug, Default)]
pub(crate) struct Borrowed {
    groups: Vec<Option<Box<GroupPlaces>>>,
    count: u64,
}

const fn place(pbn: Pbn) -> (usize, usize) {
    (pbn.index() / GROUP_BLOCKS, pbn.index() % GROUP_BLOCKS)
}

impl Borrowed {
    pub(crate) fn get(&self, pbn: Pbn) -> Option<Elsewhere> {
        let (group, at) = place(pbn);
        let [home, content] = self.groups.get(group)?.as_ref()?.entries.get(at)?;
        let content = Pbn::new((*content).into())?;
        Some(Elsewhere::of_table((MemberId(*home), content)))
    }

    pub(crate) fn insert(&mut self, pbn: Pbn, other: Elsewhere) {
        let (home, content) = other.place();
        let (group, at) = place(pbn);
        if group >= self.groups.len() {
            self.groups.resize_with(group + 1, || None);
        }
        let Some(slot) = self.groups.get_mut(group) else { return };
        let empty = || Box::new(GroupPlaces { used: 0, entries: [[0; 2]; GROUP_BLOCKS] });
        let group = slot.get_or_insert_with(empty);
        if let Some(entry) = group.entries.get_mut(at) {
            let is_new = *entry == [0; 2];
            group.used += usize::from(is_new);
            self.count += u64::from(is_new);
            *entry = [home.0, content.narrow()];
        }
    }

    /// Removes a block, and the memory of its group if it was the last one.
    pub(crate) fn remove(&mut self, pbn: Pbn) {
        let (group, at) = place(pbn);
        let Some(slot) = self.groups.get_mut(group) else { return };
        let Some(entries) = slot else { return };
        let Some(entry) = entries.entries.get_mut(at) else { return };
        if std::mem::take(entry) != [0; 2] {
            entries.used -= 1;
            self.count -= 1;
        }
        if entries.used == 0 {
            *slot = None;
        }
    }

    pub(crate) const fn len(&self) -> u64 {
        self.count
    }

    /// Returns the bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        let groups = self.groups.iter().flatten().count() * size_of::<GroupPlaces>();
        (groups + self.groups.capacity() * size_of::<Option<Box<GroupPlaces>>>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_does_what_a_map_does(steps in prop::collection::vec((0..3u8, 1..600u32), 1..200)) {
            let (mut borrowed, mut map) = (Borrowed::default(), BTreeMap::new());
            for (number, (kind, pbn)) in steps.into_iter().enumerate() {
                let pbn = Pbn::new(pbn.into()).unwrap();
                if kind == 0 {
                    borrowed.remove(pbn);
                    map.remove(&pbn);
                } else {
                    let home = MemberId(number as u32);
                    let place = (home, Pbn::FIRST);
                    let other = Elsewhere::of((MemberId(u32::MAX), pbn), place).unwrap();
                    borrowed.insert(pbn, other);
                    map.insert(pbn, place);
                }
                prop_assert_eq!(borrowed.get(pbn).map(Elsewhere::place), map.get(&pbn).copied());
                prop_assert_eq!(borrowed.len(), map.len() as u64);
            }
            for pbn in map.keys().copied().collect::<Vec<_>>() {
                borrowed.remove(pbn);
            }
            prop_assert!(borrowed.groups.iter().all(Option::is_none));
        }
    }
}
