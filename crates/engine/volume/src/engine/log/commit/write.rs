//! Makes changes durable: one data sync and one commit for all waiting threads.

use super::{Committer, Effects, Written};
use crate::counters::add;
use crate::engine::log::{Log, State};
use crate::error::{Result, VolumeError};
use gemelo_base::background::Step;
use gemelo_format::{COPIES, CommitOrder, DiskRole, NewCommit, Pbn, append_freed, build_commit};
use gemelo_metadata::Pressure;
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
/// The background makes an open commit durable at this part of the bound, so that writers do not
/// wait for syncs.
const BOUND_PER_BACKGROUND: u64 = 4;
/// The same after a rest. A flush makes the rest of the open commit durable, so it takes less.
const BOUND_PER_RESTED: u64 = 64;

impl Log {
    /// Makes durable all that was acknowledged so far.
    pub(crate) fn flush(&self) -> Result<()> {
        if self.health.is_read_only() {
            return Ok(());
        }
        self.health.check_running()?;
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
            self.checkpoint_for_request()?;
        }
        loop {
            let mut committer = self.committer.lock();
            if committer.durable >= number {
                return Ok(());
            }
            self.health.check_running()?;
            self.close_open(&mut committer)?;
            let started_ns = self.clock.now_ns();
            if self.write_waiting(&mut committer)? == Written::NoRoom {
                drop(committer);
                self.checkpoint_for_request()?;
            } else {
                lead.succeed(committer.durable, self.clock.now_ns().saturating_sub(started_ns));
                if self.commit_task.is_failing() {
                    self.commit_task.note_step(Step::more(1));
                }
            }
        }
    }

    /// Puts the open commit, unless it is empty, behind those that wait.
    fn close_open(&self, committer: &mut Committer) -> Result<()> {
        let mut state = self.write();
        // A thread that panicked may have left the state half changed.
        self.health.check_running()?;
        if !state.open.is_empty() {
            self.close_now(&mut state, committer);
        }
        Ok(())
    }

    /// Puts the open commit behind those that wait, also if it is empty.
    pub(in crate::engine::log) fn close_even_empty(&self, committer: &mut Committer) -> Result<()> {
        let mut state = self.write();
        self.health.check_running()?;
        self.close_now(&mut state, committer);
        Ok(())
    }

    /// Puts the open commit behind those that wait.
    pub(in crate::engine::log) fn close_now(&self, state: &mut State, committer: &mut Committer) {
        committer.push(state.open.close());
        self.open_bytes.store(0, Ordering::Relaxed);
        self.publish(committer);
    }

    /// Tells others what has changed in the committer, which they do not wait for.
    pub(in crate::engine::log) fn publish(&self, committer: &Committer) {
        self.waiting_bytes.store(committer.waiting_bytes(), Ordering::Relaxed);
        *self.figures.lock() = committer.figures();
    }

    /// Writes the waiting commits. After an error they keep waiting.
    pub(in crate::engine::log) fn write_waiting(
        &self,
        committer: &mut Committer,
    ) -> Result<Written> {
        while !committer.waiting.is_empty() {
            let order = self.contents.settle(committer)?;
            if self.write_first(committer, order)? == Written::NoRoom {
                return Ok(Written::NoRoom);
            }
        }
        Ok(Written::All)
    }

    /// Writes the first of the waiting commits. It keeps waiting if its contents have no space.
    fn write_first(&self, committer: &mut Committer, order: CommitOrder) -> Result<Written> {
        committer.journal.erase_taken_back(&*self.disk)?;
        let (durable, generation) = (committer.durable, committer.generation);
        let Some(commit) = committer.waiting.front_mut() else { return Ok(Written::All) };
        assert_eq!(commit.number, durable + 1, "no commit is left out");
        let is_beside = order == CommitOrder::BesideContents;
        assert!(is_beside || commit.unsynced.is_none(), "a commit refers to contents nowhere");
        let end = commit.buffer.len();
        if !commit.is_built {
            if is_beside {
                append_freed(&mut commit.buffer, &commit.effects.freed);
            }
            let new = NewCommit { number: commit.number, generation, order };
            build_commit(&mut commit.buffer, new, self.seed);
            commit.is_built = true;
        }
        if !committer.journal.has_room(commit.buffer.len()) {
            assert!(!is_beside, "a commit beside its contents has room");
            return Ok(Written::NoRoom);
        }
        let begun = if is_beside { self.data.begin_write_out() } else { None };
        let now_ns = self.clock.now_ns();
        let written = committer
            .journal
            .write(&*self.disk, &commit.buffer, (durable, now_ns))
            .and_then(|()| self.sync());
        if is_beside && !self.contents.finish_beside(committer, begun, end)? {
            return Ok(Written::All);
        }
        written?;
        self.count_first(committer, now_ns);
        Ok(Written::All)
    }

    /// Counts the first of the waiting commits, which is durable.
    fn count_first(&self, committer: &mut Committer, now_ns: u64) {
        let commit = committer.waiting.pop_front();
        assert!(commit.is_some(), "the commit that was written waits");
        let Some(commit) = commit else { return };
        committer.journal.advance(commit.buffer.len());
        committer.journal.marker().note_commit(now_ns);
        committer.durable = commit.number;
        add(&self.counters.commits, 1);
        add(&self.counters.journal_bytes, (COPIES * commit.buffer.len()) as u64);
        self.publish(committer);
        let effects = committer.hold_back(commit.effects);
        self.take_effect(effects);
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
    pub(in crate::engine::log) fn take_effect(&self, effects: Effects) {
        let Effects { mut freed, identified } = effects;
        debug_assert!(self.is_unreferenced(&freed), "a freed block has a reference");
        self.data.note_identified(&identified);
        let state = self.read();
        if state.backend().has_moved_blocks() {
            let is_named = |pbn: &mut Pbn| state.backend().is_moved_away(*pbn);
            self.data.retire_named(freed.extract_if(.., is_named).collect());
        }
        drop(state);
        self.data.retire(&mut freed);
    }

    /// Returns whether no map entry refers to these blocks, as far as their records can be read.
    fn is_unreferenced(&self, pbns: &[Pbn]) -> bool {
        let mut records = Vec::with_capacity(pbns.len());
        let is_read = self.read().backend().records(pbns, &mut records).is_ok();
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

    /// Returns whether the background should make the open commit durable, after a rest or without.
    pub(crate) fn is_commit_long(&self, is_rested: bool) -> bool {
        let part = if is_rested { BOUND_PER_RESTED } else { BOUND_PER_BACKGROUND };
        self.open_bytes.load(Ordering::Relaxed) >= self.bound_bytes() / part
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
        if self.open_bytes.load(Ordering::Relaxed) < self.bound_bytes() {
            return self.bound_waiting();
        }
        self.make_last_durable()
    }

    /// Bounds the commits that wait. They wait long only while the journal cannot be written.
    pub(in crate::engine::log) fn bound_waiting(&self) -> Result<()> {
        let most = self.bound_bytes() * WAITING_BOUNDS;
        if self.waiting_bytes.load(Ordering::Relaxed) < most {
            return Ok(());
        }
        self.make_last_durable()
    }

    fn make_last_durable(&self) -> Result<()> {
        let last = self.read().open.last_number();
        self.make_durable(last)
    }

    /// Writes a commit that carries the contents without space, also if it has no changes.
    pub(in crate::engine::log) fn commit_unwritten(&self) -> Result<()> {
        let mut committer = self.committer.lock();
        self.close_even_empty(&mut committer)?;
        self.contents.sync(&mut committer)?;
        match self.write_waiting(&mut committer)? {
            Written::All => Ok(()),
            Written::NoRoom => Err(VolumeError::NoSpace { disk: DiskRole::Data }),
        }
    }
}
