//! Commits that are written beside their contents: a flush is then as long as the longer of both
//! writes, and contents are written once.
//!
//! Only disks that write durably get such commits. On others a flush would still end with a sync of
//! each disk, and the file system lets one sync wait for the other; journal data saves one of them.

use super::{ClosedCommit, Committer};
use crate::engine::log::Log;
use crate::engine::log::journal_data::Unsynced;
use crate::error::Result;
use gemelo_format::{PAGE_BYTES, freed_bytes};
use gemelo_store::WriteOut;
use std::collections::HashSet;

/// Longer commits come after their contents, some 8,000: a round trip more does not show then, and
/// a replay would read all of them.
const MAX_COMMIT_BYTES: usize = 256 << 10;

impl ClosedCommit {
    /// Returns whether the contents of the commit may be written at the same time.
    fn may_be_beside(&self) -> bool {
        // A replay cannot look for a content that no change names.
        let is_short = self.buffer.len() <= MAX_COMMIT_BYTES;
        is_short && !self.unsynced.is_none() && !self.heals && !self.is_built
    }
}

impl Log {
    /// Returns whether the first of the waiting commits may be written beside its contents.
    pub(in crate::engine::log) fn may_write_beside(&self, committer: &Committer) -> bool {
        let Some(first) = committer.waiting.front() else { return false };
        let payload = first.buffer.len() + freed_bytes(first.effects.freed.len());
        let bytes = payload.next_multiple_of(PAGE_BYTES);
        self.writes_beside
            && first.may_be_beside()
            && committer.journal.has_room(bytes)
            // Contents without space become journal data.
            && !self.data.has_unwritten()
    }

    /// Waits for contents that were written beside the first of the waiting commits. Returns
    /// `false` if some have no space: the commit, whose payload ends at `end`, is then as it was
    /// before it was built.
    pub(super) fn finish_contents(
        &self,
        committer: &mut Committer,
        begun: Option<WriteOut>,
        end: usize,
    ) -> Result<bool> {
        // The commit is complete with all contents, also with those of blocks that it frees.
        let synced = self.data.sync_begun(begun, &HashSet::new())?;
        if synced.unwritten.is_empty() {
            drop(synced);
            committer.waiting.iter_mut().for_each(|commit| commit.unsynced = Unsynced::None);
            let learnt = committer.journal_data.settle();
            self.data.note_identified(&learnt);
            return Ok(true);
        }
        let Committer { waiting, journal, .. } = committer;
        let written = waiting.front_mut().filter(|commit| commit.is_built);
        assert!(written.is_some(), "the commit that was written waits");
        written.into_iter().for_each(|commit| {
            assert!(end <= commit.buffer.len(), "its payload is in it");
            journal.take_back(commit.buffer.len());
            commit.buffer.truncate(end);
            commit.is_built = false;
        });
        Ok(false)
    }
}
