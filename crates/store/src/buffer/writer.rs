//! Writing out: the threads of a buffer, and the writers and syncs that wait for them.

use super::BufferOptions;
use super::figures::{BufferFigures, Counts};
use super::memory::{Memory, Slot};
use super::state::{Run, State};
use super::unseen::Unseen;
use crate::{ContentWrite, Store, WriteObserver};
use gemelo_base::Clock;
use gemelo_base::scheduling::let_others_interrupt;
use gemelo_format::Pbn;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Most bytes of a run. Longer ones are no faster.
const RUN_BYTES: usize = 1 << 20;
/// Writing out begins when this much waits: less would be slow, more would be a burst.
const START_BYTES: usize = 256 << 10;
/// A content waits about this long at most before it is written out.
const MOST_AGE: Duration = Duration::from_millis(5);
/// A sync tries a content this often: an error can pass where the medium is good.
const TRIES: u32 = 2;
/// The contents that wait for the observer have this part of all slots at most.
const SLOTS_PER_UNSEEN: usize = 8;
/// A buffer of fewer contents could not take one while it writes another.
const LEAST_SLOTS: usize = 2;

/// The state that the lock guards.
#[derive(Debug)]
pub(super) struct Guarded {
    pub(super) state: State,
    /// Contents with smaller numbers are written out at once: a sync waits for them, or they are
    /// old.
    urgent: u64,
    /// Writers that wait for room.
    pub(super) starving: usize,
    /// Contents that were written out and wait to be seen by the observer.
    pub(super) unseen: Unseen,
    /// `true` while a thread watches the age of the oldest waiting content.
    is_watched: bool,
    pub(super) is_ending: bool,
}

/// The part of a buffer that its threads share with it.
pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    pub(super) observer: Option<Arc<dyn WriteObserver>>,
    has_threads: bool,
    run_blocks: usize,
    start_blocks: usize,
    guarded: Mutex<Guarded>,
    /// Signalled when there may be something to write out.
    work: Condvar,
    /// Signalled when a run was written.
    pub(super) settled: Condvar,
    /// Signalled when the observer has something to see.
    pub(super) unseen: Condvar,
    /// `true` if no content is in memory, as of the last change.
    is_empty: AtomicBool,
    /// `true` from the moment at which a writer found no room until one finds half of it free.
    is_overloaded: AtomicBool,
    pub(super) counts: Counts,
    ahead: Ahead,
}

/// Wakes the thread that reserves space ahead.
#[derive(Default)]
struct Ahead {
    call: Mutex<Call>,
    called: Condvar,
}

/// Work that is called for.
#[derive(Clone, Copy, Default)]
struct Call {
    space: bool,
    memory: bool,
    is_ending: bool,
}

