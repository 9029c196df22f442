//! Reads and comparisons: what is held, then the cache, then the store below.

use super::WriteBuffer;
use crate::cache::{Purpose, copy_all};
use crate::memory::Slot;
use crate::request::read_below;
use crate::{ContentComparison, ContentRead, LentContent};
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
        let held = self.find_held(reads.iter().map(|read| read.pbn));
        let below = |list: &mut [ContentRead<'_>], purpose| match purpose {
            Purpose::Ready => self.shared.store.read_ready(list),
            Purpose::Wait => self.shared.store.read(list),
        };
        self.shared.cache.read(reads, (held, purpose), (|held| self.put_back(held), below));
    }

    /// Returns contents of the cache. Those that are held are newer and are left out: only
    /// [`Self::read_cached`] may have them, because the buffer counts their readers.
    pub(super) fn lend_cached(&self, pbns: &[Pbn]) -> Vec<(usize, LentContent)> {
        let cache = &self.shared.cache;
        if cache.is_off() {
            return Vec::new();
        }
        let held = self.find_held(pbns.iter().copied());
        let mut newer = held.iter().map(|(at, _)| *at).peekable();
        let others = pbns.iter().enumerate().filter(|(at, _)| newer.next_if_eq(at).is_none());
        let lent = cache.find_all(others);
        self.put_back(held);
        cache.count(lent.len(), 0);
        lent.into_iter().map(|(at, slot)| (at, LentContent::new(slot))).collect()
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

/// Returns the requests of a list that are not in `found`, which has the order of the list.
fn others<'l, T>(list: &'l mut [T], found: &[(usize, Slot)]) -> Vec<&'l mut T> {
    let mut found = found.iter().map(|(at, _)| *at).peekable();
    let mut is_other = |at: usize| found.next_if_eq(&at).is_none();
    list.iter_mut().enumerate().filter_map(|(at, one)| is_other(at).then_some(one)).collect()
}
