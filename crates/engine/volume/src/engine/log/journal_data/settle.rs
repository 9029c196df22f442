//! Makes the contents durable that commits refer to, in the journal or in the data store.

use super::{MAX_JOURNAL_DATA_BYTES, Unsynced};
use crate::counters::add;
use crate::engine::log::Log;
use crate::engine::log::commit::{ClosedCommit, Committer, Written};
use crate::error::{Result, VolumeError};
use gemelo_format::{Change, CommitOrder, DiskRole, PAGE_BYTES, Pbn};

/// A commit that carries contents takes this part of the journal at most, so that a short journal
/// is not full after a few of them.
const JOURNAL_PER_DATA: u64 = 4;
/// Most blocks that the veto does not learn about before the next sync of the data store.
const MAX_HELD_BACK: usize = 65_536;

/// The places of contents after a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine::log) enum Settled {
    /// In the data store.
    All,
    /// Some have no space there.
    WithoutSpace,
    /// Some were given up meanwhile, by changes that are not durable.
    GivenUp,
}

/// The largest sizes of a commit that carries contents.
struct JournalDataSizes {
    content_bytes: u64,
    /// Bytes of the whole commit in each ring of the journal.
    ring_bytes: u64,
}

impl Log {
    /// Makes the contents durable that the waiting commits refer to: the commits carry them if they
    /// are few, and else the data store is synced, unless the first commit is written beside them.
    pub(in crate::engine::log) fn settle_contents(
        &self,
        committer: &mut Committer,
    ) -> Result<CommitOrder> {
        if !committer.waits_for_data() || self.journal_contents(committer) {
            return Ok(CommitOrder::AfterContents);
        }
        if self.may_write_beside(committer) {
            return Ok(CommitOrder::BesideContents);
        }
        self.sync_contents(committer)?;
        Ok(CommitOrder::AfterContents)
    }

    /// Syncs the data store, and lets the last commit carry what has no space there.
    fn sync_contents(&self, committer: &mut Committer) -> Result<()> {
        let synced = self.data.sync_needed(&committer.freed())?;
        if synced.has_given_up || !synced.unwritten.is_empty() {
            committer.merge_waiting(self.max_journal_data_blocks);
        }
        if synced.has_given_up {
            committer.note_given_up();
        }
        let journal_data_bytes = self.journal_unwritten(committer, &synced.unwritten)?;
        committer.waiting.iter_mut().for_each(|commit| commit.unsynced = Unsynced::None);
        let learnt = committer.journal_data.settle_except(&synced.unwritten, journal_data_bytes);
        // The commit has what it goes on without, so writers may try that again.
        drop(synced);
        self.data.note_identified(&learnt);
        Ok(())
    }

    /// Lets the waiting commits, which are one, carry the contents that have no space. Returns
    /// their bytes. Fails if they are too many for the journal.
    fn journal_unwritten(&self, committer: &mut Committer, pbns: &[Pbn]) -> Result<u64> {
        if pbns.is_empty() {
            return Ok(0);
        }
        let full = VolumeError::NoSpace { disk: DiskRole::Data };
        let Committer { waiting, journal, .. } = committer;
        let unbuilt = waiting.iter_mut().find(|commit| !commit.is_built);
        assert!(unbuilt.is_some(), "a commit waits for contents");
        let Some(commit) = unbuilt else { return Err(full) };
        let sizes = self.journal_data_sizes(commit.buffer.len(), pbns.len());
        // The sync has covered what earlier commits carry.
        if sizes.content_bytes > MAX_JOURNAL_DATA_BYTES
            || sizes.content_bytes > journal.ring_bytes() / JOURNAL_PER_DATA
            || !journal.has_room(sizes.ring_bytes as usize)
            || !self.append_contents(commit, pbns, &sizes)
        {
            return Err(full);
        }
        Ok(sizes.content_bytes)
    }

    /// Returns the most that a commit of this length takes if it carries this many contents.
    fn journal_data_sizes(&self, commit_bytes: usize, contents: usize) -> JournalDataSizes {
        // Forms of compressed contents are shorter.
        let content_bytes = contents * self.superblock.block_bytes as usize;
        let head_bytes = contents * Change::JOURNAL_DATA_HEAD_BYTES;
        let ring_bytes = (commit_bytes + content_bytes + head_bytes).next_multiple_of(PAGE_BYTES);
        JournalDataSizes { content_bytes: content_bytes as u64, ring_bytes: ring_bytes as u64 }
    }

    /// Appends contents to a commit. Returns `false`, and leaves it as it was, if one of them is
    /// not in memory.
    fn append_contents(
        &self,
        commit: &mut ClosedCommit,
        pbns: &[Pbn],
        sizes: &JournalDataSizes,
    ) -> bool {
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
    fn journal_contents(&self, committer: &mut Committer) -> bool {
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
            let sizes = self.journal_data_sizes(commit.buffer.len(), pbns.len());
            if !journal_data.has_room(sizes.content_bytes)
                || sizes.ring_bytes > journal.ring_bytes() / JOURNAL_PER_DATA
                || !journal.has_room(sizes.ring_bytes as usize)
                || !self.append_contents(commit, &pbns, &sizes)
            {
                commit.unsynced = Unsynced::Few(pbns);
                return false;
            }
            journal_data.bytes += sizes.content_bytes;
        }
        true
    }

    /// Syncs the data store after [`JournalData::begin_sync`]. The committer is locked only if the
    /// caller holds it, so that other commits may carry more meanwhile. One thread at a time calls
    /// it: the holder of the checkpointer's lock.
    pub(in crate::engine::log) fn finish_sync(
        &self,
        held: Option<&mut Committer>,
    ) -> Result<Settled> {
        // The root contains the commits that wait while the caller holds the committer, so nothing
        // needs what they free.
        let freed = held.as_ref().map(|committer| committer.freed()).unwrap_or_default();
        let synced = self.data.sync_needed(&freed).map(|synced| synced.unwritten.is_empty());
        let mut locked;
        let committer = match held {
            Some(committer) => committer,
            None => {
                locked = self.committer.lock();
                &mut *locked
            }
        };
        let settled = match synced {
            Ok(_) if committer.has_given_up() => Ok(Settled::GivenUp),
            Ok(true) => Ok(Settled::All),
            Ok(false) => Ok(Settled::WithoutSpace),
            Err(error) => Err(error),
        };
        match &settled {
            Ok(Settled::All) => self.data.note_identified(&committer.journal_data.end_sync()),
            _ => committer.journal_data.fail_sync(),
        }
        settled
    }

    /// Writes a commit that carries the contents without space, also if it has no changes.
    pub(in crate::engine::log) fn commit_unwritten(&self) -> Result<()> {
        let mut committer = self.committer.lock();
        self.close_even_empty(&mut committer)?;
        self.sync_contents(&mut committer)?;
        match self.write_waiting(&mut committer)? {
            Written::All => Ok(()),
            Written::NoRoom => Err(VolumeError::NoSpace { disk: DiskRole::Data }),
        }
    }

    /// Syncs the data store if the veto waits for that.
    pub(crate) fn tell_free_veto(&self) -> Result<()> {
        if !self.data.has_free_veto() {
            return Ok(());
        }
        let _alone = self.checkpointer.lock();
        let mut committer = self.committer.lock();
        if committer.journal_data.held_back.is_empty() {
            return Ok(());
        }
        committer.journal_data.begin_sync();
        drop(committer);
        self.finish_sync(None).map(drop)
    }
}
