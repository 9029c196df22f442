//! Makes the contents durable that commits refer to: in the journal, in the data store, or beside
//! the commit.
//!
//! Before a commit is written, its contents have to be durable ([`CommitContents::settle`]):
//!
//! 1. If they are few and in memory, the commit carries them.
//! 2. On disks that write durably they may be written at the same time as the commit. A flush is
//!    then as long as the longer of both writes, and contents are written once. On other disks a
//!    flush would still end with a sync of each disk, and the file system lets one sync wait for
//!    the other.
//! 3. Otherwise the data store is synced first. The last commit carries what has no space there.

use super::commit::{ClosedCommit, Committer};
use super::journal_data::{MAX_JOURNAL_DATA_BYTES, Unsynced};
use crate::counters::{PoolCounters, add};
use crate::engine::data::DataPath;
use crate::error::{Result, VolumeError};
use gemelo_format::{Change, CommitOrder, DiskRole, PAGE_BYTES, Pbn, freed_bytes};
use gemelo_store::WriteOut;
use std::collections::HashSet;
use std::sync::Arc;

/// A commit that carries contents takes this part of the journal at most, so that a short journal
/// is not full after a few of them.
const JOURNAL_PER_DATA: u64 = 4;
/// Most blocks that the veto does not learn about before the next sync of the data store.
const MAX_HELD_BACK: usize = 65_536;
/// Longer commits come after their contents, some 8,000: a round trip more does not show then, and
/// a replay would read all of them.
const MAX_BESIDE_BYTES: usize = 256 << 10;

/// The largest sizes of a commit that carries contents.
struct JournalDataSizes {
    content_bytes: u64,
    /// Bytes of the whole commit in each ring of the journal.
    ring_bytes: u64,
}

/// Makes the contents of commits durable; see the module.
pub(super) struct CommitContents {
    pub(super) data: Arc<DataPath>,
    pub(super) counters: Arc<PoolCounters>,
    pub(super) block_bytes: usize,
    /// Most blocks whose contents a commit carries.
    pub(super) max_journal_data_blocks: usize,
    /// `true` if commits may be written beside their contents.
    pub(super) writes_beside: bool,
}

impl CommitContents {
    /// Makes the contents durable that the waiting commits refer to: the commits carry them if they
    /// are few, and else the data store is synced, unless the first commit is written beside them.
    pub(super) fn settle(&self, committer: &mut Committer) -> Result<CommitOrder> {
        if !committer.waits_for_data() || self.carry(committer) {
            return Ok(CommitOrder::AfterContents);
        }
        if self.may_write_beside(committer) {
            return Ok(CommitOrder::BesideContents);
        }
        self.sync(committer)?;
        Ok(CommitOrder::AfterContents)
    }

    /// Syncs the data store, and lets the last commit carry what has no space there.
    pub(super) fn sync(&self, committer: &mut Committer) -> Result<()> {
        let synced = self.data.sync_needed(&committer.freed())?;
        if synced.has_given_up || !synced.unwritten.is_empty() {
            committer.merge_waiting(self.max_journal_data_blocks);
        }
        if synced.has_given_up {
            committer.note_given_up();
        }
        let journal_data_bytes = self.carry_unwritten(committer, &synced.unwritten)?;
        committer.waiting.iter_mut().for_each(|commit| commit.unsynced = Unsynced::None);
        let learnt = committer.journal_data.settle_except(&synced.unwritten, journal_data_bytes);
        // The commit has what it goes on without, so writers may try that again.
        drop(synced);
        self.data.note_identified(&learnt);
        Ok(())
    }

