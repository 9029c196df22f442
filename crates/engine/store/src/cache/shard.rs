//! A part of a cache, with a lock of its own: some of the contents, and the choice of those that
//! leave.
//!
//! The choice is that of S3-FIFO (Yang, Zhang, Qiu, Yue and Rashmi, "FIFO queues are all you need
//! for cache eviction", SOSP 2023). A content enters a small queue. One that was found there twice
//! moves to the main queue, and any other one leaves at its turn, so that a long scan passes
//! through the small queue alone. A content that comes back soon after that enters the main queue.
//! In the main queue a content that was found since its last turn gets another one. A reader that
//! finds a content counts that, and moves nothing.

use super::ghost::Ghost;
use super::{CacheMemory, hash};
use crate::memory::Slot;
use gemelo_format::Pbn;
use hashbrown::HashTable;
use std::collections::VecDeque;
use std::sync::Arc;

/// The small queue has this part of all contents, once the main queue has the others: 10 % in the
/// publication.
const SMALL_PART: usize = 10;
/// A content moves to the main queue if it was found this often in the small one.
const OFTEN: u8 = 2;
/// A content is counted as found up to this often.
const MAX_FOUND: u8 = 3;
/// Contents that get another turn, or are in use, at one search for a content that leaves.
const MAX_PASSED_OVER: usize = 64;
/// Slots without a content that are looked at in the search for one that no reader uses.
const MAX_SPARE_TRIED: usize = 8;
/// Contents for which the table has places from its first use on. A table of more grows when it has
/// to, whatever size of the cache was asked for.
const TABLE_PLACES: usize = 1 << 18;
/// CacheCounts of the changes of contents, each for the PBNs of some hashes.
const VERSIONS: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShardQueue {
    Small,
    Main,
}

/// A content.
#[derive(Debug)]
struct Kept {
    pbn: Pbn,
    /// Tells it from earlier ones of its PBN.
    number: u64,
    queue: ShardQueue,
    found: u8,
    slot: Slot,
}

/// The turns of contents, the next one at the front. Turns of contents that have gone are left.
#[derive(Debug, Default)]
struct Turns {
    turns: VecDeque<(Pbn, u64)>,
    contents: usize,
}

/// The state of a read of a content that was not found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Missed {
    pub(super) pbn: Pbn,
    version: u32,
    /// `true` if it was in the cache, or was read, not long ago.
    pub(super) is_known: bool,
}

/// A part of the contents.
#[derive(Debug)]
pub(super) struct Shard {
    table: HashTable<Kept>,
    small: Turns,
    main: Turns,
    ghost: Ghost,
    /// Slots without a content. Readers may still use some.
    spare: VecDeque<Slot>,
    /// Slots that readers fill.
    lent: usize,
    /// Most slots.
    most: usize,
    next_number: u64,
    /// Changes of contents on the disk, by the hashes of PBNs. What was read before a change is not
    /// taken after it.
    versions: Vec<u32>,
    /// PBNs that a reader reads from the disk, for itself and all that wait for it.
    being_read: HashTable<Pbn>,
}

impl Shard {
    pub(super) fn new(most: usize) -> Self {
        Self {
            table: HashTable::new(),
            small: Turns::default(),
            main: Turns::default(),
            ghost: Ghost::new(most),
            spare: VecDeque::new(),
            lent: 0,
            most,
            next_number: 0,
            versions: vec![0; VERSIONS],
            being_read: HashTable::new(),
        }
    }

    /// Returns the number of contents.
    pub(super) fn contents(&self) -> usize {
        self.table.len()
    }

    /// Returns the content of a PBN, and counts that it was found.
    pub(super) fn find(&mut self, pbn: Pbn) -> Option<Slot> {
        let kept = self.table.find_mut(hash(pbn), |kept| kept.pbn == pbn)?;
        kept.found = (kept.found + 1).min(MAX_FOUND);
        Some(Arc::clone(&kept.slot))
    }

    /// Returns whether there is a content of a PBN.
    fn contains(&self, pbn: Pbn) -> bool {
        self.table.find(hash(pbn), |kept| kept.pbn == pbn).is_some()
    }

