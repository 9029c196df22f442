//! Changes of whole volumes in pieces, so that no request waits long for them, and each fits the
//! backend's memory.
//!
//! A volume that is being made or removed is hidden. A crash leaves it hidden, and it is cleared
//! after the next opening. A volume that has become smaller may map LBNs beyond its end until they
//! are cleared; no request sees them.

use super::{State, VolumeShared};
use crate::engine::catalogue::Catalogue;
use crate::engine::log::Log;
use crate::engine::parts::Common;
use crate::error::{Result, VolumeError};
use gemelo_format::{Change, Lbn, MAX_VOLUME_BLOCKS, VolumeId};
use gemelo_metadata::HeldPages;
use std::ops::Range;
use std::sync::Arc;

/// Unmaps what no request sees any more.
pub(crate) struct Clearer {
    catalogue: Arc<Catalogue>,
    log: Arc<Log>,
    block_bytes: u32,
    /// `true` if a thread of the background clears hidden volumes.
    has_background: bool,
}

impl Clearer {
    pub(super) fn new(common: &Common) -> Self {
        Self {
            catalogue: Arc::clone(&common.catalogue),
            log: Arc::clone(&common.log),
            block_bytes: common.superblock.block_bytes,
            has_background: common.tuning.background,
        }
    }

    /// The end of the LBNs from `from` on that one change unmaps.
    fn piece_end(state: &State, volume: VolumeId, from: Lbn) -> Lbn {
        state.backend().piece_end(volume, from, state.piece_blocks())
    }

    /// The next LBNs from `from` on that one change unmaps; what it needs is in memory then.
    fn next_piece(state: &State, volume: VolumeId, from: Lbn) -> Result<Option<Range<Lbn>>> {
        Ok(state.backend().next_piece(volume, from, state.piece_blocks())?)
    }

    /// Returns whether one change of the whole volume would take too long or too much memory.
    pub(super) fn is_large(state: &State, volume: VolumeId) -> bool {
        state.backend().mapped_blocks(volume) > state.piece_blocks()
            && Self::piece_end(state, volume, Lbn(0)).0 < MAX_VOLUME_BLOCKS
    }

    /// Returns whether the removal of the volume as one change would.
    pub(super) fn is_removed_in_pieces(state: &State, volume: VolumeId) -> bool {
        state.backend().blocks_to_remove(volume) > state.piece_blocks()
            && Self::piece_end(state, volume, Lbn(0)).0 < MAX_VOLUME_BLOCKS
    }

    /// Unmaps all LBNs at or after `from`, but for what the removal of a hidden volume unmaps.
    /// Returns the LBN at which that begins.
    fn unmap_from(&self, volume: VolumeId, from: Lbn) -> Result<Lbn> {
        let mut next = from;
        loop {
            self.log.bound_open_commit()?;
            // A failure is ignored, because an unmap may use up the reserve.
            let _ = self.log.reserve_slots();
            let _held = HeldPages::hold();
            let piece = self.log.look(|state| Self::next_piece(state, volume, next))?;
            let Some(Range { start: first, end }) = piece else { return Ok(next) };
            next = end;
            // While this piece is unmapped, the disk reads what the next one needs.
            self.log.start(|state| Self::next_piece(state, volume, next));
            let count = next.0 - first.0;
            self.log.warm(volume, first.0, next.0)?;
            self.log.apply(&mut self.log.write(), &Change::Unmap { volume, first, count })?;
        }
    }

    /// Removes a hidden volume, or one that was not received to its end.
    fn clear(&self, volume: VolumeId) -> Result<()> {
        let record = self.log.read().backend().description(volume);
        if record.is_some_and(|record| !record.is_hidden) {
            self.log.change(&Change::Hide { volume })?;
        }
        let left = self.unmap_from(volume, Lbn(0))?;
        // The change reads nothing under the lock.
        let _held = HeldPages::hold();
        self.log.look(|state| Self::next_piece(state, volume, left))?;
        self.log.change(&Change::Remove { volume })?;
        self.log.flush()
    }

    /// Unmaps the LBNs that a volume has beyond its end.
    pub(super) fn unmap_beyond(&self, volume: &VolumeShared) -> Result<()> {
        let blocks = volume.size_bytes() / u64::from(self.block_bytes);
        self.unmap_from(volume.id(), Lbn(blocks)).map(drop)
    }

    /// Clears a volume that was hidden: in the background, or at once if there is none.
    pub(super) fn clear_after(&self, flushed: &Result<()>, hidden: VolumeId) {
        if self.has_background {
            self.catalogue.clear_soon(hidden);
        } else if flushed.is_err() {
            self.catalogue.clear_later(hidden);
        } else {
            self.clear_now(hidden);
        }
    }

    /// Clears a volume that was hidden. One that cannot be cleared now stays hidden.
    pub(super) fn clear_now(&self, hidden: VolumeId) {
        if self.clear(hidden).is_err() {
            self.catalogue.clear_later(hidden);
        }
    }

    /// Removes hidden volumes; those that cannot be removed now stay hidden.
    pub(crate) fn clear_hidden(&self, is_stopped: &dyn Fn() -> bool) -> Result<()> {
        while !is_stopped() {
            let Some(volume) = self.catalogue.next_hidden() else { break };
            self.clear(volume).inspect_err(|_| self.catalogue.clear_later(volume))?;
        }
        Ok(())
    }

    /// Clears hidden volumes and LBNs beyond the ends of volumes, as a crash leaves them. Ends
    /// early if `is_stopped` says so: the rest is done after the next opening.
    pub(crate) fn clear_left(&self, is_stopped: &dyn Fn() -> bool) -> Result<()> {
        self.clear_hidden(is_stopped)?;
        for volume in self.catalogue.all().into_values() {
            // The gate stays open, so that requests go on meanwhile.
            let _alone = volume.resize();
            let is_removed = *volume.enter();
            if !is_removed && !is_stopped() {
                match self.unmap_beyond(&volume) {
                    Err(VolumeError::Damaged { .. }) => {}
                    other => other?,
                }
            }
        }
        Ok(())
    }
}
