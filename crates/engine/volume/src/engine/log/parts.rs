//! The log itself: the state, the commits on their way, and everything they are written with.

use super::commit::{Committer, JournalStats, OpenCommit};
use super::contents::CommitContents;
use super::group_commit::GroupCommit;
use super::journal_data::{self, JournalData};
use super::reserve::SlotReserve;
use super::state::State;
use crate::counters::PoolCounters;
use crate::engine::data::DataPath;
use crate::engine::health::{Health, Syncs};
use crate::engine::locks::{
    OrderedGuard, OrderedMutex, OrderedQuickLock, QuickRead, QuickWrite, Rank,
};
use crate::error::{Result, VolumeError};
use crate::journal::Journal;
use crate::pool::Tuning;
use gemelo_base::Clock;
use gemelo_base::background::Task;
use gemelo_base::locks::Mutex;
use gemelo_disk::Disk;
use gemelo_format::{COPIES, Change, DiskRole, Lbn, MapEntry, Pbn, PoolSeed, Superblock, VolumeId};
use gemelo_metadata::{HeldPages, MetadataBackend, MissingPages, Record};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Looks after which the pages that are still missing are read under the lock. Each look finds the
/// pages below those that the one before it has missed.
const MAX_LOOKS: usize = 16;

/// The log of an open pool; see the module.
pub(crate) struct Log {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) superblock: Superblock,
    pub(super) seed: PoolSeed,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) tuning: Tuning,
    pub(super) counters: Arc<PoolCounters>,
    pub(super) health: Arc<Health>,
    pub(super) data: Arc<DataPath>,
    /// The entries of checkpoints and commits among the tasks in the background.
    pub(super) checkpoint_task: Arc<Task>,
    pub(super) commit_task: Arc<Task>,
    /// The disk that lacked space for the last checkpoint.
    pub(super) full_disk: Mutex<Option<DiskRole>>,
    pub(super) syncs: Syncs,
    pub(super) state: OrderedQuickLock<State>,
    pub(super) group: GroupCommit,
    pub(super) committer: OrderedMutex<Committer>,
    /// Held by a checkpoint, and by changes of whole volumes, which none of them may meet.
    pub(super) checkpointer: OrderedMutex<()>,
    pub(super) reserve: SlotReserve,
    pub(super) contents: CommitContents,
    /// Bytes of the open commit, to be looked at without a lock.
    pub(super) open_bytes: AtomicU64,
    /// Bytes of the commits that wait, to be looked at without a lock.
    pub(super) waiting_bytes: AtomicU64,
    /// The committer's figures as of its last change, because the committer is held while a commit
    /// is written. Held for a copy only.
    pub(super) figures: Mutex<JournalStats>,
}

/// Everything that a log is opened with.
pub(crate) struct LogParts {
    pub(crate) disk: Arc<dyn Disk>,
    /// `true` if both disks write durably.
    pub(crate) writes_beside: bool,
    pub(crate) superblock: Superblock,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tuning: Tuning,
    pub(crate) counters: Arc<PoolCounters>,
    pub(crate) health: Arc<Health>,
    pub(crate) data: Arc<DataPath>,
    pub(crate) checkpoint_task: Arc<Task>,
    pub(crate) commit_task: Arc<Task>,
    pub(crate) backend: Box<dyn MetadataBackend>,
    pub(crate) journal: Journal,
    /// Bytes of the contents that the journal carries.
    pub(crate) journal_data_bytes: u64,
    /// The number of the next commit.
    pub(crate) next_commit: u64,
    /// The generation of the newest durable root.
    pub(crate) generation: u64,
}

