//! The policy of damage: stores contents at other PBNs whose places are lost.
//!
//! A damaged block is mended in place, for all references at once. In a block that contents share,
//! the place of a damaged one may be another content's now. Such a content gets another PBN. Unlike
//! other moves, each reference follows that is still to the lost content: the old place has nothing
//! to keep, and its record may be that of another content.

use super::moves::{Entering, leads_to};
use super::references::{MAX_REFERENCES, Reference, References, Sought};
use super::{Mover, moves::SETTLED_BLOCKS};
use crate::counters::{PoolCounters, add};
use crate::engine::State;
use crate::engine::damage::Healer;
use crate::engine::data::{FormRoom, NewPlace};
use crate::engine::parts::Common;
use crate::error::Result;
use gemelo_format::{Change, Checksum, Fingerprint, Fingerprinter, Lbn, Pbn};
use gemelo_metadata::HeldPages;
use std::sync::Arc;

/// A content by the PBN and the checksum that maps have for it.
type Lost<'c> = (Pbn, Checksum, &'c [u8]);

/// A lost content and its new place.
struct Elsewhere<'r> {
    checksum: Checksum,
    references: &'r [Reference],
    to: Pbn,
    fingerprint: Fingerprint,
}

/// Stores contents elsewhere; see the module.
pub(crate) struct Relocator {
    mover: Arc<Mover>,
    healer: Arc<Healer>,
    fingerprinter: Arc<Fingerprinter>,
    counters: Arc<PoolCounters>,
}

impl Relocator {
    pub(in crate::engine) fn new(
        common: &Common,
        mover: &Arc<Mover>,
        healer: &Arc<Healer>,
    ) -> Self {
        Self {
            mover: Arc::clone(mover),
            healer: Arc::clone(healer),
            fingerprinter: Arc::clone(&common.fingerprinter),
            counters: Arc::clone(&common.counters),
        }
    }

    /// Stores contents at other PBNs, each given by the PBN and the checksum that maps expect. Says
    /// for each whether a map entry refers to its new place. A pool whose contents have blocks of
    /// their own leaves them all.
    pub(crate) fn store_elsewhere(&self, contents: &[Lost<'_>]) -> Result<Vec<bool>> {
        let mut moved = vec![false; contents.len()];
        let Mover { data, log, health, superblock, .. } = &*self.mover;
        if contents.is_empty() || !data.is_packed() || health.check_writable().is_err() {
            return Ok(moved);
        }
        let _pin = self.mover.begin()?;
        log.reserve_slots()?;
        let references = self.references_to(contents)?;
        let bytes: Vec<&[u8]> = contents.iter().map(|(_, _, content)| *content).collect();
        let compressed = data.compress(&bytes, superblock.store.compression());
        let Some(stored) = data.store_forms(&bytes, &compressed, FormRoom::Any)? else {
            return Ok(moved);
        };
        let followed = self.follow_all(contents, &references, (&stored.places, &mut moved));
        let unused = stored.places.iter().zip(&moved).filter(|(_, moved)| !**moved);
        self.mover.give_back(unused.map(|(place, _)| place));
        followed?;
        for ((pbn, ..), _) in contents.iter().zip(&moved).filter(|(_, moved)| **moved) {
            self.healer.forget(*pbn);
            add(&self.counters.healed_blocks, 1);
        }
        Ok(moved)
    }

    /// Collects all references to the places of these contents.
    fn references_to(&self, contents: &[Lost<'_>]) -> Result<References> {
        let mut lost: Vec<Pbn> = contents.iter().map(|(pbn, ..)| *pbn).collect();
        lost.sort_unstable();
        let is_looked_at = |pbn: Pbn| lost.binary_search(&pbn).is_ok();
        let sought = Sought { is_looked_at: &is_looked_at, is_wanted: &|_, _| true };
        let mut all = Vec::new();
        for volume in self.mover.catalogue.all().into_values() {
            let mut next = Some(Lbn(0));
            while let Some(from) = next.filter(|_| all.len() < MAX_REFERENCES) {
                let is_removed = volume.enter();
                if *is_removed {
                    break;
                }
                next = self.mover.add_references((&volume, from), sought, &mut all)?;
            }
        }
        Ok(References::new(all))
    }

    /// Lets the references to each content follow, and notes which have any.
    fn follow_all(
        &self,
        contents: &[Lost<'_>],
        references: &References,
        (places, moved): (&[NewPlace], &mut [bool]),
    ) -> Result<()> {
        let old: Vec<Pbn> = contents.iter().map(|(pbn, ..)| *pbn).collect();
        let records = self.mover.log.records(&old)?;
        for ((((pbn, checksum, content), record), place), moved) in
            contents.iter().zip(records).zip(places).zip(moved)
        {
            if place.outcome.is_err() {
                continue;
            }
            // The record may be that of another content, which is at the old place now.
            let fingerprint = match record.fingerprint.is_none() {
                true => Fingerprint::NONE,
                false => self.fingerprinter.of(content),
            };
            let (checksum, to) = (*checksum, place.pbn);
            let references = references.of(*pbn);
            self.follow(&Elsewhere { checksum, references, to, fingerprint }, moved)?;
        }
        Ok(())
    }

    /// Lets the references to a content follow.
    fn follow(&self, content: &Elsewhere<'_>, moved: &mut bool) -> Result<()> {
        for some in content.references.chunks(SETTLED_BLOCKS) {
            self.mover.log.bound_open_commit()?;
            self.mover.with_open(some.iter(), Entering::Waits, |open| {
                let _held = HeldPages::hold();
                let some = || some.iter().filter(|reference| open.have(reference));
                self.mover.warm(some())?;
                let mut state = self.mover.log.write();
                for reference in some() {
                    self.follow_one(&mut state, *reference, (content, &mut *moved))?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Lets a map entry follow, if it still expects the content.
    fn follow_one(
        &self,
        state: &mut State,
        reference: Reference,
        (content, moved): (&Elsewhere<'_>, &mut bool),
    ) -> Result<()> {
        let Elsewhere { checksum, to: pbn, fingerprint, .. } = *content;
        if !leads_to(state, reference, checksum)? {
            return Ok(());
        }
        let Reference { volume, lbn, .. } = reference;
        let references = state.records(&[pbn])?.first().map_or(0, |record| record.references);
        let change = match *moved {
            false => Change::Store { volume, lbn, pbn, fingerprint, checksum },
            // Writes may have replaced all entries that were changed, and the place is free.
            true if references == 0 => return Ok(()),
            true => Change::Share { volume, lbn, pbn, checksum },
        };
        self.mover.log.apply(state, &change)?;
        *moved = true;
        Ok(())
    }
}
