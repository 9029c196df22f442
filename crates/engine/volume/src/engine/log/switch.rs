//! The metadata's move to another backend, as far as it needs the locks of the log.

use super::Log;
use crate::error::Result;
use gemelo_format::BackendKind;
use gemelo_metadata::{BackendContext, GivenUp};
use std::sync::Arc;

impl Log {
    /// Begins to fill another backend. Returns `false` if one is being filled already.
    pub(crate) fn begin_move(&self, kind: BackendKind) -> Result<bool> {
        let _alone = self.checkpointer.lock();
        self.health.check_writable()?;
        let mut state = self.write();
        if state.backend.is_moving() {
            return Ok(false);
        }
        let sampling = self.tuning.index_sampling;
        let home =
            BackendContext::new(Arc::clone(&self.disk), &self.superblock).with_sampling(sampling);
        state.backend.begin_move(kind, home, self.tuning.cache_bytes);
        Ok(true)
    }

    /// Gives up the backend that is being filled. Returns the reason why it failed, if it has.
    pub(crate) fn give_up_move(&self) -> Result<()> {
        let _alone = self.checkpointer.lock();
        // It is dropped without the state's lock.
        let given_up = self.write().backend.give_up_move();
        given_up.and_then(GivenUp::reason).map_or(Ok(()), |error| Err(error.into()))
    }

    /// Copies a part of the metadata to the backend that is being filled. Returns its number of
    /// blocks, or `None` if nothing is left.
    pub(crate) fn step_move(&self) -> Result<Option<u64>> {
        self.health.check_writable()?;
        self.bound_open_commit()?;
        self.reserve_slots()?;
        let Some(step) = self.read().backend.prepare_step()? else { return Ok(None) };
        let is_more = self.write().backend.step(&step);
        Ok(is_more.then_some(step.blocks()))
    }

    /// Returns whether the backend that is being filled has failed.
    pub(crate) fn has_move_failed(&self) -> bool {
        self.read().backend.has_move_failed()
    }

    /// Writes the checkpoint of the backend that was filled, whose root ends the move. Returns
    /// `false` if volumes are half made, or half removed, or not copied. The caller keeps the list
    /// of volumes from changing.
    pub(crate) fn switch(&self) -> Result<bool> {
        let _alone = self.checkpointer.lock();
        {
            let mut state = self.write();
            // A journal with pieces of a copied map fits the old backend alone.
            if !state.copies.is_empty() || !state.backend.begin_switch()? {
                return Ok(false);
            }
        }
        let written = self.checkpoint_alone();
        let mut state = self.write();
        // Another checkpoint may come when the list of volumes has changed.
        state.backend.end_switch();
        written.map(|()| !state.backend.is_moving())
    }
}
