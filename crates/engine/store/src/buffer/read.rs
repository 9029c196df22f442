//! Reads and comparisons: what is held, then the cache, then the store below.

use super::WriteBuffer;
use crate::cache::Purpose;
use crate::memory::Slot;
use crate::request::read_below;
use crate::{ContentComparison, ContentRead};
use gemelo_format::Pbn;

impl WriteBuffer {
    /// Returns the contents of these PBNs that may not be in the store yet, each with its place in
    /// the list.
    pub(super) fn find_held(&self, pbns: impl Iterator<Item = Pbn>) -> Vec<(usize, Slot)> {
        if self.shared.is_empty() {
            return Vec::new();
        }
        let guarded = self.shared.lock();
        let state = &guarded.state;
        pbns.enumerate().filter_map(|(at, pbn)| Some((at, state.find(pbn)?))).collect()
    }

    /// Reads what is in memory from there, and the others from the store.
    ///
    /// The order matters: a content that is written out goes to the cache before it is held no
    /// more, so it is found in one of them, or left the cache and is in the store.
    pub(super) fn read_cached(&self, reads: &mut [ContentRead<'_>], purpose: Purpose) {
        let cache = &self.shared.cache;
        let held = self.find_held(reads.iter().map(|read| read.pbn));
        copy_all(reads, &held);
        let mut looked = cache.look_up(reads, &held, purpose);
        self.put_back(held);
        copy_all(reads, &looked.found);
        let hits = looked.found.len();
        looked.found.clear();
        self.read_below(reads, &looked.absent, purpose);
        // A content that is left is counted when it is read.
        let is_left = |at: &&usize| reads.get(**at).is_some_and(ContentRead::is_left);
        let left = looked.absent.iter().filter(is_left).count();
        cache.count(hits, looked.absent.len() - left);
        let awaited = looked.done(reads);
        if !awaited.is_empty() {
            self.read_awaited(reads, awaited);
        }
    }

    /// Reads what another reader has read meanwhile, unless the cache had no room for it.
    fn read_awaited(&self, reads: &mut [ContentRead<'_>], awaited: Vec<(usize, Option<Slot>)>) {
        let (mut found, mut absent) = (Vec::new(), Vec::new());
        for (at, slot) in awaited {
            match slot {
                Some(slot) => found.push((at, slot)),
                None => absent.push(at),
            }
        }
        copy_all(reads, &found);
        self.shared.cache.count_awaited(found.len(), absent.len());
        self.read_below(reads, &absent, Purpose::Wait);
    }

    /// Reads those at these places of a list from the store.
    fn read_below(&self, reads: &mut [ContentRead<'_>], places: &[usize], purpose: Purpose) {
        let below = |reads: &mut [ContentRead<'_>]| match purpose {
            Purpose::Ready => self.shared.store.read_ready(reads),
            Purpose::Wait => self.shared.store.read(reads),
        };
        if places.len() == reads.len() {
            below(reads);
        } else if !places.is_empty() {
            read_below(at_places(reads, places.iter().copied()), below);
        }
    }

    /// Reads what is held from memory, and the others from the medium.
    pub(super) fn read_uncached(&self, reads: &mut [ContentRead<'_>]) {
        let held = self.find_held(reads.iter().map(|read| read.pbn));
        if held.is_empty() {
            return self.shared.store.read_medium(reads);
        }
        copy_all(reads, &held);
        let others = others(reads, &held);
        self.put_back(held);
        read_below(others, |below| self.shared.store.read_medium(below));
    }

    /// Compares what is in memory there, and has the store compare the others.
    pub(super) fn compare_cached(&self, comparisons: &mut [ContentComparison<'_>]) {
        let held = self.find_held(comparisons.iter().map(|one| one.pbn));
        for (at, slot) in &held {
            if let Some(one) = comparisons.get_mut(*at) {
                one.outcome = Ok(**slot == *one.content);
            }
        }
        let others = others(comparisons, &held);
        self.put_back(held);
        let (mut below, mut outcomes) = (Vec::new(), Vec::new());
        let mut hits = 0;
        for ContentComparison { pbn, content, outcome } in others {
            if let Some(slot) = self.shared.cache.find(*pbn) {
                *outcome = Ok(**slot == **content);
                hits += 1;
            } else {
                below.push(ContentComparison::new(*pbn, content));
                outcomes.push(outcome);
            }
        }
        self.shared.cache.count(hits, below.len());
        if !below.is_empty() {
            self.shared.store.compare(&mut below);
        }
        assert_eq!(outcomes.len(), below.len(), "each comparison has an outcome");
        outcomes.into_iter().zip(below).for_each(|(outcome, done)| *outcome = done.outcome);
    }
}

/// Copies contents from memory to reads of a list, which are given by their places.
fn copy_all(reads: &mut [ContentRead<'_>], found: &[(usize, Slot)]) {
    for (at, slot) in found {
        let Some(read) = reads.get_mut(*at) else { continue };
        let end = read.within + read.buffer.len();
        assert!(end <= slot.len(), "a read ends within its content");
        if let Some(part) = slot.get(read.within..end) {
            read.buffer.copy_from_slice(part);
            read.outcome = Ok(());
        }
    }
}

/// Returns the requests of a list at these places, which are in order.
fn at_places<T>(list: &mut [T], places: impl Iterator<Item = usize>) -> Vec<&mut T> {
    let mut places = places.peekable();
    let mut is_it = |at: usize| places.next_if_eq(&at).is_some();
    list.iter_mut().enumerate().filter_map(|(at, one)| is_it(at).then_some(one)).collect()
}

/// Returns the requests of a list that are not in `found`, which has the order of the list.
fn others<'l, T>(list: &'l mut [T], found: &[(usize, Slot)]) -> Vec<&'l mut T> {
    let mut found = found.iter().map(|(at, _)| *at).peekable();
    let mut is_other = |at: usize| found.next_if_eq(&at).is_none();
    list.iter_mut().enumerate().filter_map(|(at, one)| is_other(at).then_some(one)).collect()
}
