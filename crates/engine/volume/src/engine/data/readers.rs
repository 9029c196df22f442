//! Tells when a freed block may be reused: after every request that may still read it has ended.
//!
//! A request looks up a PBN and reads it later, without a lock in between. It pins the epoch in
//! which it began. A block that was freed in an epoch may be written again once all pins of that
//! epoch and of the one before are gone.
//!
//! `tests/readers.rs` compiles this file with atomics that try out orders of execution.

use crate::sync::{AtomicU64, Ordering};
use gemelo_format::Pbn;

/// Requests under way, by the parity of the epoch in which they began.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    epoch: AtomicU64,
    pinned: [AtomicU64; 2],
}

/// Holds an epoch until it is dropped.
pub(crate) struct Pin<'a> {
    pinned: &'a AtomicU64,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.pinned.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Readers {
    /// Pins the present epoch. The caller calls it before the look-up.
    pub(crate) fn pin(&self) -> Pin<'_> {
        let [even, odd] = &self.pinned;
        loop {
            let epoch = self.epoch.load(Ordering::SeqCst);
            let pinned = if epoch.is_multiple_of(2) { even } else { odd };
            pinned.fetch_add(1, Ordering::SeqCst);
            if self.epoch.load(Ordering::SeqCst) == epoch {
                return Pin { pinned };
            }
            pinned.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Begins the next epoch, if all requests of the epoch before the present one have ended.
    fn advance(&self) -> bool {
        let epoch = self.epoch.load(Ordering::SeqCst);
        let [even, odd] = &self.pinned;
        let before = if epoch.is_multiple_of(2) { odd } else { even };
        if before.load(Ordering::SeqCst) > 0 {
            return false;
        }
        self.epoch.store(epoch.wrapping_add(1), Ordering::SeqCst);
        true
    }
}

/// Blocks that no durable state refers to and that a request may still read.
#[derive(Debug, Default)]
pub(crate) struct Retired {
    /// Freed in the present epoch.
    fresh: Vec<Pbn>,
    /// Freed in the epoch before.
    waiting: Vec<Pbn>,
    /// Their contents were moved away, and maps may name them until the next checkpoint.
    named: Vec<Pbn>,
}

impl Retired {
    /// Adds blocks, which no map refers to any more.
    pub(crate) fn add(&mut self, pbns: &mut Vec<Pbn>) {
        self.fresh.append(pbns);
    }

    /// Keeps blocks that maps may name.
    pub(crate) fn add_named(&mut self, pbns: Vec<Pbn>) {
        self.named.extend(pbns);
    }

    /// Adds those of the kept blocks that no map names any more.
    pub(crate) fn settle(&mut self, is_named: impl Fn(&Pbn) -> bool) {
        let settled = self.named.extract_if(.., |pbn| !is_named(pbn));
        self.fresh.extend(settled);
    }

    /// All of these blocks.
    pub(crate) fn pbns(&self) -> impl Iterator<Item = Pbn> {
        self.fresh.iter().chain(&self.waiting).chain(&self.named).copied()
    }

    /// The blocks that wait for a checkpoint.
    pub(crate) fn named(&self) -> usize {
        self.named.len()
    }

    /// The blocks that wait for requests.
    pub(crate) fn len(&self) -> usize {
        self.fresh.len() + self.waiting.len()
    }

    /// Hands out the blocks that no request can be reading.
    pub(crate) fn collect(&mut self, readers: &Readers, mut free: impl FnMut(Pbn)) {
        while self.len() > 0 && readers.advance() {
            // The epoch that has just ended is that of `fresh`; the one of `waiting` has no
            // requests left.
            self.waiting.drain(..).for_each(&mut free);
            std::mem::swap(&mut self.fresh, &mut self.waiting);
        }
    }
}