    /// Notes that a content was not found, for [`Self::fill`].
    pub(super) fn miss(&mut self, pbn: Pbn) -> Missed {
        let version = self.version(pbn).map_or(0, |version| *version);
        Missed { pbn, version, is_known: self.ghost.knows(pbn) }
    }

    /// Notes that a content was read and is not taken.
    pub(super) fn note(&mut self, pbn: Pbn) {
        self.ghost.note(pbn);
    }

    fn version(&mut self, pbn: Pbn) -> Option<&mut u32> {
        // The cast is safe: the remainder is small.
        self.versions.get_mut((hash(pbn) >> 32) as usize % VERSIONS)
    }

    /// Has no content taken of this PBN that was read before now.
    fn note_change(&mut self, pbn: Pbn) {
        if let Some(version) = self.version(pbn) {
            *version = version.wrapping_add(1);
        }
    }

    /// Takes the newest content of a PBN, which was written to the disk. Returns a slot in exchange
    /// that nobody uses, or the same one if there is no room for the content.
    pub(super) fn keep(&mut self, pbn: Pbn, slot: Slot, memory: &CacheMemory) -> Slot {
        self.forget(pbn);
        match self.room(memory) {
            Some(given) => {
                let is_known = self.ghost.knows(pbn);
                self.insert(pbn, slot, is_known);
                given
            }
            None => slot,
        }
    }

    /// Lends a slot that nobody uses, if there is one, to a reader that fills it.
    pub(super) fn lend(&mut self, memory: &CacheMemory) -> Option<Slot> {
        let slot = self.room(memory)?;
        self.lent += 1;
        Some(slot)
    }

    /// Takes back a slot that was lent, with the content that was missed, unless the content on the
    /// disk has changed since then or has been taken.
    pub(super) fn fill(&mut self, missed: Missed, slot: Slot) {
        assert!(self.lent > 0, "a slot comes back that was not lent");
        self.lent -= 1;
        let is_unchanged = self.version(missed.pbn).is_some_and(|now| *now == missed.version);
        if is_unchanged && !self.contains(missed.pbn) {
            self.insert(missed.pbn, slot, missed.is_known);
        } else {
            self.spare.push_back(slot);
        }
    }

    /// Forgets the content of a PBN.
    pub(super) fn forget(&mut self, pbn: Pbn) {
        self.note_change(pbn);
        if let Some(kept) = self.remove(pbn, None) {
            self.turns(kept.queue).contents -= 1;
            self.spare.push_back(kept.slot);
        }
        self.drop_stale_turns();
    }

    /// Begins to read a content for all readers. Returns `false` if another one reads it.
    pub(super) fn begin_read(&mut self, pbn: Pbn) -> bool {
        let is_first = !self.is_being_read(pbn);
        if is_first {
            self.being_read.insert_unique(hash(pbn), pbn, |pbn| hash(*pbn));
        }
        is_first
    }

    /// Returns whether a reader reads a content for all.
    pub(super) fn is_being_read(&self, pbn: Pbn) -> bool {
        self.being_read.find(hash(pbn), |other| *other == pbn).is_some()
    }

    /// Ends the read of a content.
    pub(super) fn end_read(&mut self, pbn: Pbn) {
        if let Ok(entry) = self.being_read.find_entry(hash(pbn), |other| *other == pbn) {
            entry.remove();
        }
    }

    /// Returns the PBNs whose contents are there.
    pub(super) fn pbns(&self) -> impl Iterator<Item = Pbn> {
        self.table.iter().map(|kept| kept.pbn)
    }

    /// Has no content taken that was read before now, of any PBN.
    pub(super) fn note_changes(&mut self) {
        self.versions.iter_mut().for_each(|version| *version = version.wrapping_add(1));
    }

    fn turns(&mut self, queue: ShardQueue) -> &mut Turns {
        match queue {
            ShardQueue::Small => &mut self.small,
            ShardQueue::Main => &mut self.main,
        }
    }

