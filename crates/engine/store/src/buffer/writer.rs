//! Writing out: the threads of a buffer, and the writers and syncs that wait for them.

use super::shared::{Guarded, Locked, Shared};
use super::state::Flight;
use super::unwritten::Unwritten;
use crate::memory::Slot;
use crate::{ContentWrite, is_no_space};
use gemelo_base::locks::MutexGuard;
use gemelo_base::scheduling::let_others_interrupt;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A content waits about this long at most before it is written out.
const MAX_AGE: Duration = Duration::from_millis(5);
/// A content is tried this often: an error can pass where the medium is good.
const TRIES: u32 = 2;

/// While this lives, no content that could not be written is tried again. So those that are known
/// to be unwritten stay in memory, and what was tried is not in flight once more.
pub struct Untried<'b> {
    _alone: MutexGuard<'b, ()>,
}

/// A write-out that has begun.
#[derive(Debug, Clone, Copy)]
pub struct WriteOut {
    /// It covers contents with smaller numbers.
    until: u64,
}

/// The memory that a writer found.
pub(super) enum Room {
    /// Memory for one content at least.
    Slots(Vec<Slot>),
    /// None is taken while contents wait that had no space.
    Full,
    /// None is taken while contents wait that could not be written for another reason, or all of it
    /// has contents that are not needed any more.
    None,
    /// The buffer is broken.
    Broken,
}

impl Shared {
    /// Takes memory for contents: for at least one, and for `wanted` at most.
    pub(super) fn take_slots(&self, wanted: usize) -> Room {
        assert!(wanted > 0, "memory is taken for contents");
        let mut guarded = self.lock();
        let mut waits_since = None;
        let room = loop {
            if guarded.is_broken {
                break Room::Broken;
            }
            match guarded.state.failure() {
                Some(error) if is_no_space(&error) => break Room::Full,
                Some(_) => break Room::None,
                None => {}
            }
            let slots = guarded.state.memory.take(wanted);
            if guarded.state.memory.wants_ahead() {
                self.ahead.call_for_memory();
            }
            if !slots.is_empty() {
                assert!(slots.len() <= wanted, "more memory was taken than wanted");
                break Room::Slots(slots);
            }
            if let Some(seen) = guarded.unseen.pop() {
                self.give_up(&mut guarded, seen);
                continue;
            }
            if let Some(step) = guarded.state.memory.begin_step() {
                let slots = guarded.unlocked(|| step.make());
                guarded.state.memory.add_step(slots);
                self.settled.notify_all();
                continue;
            }
            if guarded.state.is_full_of_unneeded() {
                break Room::None;
            }
            waits_since.get_or_insert_with(|| self.clock.now_ns());
            self.is_overloaded.store(true, Ordering::Relaxed);
            if self.has_threads || !self.write_flight(&mut guarded) {
                guarded.starving += 1;
                self.work.notify_one();
                guarded.wait(&self.settled);
                guarded.starving -= 1;
            }
        };
        let is_half_free = guarded.state.used() <= guarded.state.memory.most() / 2;
        if waits_since.is_none() && is_half_free && self.is_overloaded() {
            self.is_overloaded.store(false, Ordering::Relaxed);
        }
        if let Some(since_ns) = waits_since {
            self.counts.add_wait(self.clock.now_ns().saturating_sub(since_ns));
        }
        room
    }

    /// Takes memory for all of these contents, which is made in steps; [`None`] if there is too
    /// little of it.
    pub(super) fn take_all_slots(&self, wanted: usize) -> Option<Vec<Slot>> {
        if wanted > self.lock().state.memory.most() {
            return None;
        }
        let mut slots = Vec::new();
        while slots.len() < wanted {
            let Room::Slots(more) = self.take_slots(wanted - slots.len()) else {
                self.put_back(slots.into_iter());
                return None;
            };
            slots.extend(more);
        }
        Some(slots)
    }

    /// Has the threads write out all contents that are held now.
    pub(super) fn begin_write_out(&self) -> WriteOut {
        let mut guarded = self.lock();
        guarded.state.put_back_aside();
        let until = guarded.state.next_number();
        guarded.urgent = guarded.urgent.max(until);
        self.work.notify_one();
        WriteOut { until }
    }

