//! The contents that a write buffer holds, and the order in which they are written out.

use super::queue::Queue;
use super::unseen::Written;
use crate::cache::{ContentCache, hash};
use crate::memory::{Memory, Slot};
use crate::{copy_of, is_no_space};
use gemelo_format::Pbn;
use hashbrown::HashTable;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;

/// The PBN of a content, and the ticket of its write.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContentKey {
    pub(super) pbn: Pbn,
    pub(super) ticket: Option<NonZeroU64>,
}

/// The contents of one PBN. At least one of the two is there.
#[derive(Debug)]
struct Held {
    pbn: Pbn,
    /// The newest content, if it is not being written.
    waiting: Option<Content>,
    /// A content that is being written. A newer one waits until it is done, so that the older one
    /// never overwrites it.
    flying: Option<Slot>,
}

impl Held {
    fn is_ready(&self) -> bool {
        self.waiting.is_some() && self.flying.is_none()
    }
}

/// A content that waits to be written, or is being written.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) pbn: Pbn,
    number: u64,
    /// The ticket of its write.
    ticket: Option<NonZeroU64>,
    /// `true` if its owner set it aside and may still replace it. A content that anyone else has
    /// written since is another one, and the owner's version lacks what that one has.
    is_replaceable: bool,
    pub(super) slot: Slot,
}

/// A content that is being written, and the outcome once it was.
#[derive(Debug)]
pub(super) struct Flown {
    pub(super) content: Content,
    pub(super) outcome: io::Result<()>,
}

/// Contents that are being written together: runs of neighbouring PBNs, each in order.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) contents: Vec<Flown>,
    pub(super) runs: u64,
    oldest: u64,
}

impl Flight {
    /// Returns the contents whose writes have tickets. The caller gives up the slots under the lock
    /// of the buffer.
    pub(super) fn ticketed(&self) -> Vec<Written> {
        let written = |Flown { content, .. }: &Flown| {
            let slot = Arc::clone(&content.slot);
            Some(Written { pbn: content.pbn, ticket: content.ticket?, slot })
        };
        self.contents.iter().filter_map(written).collect()
    }
}

/// The state of a buffer. It is guarded by one lock, and nothing is copied or written under it.
#[derive(Debug)]
pub(super) struct State {
    pub(super) memory: Memory,
    held: HashTable<Held>,
    /// The contents that wait to be written.
    queue: Queue,
    /// A content that waits, but not in the queue: its owner replaces it soon.
    set_aside: Option<Pbn>,
    /// The oldest numbers of the flights that are under way.
    flights: BTreeSet<u64>,
    /// PBNs whose content could not be written, and why. It waits, and is not in the queue.
    failed: BTreeMap<Pbn, io::Error>,
    /// PBNs whose content could not be written and is not needed any more: nothing refers to the
    /// block. It waits, and is neither in the queue nor failed. A request may still read it.
    unneeded: BTreeSet<Pbn>,
}

impl State {
    pub(super) fn new(memory: Memory) -> Self {
        Self {
            memory,
            held: HashTable::new(),
            queue: Queue::new(),
            set_aside: None,
            flights: BTreeSet::new(),
            failed: BTreeMap::new(),
            unneeded: BTreeSet::new(),
        }
    }

    /// Returns the number that the next content gets.
    pub(super) fn next_number(&self) -> u64 {
        self.queue.next_number()
    }

    /// Returns the number of contents that wait and may be written.
    pub(super) const fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// Returns whether contents are being written.
    pub(super) fn is_writing(&self) -> bool {
        !self.flights.is_empty()
    }

    /// Returns whether a content with a smaller number waits and may be written.
    pub(super) fn is_waiting_below(&self, until: u64) -> bool {
        self.queue.oldest().is_some_and(|number| number < until)
    }

    /// Returns whether there is a content in memory.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns the number of slots in use.
    pub(super) const fn used(&self) -> usize {
        self.memory.used()
    }

    /// Returns whether the writing of all contents with smaller numbers has ended, well or not.
    pub(super) fn is_written(&self, until: u64) -> bool {
        let is_later = |number: Option<u64>| number.is_none_or(|number| number >= until);
        is_later(self.queue.oldest()) && is_later(self.flights.first().copied())
    }

    /// Returns whether a content could not be written.
    pub(super) fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Returns the PBNs whose contents could not be written.
    pub(super) fn failed(&self) -> Vec<Pbn> {
        self.failed.keys().copied().collect()
    }

    /// Returns an error of a content that could not be written, if there is one. One that is not
    /// for lack of space comes first.
    pub(super) fn failure(&self) -> Option<io::Error> {
        let worst = self.failed.values().find(|error| !is_no_space(error));
        worst.or_else(|| self.failed.values().next()).map(copy_of)
    }

    /// Returns the number of contents that are not needed any more.
    pub(super) fn unneeded(&self) -> usize {
        self.unneeded.len()
    }