    fn insert(&mut self, pbn: Pbn, slot: Slot, is_known: bool) {
        let number = self.next_number;
        self.next_number += 1;
        let queue = if is_known { ShardQueue::Main } else { ShardQueue::Small };
        self.ghost.forget(pbn);
        if self.table.capacity() == 0 {
            // It seldom moves its contents to a larger table while others wait for the lock.
            self.table.reserve(self.most.min(TABLE_PLACES), |kept| hash(kept.pbn));
        }
        let kept = Kept { pbn, number, queue, found: 0, slot };
        self.table.insert_unique(hash(pbn), kept, |kept| hash(kept.pbn));
        let turns = self.turns(queue);
        turns.contents += 1;
        turns.turns.push_back((pbn, number));
    }

    /// Takes out the content of a PBN, if it has this number.
    fn remove(&mut self, pbn: Pbn, number: Option<u64>) -> Option<Kept> {
        let is_it =
            |kept: &Kept| kept.pbn == pbn && number.is_none_or(|number| number == kept.number);
        let entry = self.table.find_entry(hash(pbn), is_it).ok()?;
        Some(entry.remove().0)
    }

    /// Returns a slot that nobody uses: a spare one, a new one, or that of a content that leaves.
    fn room(&mut self, memory: &CacheMemory) -> Option<Slot> {
        for _ in 0..self.spare.len().min(MAX_SPARE_TRIED) {
            let Some(mut slot) = self.spare.pop_back() else { break };
            if Arc::get_mut(&mut slot).is_some() {
                return Some(slot);
            }
            self.spare.push_front(slot);
        }
        let slots = self.table.len() + self.spare.len() + self.lent;
        assert!(slots <= self.most, "more contents are cached than there is memory for");
        let new = if slots < self.most { memory.take() } else { None };
        new.or_else(|| self.evict())
    }

    /// Has a content leave, and returns its slot.
    fn evict(&mut self) -> Option<Slot> {
        let mut passed_over = 0;
        while passed_over <= MAX_PASSED_OVER {
            let is_small = self.small.contents > self.most / SMALL_PART || self.main.contents == 0;
            let queue = if is_small { ShardQueue::Small } else { ShardQueue::Main };
            let (pbn, number) = self.turns(queue).turns.pop_front()?;
            let is_it = |kept: &Kept| kept.pbn == pbn && kept.number == number;
            let Some(kept) = self.table.find_mut(hash(pbn), is_it) else { continue };
            let is_in_use = Arc::get_mut(&mut kept.slot).is_none();
            let is_last = passed_over == MAX_PASSED_OVER;
            if !is_in_use && (is_last || !has_another_turn(kept)) {
                self.turns(queue).contents -= 1;
                if queue == ShardQueue::Small {
                    self.ghost.note(pbn);
                }
                return self.remove(pbn, Some(number)).map(|kept| kept.slot);
            }
            passed_over += 1;
            let next = kept.queue;
            self.turns(queue).contents -= 1;
            let turns = self.turns(next);
            turns.contents += 1;
            turns.turns.push_back((pbn, number));
        }
        None
    }

    /// Bounds the turns of contents that have gone.
    fn drop_stale_turns(&mut self) {
        let Self { table, small, main, .. } = self;
        for (turns, queue) in [(small, ShardQueue::Small), (main, ShardQueue::Main)] {
            if turns.turns.len() > 2 * turns.contents + MAX_PASSED_OVER {
                turns.turns.retain(|(pbn, number)| {
                    let is_it = |kept: &Kept| kept.pbn == *pbn && kept.number == *number;
                    table.find(hash(*pbn), is_it).is_some_and(|kept| kept.queue == queue)
                });
            }
        }
    }
}

/// Returns whether a content whose turn it is stays, and counts that down.
fn has_another_turn(kept: &mut Kept) -> bool {
    match kept.queue {
        ShardQueue::Small => {
            let is_often = kept.found >= OFTEN;
            if is_often {
                (kept.queue, kept.found) = (ShardQueue::Main, 0);
            }
            is_often
        }
        ShardQueue::Main => {
            let was_found = kept.found > 0;
            kept.found = kept.found.saturating_sub(1);
            was_found
        }
    }
}

#[cfg(test)]
mod tests;
