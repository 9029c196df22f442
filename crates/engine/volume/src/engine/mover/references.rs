//! The references of blocks, collected by walks over the maps.
//!
//! A shared block is moved where the first of its references is, by the id of the volume and the
//! LBN: no second volume moves it away again, a clone gets the order of its origin, and the gates
//! of the volumes are entered in the order of their ids. The list may be out of date when it is
//! used, so each reference is compared again under the state's lock.

use super::Mover;
use crate::engine::VolumeShared;
use crate::engine::references::next_references;
use crate::error::Result;
use gemelo_format::{Lbn, Pbn, VolumeId};

/// Most references of a block that is moved: its map entries are changed in one hold of the lock.
pub(super) const MAX_OF_BLOCK: u32 = 16;
/// Most references that are remembered: 64 MiB. Blocks whose references are not all among them stay
/// where they are.
pub(super) const MAX_REFERENCES: usize = 4 << 20;

/// A reference to a shared block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reference {
    pub(super) pbn: Pbn,
    pub(super) volume: VolumeId,
    pub(super) lbn: Lbn,
}

/// References of shared blocks, in the order of the blocks.
#[derive(Debug, Default)]
pub(super) struct References {
    sorted: Vec<Reference>,
}

impl References {
    pub(super) fn new(mut all: Vec<Reference>) -> Self {
        all.sort_unstable();
        Self { sorted: all }
    }

    /// Returns all references of a block that are known.
    pub(super) fn of(&self, pbn: Pbn) -> &[Reference] {
        let first = self.sorted.partition_point(|reference| reference.pbn < pbn);
        let rest = self.sorted.get(first..).unwrap_or_default();
        let count = rest.partition_point(|reference| reference.pbn == pbn);
        rest.get(..count).unwrap_or_default()
    }

    /// Returns the other references of a block, if this one is the first of them and all are known.
    /// `count` is the number of references by the block's record.
    pub(super) fn others(
        &self,
        pbn: Pbn,
        (volume, lbn): (VolumeId, Lbn),
        count: u32,
    ) -> Option<&[Reference]> {
        let first = self.sorted.partition_point(|reference| reference.pbn < pbn);
        let all = self.sorted.get(first..first + count as usize)?;
        let (owner, others) = all.split_first()?;
        let is_complete = all.iter().all(|reference| reference.pbn == pbn);
        (is_complete && (owner.volume, owner.lbn) == (volume, lbn)).then_some(others)
    }
}

/// The blocks whose references are collected. One that volumes share by a part of their maps is
/// counted once, so most movers leave it out.
#[derive(Clone, Copy)]
pub(super) struct Sought<'s> {
    /// By the PBN, before anything is looked up for it.
    pub(super) is_looked_at: &'s dyn Fn(Pbn) -> bool,
    /// By the number of references, and whether this one is in a shared part.
    pub(super) is_wanted: &'s dyn Fn(u32, bool) -> bool,
}

impl Mover {
    /// Collects the references of shared blocks of all volumes, until `go_on` returns an error.
    pub(super) fn shared_references(
        &self,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<References> {
        let mut all = Vec::new();
        for volume in self.catalogue.all().into_values() {
            let mut next = Some(Lbn(0));
            while let Some(from) = next.filter(|_| all.len() < MAX_REFERENCES) {
                go_on()?;
                let is_removed = volume.enter();
                if *is_removed {
                    break;
                }
                let is_wanted =
                    |count, is_in_part: bool| !is_in_part && (2..=MAX_OF_BLOCK).contains(&count);
                let sought = Sought { is_looked_at: &|_| true, is_wanted: &is_wanted };
                next = self.add_references((&volume, from), sought, &mut all)?;
            }
        }
        Ok(References::new(all))
    }

    /// Adds the references in the next piece of a map to blocks that are wanted. Returns the LBN at
    /// which the following piece begins.
    pub(super) fn add_references(
        &self,
        (volume, from): (&VolumeShared, Lbn),
        Sought { is_looked_at, is_wanted }: Sought<'_>,
        all: &mut Vec<Reference>,
    ) -> Result<Option<Lbn>> {
        // A volume that has become smaller may still map LBNs beyond its end, which nothing changes
        // but their removal. A block with such a reference has one that is not known here.
        let piece = (from, Lbn(volume.blocks()));
        let mut found = Vec::new();
        let next = next_references(&self.log, volume.id(), piece, is_looked_at, &mut found)?;
        let wanted = found.iter().filter(|one| is_wanted(one.count, one.is_in_shared_part));
        all.extend(wanted.map(|one| Reference { pbn: one.pbn, volume: volume.id(), lbn: one.lbn }));
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_belongs_to_its_first_reference_if_all_are_known() {
        let pbn = |number| Pbn::new(number).unwrap();
        let reference = |number, volume, lbn| Reference {
            pbn: pbn(number),
            volume: VolumeId(volume),
            lbn: Lbn(lbn),
        };
        let references =
            References::new(vec![reference(7, 2, 1), reference(9, 1, 4), reference(7, 1, 30)]);
        let others = |number, volume, lbn, count| {
            references.others(pbn(number), (VolumeId(volume), Lbn(lbn)), count)
        };
        assert_eq!(others(7, 1, 30, 2), Some(&[reference(7, 2, 1)][..]));
        assert_eq!(others(7, 2, 1, 2), None, "it is not the first");
        assert_eq!(others(7, 1, 30, 3), None, "one is not known");
        assert_eq!(others(9, 1, 4, 2), None);
        assert_eq!(others(8, 1, 4, 2), None);
    }
}
