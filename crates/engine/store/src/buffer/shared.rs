//! The part of a write buffer that its threads share with it, and its lock.

use super::ahead::Ahead;
use super::options::BufferOptions;
use super::state::{ContentKey, State};
use super::stats::{BufferStats, Counts};
use super::unseen::Unseen;
use super::unwritten::broken;
use crate::cache::ContentCache;
use crate::memory::{Memory, Slot};
use crate::{ContentWrite, Store, WriteObserver};
use gemelo_base::Clock;
use gemelo_base::locks::{Condvar, Mutex, MutexGuard};
use gemelo_base::panics::{self, Panicked};
use gemelo_format::Pbn;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Most bytes that are written together. More are no faster.
const RUN_BYTES: usize = 1 << 20;
/// Writing out begins when this much waits: less would be slow, more would be a burst.
const START_BYTES: usize = 256 << 10;
/// The contents that wait for the observer have this part of all slots at most.
const SLOTS_PER_UNSEEN: usize = 8;
/// A buffer of fewer contents could not take one while it writes another.
const MIN_SLOTS: usize = 2;

/// Is told when a thread of a buffer panics.
pub type ToldOfPanic = Arc<dyn Fn(Panicked) + Send + Sync>;

/// The state that the lock guards.
#[derive(Debug)]
pub(super) struct Guarded {
    pub(super) state: State,
    /// Contents with smaller numbers are written out at once: a sync waits for them, or they are
    /// old.
    pub(super) urgent: u64,
    /// Writers that wait for room.
    pub(super) starving: usize,
    /// Contents that were written out and wait to be seen by the observer.
    pub(super) unseen: Unseen,
    /// `true` while a thread watches the age of the oldest waiting content.
    pub(super) is_watched: bool,
    pub(super) is_ending: bool,
    /// `true` after a panic: contents may be in flight for ever, so nobody waits any more.
    pub(super) is_broken: bool,
}

/// The part of a buffer that its threads share with it.
pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    /// Contents as they are in the store. Those in `guarded` are newer.
    pub(super) cache: ContentCache,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) observer: Option<Arc<dyn WriteObserver>>,
    told: ToldOfPanic,
    pub(super) has_threads: bool,
    pub(super) run_blocks: usize,
    pub(super) start_blocks: usize,
    guarded: Mutex<Guarded>,
    /// Held by the one thread that tries contents again that could not be written. Otherwise
    /// several would keep each other's contents waiting.
    pub(super) trying_again: Mutex<()>,
    /// Signalled when there may be something to write out.
    pub(super) work: Condvar,
    /// Signalled when contents were written.
    pub(super) settled: Condvar,
    /// Signalled when the observer has something to see.
    pub(super) unseen: Condvar,
    /// `true` if no content waits or is being written, as of the last change.
    is_empty: AtomicBool,
    /// `true` if nothing refers any more to a content that could not be written.
    has_unneeded: AtomicBool,
    /// `true` from the moment at which a writer found no room until one finds half of it free.
    pub(super) is_overloaded: AtomicBool,
    pub(super) counts: Counts,
    pub(super) ahead: Ahead,
}

/// The locked state. A panic while it is locked, or released for a call to the store,
/// breaks the buffer: the state may be half changed, or contents in flight that nobody writes.
pub(super) struct Locked<'s> {
    guard: MutexGuard<'s, Guarded>,
    shared: &'s Shared,
}

impl Locked<'_> {
    /// Does something without the lock.
    pub(super) fn unlocked<T>(&mut self, act: impl FnOnce() -> T) -> T {
        self.guard.unlocked(act)
    }

    /// Waits for a signal without the lock.
    pub(super) fn wait(&mut self, signal: &Condvar) {
        signal.wait(&mut self.guard);
    }

    /// Waits for a signal without the lock, at most this long. Returns whether none came.
    pub(super) fn wait_for(&mut self, signal: &Condvar, most: Duration) -> bool {
        signal.wait_for(&mut self.guard, most)
    }
}

impl Deref for Locked<'_> {
    type Target = Guarded;

    fn deref(&self) -> &Guarded {
        &self.guard
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Guarded {
        &mut self.guard
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.guard.is_broken = true;
            // Before a waiting thread gets an error and reports it as the reason.
            (self.shared.told)(panics::last_of_thread());
            self.shared.wake_all();
        }
    }
}

impl Shared {
    pub(super) fn new(
        store: Arc<dyn Store>,
        options: BufferOptions,
        clock: Arc<dyn Clock>,
        observer: Option<Arc<dyn WriteObserver>>,
        told: ToldOfPanic,
    ) -> Self {
        let block_bytes = store.block_bytes();
        assert!(block_bytes > 0, "a store of contents without bytes");
        let wanted = usize::try_from(options.bytes).unwrap_or(usize::MAX) / block_bytes;
        let slots = wanted.max(MIN_SLOTS);
        let guarded = Guarded {
            state: State::new(Memory::new(block_bytes, slots)),
            urgent: 0,
            starving: 0,
            unseen: Unseen::new(slots / SLOTS_PER_UNSEEN),
            is_watched: false,
            is_ending: false,
            is_broken: false,
        };
        let run_blocks = (RUN_BYTES / block_bytes).clamp(1, slots);
        Self {
            cache: ContentCache::new(
                block_bytes,
                (options.cache_bytes, options.caches_reads),
                options.background,
            ),
            has_threads: options.background,
            run_blocks,
            start_blocks: (START_BYTES / block_bytes).clamp(1, slots.div_ceil(2)),
            guarded: Mutex::new(guarded),
            trying_again: Mutex::new(()),
            work: Condvar::new(),
            settled: Condvar::new(),
            unseen: Condvar::new(),
            is_empty: AtomicBool::new(true),
            has_unneeded: AtomicBool::new(false),
            is_overloaded: AtomicBool::new(false),
            counts: Counts::default(),
            ahead: Ahead::new(options.background),
            store,
            clock,
            observer,
            told,
        }
    }