impl Log {
    pub(crate) fn new(parts: LogParts) -> Self {
        let LogParts { backend, journal, next_commit, generation, .. } = parts;
        let health = &parts.health;
        let journal_data = JournalData::of_journal(parts.journal_data_bytes);
        let committer = Committer::new(journal, journal_data, next_commit - 1, generation);
        let figures = Mutex::new(committer.figures());
        let max_journal_data_bytes = journal_data::bytes_of(&parts.tuning, &*parts.disk);
        let blocks = max_journal_data_bytes / u64::from(parts.superblock.block_bytes);
        let max_journal_data_blocks = usize::try_from(blocks).unwrap_or(usize::MAX);
        let open =
            OpenCommit::new(next_commit, max_journal_data_blocks, parts.data.has_free_veto());
        Self {
            seed: PoolSeed::of(&parts.superblock),
            reserve: SlotReserve::new(&parts.disk, &parts.superblock, health),
            contents: CommitContents {
                data: Arc::clone(&parts.data),
                counters: Arc::clone(&parts.counters),
                block_bytes: parts.superblock.block_bytes as usize,
                max_journal_data_blocks,
                writes_beside: parts.writes_beside,
            },
            disk: parts.disk,
            superblock: parts.superblock,
            clock: parts.clock,
            tuning: parts.tuning,
            counters: parts.counters,
            data: parts.data,
            checkpoint_task: parts.checkpoint_task,
            commit_task: parts.commit_task,
            full_disk: Mutex::default(),
            syncs: Syncs::new(DiskRole::Metadata, health),
            state: OrderedQuickLock::new(Rank::State, health, State::new(backend, open)),
            group: GroupCommit::default(),
            committer: OrderedMutex::new(Rank::Committer, health, committer),
            checkpointer: OrderedMutex::new(Rank::Checkpoint, health, ()),
            health: Arc::clone(health),
            open_bytes: AtomicU64::new(0),
            waiting_bytes: AtomicU64::new(0),
            figures,
        }
    }

