//! Makes changes durable: one data sync and one commit for all waiting threads.

use super::journal_data::{JournalData, Unsynced};
use super::{JournalStats, Log, State};
use crate::counters::add;
use crate::error::Result;
use crate::journal::Journal;
use gemelo_disk::Disk;
use gemelo_format::{COMMIT_HEADER_BYTES, COPIES, Change, PAGE_BYTES, Pbn, build_commit};
use gemelo_metadata::{MetadataBackend, Pressure};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering;

/// A writer that finds this much in the open commit makes it durable before it goes on, in a pool
/// with a short journal or without a background. Less would mean more syncs; more would not fit.
const MIN_BOUND_BYTES: u64 = 1 << 20;
/// The same in a pool with a long journal. More would make a flush wait longer, and take memory.
const MAX_BOUND_BYTES: u64 = 8 << 20;
/// A commit may take this part of the journal.
const JOURNAL_PER_COMMIT: u64 = 4;
/// Commits that wait may take this many bounds. In a pool that works one is being written and
/// another one may follow it. More wait only while the journal cannot be written, and then writers
/// get its error instead of taking more memory.
const WAITING_BOUNDS: u64 = 2;
/// Bytes of memory of a block that a commit has freed or identified.
const PBN_BYTES: u64 = size_of::<Pbn>() as u64;
/// The background makes an open commit durable at this part of the bound, so that writers do not
/// wait for syncs.
const BOUND_PER_BACKGROUND: u64 = 4;

/// Changes that are in memory and in no closed commit yet.
pub(super) struct OpenCommit {
    number: u64,
    buffer: Vec<u8>,
    effects: Effects,
    unsynced: Unsynced,
    /// Most contents that the commit may carry.
    max_journal_data_blocks: usize,
    /// `true` if the identified blocks are noted, for a veto.
    notes_identified: bool,
}

/// The blocks whose state changes when a commit is durable.
#[derive(Default)]
pub(super) struct Effects {
    /// Blocks that have lost their last reference.
    pub(super) freed: Vec<Pbn>,
    /// Blocks whose fingerprints are known.
    pub(super) identified: Vec<Pbn>,
}

impl Effects {
    /// Adds the effects of a later commit.
    fn append(&mut self, mut later: Self) {
        self.freed.append(&mut later.freed);
        self.identified.append(&mut later.identified);
    }

    /// Returns the bytes of memory of this many blocks.
    const fn bytes(&self) -> u64 {
        (self.freed.len() + self.identified.len()) as u64 * PBN_BYTES
    }
}

impl OpenCommit {
    pub(super) fn new(number: u64, max_journal_data_blocks: usize, notes_identified: bool) -> Self {
        Self {
            number,
            buffer: vec![0; COMMIT_HEADER_BYTES],
            effects: Effects::default(),
            unsynced: Unsynced::None,
            max_journal_data_blocks,
            notes_identified,
        }
    }

    /// Makes a change of the metadata and appends it.
    pub(super) fn make(
        &mut self,
        backend: &mut dyn MetadataBackend,
        change: &Change,
    ) -> Result<()> {
        backend.apply(std::slice::from_ref(change), &mut self.effects.freed)?;
        if self.notes_identified {
            self.effects.identified.extend(identified_by(change));
        }
        if let Some(pbn) = change.written_block() {
            self.unsynced.add(pbn, self.max_journal_data_blocks);
        }
        change.encode(&mut self.buffer);
        Ok(())
    }

    /// Returns a value that differs for every state; see [`State::version`].
    pub(super) const fn version(&self) -> (u64, usize) {
        (self.number, self.buffer.len())
    }

