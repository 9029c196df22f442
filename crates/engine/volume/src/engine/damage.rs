//! Blocks that were found damaged since the pool was opened.
//!
//! A damaged block that has a fingerprint becomes *suspect*, which its record says from then on:
//! nothing shares it any more. A write of its content goes to that block again, which mends it for
//! every reference to it.

use super::checked::Wanted;
use super::health::Health;
use super::locks::{OrderedMutex, Rank};
use super::{Engine, State};
use crate::counters::add;
use crate::error::Result;
use gemelo_format::{Change, Fingerprint, Lbn, MapEntry, Pbn, VolumeId};
use gemelo_store::ContentRead;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Damaged blocks that are remembered, so that each is counted once: 1 MiB of memory. Past it a
/// block counts at each read.
const MAX_NOTED: usize = 65_536;
/// Damaged blocks that are listed.
const MAX_LISTED: usize = 1000;
/// Blocks remembered that could not be written; past it the oldest knowledge is dropped, and a
/// write tries such a block once more.
const MAX_UNWRITABLE: usize = 10_000;

/// A damaged block of a volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DamagedBlock {
    /// The name of the volume.
    pub volume: String,
    /// The number of the block in the volume.
    pub lbn: u64,
    /// The number of the block in the data store.
    pub pbn: u32,
}

/// The place where a damaged block was found: volume, LBN and PBN.
type Noted = (VolumeId, u64, u32);

/// The damaged blocks of an open pool.
pub(super) struct Damages {
    noted: OrderedMutex<BTreeSet<Noted>>,
    unwritable: OrderedMutex<HashSet<Pbn>>,
}

impl Damages {
    pub(super) fn new(health: &Arc<Health>) -> Self {
        Self {
            noted: OrderedMutex::new(Rank::Damages, health, BTreeSet::new()),
            unwritable: OrderedMutex::new(Rank::Damages, health, HashSet::new()),
        }
    }

    /// Records a damaged block. Returns `true` if it was not recorded yet.
    fn note(&self, damage: Noted) -> bool {
        let mut noted = self.noted.lock();
        !noted.contains(&damage) && (noted.len() >= MAX_NOTED || noted.insert(damage))
    }

    fn noted(&self) -> Vec<Noted> {
        self.noted.lock().iter().copied().collect()
    }

    /// Forgets a block whose content was written again.
    fn forget(&self, pbn: Pbn) {
        self.noted.lock().retain(|(_, _, number)| *number != pbn.number());
    }

    /// Records a suspect block that could not be written. Its content has to be stored elsewhere.
    pub(super) fn note_unwritable(&self, pbn: Pbn) {
        let mut unwritable = self.unwritable.lock();
        if unwritable.len() >= MAX_UNWRITABLE {
            unwritable.clear();
        }
        unwritable.insert(pbn);
    }

    pub(super) fn is_unwritable(&self, pbn: Pbn) -> bool {
        self.unwritable.lock().contains(&pbn)
    }
}

impl Engine {
    /// Records a damaged block, and keeps it from being shared. The caller holds a pin, so the
    /// block has not been given to another content since it was looked up.
    #[cold]
    pub(crate) fn note_damage(&self, volume: VolumeId, wanted: Wanted) {
        let is_new = self.damages.note((volume, wanted.lbn.0, wanted.pbn.number()));
        add(&self.counters.damaged_blocks, u64::from(is_new));
        self.suspect(wanted.pbn);
    }

    /// Makes a block suspect, if it could be shared. A pool that takes no changes cannot share
    /// either.
    pub(crate) fn suspect(&self, pbn: Pbn) {
        self.data.doubt(pbn, None);
        if self.check_writable().is_err() {
            return;
        }
        let mut state = self.state_to_change();
        let mut records = Vec::new();
        let is_shareable = state.backend().records(&[pbn], &mut records).is_ok()
            && records.iter().all(|record| {
                record.references > 0 && !record.fingerprint.is_none() && !record.is_suspect
            });
        if is_shareable {
            // A failure stops the pool, and the stopped pool reports the reason.
            let _ = self.log.apply(&mut state, &Change::Suspect { pbn, is_suspect: true });
        }
    }