    /// The metadata, to be read.
    pub(crate) fn read(&self) -> QuickRead<'_, State> {
        self.state.read()
    }

    /// Looks at the metadata. The pages that a look misses are read without the lock, and then
    /// there is another one, so that neither writers nor other readers wait for the disk.
    pub(crate) fn look<T>(&self, look: impl Fn(&State) -> Result<T>) -> Result<T> {
        let held = HeldPages::hold();
        for _ in 0..MAX_LOOKS {
            let state = self.read();
            if let Some(seen) = held.look(|| look(&state)) {
                return seen;
            }
            let Some(missing) = state.backend().missing_pages() else { break };
            drop(state);
            missing.read();
        }
        look(&self.read())
    }

    /// The next mapped LBN of a volume from `from` on, but before `end`.
    pub(crate) fn next_mapped(&self, id: VolumeId, from: Lbn, end: Lbn) -> Result<Option<Lbn>> {
        self.look(|state| Ok(state.backend().next_mapped(id, from, end)?))
    }

    /// The places of LBNs.
    pub(crate) fn places(&self, id: VolumeId, lbns: &[Lbn]) -> Result<Vec<MapEntry>> {
        self.look(|state| state.places(id, lbns))
    }

    /// The records of blocks.
    pub(crate) fn records(&self, pbns: &[Pbn]) -> Result<Vec<Record>> {
        self.look(|state| state.records(pbns))
    }

    /// Completes the index of a pool that was opened, unless `is_stopped` ends it before. A
    /// duplicate of a block that the index does not lead to yet is stored again.
    pub(crate) fn complete_index(&self, is_stopped: &dyn Fn() -> bool) -> Result<()> {
        while !is_stopped() && self.read().backend().catch_up()? {}
        Ok(())
    }

    /// Has the disk begin to read what a look at the metadata misses, and does not wait for it.
    pub(crate) fn start<T>(&self, look: impl Fn(&State) -> Result<T>) {
        let state = self.read();
        // Whatever it sees, or why it fails, is found by the look that follows.
        let held = HeldPages::hold();
        let _ = held.look(|| look(&state).map(drop));
        let missing = state.backend().missing_pages();
        drop(state);
        missing.into_iter().for_each(MissingPages::start);
    }

    /// The metadata, to be changed by [`Self::apply`].
    pub(crate) fn write(&self) -> QuickWrite<'_, State> {
        self.state.write()
    }

    /// Makes a change of a volume as a whole. The caller makes it durable after it has told of it:
    /// a change that was made and cannot be made durable stays, until a crash.
    pub(crate) fn change(&self, change: &Change) -> Result<()> {
        self.apply(&mut self.write(), change)
    }

    /// Makes a change in memory and in the open commit.
    ///
    /// A change that contradicts the state fails, and changes nothing. One that fails halfway stops
    /// the pool.
    pub(crate) fn apply(&self, state: &mut State, change: &Change) -> Result<()> {
        state.backend().check_change(change)?;
        // A pool that has stopped may be half changed, and acknowledges nothing more.
        self.health.check_writable()?;
        debug_assert!(self.can_follow(state, change), "{change:?} cannot be made");
        if let Change::Store { pbn, .. } | Change::Move { to: pbn, .. } = change {
            self.data.allocator.note_mapped(*pbn);
        }
        let State { backend, open, .. } = state;
        if let Err(error) = open.make(&mut **backend, change) {
            self.health.stop(DiskRole::Metadata, "change");
            return Err(error);
        }
        self.open_bytes.store(open.bytes(), Ordering::Relaxed);
        Ok(())
    }

    /// Returns whether a change agrees with the present references, as far as they can be read: a
    /// fresh block has none, and a block that is shared or identified has one. No map names it for
    /// a content that was moved away.
    fn can_follow(&self, state: &State, change: &Change) -> bool {
        let (pbn, is_fresh) = match change {
            Change::Store { pbn, .. } | Change::Move { to: pbn, .. } => (*pbn, true),
            Change::Share { pbn, .. } | Change::Identify { pbn, .. } => (*pbn, false),
            _ => return true,
        };
        let mut records = Vec::with_capacity(1);
        let is_read = state.backend().records(&[pbn], &mut records).is_ok();
        let fits = records.iter().all(|record| (record.references == 0) == is_fresh);
        let is_named = state.backend().is_moved_away(pbn);
        self.data.allocator.is_used(pbn) && !is_named && (!is_read || fits)
    }

    /// Reads what changes of these blocks will need, before any thread has to wait for it.
    pub(crate) fn warm(&self, volume: VolumeId, first: u64, end: u64) -> Result<()> {
        let (mut next, end) = (Lbn(first), Lbn(end));
        while next < end {
            next = self.look(|state| Ok(state.backend().warm(volume, next, end)?))?;
        }
        Ok(())
    }

    /// Holds the log still: nothing is changed or committed until the view is dropped.
    pub(crate) fn still(&self) -> LogSnapshot<'_> {
        let committer = self.committer.lock();
        let state = self.state.read();
        LogSnapshot { committer, state }
    }

    /// Figures of the journal. It does not wait for a commit that is being written.
    pub(crate) fn journal_figures(&self) -> JournalStats {
        *self.figures.lock()
    }

    /// Commits and checkpoints that were written since the pool was opened.
    pub(crate) fn commits_and_checkpoints(&self) -> (u64, u64) {
        let written = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (written(&self.counters.commits), written(&self.counters.checkpoints))
    }

    /// Length of the metadata disk in bytes.
    pub(crate) fn disk_bytes(&self) -> Result<u64> {
        self.disk.len().map_err(VolumeError::io(DiskRole::Metadata, "measure"))
    }

    pub(super) const fn journal_bytes(&self) -> u64 {
        COPIES as u64 * self.superblock.regions().ring_bytes()
    }

    pub(super) fn sync(&self) -> Result<()> {
        self.syncs.sync(|| self.disk.sync())
    }
}

/// A log at one instant.
pub(crate) struct LogSnapshot<'l> {
    committer: OrderedGuard<'l, Committer>,
    state: QuickRead<'l, State>,
}

impl LogSnapshot<'_> {
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Blocks that were freed by changes which are not durable.
    pub(crate) fn freed_blocks(&self) -> u64 {
        (self.state.open().freed_blocks() + self.committer.freed_blocks()) as u64
    }

    /// The commit that has to be durable for all changes so far to be.
    pub(crate) fn last_number(&self) -> u64 {
        self.state.open().last_number()
    }
}