    const fn is_empty(&self) -> bool {
        self.buffer.len() == COMMIT_HEADER_BYTES
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.buffer.len() as u64
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    pub(super) const fn freed_blocks(&self) -> usize {
        self.effects.freed.len()
    }

    /// Returns the number of the commit that makes all changes so far durable.
    pub(super) const fn last_number(&self) -> u64 {
        if self.is_empty() { self.number - 1 } else { self.number }
    }

    /// Closes the open commit and begins the next one.
    pub(super) fn close(&mut self) -> ClosedCommit {
        let next = Self::new(self.number + 1, self.max_journal_data_blocks, self.notes_identified);
        let Self { number, buffer, effects, unsynced, .. } = std::mem::replace(self, next);
        assert!(buffer.len() >= COMMIT_HEADER_BYTES, "a commit begins with its header");
        let bytes = buffer.len().next_multiple_of(PAGE_BYTES) as u64 + effects.bytes();
        ClosedCommit { number, buffer, effects, bytes, unsynced, is_built: false }
    }
}

/// Returns the block that a change gives a fingerprint.
fn identified_by(change: &Change) -> Option<Pbn> {
    match change {
        Change::Store { pbn, fingerprint, .. } | Change::Identify { pbn, fingerprint } => {
            (!fingerprint.is_none()).then_some(*pbn)
        }
        _ => None,
    }
}

/// A commit on its way to the journal.
pub(super) struct ClosedCommit {
    number: u64,
    pub(super) buffer: Vec<u8>,
    effects: Effects,
    /// Bytes of memory that the commit takes.
    pub(super) bytes: u64,
    /// The contents that the commit refers to and does not carry, until a sync has covered them.
    pub(super) unsynced: Unsynced,
    pub(super) is_built: bool,
}

impl ClosedCommit {
    /// Takes over the changes of a later commit, which stays as an empty one.
    fn absorb(&mut self, later: &mut Self, max_journal_data_blocks: usize) {
        assert!(!self.is_built && !later.is_built, "a commit on its way to the journal is changed");
        assert!(self.number < later.number, "changes follow those of earlier commits");
        let changes = later.buffer.split_off(COMMIT_HEADER_BYTES);
        self.buffer.extend_from_slice(&changes);
        self.effects.append(std::mem::take(&mut later.effects));
        self.bytes += later.bytes;
        later.bytes = 0;
        self.unsynced.append(std::mem::take(&mut later.unsynced), max_journal_data_blocks);
    }
}

/// The commits that are closed and not durable, and the journal they go to.
pub(super) struct Committer {
    pub(super) journal: Journal,
    /// Closed commits in order. A commit stays here after a write failed or found no room.
    pub(super) waiting: VecDeque<ClosedCommit>,
    pub(super) journal_data: JournalData,
    /// The number of the last durable commit.
    durable: u64,
    /// Generation of the newest durable root.
    generation: u64,
}

impl Committer {
    pub(super) const fn new(
        journal: Journal,
        journal_data: JournalData,
        durable: u64,
        generation: u64,
    ) -> Self {
        Self { journal, waiting: VecDeque::new(), journal_data, durable, generation }
    }

    pub(super) const fn figures(&self) -> JournalStats {
        JournalStats {
            used_bytes: self.journal.used_bytes(),
            ring_bytes: self.journal.ring_bytes(),
            generation: self.generation,
        }
    }

    /// Returns the offset in the journal at which the next commit begins.
    pub(super) const fn head(&self) -> u64 {
        self.journal.head()
    }

    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the number of blocks that the waiting commits free once they are durable.
    pub(super) fn freed_blocks(&self) -> usize {
        self.waiting.iter().map(|commit| commit.effects.freed.len()).sum()
    }

    /// Returns the bytes of memory that the waiting commits take.
    fn waiting_bytes(&self) -> u64 {
        self.waiting.iter().map(|commit| commit.bytes).sum()
    }

    /// Returns whether a waiting commit refers to contents that it does not carry and that no sync
    /// has covered.
    pub(super) fn waits_for_data(&self) -> bool {
        self.waiting.iter().any(|commit| !commit.unsynced.is_none())
    }

    /// Returns the blocks that the waiting commits free.
    pub(super) fn freed(&self) -> HashSet<Pbn> {
        self.waiting.iter().flat_map(|commit| commit.effects.freed.iter().copied()).collect()
    }

    /// Makes the waiting commits one, so that their changes become durable together or not at all:
    /// a content that one of them refers to and a later one frees is not needed then. The later
    /// ones stay, without changes, because the numbers go up by one.
    pub(super) fn merge_waiting(&mut self, max_journal_data_blocks: usize) {
        let freed = self.freed_blocks();
        let mut unbuilt = self.waiting.iter_mut().filter(|commit| !commit.is_built);
        if let Some(first) = unbuilt.next() {
            unbuilt.for_each(|later| first.absorb(later, max_journal_data_blocks));
        }
        assert_eq!(freed, self.freed_blocks(), "a merge neither frees a block nor forgets one");
    }