    /// Returns whether no content leaves before one that is not needed is forgotten.
    pub(super) fn is_full_of_unneeded(&self) -> bool {
        !self.unneeded.is_empty()
            && self.queue.waiting() == 0
            && self.flights.is_empty()
            && !self.memory.is_making()
    }

    /// Holds the newest content of a PBN.
    pub(super) fn insert(&mut self, key: ContentKey, slot: Slot) {
        let ContentKey { pbn, ticket } = key;
        let (is_same, rehash) = (|held: &Held| held.pbn == pbn, |held: &Held| hash(held.pbn));
        let entry = self.held.entry(hash(pbn), is_same, rehash);
        let nothing = || Held { pbn, waiting: None, flying: None };
        let held = entry.or_insert_with(nothing).into_mut();
        if let Some(waiting) = &mut held.waiting {
            // It keeps its place, so that a block that is written all the time is written out.
            let old = std::mem::replace(&mut waiting.slot, slot);
            waiting.ticket = ticket;
            waiting.is_replaceable = false;
            if self.unneeded.remove(&pbn) {
                waiting.number = self.queue.push(pbn);
            }
            self.memory.put_back(old);
            return;
        }
        assert!(!self.failed.contains_key(&pbn), "a content that failed does not wait");
        let number = self.queue.push(pbn);
        held.waiting = Some(Content { pbn, number, ticket, is_replaceable: false, slot });
    }

    /// Holds a content in place of one that its owner has set aside and that nobody has begun to
    /// write or has replaced since. Returns the new content if there is no such one.
    pub(super) fn replace_aside(&mut self, pbn: Pbn, slot: Slot) -> Result<(), Slot> {
        let waits = self.waits(pbn);
        let waiting = self.held_mut(pbn).and_then(|held| held.waiting.as_mut());
        let Some(waiting) = waiting.filter(|waiting| waits && waiting.is_replaceable) else {
            return Err(slot);
        };
        let old = std::mem::replace(&mut waiting.slot, slot);
        self.memory.put_back(old);
        Ok(())
    }

    fn held_of(&self, pbn: Pbn) -> Option<&Held> {
        self.held.find(hash(pbn), |held| held.pbn == pbn)
    }

    fn held_mut(&mut self, pbn: Pbn) -> Option<&mut Held> {
        self.held.find_mut(hash(pbn), |held| held.pbn == pbn)
    }

    /// Removes the entry of a PBN whose content is not held any more.
    fn remove(&mut self, pbn: Pbn) {
        if let Ok(entry) = self.held.find_entry(hash(pbn), |held| held.pbn == pbn) {
            entry.remove();
        }
    }

    /// Returns the newest content of a PBN, if it is in memory and may be nowhere else.
    pub(super) fn find(&self, pbn: Pbn) -> Option<Slot> {
        let held = self.held_of(pbn)?;
        let waiting = held.waiting.as_ref().map(|content| &content.slot);
        waiting.or(held.flying.as_ref()).map(Arc::clone)
    }

    /// Returns whether a content of this PBN waits that nobody has tried to write.
    pub(super) fn waits(&self, pbn: Pbn) -> bool {
        let is_tried = self.failed.contains_key(&pbn) || self.unneeded.contains(&pbn);
        self.held_of(pbn).is_some_and(Held::is_ready) && !is_tried
    }

    fn is_ready(&self, pbn: Pbn) -> bool {
        self.set_aside != Some(pbn) && self.waits(pbn)
    }

    /// Takes a content out of the queue if it waits there, and puts back the one that was out
    /// before.
    pub(super) fn set_aside(&mut self, pbn: Pbn) {
        self.put_back_aside();
        let waiting = self.held_of(pbn).and_then(|held| held.waiting.as_ref());
        if let Some(number) = waiting.map(|content| content.number).filter(|_| self.waits(pbn)) {
            self.queue.remove(number);
            self.set_aside = Some(pbn);
            let waiting = self.held_mut(pbn).and_then(|held| held.waiting.as_mut());
            waiting.into_iter().for_each(|waiting| waiting.is_replaceable = true);
        }
    }

    /// Puts the content that was set aside at the end of the queue.
    pub(super) fn put_back_aside(&mut self) {
        let Some(pbn) = self.set_aside.take() else { return };
        let number = self.queue.push(pbn);
        let content = self.held_mut(pbn).and_then(|held| held.waiting.as_mut());
        assert!(content.is_some(), "a content that was set aside waits");
        content.into_iter().for_each(|content| content.number = number);
    }

    /// Begins to write the contents that wait longest, each with those of its neighbours. Where
    /// free blocks lie scattered, runs are short, and a disk takes many at once.
    pub(super) fn take_flight(&mut self, most: usize) -> Option<Flight> {
        let (mut contents, mut runs) = (Vec::new(), 0);
        while contents.len() < most && self.take_run(most - contents.len(), &mut contents) {
            runs += 1;
        }
        let oldest = contents.iter().map(|flown: &Flown| flown.content.number).min()?;
        assert!(self.flights.insert(oldest), "a content is in one flight only");
        Some(Flight { contents, runs, oldest })
    }