    /// Tells the owner of the veto that the content of a block was found damaged, and of a copy.
    pub(crate) fn doubt(&self, pbn: Pbn, copy: Option<Pbn>) {
        self.data.doubt(pbn, copy);
    }

    /// Returns blocks that only others use; see [`gemelo_store::FreeVeto::lent`].
    pub(crate) fn lent(&self, after: Option<Pbn>, most: usize) -> Result<Vec<(Pbn, Fingerprint)>> {
        self.data.lent(after, most)
    }

    /// Reads contents from the medium, without their checksums.
    pub(crate) fn read_medium(&self, reads: &mut [ContentRead<'_>]) {
        self.data.read_medium(reads);
    }

    /// Clears the mark of a suspect block that turned out to be good.
    pub(crate) fn acquit(&self, pbn: Pbn) -> Result<()> {
        if self.check_writable().is_err() {
            return Ok(());
        }
        self.data.doubt(pbn, None);
        self.log.apply(&mut self.state_to_change(), &Change::Suspect { pbn, is_suspect: false })
    }

    /// Clears the mark of a suspect block whose content was written again.
    pub(super) fn mend(&self, state: &mut State, pbn: Pbn) -> Result<()> {
        self.log.apply(state, &Change::Suspect { pbn, is_suspect: false })?;
        self.data.doubt(pbn, None);
        self.damages.forget(pbn);
        add(&self.counters.healed_blocks, 1);
        Ok(())
    }

    /// Writes the content of a damaged block to that block again. Returns `false` if that is not
    /// possible. The caller holds a pin since it looked the block up.
    pub(crate) fn write_again(&self, pbn: Pbn, content: &[u8]) -> Result<bool> {
        if self.check_writable().is_err() || !self.heal(Some(pbn), content) {
            return Ok(false);
        }
        let mut state = self.state_to_change();
        let mut records = Vec::new();
        state.backend().records(&[pbn], &mut records)?;
        if records.iter().any(|record| record.is_suspect) {
            self.mend(&mut state, pbn)?;
        } else {
            self.damages.forget(pbn);
            add(&self.counters.healed_blocks, 1);
        }
        Ok(true)
    }

    /// Makes the contents durable that were written again.
    pub(crate) fn sync_healed(&self) -> Result<()> {
        // A block without a fingerprint has no mark to clear, so the commit may have nothing to
        // write and would sync no data.
        self.data.sync()?;
        self.flush()
    }

    /// Writes the content of a suspect block again, if the block still has this fingerprint.
    pub(crate) fn heal_suspect(
        &self,
        pbn: Pbn,
        fingerprint: Fingerprint,
        content: &[u8],
    ) -> Result<bool> {
        // It keeps the block from being given to another content between the look and the write.
        let _pin = self.pin();
        let mut records = Vec::new();
        self.state().backend().records(&[pbn], &mut records)?;
        let is_suspect = records.iter().all(|record| {
            record.references > 0 && record.is_suspect && record.fingerprint == fingerprint
        });
        if is_suspect { self.write_again(pbn, content) } else { Ok(false) }
    }

    /// The damaged blocks that were found and that are still in use.
    pub(crate) fn damaged_blocks(&self) -> Vec<DamagedBlock> {
        let noted = self.damages.noted();
        let volumes = self.volumes();
        let name_of = |id: VolumeId| {
            volumes.iter().find(|(_, volume)| volume.id() == id).map(|(name, _)| name.clone())
        };
        let state = self.state();
        let mut places = Vec::new();
        let in_use = |(id, lbn, pbn): (VolumeId, u64, u32)| {
            places.clear();
            state.backend().look_up(id, &[Lbn(lbn)], &mut places).ok()?;
            let is_there = places.first().and_then(|place: &MapEntry| place.pbn()).map(Pbn::number);
            (is_there == Some(pbn)).then_some(())?;
            Some(DamagedBlock { volume: name_of(id)?, lbn, pbn })
        };
        noted.into_iter().filter_map(in_use).take(MAX_LISTED).collect()
    }
}