    /// Adds a commit behind those that wait.
    pub(super) fn push(&mut self, commit: ClosedCommit) {
        let last = self.waiting.back().map_or(self.durable, |last| last.number);
        assert_eq!(commit.number, last + 1, "the numbers of commits go up by one");
        self.waiting.push_back(commit);
    }

    /// Notes a root that is durable, with all commits before `next_commit`. Returns the effects of
    /// those of them that were still waiting.
    pub(super) fn note_root(
        &mut self,
        disk: &dyn Disk,
        generation: u64,
        journal_offset: u64,
        next_commit: u64,
    ) -> Effects {
        assert_eq!(generation, self.generation + 1, "roots follow one another");
        self.generation = generation;
        self.journal.trim(journal_offset);
        self.journal.marker().mark_root(disk, generation, next_commit);
        let mut effects = Effects::default();
        if self.durable + 1 < next_commit {
            for commit in self.waiting.drain(..) {
                assert!(commit.number < next_commit, "a commit after the root is not in it");
                self.durable = commit.number;
                effects.append(commit.effects);
            }
        }
        self.hold_back(effects)
    }

    /// Takes out of the effects of durable commits what has to wait for a sync of the data store.
    fn hold_back(&mut self, effects: Effects) -> Effects {
        let Effects { freed, identified } = effects;
        Effects { identified: self.journal_data.hold_back(identified, &freed), freed }
    }
}

/// The outcome of writing the waiting commits.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    All,
    NoRoom,
}

impl Log {
    /// Makes durable all that was acknowledged so far.
    pub(crate) fn flush(&self) -> Result<()> {
        if self.health.is_read_only() {
            return Ok(());
        }
        self.health.check_writable()?;
        let last = self.read().open.last_number();
        self.make_durable(last)
    }

    /// Makes commits up to this number durable. A thread that comes while another does it waits,
    /// and often finds it done.
    pub(crate) fn make_durable(&self, number: u64) -> Result<()> {
        let Some(lead) = self.group.join(number) else { return Ok(()) };
        if self.data.has_unwritten() && self.is_journal_half_full() {
            // Later there may be no room for the commit with which a checkpoint keeps contents that
            // have no space.
            self.checkpoint()?;
        }
        loop {
            let mut committer = self.committer.lock();
            if committer.durable >= number {
                return Ok(());
            }
            self.health.check_writable()?;
            self.close_open(&mut committer)?;
            let started_ns = self.clock.now_ns();
            if self.write_waiting(&mut committer)? == Written::NoRoom {
                drop(committer);
                self.checkpoint()?;
            } else {
                lead.succeed(committer.durable, self.clock.now_ns().saturating_sub(started_ns));
            }
        }
    }

    /// Puts the open commit, unless it is empty, behind those that wait.
    fn close_open(&self, committer: &mut Committer) -> Result<()> {
        let mut state = self.write();
        // A thread that panicked may have left the state half changed.
        self.health.check_writable()?;
        if !state.open.is_empty() {
            self.close_now(&mut state, committer);
        }
        Ok(())
    }

    /// Puts the open commit behind those that wait, also if it is empty.
    pub(super) fn close_even_empty(&self, committer: &mut Committer) -> Result<()> {
        let mut state = self.write();
        self.health.check_writable()?;
        self.close_now(&mut state, committer);
        Ok(())
    }

    /// Puts the open commit behind those that wait.
    pub(super) fn close_now(&self, state: &mut State, committer: &mut Committer) {
        committer.push(state.open.close());
        self.open_bytes.store(0, Ordering::Relaxed);
        self.publish(committer);
    }

    /// Tells others what has changed in the committer, which they do not wait for.
    pub(super) fn publish(&self, committer: &Committer) {
        self.waiting_bytes.store(committer.waiting_bytes(), Ordering::Relaxed);
        *self.figures.lock() = committer.figures();
    }

