//! Making contents durable, and contents that cannot be written.
//!
//! Two failures must be told apart. A content that could not be *written out* for
//! lack of space is still in memory: nothing is in doubt, and a later call tries it again. After a
//! failed *sync* it is unknown what is durable, so it ends all changes.

use super::DataPath;
use crate::error::{Result, VolumeError};
use gemelo_format::{DiskRole, Pbn};
use gemelo_store::{Untried, Unwritten, WriteBuffer, WriteOut};
use std::collections::HashSet;

/// The outcome of a sync of the data store that has succeeded.
#[derive(Default)]
pub(crate) struct Synced<'b> {
    /// Blocks whose contents are needed and had no space. They are in memory, and nowhere else.
    pub(crate) unwritten: Vec<Pbn>,
    /// Contents were given up because the changes that free their blocks are about to be durable.
    pub(crate) has_given_up: bool,
    /// Keeps the unwritten contents from being tried again, by writers that want room for others:
    /// while one is in flight, neither the store nor the list of what failed has it.
    untried: Option<Untried<'b>>,
}

impl DataPath {
    /// Makes durable what was written before.
    ///
    /// On a file system that is full it fails and stops nothing. Any other failure ends all
    /// changes.
    pub(crate) fn sync(&self) -> Result<()> {
        let synced = self.sync_needed(&HashSet::new())?;
        match synced.unwritten.is_empty() {
            true => Ok(()),
            false => Err(VolumeError::NoSpace { disk: DiskRole::Data }),
        }
    }

    /// Begins to write out what was written before, for [`Self::sync_begun`].
    pub(crate) fn begin_write_out(&self) -> Option<WriteOut> {
        self.contents.buffer().map(WriteBuffer::begin_write_out)
    }

    /// Makes durable what was written before and has space. Contents of the blocks `freed` are not
    /// needed: the caller makes durable that nothing refers to them, and what refers to them not
    /// before that.
    pub(crate) fn sync_needed(&self, freed: &HashSet<Pbn>) -> Result<Synced<'_>> {
        self.sync_begun(self.begin_write_out(), freed)
    }

    /// Does the same with what was written before a write-out began.
    pub(crate) fn sync_begun(
        &self,
        begun: Option<WriteOut>,
        freed: &HashSet<Pbn>,
    ) -> Result<Synced<'_>> {
        let mut synced = Synced::default();
        if let Some((buffer, begun)) = self.contents.buffer().zip(begun) {
            self.health.check_running()?;
            let written = buffer.write_out_and_hold(begun);
            let untried = written.map_err(|error| self.stop_writing(error))?;
            if untried.is_some() {
                synced = self.give_up_unneeded(buffer, freed)?;
                synced.untried = untried;
            }
        }
        self.sync_written()?;
        Ok(synced)
    }

    /// Gives up the contents that could not be written and are not needed. Fails, and ends all
    /// changes, if others could not be written although there was space.
    fn give_up_unneeded(&self, buffer: &WriteBuffer, freed: &HashSet<Pbn>) -> Result<Synced<'_>> {
        let failed = buffer.unwritten();
        let given_up: Vec<Pbn> = {
            let space = self.allocator.lock();
            let is_unneeded = |block: &&Pbn| space.has_only(**block, |pbn| freed.contains(pbn));
            failed.iter().filter(is_unneeded).copied().collect()
        };
        let has_given_up = !given_up.is_empty();
        buffer.give_up(&given_up);
        self.give_up_unread(buffer, &failed);
        match buffer.failure() {
            Some(error) if !error.is_full() => Err(self.stop_writing(error)),
            Some(_) => {
                let unwritten = self.allocator.lock().contents_of(&buffer.unwritten());
                Ok(Synced { unwritten, has_given_up, ..Synced::default() })
            }
            None => Ok(Synced { has_given_up, ..Synced::default() }),
        }
    }

    /// Ends all changes, because contents cannot be written although there is space.
    fn stop_writing(&self, error: Unwritten) -> VolumeError {
        self.health.stop(DiskRole::Data, "write to");
        VolumeError::Io { disk: DiskRole::Data, action: "write to", source: error.into_io() }
    }

    /// Gives up those of these contents whose blocks no durable state refers to: retired and free
    /// ones. Both locks are held, so that none of the blocks gets a new content meanwhile.
    fn give_up_unread(&self, buffer: &WriteBuffer, failed: &[Pbn]) {
        let retired = self.retired.lock();
        let space = self.allocator.lock();
        let of_retired: HashSet<Pbn> = retired.pbns().collect();
        let is_unread = |block: &&Pbn| space.has_only(**block, |pbn| of_retired.contains(pbn));
        let unread: Vec<Pbn> = failed.iter().filter(is_unread).copied().collect();
        buffer.give_up(&unread);
        let blocks = space.blocks();
        let free: Vec<Pbn> = failed.iter().copied().filter(|pbn| !blocks.is_used(*pbn)).collect();
        buffer.give_up(&free);
        buffer.forget(&free);
    }

    /// Forgets the contents of these blocks that were given up.
    pub(super) fn forget_given_up(&self, pbns: &[Pbn]) {
        if let Some(buffer) = self.contents.buffer() {
            buffer.forget(pbns);
        }
    }

    /// Makes durable what was written out.
    pub(super) fn sync_written(&self) -> Result<()> {
        self.syncs.sync(|| match self.contents.buffer() {
            None => self.store().sync(),
            Some(buffer) => buffer.sync_written(),
        })
    }

    /// Returns whether contents could not be written out.
    pub(crate) fn has_unwritten(&self) -> bool {
        self.contents.buffer().is_some_and(|buffer| buffer.failure().is_some())
    }

    /// Tries again to write out contents for which there was no space.
    pub(crate) fn retry_unwritten(&self) -> Result<()> {
        match self.contents.buffer() {
            Some(buffer) if buffer.failure().is_some_and(|error| error.is_full()) => {
                // The sync that follows reports what stops the pool.
                let is_full = buffer.write_out().is_err();
                let full = VolumeError::NoSpace { disk: DiskRole::Data };
                if is_full { Err(full) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    /// Shows what a commit carries for the contents of these blocks if all are in memory. Returns
    /// `false` otherwise, and may have shown some.
    pub(crate) fn show_held(&self, pbns: &[Pbn], each: impl FnMut(Pbn, &[u8])) -> bool {
        self.contents.show(pbns, each)
    }
}
