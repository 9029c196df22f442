//! The references of shared blocks, collected for the command that arranges all volumes.
//!
//! A shared block is moved with all of its references or not at all, because a reference that was
//! left would keep the old place. It is moved where the first of them is, by the id of the volume
//! and the LBN: no second volume moves it away again, a clone gets the order of its origin, and the
//! gates of the volumes are entered in the order of their ids. Finding the references takes a walk
//! over all maps, which only the command makes. The list may be out of date when it is used, so
//! each reference is compared again under the state's lock.

mod collect;

use crate::engine::Wanted;
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

impl References {
    /// The other references of those blocks that belong to these LBNs of a volume.
    pub(super) fn of_all(
        &self,
        volume: VolumeId,
        blocks: &[Wanted],
    ) -> impl Iterator<Item = &Reference> {
        blocks.iter().flat_map(move |block| {
            let count = self.of(block.pbn).len() as u32;
            let others = self.others(block.pbn, (volume, block.lbn), count);
            others.unwrap_or_default()
        })
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
