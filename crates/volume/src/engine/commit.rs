//! Making changes durable: one data sync and one commit for everybody who waits.

use super::Engine;
use crate::counters::add;
use crate::error::{Result, VolumeError};
use crate::journal::Journal;
use gemelo_format::{
    COMMIT_HEADER_BYTES, Change, DiskRole, PAGE_BYTES, Pbn, build_commit, mirror_commit,
};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// A writer that finds so much in the open commit makes it durable before it goes on, in a pool with a short journal or
/// without a keeper. Less would mean more syncs; more would not fit.
const LEAST_BOUND_BYTES: u64 = 1 << 20;
/// The same in a pool with a long journal. More would make a flush wait longer, and take memory.
const MOST_BOUND_BYTES: u64 = 8 << 20;
/// A commit may take this part of the journal.
const JOURNAL_PER_COMMIT: u64 = 4;
/// Commits that wait may take this many bounds. In a pool that works one is being written and another one may follow it;
/// more wait only while the journal cannot be written, and then writers get its error instead of taking more memory.
const WAITING_BOUNDS: u64 = 2;
/// Bytes of memory of a block that a commit has freed.
const FREED_BYTES: u64 = size_of::<Pbn>() as u64;
/// The keeper makes an open commit durable at this part of the bound, so that writers do not wait for syncs.
const BOUND_PER_KEEPER: u64 = 4;

/// Changes that are in memory and in no commit yet.
pub(crate) struct OpenCommit {
    pub(super) number: u64,
    buffer: Vec<u8>,
    pub(super) freed: Vec<Pbn>,
    stores_data: bool,
}

impl OpenCommit {
    pub(crate) fn new(number: u64) -> Self {
        Self { number, buffer: vec![0; COMMIT_HEADER_BYTES], freed: Vec::new(), stores_data: false }
    }

    pub(super) fn append(&mut self, change: &Change) {
        // A block whose content was written anew is named by the change that says so.
        self.stores_data |= matches!(change, Change::Store { .. } | Change::Suspect { .. });
        change.encode(&mut self.buffer);
    }

    /// A state of the pool: another one after every change.
    pub(super) const fn version(&self) -> (u64, usize) {
        (self.number, self.buffer.len())
    }

    const fn is_empty(&self) -> bool {
        self.buffer.len() == COMMIT_HEADER_BYTES
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// The commit that has to be durable for all changes so far to be.
    pub(super) const fn last_number(&self) -> u64 {
        if self.is_empty() { self.number - 1 } else { self.number }
    }

    /// Closes it and begins the next one.
    pub(super) fn close(&mut self) -> ClosedCommit {
        let next = Self::new(self.number + 1);
        let Self { number, buffer, freed, stores_data } = std::mem::replace(self, next);
        let bytes =
            buffer.len().next_multiple_of(PAGE_BYTES) as u64 + freed.len() as u64 * FREED_BYTES;
        ClosedCommit { number, buffer, freed, bytes, stores_data, is_built: false }
    }
}

/// A commit on its way to the journal.
pub(crate) struct ClosedCommit {
    pub(super) number: u64,
    buffer: Vec<u8>,
    freed: Vec<Pbn>,
    /// Memory that it takes.
    bytes: u64,
    pub(super) stores_data: bool,
    is_built: bool,
}

/// Writes the commits, one at a time.
pub(crate) struct Committer {
    pub(super) journal: Journal,
    /// Closed and not durable, in order. More than none after a write failed, or found no room.
    pub(super) waiting: VecDeque<ClosedCommit>,
    pub(super) durable: u64,
    /// Of the newest durable root.
    pub(super) generation: u64,
}

impl Committer {
    pub(crate) const fn new(journal: Journal, durable: u64, generation: u64) -> Self {
        Self { journal, waiting: VecDeque::new(), durable, generation }
    }

    /// Bytes of the journal in use, its length, and the generation of the newest durable root.
    pub(crate) const fn figures(&self) -> (u64, u64, u64) {
        (self.journal.used_bytes(), self.journal.ring_bytes(), self.generation)
    }

    /// Blocks that are freed once the waiting commits are durable.
    pub(super) fn waiting_blocks(&self) -> usize {
        self.waiting.iter().map(|commit| commit.freed.len()).sum()
    }

    /// Memory that the waiting commits take.
    fn waiting_bytes(&self) -> u64 {
        self.waiting.iter().map(|commit| commit.bytes).sum()
    }

    /// Adds a commit behind those that wait.
    pub(super) fn push(&mut self, commit: ClosedCommit) {
        let last = self.waiting.back().map_or(self.durable, |last| last.number);
        debug_assert_eq!(commit.number, last + 1, "the numbers of commits go up by one");
        self.waiting.push_back(commit);
    }

    /// Commits that are in a durable root now; gives the blocks they freed.
    pub(super) fn forget_waiting(&mut self, next_commit: u64) -> Vec<Pbn> {
        let mut freed = Vec::new();
        for commit in self.waiting.drain(..) {
            debug_assert!(commit.number < next_commit, "a commit after the root is not in it");
            self.durable = commit.number;
            freed.extend(commit.freed);
        }
        freed
    }
}

/// How far a committer got.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    All,
    NoRoom,
}

impl Engine {
    /// Makes durable all that was acknowledged so far.
    pub(crate) fn flush(&self) -> Result<()> {
        if self.is_read_only {
            return Ok(());
        }
        self.check_writable()?;
        let last = self.state.read().open.last_number();
        self.make_durable(last)
    }

