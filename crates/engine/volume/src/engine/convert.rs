//! Moves the metadata to another backend while the pool is served.
//!
//! The new backend reads the journal after the last checkpoint of the move. Changes of the list of
//! volumes, which each backend makes in its own way, wait for that checkpoint.

use super::Engine;
use crate::error::{Result, VolumeError};
use gemelo_format::BackendKind;
use std::time::Duration;

/// The wait for volumes that are half made or half removed.
const HALF_MADE_WAIT: Duration = Duration::from_millis(5);

impl Engine {
    /// Moves the metadata to another backend. `go_on` gets the numbers of blocks whose entries were
    /// copied, and ends the move with its error. A move that does not come to its end leaves
    /// everything as it was.
    pub(crate) fn convert(
        &self,
        kind: BackendKind,
        mut go_on: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        self.check_writable()?;
        if self.state().backend().kind() == kind {
            return Ok(());
        }
        if !kind.has_words(self.superblock.words) {
            return Err(VolumeError::BadOption {
                what: format!("backend {}", kind.name()),
                rule: "a pool that was made for 2^32 blocks or more can only have compact".into(),
            });
        }
        if !self.log.begin_move(kind)? {
            return Err(VolumeError::Moving);
        }
        let moved = self.copy_and_switch(&mut go_on);
        let reason = self.log.give_up_move();
        moved.and(reason)
    }

    fn copy_and_switch(&self, go_on: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        self.copy_metadata(go_on)?;
        // Most pages are written before commands on volumes have to wait.
        self.checkpoint()?;
        loop {
            self.copy_metadata(go_on)?;
            if self.log.has_move_failed() {
                return Ok(());
            }
            let catalogue = self.catalogue.change();
            if self.log.switch()? {
                return Ok(());
            }
            drop(catalogue);
            self.clear_hidden(&|| false)?;
            gemelo_base::pause(HALF_MADE_WAIT);
            go_on(0)?;
        }
    }

    fn copy_metadata(&self, go_on: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        while let Some(blocks) = self.log.step_move()? {
            go_on(blocks)?;
        }
        Ok(())
    }
}
