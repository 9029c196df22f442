//! Changes of whole volumes piece by piece, for backends that bound their memory.
//!
//! A volume on its way in or out is hidden: a crash leaves it so, and it is cleared after the next opening. A volume that has
//! become smaller may map LBNs beyond its end, which nobody sees, until they are cleared.

use super::{Engine, VolumeShared};
use crate::error::{Result, VolumeError};
use crate::format::Change;
use crate::types::{Lbn, VolumeId};

/// Beyond every LBN.
const END: Lbn = Lbn(u64::MAX);

impl Engine {
    /// LBNs to be changed at once, if a change of the whole volume would be too much.
    pub(super) fn piece(&self, volume: VolumeId) -> Option<u64> {
        let state = self.state.read();
        state.backend.piece_blocks().filter(|piece| state.backend.mapped_blocks(volume) > *piece)
    }

    /// Calls with the ranges that have something, from an LBN on; no more of each than a piece, nor of the delta than fits.
    fn each_piece(&self, id: VolumeId, from: Lbn, mut change: impl FnMut(Lbn, u64) -> Change) -> Result<()> {
        let mut next = from;
        loop {
            self.bound_open_commit()?;
            let (first, count) = {
                let state = self.state.read();
                let Some(first) = state.backend.next_mapped(id, next, END)? else { return Ok(()) };
                (first, state.backend.piece_blocks().unwrap_or(u64::MAX))
            };
            next = Lbn(first.0.saturating_add(count));
            self.warm(id, first.0, next.0)?;
            self.apply(&mut self.state.write(), &change(first, count))?;
        }
    }

    /// Unmaps all from an LBN on.
    pub(super) fn unmap_from(&self, volume: VolumeId, from: Lbn) -> Result<()> {
        self.each_piece(volume, from, |first, count| Change::Unmap { volume, first, count })
    }

    /// Removes a hidden volume.
    pub(super) fn clear(&self, volume: VolumeId) -> Result<()> {
        self.unmap_from(volume, Lbn(0))?;
        self.change(&Change::Remove { volume })?;
        self.flush()
    }

    /// Makes a hidden volume with the map of another, which nobody writes to, and shows it.
    pub(super) fn clone_pieces(&self, begin: &Change) -> Result<()> {
        let Change::Begin { source, volume, .. } = *begin else { return Ok(()) };
        self.change(begin)?;
        let copied = self
            .each_piece(source, Lbn(0), |first, count| Change::Copy { source, volume, first, count })
            .and_then(|()| self.change(&Change::Show { volume }));
        copied.inspect_err(|_| {
            // If this fails as well, it is done after the next opening.
            let _ = self.clear(volume);
        })
    }

    /// Gives a volume, to which nobody writes, a smaller size.
    pub(super) fn shrink_pieces(&self, volume: &VolumeShared, size_bytes: u64) -> Result<()> {
        self.change(&Change::Shrink { volume: volume.id, size_bytes })?;
        volume.set_size(size_bytes);
        self.flush()?;
        self.unmap_beyond(volume)
    }

    /// Unmaps what a volume has beyond its end.
    pub(super) fn unmap_beyond(&self, volume: &VolumeShared) -> Result<()> {
        let blocks = volume.size_bytes() / u64::from(self.superblock.block_bytes);
        self.unmap_from(volume.id, Lbn(blocks))
    }

    /// Clears what a crash has left. Ends early when told to: the rest is done after the next opening.
    pub(crate) fn clear_left(&self, is_stopped: &dyn Fn() -> bool) -> Result<()> {
        if !self.superblock.backend.is_cached() {
            return Ok(());
        }
        loop {
            let Some(volume) = self.hidden.lock().pop().filter(|_| !is_stopped()) else { break };
            self.clear(volume)?;
        }
        let volumes: Vec<_> = self.volumes.read().values().cloned().collect();
        for volume in volumes {
            let removed = volume.gate.read();
            if !*removed && !is_stopped() {
                match self.unmap_beyond(&volume) {
                    Err(VolumeError::Damaged { .. }) => {}
                    other => other?,
                }
            }
        }
        Ok(())
    }
}