    /// Writes the waiting commits. After an error they keep waiting.
    pub(super) fn write_waiting(&self, committer: &mut Committer) -> Result<Written> {
        self.settle_contents(committer)?;
        while let Some(commit) = committer.waiting.front_mut() {
            assert_eq!(commit.number, committer.durable + 1, "no commit is left out");
            assert!(commit.unsynced.is_none(), "a commit refers to contents that are nowhere");
            if !commit.is_built {
                build_commit(&mut commit.buffer, commit.number, committer.generation, self.seed);
                commit.is_built = true;
            }
            if !committer.journal.has_room(commit.buffer.len()) {
                return Ok(Written::NoRoom);
            }
            let now_ns = self.clock.now_ns();
            committer.journal.marker().write_if_due(&*self.disk, committer.durable, now_ns);
            committer.journal.write(&*self.disk, &commit.buffer)?;
            self.sync()?;
            committer.journal.advance(commit.buffer.len());
            committer.journal.marker().note_commit(now_ns);
            committer.durable = commit.number;
            add(&self.counters.commits, 1);
            add(&self.counters.journal_bytes, (COPIES * commit.buffer.len()) as u64);
            let effects = std::mem::take(&mut commit.effects);
            committer.waiting.pop_front();
            self.publish(committer);
            let effects = committer.hold_back(effects);
            self.take_effect(effects);
        }
        Ok(Written::All)
    }

    /// Marks the newest commit as durable if none has followed for a while. The next commit would
    /// prove that this one existed, but it may be long in coming.
    pub(crate) fn mark_if_idle(&self) -> Result<()> {
        let mut committer = self.committer.lock();
        let (durable, now_ns) = (committer.durable, self.clock.now_ns());
        if committer.journal.marker().write_if_idle(&*self.disk, durable, now_ns) {
            self.sync()?;
        }
        Ok(())
    }

    /// Tells the data path of blocks that are identified durably, and gives it those that no
    /// durable state refers to. A block may be identified and freed by the same commits.
    pub(super) fn take_effect(&self, effects: Effects) {
        let Effects { mut freed, identified } = effects;
        debug_assert!(self.is_unreferenced(&freed), "a freed block has a reference");
        self.data.note_identified(&identified);
        self.data.retire(&mut freed);
    }

    /// Returns whether no map entry refers to these blocks, as far as their records can be read.
    fn is_unreferenced(&self, pbns: &[Pbn]) -> bool {
        let mut records = Vec::with_capacity(pbns.len());
        let is_read = self.read().backend.records(pbns, &mut records).is_ok();
        !is_read || records.iter().all(|record| record.references == 0)
    }

    /// Returns the length from which writers make the open commit durable.
    fn bound_bytes(&self) -> u64 {
        if !self.tuning.background {
            return MIN_BOUND_BYTES;
        }
        let part = self.journal_bytes() / JOURNAL_PER_COMMIT;
        part.clamp(MIN_BOUND_BYTES, MAX_BOUND_BYTES)
    }

    /// Returns whether the background should make the open commit durable.
    pub(crate) fn is_commit_long(&self) -> bool {
        self.open_bytes.load(Ordering::Relaxed) >= self.bound_bytes() / BOUND_PER_BACKGROUND
    }

    /// Returns whether the background should write a checkpoint.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        self.is_journal_half_full() || self.pressure() >= Pressure::High
    }

    fn is_journal_half_full(&self) -> bool {
        let journal = self.journal_figures();
        journal.used_bytes > journal.ring_bytes / 2
    }

    /// Bounds the open commit, the waiting commits and the backend's memory. A caller holds no lock
    /// except a gate. The call fails when a bound is reached and the journal cannot be written.
    pub(crate) fn bound_open_commit(&self) -> Result<()> {
        self.relieve()?;
        let bound_bytes = self.bound_bytes();
        if self.open_bytes.load(Ordering::Relaxed) < bound_bytes
            && self.waiting_bytes.load(Ordering::Relaxed) < bound_bytes * WAITING_BOUNDS
        {
            return Ok(());
        }
        let last = self.read().open.last_number();
        self.make_durable(last)
    }
}
