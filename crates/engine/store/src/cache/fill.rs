//! Looking up the contents of a list of reads, and filling the cache with those that were read.

use super::shard::Missed;
use super::{ContentCache, Part};
use crate::ContentRead;
use crate::memory::{Slot, fill};
use crate::request::read_below;
use gemelo_format::Pbn;

/// The purpose of reads, which tells what missing a content costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To have the contents at once, or not now.
    Ready,
    /// To have the contents, even if that takes a wait for the disk.
    Wait,
}

/// The outcome of looking up the contents of a list of reads. Reads are given by their places in
/// the list, in order, and each is in one of the three.
pub(crate) struct Looked<'c> {
    /// Contents that were found.
    pub(crate) found: Vec<(usize, Slot)>,
    /// Contents to be read from the disk.
    pub(crate) absent: Vec<usize>,
    /// Contents that another reader reads, or this one for an earlier place of the list.
    awaited: Vec<usize>,
    /// Those of `absent` that the cache may be filled with.
    missed: Vec<(usize, Missed)>,
    reading: Reading<'c>,
    purpose: Purpose,
}

/// Contents that a reader reads for all, until it is dropped.
struct Reading<'c> {
    cache: &'c ContentCache,
    pbns: Vec<Pbn>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        for pbn in self.pbns.drain(..) {
            self.cache.part(pbn).into_iter().for_each(|part| part.end_read(pbn));
        }
    }
}

