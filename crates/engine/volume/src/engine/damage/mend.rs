//! Makes damaged blocks suspect, and mends those whose contents are written again.

use super::DamagedBlock;
use crate::counters::add;
use crate::engine::catalogue::Catalogue;
use crate::engine::damage::Healer;
use crate::engine::{State, Wanted};
use crate::error::Result;
use gemelo_format::{Change, Fingerprint, Lbn, Pbn, VolumeId};

/// Damaged blocks that are listed.
const MAX_LISTED: usize = 1000;

impl Healer {
    /// Records a damaged block, and keeps it from being shared. The caller holds a pin, so the
    /// block has not been given to another content since it was looked up.
    #[cold]
    pub(crate) fn note_damage(&self, volume: VolumeId, wanted: Wanted) {
        let is_new = self.note((volume, wanted.lbn.0, wanted.pbn.number()));
        add(&self.counters.damaged_blocks, u64::from(is_new));
        self.suspect(wanted.pbn);
    }

    /// Makes a block suspect, if it could be shared. A pool that takes no changes cannot share
    /// either.
    pub(crate) fn suspect(&self, pbn: Pbn) {
        self.data.doubt(pbn, None);
        if self.health.check_writable().is_err() {
            return;
        }
        let mut state = self.log.write();
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

    /// Clears the mark of a suspect block that turned out to be good.
    pub(crate) fn acquit(&self, pbn: Pbn) -> Result<()> {
        if self.health.check_writable().is_err() {
            return Ok(());
        }
        self.data.doubt(pbn, None);
        self.log.apply(&mut self.log.write(), &Change::Suspect { pbn, is_suspect: false })
    }

    /// Clears the mark of a suspect block whose content was written again.
    pub(in crate::engine) fn mend(&self, state: &mut State, pbn: Pbn) -> Result<()> {
        self.log.apply(state, &Change::Suspect { pbn, is_suspect: false })?;
        self.data.doubt(pbn, None);
        self.forget(pbn);
        add(&self.counters.healed_blocks, 1);
        Ok(())
    }

    /// Writes the content of a damaged block to that block again. Returns `false` if that is not
    /// possible. The caller holds a pin since it looked the block up.
    pub(crate) fn write_again(&self, pbn: Pbn, content: &[u8]) -> Result<bool> {
        // A ledger or an index that names a free block is wrong, and the block may be given out.
        let is_writable = self.health.check_writable().is_ok() && self.data.allocator.is_used(pbn);
        if !is_writable || !self.heal(Some(pbn), content) {
            return Ok(false);
        }
        let mut state = self.log.write();
        let mut records = Vec::new();
        state.backend().records(&[pbn], &mut records)?;
        if records.iter().any(|record| record.is_suspect) {
            self.mend(&mut state, pbn)?;
        } else {
            self.forget(pbn);
            add(&self.counters.healed_blocks, 1);
        }
        Ok(true)
    }

    /// Writes the content of a suspect block to that block again.
    pub(in crate::engine) fn heal(&self, entry: Option<Pbn>, content: &[u8]) -> bool {
        let Some(pbn) = entry.filter(|pbn| !self.is_unwritable(*pbn)) else { return false };
        let is_written = self.data.write_again(pbn, content).is_ok();
        if !is_written {
            self.note_unwritable(pbn);
        }
        is_written
    }

    /// Makes the contents durable that were written again.
    pub(crate) fn sync_healed(&self) -> Result<()> {
        // A block without a fingerprint has no mark to clear, so the commit may have nothing to
        // write and would sync no data.
        self.data.sync()?;
        self.log.flush()
    }

    /// Writes the content of a suspect block again, if the block still has this fingerprint.
    pub(crate) fn heal_suspect(
        &self,
        pbn: Pbn,
        fingerprint: Fingerprint,
        content: &[u8],
    ) -> Result<bool> {
        // It keeps the block from being given to another content between the look and the write.
        let _pin = self.data.pin();
        let is_suspect = self.log.records(&[pbn])?.iter().all(|record| {
            record.references > 0 && record.is_suspect && record.fingerprint == fingerprint
        });
        if is_suspect { self.write_again(pbn, content) } else { Ok(false) }
    }

    /// The damaged blocks that were found and that are still in use.
    pub(crate) fn damaged_blocks(&self, catalogue: &Catalogue) -> Vec<DamagedBlock> {
        let noted = self.noted();
        let volumes = catalogue.all();
        let name_of = |id: VolumeId| {
            volumes.iter().find(|(_, volume)| volume.id() == id).map(|(name, _)| name.clone())
        };
        let in_use = |(id, lbn, pbn): (VolumeId, u64, u64)| {
            let places = self.log.places(id, &[Lbn(lbn)]).ok()?;
            let is_there = places.first().and_then(|place| place.pbn()).map(Pbn::number);
            (is_there == Some(pbn)).then_some(())?;
            Some(DamagedBlock { volume: name_of(id)?, lbn, pbn })
        };
        noted.into_iter().filter_map(in_use).take(MAX_LISTED).collect()
    }
}