    /// Makes commits up to this number durable; whoever comes while another does it waits, and often finds it done.
    pub(super) fn make_durable(&self, number: u64) -> Result<()> {
        let Some(lead) = self.crowd.join(number) else { return Ok(()) };
        loop {
            let mut committer = self.committer.lock();
            if committer.durable >= number {
                return Ok(());
            }
            self.check_writable()?;
            self.close_open(&mut committer);
            let started_ns = self.clock.now_ns();
            if self.write_waiting(&mut committer)? == Written::NoRoom {
                drop(committer);
                self.checkpoint()?;
            } else {
                lead.succeed(committer.durable, self.clock.now_ns().saturating_sub(started_ns));
            }
        }
    }

    /// Puts the open commit, if there is anything in it, behind those that wait.
    fn close_open(&self, committer: &mut Committer) {
        let mut state = self.state.write();
        if !state.open.is_empty() {
            let closed = state.open.close();
            committer.push(closed);
            self.open_bytes.store(0, Ordering::Relaxed);
            self.note_waiting(committer);
        }
    }

    /// Tells writers how much waits.
    pub(super) fn note_waiting(&self, committer: &Committer) {
        self.waiting_bytes.store(committer.waiting_bytes(), Ordering::Relaxed);
    }

    /// Writes the commits that wait. After an error they still do.
    pub(super) fn write_waiting(&self, committer: &mut Committer) -> Result<Written> {
        if committer.waiting.iter().any(|commit| commit.stores_data) {
            self.sync(DiskRole::Data)?;
            committer.waiting.iter_mut().for_each(|commit| commit.stores_data = false);
        }
        while let Some(commit) = committer.waiting.front_mut() {
            if !commit.is_built {
                build_commit(&mut commit.buffer, commit.number, committer.generation, self.seed);
                mirror_commit(&mut commit.buffer);
                commit.is_built = true;
            }
            if !committer.journal.has_room(commit.buffer.len()) {
                return Ok(Written::NoRoom);
            }
            committer.journal.write(&*self.metadata, &commit.buffer)?;
            self.sync(DiskRole::Metadata)?;
            committer.journal.advance(commit.buffer.len());
            debug_assert_eq!(commit.number, committer.durable + 1, "no commit is left out");
            committer.durable = commit.number;
            add(&self.counters.commits, 1);
            add(&self.counters.journal_bytes, commit.buffer.len() as u64);
            let mut freed = std::mem::take(&mut commit.freed);
            committer.waiting.pop_front();
            self.note_waiting(committer);
            self.release(&mut freed);
        }
        Ok(Written::All)
    }

    /// Blocks that no durable state refers to go to limbo, and those that nobody reads any more from there.
    pub(super) fn release(&self, freed: &mut Vec<Pbn>) {
        debug_assert!(self.is_unreferenced(freed), "a freed block has a reference");
        let mut limbo = self.limbo.lock();
        limbo.add(freed);
        if limbo.len() > 0 {
            let mut space = self.space.lock();
            limbo.collect(&self.readers, |pbn| space.release(pbn));
        }
    }

    /// Whether nothing refers to these blocks, as far as it can be read.
    fn is_unreferenced(&self, pbns: &[Pbn]) -> bool {
        let mut records = Vec::with_capacity(pbns.len());
        let is_read = self.state.read().backend.records(pbns, &mut records).is_ok();
        !is_read || records.iter().all(|record| record.references == 0)
    }

    /// A failed sync ends all changes: nobody knows what of them is durable.
    ///
    /// A disk is synced by one thread at a time, and never again after a failure. The system tells
    /// an error to one of those who sync a file at once, drops what it could not write, and tells
    /// the others, and all who sync later, of a success.
    pub(super) fn sync(&self, disk: DiskRole) -> Result<()> {
        let [data, metadata] = &self.syncing;
        let (disk_of, syncing) = match disk {
            DiskRole::Data => (&self.data, data),
            DiskRole::Metadata => (&self.metadata, metadata),
        };
        let _alone = syncing.lock();
        self.check_writable()?;
        let result = disk_of.sync();
        result.map_err(|error| {
            self.stop(disk, "sync");
            VolumeError::Io { disk, action: "sync", source: error }
        })
    }

    /// How long the open commit may become.
    fn bound_bytes(&self) -> u64 {
        if !self.tuning.background {
            return LEAST_BOUND_BYTES;
        }
        let journal_bytes = self.superblock.journal_pages * PAGE_BYTES as u64;
        (journal_bytes / JOURNAL_PER_COMMIT).clamp(LEAST_BOUND_BYTES, MOST_BOUND_BYTES)
    }

    /// Whether the keeper should make the open commit durable.
    pub(super) fn is_commit_long(&self) -> bool {
        self.open_bytes.load(Ordering::Relaxed) >= self.bound_bytes() / BOUND_PER_KEEPER
    }

    /// Bounds the open commit, those that wait, and the backend's memory: called by writers that hold no lock but their
    /// gate. While the journal cannot be written, an error from the bound on.
    pub(super) fn bound_open_commit(&self) -> Result<()> {
        self.relieve()?;
        let bound_bytes = self.bound_bytes();
        if self.open_bytes.load(Ordering::Relaxed) < bound_bytes
            && self.waiting_bytes.load(Ordering::Relaxed) < bound_bytes * WAITING_BOUNDS
        {
            return Ok(());
        }
        let last = self.state.read().open.last_number();
        self.make_durable(last)
    }
}