impl ContentCache {
    /// Reads the contents of a list that are not among those `found_before`, which has its order:
    /// from the cache, and the others by `below`, which may be called twice.
    pub(crate) fn read(
        &self,
        reads: &mut [ContentRead<'_>],
        (found_before, purpose): (Vec<(usize, Slot)>, Purpose),
        (put_back, below): (
            impl FnOnce(Vec<(usize, Slot)>),
            impl Fn(&mut [ContentRead<'_>], Purpose),
        ),
    ) {
        copy_all(reads, &found_before);
        let mut looked = self.look_up(reads, &found_before, purpose);
        put_back(found_before);
        copy_all(reads, &looked.found);
        let hits = looked.found.len();
        looked.found.clear();
        read_places(reads, &looked.absent, |list| below(list, purpose));
        // A content that is left is counted when it is read.
        let is_left = |at: &&usize| reads.get(**at).is_some_and(ContentRead::is_left);
        let left = looked.absent.iter().filter(is_left).count();
        self.count(hits, looked.absent.len() - left);
        let awaited = looked.done(reads);
        if !awaited.is_empty() {
            self.read_awaited(reads, awaited, |list| below(list, Purpose::Wait));
        }
    }

    /// Reads what another reader has read meanwhile, unless the cache had no room for it.
    fn read_awaited(
        &self,
        reads: &mut [ContentRead<'_>],
        awaited: Vec<(usize, Option<Slot>)>,
        below: impl FnOnce(&mut [ContentRead<'_>]),
    ) {
        let (mut found, mut absent) = (Vec::new(), Vec::new());
        for (at, slot) in awaited {
            match slot {
                Some(slot) => found.push((at, slot)),
                None => absent.push(at),
            }
        }
        copy_all(reads, &found);
        self.count_awaited(found.len(), absent.len());
        read_places(reads, &absent, below);
    }

    /// Looks up the contents of reads of a list that are not among those `found_before`, which has
    /// the order of the list.
    pub(super) fn look_up(
        &self,
        reads: &[ContentRead<'_>],
        found_before: &[(usize, Slot)],
        purpose: Purpose,
    ) -> Looked<'_> {
        let reading = Reading { cache: self, pbns: Vec::new() };
        let (found, absent, awaited, missed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut looked = Looked { found, absent, awaited, missed, reading, purpose };
        let mut before = found_before.iter().map(|(at, _)| *at).peekable();
        let mut locking = self.locking();
        for (at, read) in reads.iter().enumerate() {
            if before.next_if_eq(&at).is_some() {
                continue;
            }
            let pbn = read.pbn;
            let Some(shard) = locking.shard(pbn) else {
                looked.absent.push(at);
                continue;
            };
            if let Some(slot) = shard.find(pbn) {
                looked.found.push((at, slot));
                continue;
            }
            // A part of a content does not fill the cache.
            let is_whole = self.takes_reads && read.buffer.len() == self.block_bytes;
            if is_whole && purpose == Purpose::Wait {
                if !shard.begin_read(pbn) {
                    looked.awaited.push(at);
                    continue;
                }
                looked.reading.pbns.push(pbn);
            }
            if is_whole {
                looked.missed.push((at, shard.miss(pbn)));
            }
            looked.absent.push(at);
        }
        looked
    }

    /// Fills the cache with contents that were read. `missed` is of one shard.
    fn fill(&self, reads: &[ContentRead<'_>], missed: &[(usize, Missed)]) {
        let Some((_, first)) = missed.first() else { return };
        let Some(part) = self.part(first.pbn) else { return };
        let Some(mut shard) = part.lock() else { return };
        let slots: Vec<Slot> = missed.iter().map_while(|_| shard.lend(&self.memory)).collect();
        drop(shard);
        let mut filled = Vec::with_capacity(slots.len());
        for ((at, missed), mut slot) in missed.iter().zip(slots) {
            let read = reads.get(*at).filter(|read| read.pbn == missed.pbn);
            assert!(read.is_some(), "a content is filled with its own bytes");
            read.into_iter().for_each(|read| fill(&mut slot, read.buffer));
            filled.push((*missed, slot));
        }
        let Some(mut shard) = part.lock() else { return };
        filled.into_iter().for_each(|(missed, slot)| shard.fill(missed, slot));
    }
}

/// Copies contents from memory to reads of a list, which are given by their places.
pub(crate) fn copy_all(reads: &mut [ContentRead<'_>], found: &[(usize, Slot)]) {
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

/// Reads those at these places of a list, which are in order.
fn read_places(
    reads: &mut [ContentRead<'_>],
    places: &[usize],
    below: impl FnOnce(&mut [ContentRead<'_>]),
) {
    if places.len() == reads.len() {
        below(reads);
    } else if !places.is_empty() {
        let mut places = places.iter().copied().peekable();
        let mut is_it = |at: usize| places.next_if_eq(&at).is_some();
        let wanted = reads.iter_mut().enumerate();
        let wanted = wanted.filter_map(|(at, one)| is_it(at).then_some(one)).collect();
        read_below(wanted, below);
    }
}

impl Looked<'_> {
    /// Fills the cache with the contents that were read, and lets those go on that wait for them.
    /// Returns the reads for which others read, each with the content if it is in the cache now.
    pub(crate) fn done(self, reads: &[ContentRead<'_>]) -> Vec<(usize, Option<Slot>)> {
        let Self { mut missed, reading, awaited, purpose, .. } = self;
        let cache = reading.cache;
        missed.retain(|(at, _)| reads.get(*at).is_some_and(|read| read.outcome.is_ok()));
        if purpose == Purpose::Ready {
            let mut locking = cache.locking();
            for (_, missed) in missed.iter().filter(|(_, missed)| !missed.is_known) {
                let shard = locking.shard(missed.pbn);
                shard.into_iter().for_each(|shard| shard.note(missed.pbn));
            }
            drop(locking);
            missed.retain(|(_, missed)| missed.is_known);
        }
        let part = |missed: &Missed| cache.part(missed.pbn).map(std::ptr::from_ref::<Part>);
        missed
            .chunk_by(|(_, one), (_, next)| part(one) == part(next))
            .for_each(|missed| cache.fill(reads, missed));
        drop(reading);
        let wait = |at: usize| {
            let pbn = reads.get(at).map(|read| read.pbn);
            (at, pbn.and_then(|pbn| cache.part(pbn)?.await_read(pbn)))
        };
        awaited.into_iter().map(wait).collect()
    }
}
