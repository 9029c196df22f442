//! The contents that a write buffer holds, and the order in which they are written out.

use super::memory::{Memory, Slot};
use super::queue::Queue;
use super::unseen::Written;
use gemelo_base::random::mix_pair;
use gemelo_format::Pbn;
use hashbrown::HashTable;
use std::collections::BTreeSet;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;

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

fn hash(pbn: Pbn) -> u64 {
    mix_pair(u64::from(pbn.number()), 0)
}

/// A content that waits to be written.
#[derive(Debug)]
pub(super) struct Content {
    number: u64,
    /// The ticket of its write.
    ticket: Option<NonZeroU64>,
    pub(super) slot: Slot,
}

/// Contents of neighbouring PBNs, in order, that are being written.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) contents: Vec<(Pbn, Content)>,
    oldest: u64,
}

impl Run {
    /// Returns the contents whose writes have tickets. The caller gives up the slots under the lock
    /// of the buffer.
    pub(super) fn ticketed(&self) -> Vec<Written> {
        let contents = self.contents.iter();
        contents
            .filter_map(|(pbn, content)| Some((*pbn, content.ticket?, Arc::clone(&content.slot))))
            .collect()
    }
}

/// The state of a buffer. It is guarded by one lock, and nothing is copied or written under it.
#[derive(Debug)]
pub(super) struct State {
    pub(super) memory: Memory,
    held: HashTable<Held>,
    /// The contents that wait to be written.
    queue: Queue,
    /// The oldest numbers of the runs that are being written.
    flights: BTreeSet<u64>,
    /// PBNs whose content could not be written. It waits, and is not in the queue.
    failed: BTreeSet<Pbn>,
    failure: Option<io::Error>,
}

impl State {
    pub(super) const fn new(memory: Memory) -> Self {
        Self {
            memory,
            held: HashTable::new(),
            queue: Queue::new(),
            flights: BTreeSet::new(),
            failed: BTreeSet::new(),
            failure: None,
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

    /// Returns whether runs are being written.
    pub(super) fn is_writing(&self) -> bool {
        !self.flights.is_empty()
    }

    /// Returns whether a content with a smaller number waits and may be written.
    pub(super) fn is_waiting_below(&self, until: u64) -> bool {
        self.queue.oldest().is_some_and(|number| number < until)
    }

    /// Returns the number of PBNs of which a content is held.
    pub(super) fn held(&self) -> usize {
        self.held.len()
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

    /// Returns the last error, if a content could not be written.
    pub(super) fn failure(&self) -> io::Result<()> {
        match &self.failure {
            Some(error) if self.has_failed() => Err(match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(error.kind(), error.to_string()),
            }),
            _ => Ok(()),
        }
    }

    /// Holds the newest content of a PBN.
    pub(super) fn insert(&mut self, pbn: Pbn, ticket: Option<NonZeroU64>, slot: Slot) {
        let (is_same, rehash) = (|held: &Held| held.pbn == pbn, |held: &Held| hash(held.pbn));
        let entry = self.held.entry(hash(pbn), is_same, rehash);
        let nothing = || Held { pbn, waiting: None, flying: None };
        let held = entry.or_insert_with(nothing).into_mut();
        if let Some(waiting) = &mut held.waiting {
            // It keeps its place, so that a block that is written all the time is written out.
            let old = std::mem::replace(&mut waiting.slot, slot);
            waiting.ticket = ticket;
            self.memory.put_back(old);
            return;
        }
        held.waiting = Some(Content { number: self.queue.push(pbn), ticket, slot });
    }

    fn held_of(&self, pbn: Pbn) -> Option<&Held> {
        self.held.find(hash(pbn), |held| held.pbn == pbn)
    }

    fn held_mut(&mut self, pbn: Pbn) -> Option<&mut Held> {
        self.held.find_mut(hash(pbn), |held| held.pbn == pbn)
    }

    /// Removes the entry of a PBN of which no content is held any more.
    fn remove(&mut self, pbn: Pbn) {
        if let Ok(entry) = self.held.find_entry(hash(pbn), |held| held.pbn == pbn) {
            entry.remove();
        }
    }

    /// Returns the newest content that is held of a PBN.
    pub(super) fn find(&self, pbn: Pbn) -> Option<Slot> {
        let held = self.held_of(pbn)?;
        let waiting = held.waiting.as_ref().map(|content| &content.slot);
        waiting.or(held.flying.as_ref()).map(Arc::clone)
    }

    fn is_ready(&self, pbn: Pbn) -> bool {
        self.held_of(pbn).is_some_and(Held::is_ready) && !self.failed.contains(&pbn)
    }

    /// Begins to write the content that waits longest, with those of its neighbours.
    pub(super) fn take_run(&mut self, most: usize) -> Option<Run> {
        let oldest = self.queue.pbns().find(|pbn| self.is_ready(*pbn))?;
        let (mut first, mut count) = (oldest.number(), 1);
        let is_ready = |number: u32| Pbn::new(number).is_some_and(|pbn| self.is_ready(pbn));
        while count < most && first.checked_sub(1).is_some_and(is_ready) {
            (first, count) = (first - 1, count + 1);
        }
        let next = |count: usize| first.checked_add(u32::try_from(count).ok()?);
        while count < most && next(count).is_some_and(is_ready) {
            count += 1;
        }
        let pbns = (0..count).filter_map(|at| Pbn::new(next(at)?)).collect::<Vec<_>>();
        let mut contents = Vec::with_capacity(count);
        for pbn in pbns {
            let Some(held) = self.held_mut(pbn) else { continue };
            let Some(content) = held.waiting.take() else { continue };
            held.flying = Some(Arc::clone(&content.slot));
            self.queue.remove(content.number);
            contents.push((pbn, content));
        }
        let oldest = contents.iter().map(|(_, content)| content.number).min()?;
        self.flights.insert(oldest);
        Some(Run { contents, oldest })
    }

    /// Ends the writing of a run. A content that could not be written is held on.
    pub(super) fn settle(&mut self, run: Run, outcomes: Vec<io::Result<()>>) {
        self.flights.remove(&run.oldest);
        for ((pbn, content), outcome) in run.contents.into_iter().zip(outcomes) {
            let Some(held) = self.held_mut(pbn) else { continue };
            if let Some(flown) = held.flying.take() {
                drop(flown);
            }
            let is_newest = held.waiting.is_none();
            match outcome {
                Err(error) if is_newest => {
                    held.waiting = Some(content);
                    self.failed.insert(pbn);
                    self.failure = Some(error);
                    continue;
                }
                // A newer content makes up for a failure.
                Ok(()) | Err(_) => self.memory.put_back(content.slot),
            }
            if is_newest {
                self.remove(pbn);
            }
        }
    }

    /// Has the contents that could not be written wait for another try.
    pub(super) fn retry_failed(&mut self) {
        for pbn in std::mem::take(&mut self.failed) {
            let waiting = self.held_of(pbn).and_then(|held| held.waiting.as_ref());
            if let Some(number) = waiting.map(|content| content.number) {
                self.queue.put_back(number, pbn);
            }
        }
        self.failure = None;
    }

    /// Forgets the waiting contents of these PBNs. Returns whether none of them is being written.
    pub(super) fn forget(&mut self, first: Pbn, count: u32) -> bool {
        let numbers = first.number()..first.number().saturating_add(count);
        // The shorter one of the range and the table is gone through.
        let pbns: Vec<Pbn> = if numbers.len() <= self.held.len() {
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
                self.failed.remove(&pbn);
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
