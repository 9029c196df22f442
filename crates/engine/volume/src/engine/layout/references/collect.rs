//! Collects references by walks over the maps.

use super::{MAX_OF_BLOCK, MAX_REFERENCES, Reference, References};
use crate::engine::VolumeShared;
use crate::engine::layout::Mover;
use crate::error::Result;
use gemelo_format::{Lbn, Pbn, VolumeId};
use std::sync::Arc;

/// LBNs looked up in one hold of the state's lock.
const PIECE_BLOCKS: u64 = 64;

/// The list that references are added to, and the rules by which blocks are looked at: by their
/// PBNs, and then by the numbers of their references.
pub(in crate::engine::layout) type AddTo<'a> =
    (&'a mut Vec<Reference>, &'a dyn Fn(Pbn) -> bool, &'a dyn Fn(u32) -> bool);

impl Mover {
    /// Collects the references of shared blocks of all volumes, until `go_on` returns an error.
    pub(in crate::engine::layout) fn shared_references(
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
                let shared = |count| (2..=MAX_OF_BLOCK).contains(&count);
                next = self.add_references(&volume, from, (&mut all, &|_| true, &shared))?;
            }
        }
        Ok(References::new(all))
    }

    /// Adds the references in the next piece of a map to blocks that are wanted. Returns the LBN at
    /// which the following piece begins. References that volumes share are counted once, so they
    /// are left out.
    pub(in crate::engine::layout) fn add_references(
        &self,
        volume: &VolumeShared,
        from: Lbn,
        (all, is_looked_at, is_wanted): AddTo<'_>,
    ) -> Result<Option<Lbn>> {
        // A volume that has become smaller may still map LBNs beyond its end, which nothing changes
        // but their removal. A block with such a reference has one that is not known here.
        let end = Lbn(volume.blocks());
        let Some(first) = self.log.next_mapped(volume.id(), from, end)? else { return Ok(None) };
        let next = first.0.saturating_add(PIECE_BLOCKS).min(end.0);
        assert!(first < end, "a reference beyond the end of its volume");
        let lbns: Vec<Lbn> = (first.0..next).map(Lbn).collect();
        let wanted = self.log.look(|state| {
            let places = state.places(volume.id(), &lbns)?;
            let pbns: Vec<(Lbn, Pbn)> = lbns
                .iter()
                .zip(&places)
                .filter_map(|(lbn, place)| Some((*lbn, place.pbn()?)))
                .filter(|(_, pbn)| is_looked_at(*pbn))
                .collect();
            let numbers: Vec<Pbn> = pbns.iter().map(|(_, pbn)| *pbn).collect();
            let mut counts = Vec::with_capacity(numbers.len());
            state.backend().counts(&numbers, &mut counts)?;
            let wanted = pbns.into_iter().zip(counts).filter(|((lbn, _), count)| {
                is_wanted(*count) && !state.backend().is_in_shared_part(volume.id(), *lbn)
            });
            let reference = |((lbn, pbn), _)| Reference { pbn, volume: volume.id(), lbn };
            Ok(wanted.map(reference).collect::<Vec<_>>())
        })?;
        all.extend(wanted);
        Ok(Some(Lbn(next)))
    }

    /// The volumes of these references, in the order of their ids, except one.
    pub(in crate::engine::layout) fn volumes_of<'r>(
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
        let mut volumes: Vec<Arc<VolumeShared>> = self.catalogue.all().into_values().collect();
        volumes.retain(|volume| volume.id() != except && ids.binary_search(&volume.id()).is_ok());
        volumes.sort_unstable_by_key(|volume| volume.id());
        volumes
    }
}