impl Shared {
    pub(super) fn new(
        store: Arc<dyn Store>,
        options: BufferOptions,
        clock: Arc<dyn Clock>,
        observer: Option<Arc<dyn WriteObserver>>,
    ) -> Self {
        let block_bytes = store.block_bytes().max(1);
        let wanted = usize::try_from(options.bytes).unwrap_or(usize::MAX) / block_bytes;
        let slots = wanted.max(LEAST_SLOTS);
        let guarded = Guarded {
            state: State::new(Memory::new(block_bytes, slots), options.keeps_written),
            urgent: 0,
            starving: 0,
            unseen: Unseen::new(slots / SLOTS_PER_UNSEEN),
            is_watched: false,
            is_ending: false,
        };
        let run_blocks = (RUN_BYTES / block_bytes).clamp(1, slots);
        Self {
            has_threads: options.background,
            run_blocks,
            start_blocks: (START_BYTES / block_bytes).clamp(1, slots.div_ceil(2)),
            guarded: Mutex::new(guarded),
            work: Condvar::new(),
            settled: Condvar::new(),
            unseen: Condvar::new(),
            is_empty: AtomicBool::new(true),
            is_overloaded: AtomicBool::new(false),
            counts: Counts::default(),
            ahead: Ahead::default(),
            store,
            clock,
            observer,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Guarded> {
        self.guarded.lock()
    }

    /// Returns whether no content is in memory. It sees a content that was written before the
    /// caller learned of its PBN.
    pub(super) fn is_empty(&self) -> bool {
        self.is_empty.load(Ordering::Acquire)
    }

    /// Returns whether a writer found no room, and none has found half of it free since then.
    pub(super) fn is_overloaded(&self) -> bool {
        self.is_overloaded.load(Ordering::Relaxed)
    }

    fn note_contents(&self, guarded: &Guarded) {
        self.is_empty.store(guarded.state.is_empty(), Ordering::Release);
    }

    pub(super) fn figures(&self) -> BufferFigures {
        let block_bytes = self.store.block_bytes() as u64;
        let guarded = self.lock();
        let state = &guarded.state;
        let bytes = |slots: usize| slots as u64 * block_bytes;
        self.counts.figures(bytes(state.memory.most()), bytes(state.used()), bytes(state.kept()))
    }

    /// Reserves space for contents, and calls for more if little is left.
    pub(super) fn reserve(&self, writes: &mut [ContentWrite<'_>]) {
        self.store.reserve(writes);
        if self.store.wants_reserve_ahead() {
            self.call(Call { space: true, ..Call::default() });
        }
    }

    /// Calls for work ahead of need. Without threads it is done when it is needed.
    fn call(&self, wanted: Call) {
        if !self.has_threads {
            return;
        }
        let mut call = self.ahead.call.lock();
        call.space |= wanted.space;
        call.memory |= wanted.memory;
        call.is_ending |= wanted.is_ending;
        drop(call);
        self.ahead.called.notify_one();
    }

    /// Reserves space and makes memory ahead of need, until the buffer ends.
    pub(super) fn work_ahead(&self) {
        self.make_memory_ahead();
        let mut call = self.ahead.call.lock();
        while !call.is_ending {
            let Call { space, memory, .. } = std::mem::take(&mut *call);
            if !space && !memory {
                self.ahead.called.wait(&mut call);
                continue;
            }
            MutexGuard::unlocked(&mut call, || {
                if memory {
                    self.make_memory_ahead();
                }
                if space {
                    self.store.reserve_ahead();
                }
            });
        }
    }

    fn make_memory_ahead(&self) {
        let mut guarded = self.lock();
        while guarded.state.memory.wants_ahead() && !guarded.is_ending {
            let Some(step) = guarded.state.memory.begin_step() else { return };
            let slots = MutexGuard::unlocked(&mut guarded, || step.make());
            guarded.state.memory.add_step(slots);
            self.settled.notify_all();
        }
    }

    /// Takes memory for contents: for at least one, and for `wanted` at most. `None` while a
    /// content could not be written out.
    pub(super) fn take_slots(&self, wanted: usize) -> Option<Vec<Slot>> {
        let mut guarded = self.lock();
        let mut waits_since = None;
        let slots = loop {
            if guarded.state.has_failed() {
                break None;
            }
            let slots = guarded.state.take_slots(wanted);
            if guarded.state.memory.wants_ahead() {
                self.call(Call { memory: true, ..Call::default() });
            }
            if !slots.is_empty() {
                break Some(slots);
            }
            if let Some(seen) = guarded.unseen.pop() {
                self.give_up(&mut guarded, seen);
                continue;
            }
            if let Some(step) = guarded.state.memory.begin_step() {
                let slots = MutexGuard::unlocked(&mut guarded, || step.make());
                guarded.state.memory.add_step(slots);
                self.settled.notify_all();
                continue;
            }
            waits_since.get_or_insert_with(|| self.clock.now_ns());
            self.is_overloaded.store(true, Ordering::Relaxed);
            if self.has_threads || !self.write_run(&mut guarded) {
                guarded.starving += 1;
                self.work.notify_one();
                self.settled.wait(&mut guarded);
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
        slots
    }

    /// Holds contents.
    pub(super) fn insert(&self, contents: impl Iterator<Item = (Pbn, Option<NonZeroU64>, Slot)>) {
        let mut guarded = self.lock();
        let was_empty = guarded.state.waiting() == 0;
        contents.for_each(|(pbn, ticket, slot)| guarded.state.insert(pbn, ticket, slot));
        self.note_contents(&guarded);
        if was_empty || self.is_due(&guarded) {
            self.work.notify_one();
        }
        if !self.has_threads {
            // A writer that found neither room nor a content to write out can write these out.
            self.settled.notify_all();
        }
    }

    /// Gives up slots that a reader looked at. The last owner of a slot frees it, which can be the
    /// reader if the content was written out meanwhile.
    pub(super) fn put_back(&self, slots: impl Iterator<Item = Slot>) {
        let mut guarded = self.lock();
        slots.for_each(|slot| guarded.state.memory.put_back(slot));
        if guarded.starving > 0 {
            self.settled.notify_all();
        }
    }

    /// Writes to the store below, and holds nothing of these PBNs.
    pub(super) fn write_through(&self, writes: &mut [ContentWrite<'_>]) {
        writes.iter().for_each(|write| self.forget(write.pbn, 1));
        self.store.write(writes);
    }

    /// Forgets the contents of these PBNs, once none of them is being written.
    pub(super) fn forget(&self, first: Pbn, count: u32) {
        let mut guarded = self.lock();
        while !guarded.state.forget(first, count) {
            self.settled.wait(&mut guarded);
        }
        self.note_contents(&guarded);
        // A writer may have waited for the room that is there now.
        self.settled.notify_all();
    }

    /// Does the work of [`super::WriteBuffer::write_out`].
    pub(super) fn write_out(&self) -> io::Result<()> {
        let mut guarded = self.lock();
        let until = guarded.state.next_number();
        for _ in 0..TRIES {
            guarded.state.retry_failed();
            guarded.urgent = guarded.urgent.max(until);
            self.work.notify_one();
            while !guarded.state.has_failed() && !guarded.state.is_written(until) {
                if self.has_threads || !self.write_run(&mut guarded) {
                    self.settled.wait(&mut guarded);
                }
            }
            if !guarded.state.has_failed() {
                break;
            }
        }
        guarded.state.failure()
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        let began_ns = self.clock.now_ns();
        self.write_out()?;
        self.store.sync()?;
        self.counts.add_sync(self.clock.now_ns().saturating_sub(began_ns));
        Ok(())
    }

    /// Writes out one run. Returns `false` if there is none.
    fn write_run(&self, guarded: &mut MutexGuard<'_, Guarded>) -> bool {
        let Some(run) = guarded.state.take_run(self.run_blocks) else { return false };
        if self.is_due(guarded) {
            self.work.notify_one();
        }
        let outcomes = MutexGuard::unlocked(guarded, || self.write_contents(&run));
        let is_written = outcomes.iter().all(Result::is_ok);
        let seen = if is_written { self.to_be_seen(guarded, &run) } else { Vec::new() };
        guarded.state.settle(run, outcomes);
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

    fn write_contents(&self, run: &Run) -> Vec<io::Result<()>> {
        let contents = run.contents.iter();
        let mut writes: Vec<ContentWrite<'_>> =
            contents.map(|(pbn, content)| ContentWrite::new(*pbn, &content.slot)).collect();
        self.store.write(&mut writes);
        self.counts.add_run(writes.iter().map(|write| write.content.len() as u64).sum());
        writes.into_iter().map(|write| write.outcome).collect()
    }

    /// Returns whether a run should be written now. While others are being written, a short one can
    /// grow.
    fn is_due(&self, guarded: &Guarded) -> bool {
        let state = &guarded.state;
        let enough = if state.is_writing() { self.run_blocks } else { self.start_blocks };
        state.waiting() >= enough
            || guarded.starving > 0
            || guarded.is_ending
            || state.is_waiting_below(guarded.urgent)
    }

    /// Writes out the runs that are due, until the buffer ends and holds no content that can be
    /// written.
    pub(super) fn work(&self) {
        let_others_interrupt();
        let mut guarded = self.lock();
        loop {
            if self.is_due(&guarded) && self.write_run(&mut guarded) {
                continue;
            }
            if guarded.is_ending {
                return;
            }
            if guarded.state.waiting() == 0 || guarded.is_watched {
                self.work.wait(&mut guarded);
                continue;
            }
            guarded.is_watched = true;
            let waited = self.work.wait_for(&mut guarded, MOST_AGE);
            guarded.is_watched = false;
            if waited.timed_out() {
                guarded.urgent = guarded.state.next_number();
            }
        }
    }

    /// Tells the threads to write out everything that can be written, and to end.
    pub(super) fn end(&self) {
        self.lock().is_ending = true;
        self.work.notify_all();
        self.unseen.notify_all();
        self.call(Call { is_ending: true, ..Call::default() });
    }

    /// Writes out everything that can be written.
    pub(super) fn drain(&self) {
        let mut guarded = self.lock();
        while self.write_run(&mut guarded) {}
    }
}
