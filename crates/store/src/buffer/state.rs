//! The contents that a write buffer holds, and the order in which they are written out.

use super::memory::{Memory, Slot};
use gemelo_format::Pbn;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;

/// The contents of one PBN. At least one of the two fields is set.
#[derive(Debug, Default)]
struct Held {
    /// The newest content, if it is not being written.
    waiting: Option<Content>,
    /// A content that is being written. A newer one waits until it is done, so that the older one
    /// never overwrites it.
    flying: Option<Slot>,
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
    pub(super) fn ticketed(&self) -> Vec<(Pbn, NonZeroU64, Slot)> {
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
    held: BTreeMap<Pbn, Held>,
    /// The contents that wait to be written, by number, which grows with each write.
    queue: BTreeMap<u64, Pbn>,
    /// The oldest numbers of the runs that are being written.
    flights: BTreeSet<u64>,
    /// PBNs whose content could not be written. It waits, and is not in the queue.
    failed: BTreeSet<Pbn>,
    failure: Option<io::Error>,
    next_number: u64,
}

impl State {
    pub(super) const fn new(memory: Memory) -> Self {
        Self {
            memory,
            held: BTreeMap::new(),
            queue: BTreeMap::new(),
            flights: BTreeSet::new(),
            failed: BTreeSet::new(),
            failure: None,
            next_number: 0,
        }
    }

    /// Returns the number that the next content gets.
    pub(super) const fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Returns the number of contents that wait and may be written.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Returns whether runs are being written.
    pub(super) fn is_writing(&self) -> bool {
        !self.flights.is_empty()
    }

    /// Returns whether a content with a smaller number waits and may be written.
    pub(super) fn is_waiting_below(&self, until: u64) -> bool {
        self.queue.keys().next().is_some_and(|number| *number < until)
    }

    /// Returns the number of PBNs of which a content is held.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Returns whether the writing of all contents with smaller numbers has ended, well or not.
    pub(super) fn is_written(&self, until: u64) -> bool {
        let first = |number: Option<&u64>| number.copied().unwrap_or(u64::MAX);
        first(self.queue.keys().next()).min(first(self.flights.first())) >= until
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
        let held = self.held.entry(pbn).or_default();
        if let Some(waiting) = &mut held.waiting {
            // It keeps its place, so that a block that is written all the time is written out.
            let old = std::mem::replace(&mut waiting.slot, slot);
            waiting.ticket = ticket;
            self.memory.put_back(old);
            return;
        }
        held.waiting = Some(Content { number: self.next_number, ticket, slot });
        self.queue.insert(self.next_number, pbn);
        self.next_number += 1;
    }

    /// Returns the newest content that is held of a PBN.
    pub(super) fn find(&self, pbn: Pbn) -> Option<Slot> {
        let held = self.held.get(&pbn)?;
        let waiting = held.waiting.as_ref().map(|content| &content.slot);
        waiting.or(held.flying.as_ref()).map(Arc::clone)
    }

    fn is_ready(&self, pbn: Pbn) -> bool {
        let is_free = |held: &Held| held.waiting.is_some() && held.flying.is_none();
        self.held.get(&pbn).is_some_and(is_free) && !self.failed.contains(&pbn)
    }

    /// Begins to write the content that waits longest, with those of its neighbours.
    pub(super) fn take_run(&mut self, most: usize) -> Option<Run> {
        let (_, oldest) = self.queue.iter().find(|(_, pbn)| self.is_ready(**pbn))?;
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
            let Some(held) = self.held.get_mut(&pbn) else { continue };
            let Some(content) = held.waiting.take() else { continue };
            held.flying = Some(Arc::clone(&content.slot));
            self.queue.remove(&content.number);
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
            let Some(held) = self.held.get_mut(&pbn) else { continue };
            if let Some(flown) = held.flying.take() {
                drop(flown);
            }
            match outcome {
                Err(error) if held.waiting.is_none() => {
                    held.waiting = Some(content);
                    self.failed.insert(pbn);
                    self.failure = Some(error);
                    continue;
                }
                // A newer content makes up for a failure.
                Ok(()) | Err(_) => self.memory.put_back(content.slot),
            }
            if held.waiting.is_none() {
                self.held.remove(&pbn);
            }
        }
    }

    /// Has the contents that could not be written wait for another try.
    pub(super) fn retry_failed(&mut self) {
        for pbn in std::mem::take(&mut self.failed) {
            if let Some(content) = self.held.get(&pbn).and_then(|held| held.waiting.as_ref()) {
                self.queue.insert(content.number, pbn);
            }
        }
        self.failure = None;
    }

    /// Forgets the waiting contents of these PBNs. Returns whether none of them is being written.
    pub(super) fn forget(&mut self, first: Pbn, count: u32) -> bool {
        let end = first.number().saturating_add(count);
        let held = self.held.range_mut(first..).take_while(|(pbn, _)| pbn.number() < end);
        let (mut empty, mut is_still) = (Vec::new(), true);
        for (pbn, held) in held {
            if let Some(content) = held.waiting.take() {
                self.queue.remove(&content.number);
                self.failed.remove(pbn);
                self.memory.put_back(content.slot);
            }
            if held.flying.is_some() {
                is_still = false;
            } else {
                empty.push(*pbn);
            }
        }
        for pbn in empty {
            self.held.remove(&pbn);
        }
        is_still
    }
}
