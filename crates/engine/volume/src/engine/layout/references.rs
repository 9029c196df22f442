//! The references of shared blocks, collected for the command that arranges all volumes.
//!
//! A shared block is moved with all of its references or not at all, because a reference that was
//! left would keep the old place. It is moved where the first of them is, by the id of the volume
//! and the LBN: no second volume moves it away again, a clone gets the order of its origin, and the
//! gates of the volumes are entered in the order of their ids. Finding the references takes a walk
//! over all maps, which only the command makes. The list may be out of date when it is used, so
//! each reference is compared again under the state's lock.

use super::Engine;
use crate::engine::{VolumeShared, Wanted};
use crate::error::Result;
use gemelo_format::{Lbn, Pbn, VolumeId};
use std::sync::Arc;

/// LBNs looked up in one hold of the state's lock.
const PIECE_BLOCKS: u64 = 64;
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

/// The list that references are added to, and the rules by which blocks are looked at: by their
/// PBNs, and then by the numbers of their references.
pub(super) type AddTo<'a> =
    (&'a mut Vec<Reference>, &'a dyn Fn(Pbn) -> bool, &'a dyn Fn(u32) -> bool);

impl Engine {
    /// Collects the references of shared blocks of all volumes, until `go_on` returns an error.
    pub(super) fn shared_references(
        &self,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<References> {
        let mut all = Vec::new();
        for volume in self.volumes().into_values() {
            let mut next = Some(Lbn(0));
            while let Some(from) = next.filter(|_| all.len() < MAX_REFERENCES) {
                go_on()?;
                let is_removed = volume.enter();
                if *is_removed {
                    break;
                }
                let shared = |count| (2..=MAX_OF_BLOCK).contains(&count);
                next = self.add_references(&volume, from, (&mut all, &|_| true, &shared))?;
            }
        }
        Ok(References::new(all))
    }

    /// Adds the references in the next piece of a map to blocks that are wanted. Returns the LBN at
    /// which the following piece begins. The references of a part of a map that volumes share are
    /// counted once, so they are left out.
    pub(super) fn add_references(
        &self,
        volume: &VolumeShared,
        from: Lbn,
        (all, is_looked_at, is_wanted): AddTo<'_>,
    ) -> Result<Option<Lbn>> {
        let state = self.state();
        let backend = state.backend();
        // A volume that has become smaller may still map LBNs beyond its end, which nothing changes
        // but their removal. A block with such a reference has one that is not known here.
        let end = Lbn(self.blocks_of(volume));
        let Some(first) = backend.next_mapped(volume.id(), from, end)? else { return Ok(None) };
        let next = first.0.saturating_add(PIECE_BLOCKS).min(end.0);
        assert!(first < end, "a reference beyond the end of its volume");
        let lbns: Vec<Lbn> = (first.0..next).map(Lbn).collect();
        let (mut places, mut counts) = (Vec::with_capacity(lbns.len()), Vec::new());
        backend.look_up(volume.id(), &lbns, &mut places)?;
        let pbns: Vec<(Lbn, Pbn)> = lbns
            .into_iter()
            .zip(&places)
            .filter_map(|(lbn, place)| Some((lbn, place.pbn()?)))
            .filter(|(_, pbn)| is_looked_at(*pbn))
            .collect();
        let numbers: Vec<Pbn> = pbns.iter().map(|(_, pbn)| *pbn).collect();
        backend.counts(&numbers, &mut counts)?;
        let wanted = pbns.into_iter().zip(counts).filter(|((lbn, _), count)| {
            is_wanted(*count) && !backend.is_in_shared_part(volume.id(), *lbn)
        });
        all.extend(wanted.map(|((lbn, pbn), _)| Reference { pbn, volume: volume.id(), lbn }));
        Ok(Some(Lbn(next)))
    }

    /// The volumes of these references, in the order of their ids, except one.
    pub(super) fn volumes_of<'r>(
        &self,
        references: impl Iterator<Item = &'r Reference>,
        except: VolumeId,
    ) -> Vec<Arc<VolumeShared>> {
        let mut ids: Vec<VolumeId> = references.map(|reference| reference.volume).collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.iter().all(|id| *id == except) {
            return Vec::new();
        }
        let mut volumes: Vec<Arc<VolumeShared>> = self.volumes().into_values().collect();
        volumes.retain(|volume| volume.id() != except && ids.binary_search(&volume.id()).is_ok());
        volumes.sort_unstable_by_key(|volume| volume.id());
        volumes
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