    /// Lets the waiting commits, which are one, carry the contents that have no space. Returns
    /// their bytes. Fails if they are too many for the journal.
    fn carry_unwritten(&self, committer: &mut Committer, pbns: &[Pbn]) -> Result<u64> {
        if pbns.is_empty() {
            return Ok(0);
        }
        let full = VolumeError::NoSpace { disk: DiskRole::Data };
        let Committer { waiting, journal, .. } = committer;
        let unbuilt = waiting.iter_mut().find(|commit| !commit.is_built);
        assert!(unbuilt.is_some(), "a commit waits for contents");
        let Some(commit) = unbuilt else { return Err(full) };
        let sizes = self.sizes_of(commit.buffer.len(), pbns.len());
        // The sync has covered what earlier commits carry.
        if sizes.content_bytes > MAX_JOURNAL_DATA_BYTES
            || sizes.content_bytes > journal.ring_bytes() / JOURNAL_PER_DATA
            || !journal.has_room(sizes.ring_bytes as usize)
            || !self.append(commit, pbns, &sizes)
        {
            return Err(full);
        }
        Ok(sizes.content_bytes)
    }

    /// Returns the most that a commit of this length takes if it carries this many contents.
    fn sizes_of(&self, commit_bytes: usize, contents: usize) -> JournalDataSizes {
        // Forms of compressed contents are shorter.
        let content_bytes = contents * self.block_bytes;
        let head_bytes = contents * Change::JOURNAL_DATA_HEAD_BYTES;
        let ring_bytes = (commit_bytes + content_bytes + head_bytes).next_multiple_of(PAGE_BYTES);
        JournalDataSizes { content_bytes: content_bytes as u64, ring_bytes: ring_bytes as u64 }
    }

    /// Appends contents to a commit. Returns `false`, and leaves it as it was, if one of them is
    /// not in memory.
    fn append(&self, commit: &mut ClosedCommit, pbns: &[Pbn], sizes: &JournalDataSizes) -> bool {
        let buffer = &mut commit.buffer;
        let end = buffer.len();
        buffer.reserve(sizes.ring_bytes as usize);
        let mut shown = 0;
        let put = |pbn: Pbn, content: &[u8]| {
            shown += content.len() as u64;
            Change::encode_journal_data(pbn, content, buffer);
        };
        if !self.data.show_held(pbns, put) {
            buffer.truncate(end);
            return false;
        }
        assert!(shown <= sizes.content_bytes, "each content is carried once");
        assert!(buffer.len() as u64 <= sizes.ring_bytes, "a commit outgrows its room");
        commit.bytes += (buffer.len() - end) as u64;
        add(&self.counters.journal_data_commits, 1);
        add(&self.counters.journal_data_bytes, shown);
        true
    }

    /// Lets the waiting commits carry their contents. Returns `false` if they must not.
    fn carry(&self, committer: &mut Committer) -> bool {
        let Committer { waiting, journal_data, journal, .. } = committer;
        // Contents without space are tried again, with everything that has come since.
        if journal_data.held_back.len() > MAX_HELD_BACK || self.data.has_unwritten() {
            return false;
        }
        for commit in waiting.iter_mut() {
            let pbns = match std::mem::take(&mut commit.unsynced) {
                Unsynced::None => continue,
                Unsynced::Many => {
                    commit.unsynced = Unsynced::Many;
                    return false;
                }
                Unsynced::Few(pbns) => pbns,
            };
            assert!(!commit.is_built, "a commit on its way to the journal needs its contents");
            let sizes = self.sizes_of(commit.buffer.len(), pbns.len());
            if !journal_data.has_room(sizes.content_bytes)
                || sizes.ring_bytes > journal.ring_bytes() / JOURNAL_PER_DATA
                || !journal.has_room(sizes.ring_bytes as usize)
                || !self.append(commit, &pbns, &sizes)
            {
                commit.unsynced = Unsynced::Few(pbns);
                return false;
            }
            journal_data.bytes += sizes.content_bytes;
        }
        true
    }

    /// Returns whether the first of the waiting commits may be written beside its contents.
    fn may_write_beside(&self, committer: &Committer) -> bool {
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
    pub(super) fn finish_beside(
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

impl ClosedCommit {
    /// Returns whether the contents of the commit may be written at the same time.
    fn may_be_beside(&self) -> bool {
        // A replay cannot look for a content that no change names.
        let is_short = self.buffer.len() <= MAX_BESIDE_BYTES;
        is_short && !self.unsynced.is_none() && !self.heals && !self.is_built
    }
}
