//! The locks of a cache: one for each shard, and one of them held at a time.

use super::ContentCache;
use super::shard::Shard;
use crate::memory::Slot;
use gemelo_base::locks::{Condvar, Mutex, MutexGuard};
use gemelo_format::Pbn;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// A shard and its lock.
#[derive(Debug)]
pub(super) struct Part {
    shard: Mutex<Shard>,
    /// Signalled when a reader has read a content for all.
    ended: Condvar,
    /// A panic has left the shard half changed: it is not used any more.
    is_broken: AtomicBool,
}

impl Part {
    pub(super) const fn new(shard: Shard) -> Self {
        let (ended, is_broken) = (Condvar::new(), AtomicBool::new(false));
        Self { shard: Mutex::new(shard), ended, is_broken }
    }

    /// Locks the shard, unless it is broken.
    pub(super) fn lock(&self) -> Option<LockedShard<'_>> {
        let shard = self.shard.lock();
        (!self.is_broken()).then_some(LockedShard { shard, part: self })
    }

    fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    /// Returns the number of contents.
    pub(super) fn contents(&self) -> usize {
        self.lock().map_or(0, |shard| shard.contents())
    }

    /// Ends the read of a content for all.
    pub(super) fn end_read(&self, pbn: Pbn) {
        self.lock().into_iter().for_each(|mut shard| shard.end_read(pbn));
        self.ended.notify_all();
    }

    /// Waits until no reader reads a content for all any more, and returns it if it is there.
    pub(super) fn await_read(&self, pbn: Pbn) -> Option<Slot> {
        let mut locked = self.lock()?;
        while locked.is_being_read(pbn) {
            self.ended.wait(&mut locked.shard);
            if self.is_broken() {
                return None;
            }
        }
        locked.find(pbn)
    }
}

/// A locked shard. A panic breaks it.
pub(super) struct LockedShard<'c> {
    shard: MutexGuard<'c, Shard>,
    part: &'c Part,
}

impl Deref for LockedShard<'_> {
    type Target = Shard;

    fn deref(&self) -> &Shard {
        &self.shard
    }
}

impl DerefMut for LockedShard<'_> {
    fn deref_mut(&mut self) -> &mut Shard {
        &mut self.shard
    }
}

impl Drop for LockedShard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.part.is_broken.store(true, Ordering::Release);
            self.part.ended.notify_all();
        }
    }
}

/// The lock of one shard, held on while the next PBN has the same one.
pub(super) struct Locking<'c> {
    cache: &'c ContentCache,
    held: Option<LockedShard<'c>>,
}

impl<'c> Locking<'c> {
    pub(super) const fn new(cache: &'c ContentCache) -> Self {
        Self { cache, held: None }
    }

    /// Returns the shard of a PBN; [`None`] if there is none, or if it is broken.
    pub(super) fn shard(&mut self, pbn: Pbn) -> Option<&mut Shard> {
        let part = self.cache.part(pbn)?;
        if self.held.as_ref().is_none_or(|held| !std::ptr::eq(held.part, part)) {
            // No thread has two of these locks.
            self.held = None;
            self.held = part.lock();
        }
        self.held.as_deref_mut()
    }
}