    /// Adds the content that waits longest to a flight, with those of its neighbours. Returns
    /// `false` if none is ready.
    fn take_run(&mut self, most: usize, contents: &mut Vec<Flown>) -> bool {
        let oldest = self.queue.pbns().find(|pbn| self.is_ready(*pbn));
        let Some(oldest) = oldest else { return false };
        let (mut first, mut count) = (oldest.number(), 1);
        let is_ready = |number: u64| Pbn::new(number).is_some_and(|pbn| self.is_ready(pbn));
        while count < most && first.checked_sub(1).is_some_and(is_ready) {
            (first, count) = (first - 1, count + 1);
        }
        let next = |count: usize| first.checked_add(count as u64);
        while count < most && next(count).is_some_and(is_ready) {
            count += 1;
        }
        let pbns = (0..count).filter_map(|at| Pbn::new(next(at)?)).collect::<Vec<_>>();
        assert_eq!(pbns.len(), count, "a run has a PBN for each content");
        let before = contents.len();
        for pbn in pbns {
            let Some(held) = self.held_mut(pbn) else { continue };
            let Some(content) = held.waiting.take() else { continue };
            held.flying = Some(Arc::clone(&content.slot));
            self.queue.remove(content.number);
            contents.push(Flown { content, outcome: Ok(()) });
        }
        assert_eq!(contents.len() - before, count, "all contents of a run were ready");
        true
    }

    /// Ends the writing of a flight. A content that could not be written is held on. The others go
    /// to the cache if they are the newest of their PBNs.
    pub(super) fn settle(&mut self, flight: Flight, cache: &ContentCache) {
        let is_known = self.flights.remove(&flight.oldest);
        assert!(is_known, "a flight that is not under way has ended");
        let mut written = Vec::with_capacity(flight.contents.len());
        for Flown { content, outcome } in flight.contents {
            let pbn = content.pbn;
            let held = self.held_mut(pbn);
            let flown = held.as_ref().is_some_and(|held| held.flying.is_some());
            assert!(flown, "a content that was written is not in flight");
            let Some(held) = held else { continue };
            held.flying = None;
            let is_newest = held.waiting.is_none();
            match outcome {
                Err(error) if is_newest => {
                    held.waiting = Some(content);
                    self.failed.insert(pbn, error);
                }
                Ok(()) if is_newest => {
                    self.remove(pbn);
                    written.push((pbn, content.slot));
                }
                // A newer content makes up for a failure.
                Ok(()) | Err(_) => self.memory.put_back(content.slot),
            }
        }
        let memory = &mut self.memory;
        cache.keep(written.into_iter(), |slot| memory.put_back(slot));
    }

    /// Has the contents that could not be written wait for another try.
    pub(super) fn retry_failed(&mut self) {
        for pbn in std::mem::take(&mut self.failed).into_keys() {
            let waiting = self.held_of(pbn).and_then(|held| held.waiting.as_ref());
            assert!(waiting.is_some(), "a content that failed waits");
            if let Some(number) = waiting.map(|content| content.number) {
                self.queue.put_back(number, pbn);
            }
        }
    }

    /// Gives up a content that could not be written, because nothing refers to its block.
    pub(super) fn give_up(&mut self, pbn: Pbn) {
        if self.failed.remove(&pbn).is_some() {
            self.unneeded.insert(pbn);
        }
    }

    /// Forgets a content that was given up, now that no request reads it.
    pub(super) fn forget_unneeded(&mut self, pbn: Pbn) {
        if self.unneeded.contains(&pbn) {
            let is_still = self.forget(pbn, 1);
            assert!(is_still, "a content that is not needed is not being written");
        }
    }

    /// Forgets the contents of these PBNs that are not being written. Returns whether none is being
    /// written.
    pub(super) fn forget(&mut self, first: Pbn, count: u32) -> bool {
        let numbers = first.number()..first.number() + u64::from(count);
        // The shorter one of the range and the table is searched.
        let pbns: Vec<Pbn> = if u64::from(count) <= self.held.len() as u64 {
            numbers.filter_map(Pbn::new).collect()
        } else {
            let held = self.held.iter().map(|held| held.pbn);
            held.filter(|pbn| numbers.contains(&pbn.number())).collect()
        };
        let mut is_still = true;
        for pbn in pbns {
            let Some(held) = self.held_mut(pbn) else { continue };
            let (waiting, is_flying) = (held.waiting.take(), held.flying.is_some());
            if let Some(content) = waiting {
                self.queue.remove(content.number);
                self.set_aside.take_if(|aside| *aside == pbn);
                self.failed.remove(&pbn);
                self.unneeded.remove(&pbn);
                self.memory.put_back(content.slot);
            }
            if is_flying {
                is_still = false;
            } else {
                self.remove(pbn);
            }
        }
        is_still
    }
}