    /// Does the work of [`super::WriteBuffer::write_out`].
    pub(super) fn write_out(&self) -> Result<(), Unwritten> {
        let untried = self.write_out_and_hold(self.begin_write_out())?;
        match untried.and_then(|_held| self.lock().state.failure()) {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Does the work of [`super::WriteBuffer::write_out_and_hold`].
    pub(super) fn write_out_and_hold(
        &self,
        WriteOut { until }: WriteOut,
    ) -> Result<Option<Untried<'_>>, Unwritten> {
        if self.write_until(until)? {
            return Ok(None);
        }
        let alone = self.trying_again.lock();
        for _ in 1..TRIES {
            self.lock().state.retry_failed();
            if self.write_until(until)? {
                return Ok(None);
            }
        }
        Ok(Some(Untried { _alone: alone }))
    }

    /// Waits until all contents with smaller numbers were tried. Returns whether all contents that
    /// were tried so far could be written.
    fn write_until(&self, until: u64) -> Result<bool, Unwritten> {
        let mut guarded = self.lock();
        self.work.notify_one();
        while !guarded.state.is_written(until) {
            if guarded.is_broken {
                return Err(Unwritten::Broken);
            }
            if self.has_threads || !self.write_flight(&mut guarded) {
                guarded.wait(&self.settled);
            }
        }
        if guarded.is_broken {
            return Err(Unwritten::Broken);
        }
        Ok(!guarded.state.has_failed())
    }

    /// Syncs the store below.
    pub(super) fn sync_written(&self) -> io::Result<()> {
        let began_ns = self.clock.now_ns();
        self.store.sync()?;
        self.counts.add_sync(self.clock.now_ns().saturating_sub(began_ns));
        Ok(())
    }

    /// Writes out one flight. Returns `false` if no content is ready.
    fn write_flight(&self, guarded: &mut Locked<'_>) -> bool {
        let Some(mut flight) = guarded.state.take_flight(self.run_blocks) else { return false };
        if self.is_due(guarded) {
            self.work.notify_one();
        }
        guarded.unlocked(|| self.write_contents(&mut flight));
        let is_written = flight.contents.iter().all(|flown| flown.outcome.is_ok());
        let seen = if is_written { self.to_be_seen(guarded, &flight) } else { Vec::new() };
        guarded.state.settle(flight, &self.cache);
        self.note_contents(guarded);
        self.settled.notify_all();
        if seen.is_empty() {
            return true;
        }
        if !self.has_threads {
            self.show(guarded, seen);
        } else if let Err(seen) = guarded.unseen.push(seen) {
            self.give_up(guarded, seen);
        } else {
            self.unseen.notify_one();
        }
        true
    }

    fn write_contents(&self, flight: &mut Flight) {
        let contents = flight.contents.iter().map(|flown| &flown.content);
        let mut writes: Vec<ContentWrite<'_>> =
            contents.map(|content| ContentWrite::new(content.pbn, &content.slot)).collect();
        self.store.write(&mut writes);
        let bytes = writes.iter().map(|write| write.content.len() as u64).sum();
        self.counts.add_runs(flight.runs, bytes);
        let outcomes: Vec<io::Result<()>> = writes.into_iter().map(|write| write.outcome).collect();
        assert_eq!(outcomes.len(), flight.contents.len(), "each content is written once");
        for (flown, outcome) in flight.contents.iter_mut().zip(outcomes) {
            flown.outcome = outcome;
        }
    }

    /// Returns whether contents should be written now. While others are being written, few can
    /// become more.
    pub(super) fn is_due(&self, guarded: &Guarded) -> bool {
        let state = &guarded.state;
        let enough = if state.is_writing() { self.run_blocks } else { self.start_blocks };
        state.waiting() >= enough
            || guarded.starving > 0
            || guarded.is_ending
            || state.is_waiting_below(guarded.urgent)
    }

    /// Writes out what is due, until the buffer ends and holds no content that can be
    /// written.
    pub(super) fn work(&self) {
        let_others_interrupt();
        let mut guarded = self.lock();
        loop {
            if self.is_due(&guarded) && self.write_flight(&mut guarded) {
                continue;
            }
            if guarded.is_ending || guarded.is_broken {
                return;
            }
            if guarded.state.waiting() == 0 || guarded.is_watched {
                guarded.wait(&self.work);
                continue;
            }
            guarded.is_watched = true;
            let is_old = guarded.wait_for(&self.work, MAX_AGE);
            guarded.is_watched = false;
            if is_old {
                guarded.urgent = guarded.state.next_number();
            }
        }
    }

    /// Writes out everything that can be written.
    pub(super) fn drain(&self) {
        let mut guarded = self.lock();
        guarded.state.put_back_aside();
        self.work.notify_one();
        while !guarded.is_broken && self.write_flight(&mut guarded) {}
    }
}