    pub(super) fn lock(&self) -> Locked<'_> {
        Locked { guard: self.guarded.lock(), shared: self }
    }

    /// Ends the work of the buffer after a panic, and reports it.
    pub(super) fn break_off(&self, panicked: Panicked) {
        (self.told)(panicked);
        self.guarded.lock().is_broken = true;
        self.wake_all();
    }

    /// Wakes everybody who waits.
    fn wake_all(&self) {
        self.work.notify_all();
        self.settled.notify_all();
        self.unseen.notify_all();
    }

    /// Returns whether no content waits or is being written. It sees a content that was written
    /// before the caller learned of its PBN.
    pub(super) fn is_empty(&self) -> bool {
        self.is_empty.load(Ordering::Acquire)
    }

    /// Returns whether a content in memory is not needed any more.
    pub(super) fn has_unneeded(&self) -> bool {
        self.has_unneeded.load(Ordering::Acquire)
    }

    /// Returns whether a writer found no room, and none has found half of it free since then.
    pub(super) fn is_overloaded(&self) -> bool {
        self.is_overloaded.load(Ordering::Relaxed)
    }

    pub(super) fn note_contents(&self, guarded: &Guarded) {
        self.is_empty.store(guarded.state.is_empty(), Ordering::Release);
        self.has_unneeded.store(guarded.state.unneeded() > 0, Ordering::Release);
    }

    pub(super) fn figures(&self) -> BufferStats {
        let block_bytes = self.store.block_bytes() as u64;
        let guarded = self.lock();
        let memory = &guarded.state.memory;
        let bytes = |slots: usize| slots as u64 * block_bytes;
        BufferStats {
            capacity_bytes: bytes(memory.most()),
            held_bytes: bytes(memory.used()),
            memory_bytes: bytes(memory.made()),
            ..self.counts.figures()
        }
    }

    /// Holds contents, of which one may be set aside.
    pub(super) fn insert(
        &self,
        contents: impl Iterator<Item = (ContentKey, Slot)>,
        aside: Option<Pbn>,
    ) {
        let mut guarded = self.lock();
        let was_empty = guarded.state.waiting() == 0;
        contents.for_each(|(key, slot)| guarded.state.insert(key, slot));
        aside.into_iter().for_each(|pbn| guarded.state.set_aside(pbn));
        self.note_contents(&guarded);
        if was_empty || self.is_due(&guarded) {
            self.work.notify_one();
        }
        if !self.has_threads {
            // A writer that found neither room nor a content to write out can write these out.
            self.settled.notify_all();
        }
    }

    /// Holds a content in place of an older one that was set aside and waits. Returns `false` if
    /// none does.
    pub(super) fn replace_aside(&self, pbn: Pbn, slot: Slot) -> bool {
        let mut guarded = self.lock();
        let replaced = guarded.state.replace_aside(pbn, slot);
        let is_replaced = replaced.is_ok();
        replaced.err().into_iter().for_each(|slot| guarded.state.memory.put_back(slot));
        if guarded.starving > 0 {
            self.settled.notify_all();
        }
        is_replaced
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

    /// Forgets the contents of these PBNs, once none of them is being written.
    ///
    /// # Errors
    /// Fails in a broken buffer, where a write may never end.
    pub(super) fn forget(&self, first: Pbn, count: u32) -> io::Result<()> {
        let mut guarded = self.lock();
        while !guarded.state.forget(first, count) {
            if guarded.is_broken {
                return Err(broken());
            }
            guarded.wait(&self.settled);
        }
        self.cache.forget(first.number()..first.number() + u64::from(count));
        self.note_contents(&guarded);
        // A writer may have waited for the room that is there now.
        self.settled.notify_all();
        Ok(())
    }

    /// Has nobody wait any more for contents to which nothing refers.
    pub(super) fn give_up_contents(&self, pbns: &[Pbn]) {
        let mut guarded = self.lock();
        pbns.iter().for_each(|pbn| guarded.state.give_up(*pbn));
        self.note_contents(&guarded);
        self.settled.notify_all();
    }

    /// Forgets those of these contents that were given up.
    pub(super) fn forget_unneeded(&self, pbns: &[Pbn]) {
        let mut guarded = self.lock();
        for pbn in pbns {
            guarded.state.forget_unneeded(*pbn);
            self.forget_cached(*pbn);
        }
        self.note_contents(&guarded);
        self.settled.notify_all();
    }

    /// Writes to the store below, and holds nothing of these PBNs.
    pub(super) fn write_through(&self, writes: &mut [ContentWrite<'_>]) {
        for write in writes.iter_mut() {
            write.outcome = self.forget(write.pbn, 1);
        }
        for some in writes.chunk_by_mut(|one, next| one.outcome.is_ok() == next.outcome.is_ok()) {
            if some.first().is_some_and(|write| write.outcome.is_ok()) {
                self.store.write(some);
                // A reader may have read what was there before, or a part of each.
                some.iter().for_each(|write| self.forget_cached(write.pbn));
            }
        }
    }

    /// Forgets what the cache has of a PBN.
    pub(super) fn forget_cached(&self, pbn: Pbn) {
        self.cache.forget(pbn.number()..pbn.number() + 1);
    }

    /// Tells the threads to write out everything that can be written, and to end.
    pub(super) fn end(&self) {
        let mut guarded = self.lock();
        guarded.is_ending = true;
        guarded.state.put_back_aside();
        drop(guarded);
        self.work.notify_all();
        self.unseen.notify_all();
        self.ahead.end();
        self.cache.end();
    }
}
