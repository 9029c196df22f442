//! The rings of commits: the place of the next one, and writing its copies. `gemelo-format` reads
//! them back.

use crate::error::{Result, VolumeError};
use crate::marker::{DueMark, Marker};
use gemelo_disk::{Disk, DiskWrite};
use gemelo_format::{
    COMMIT_HEADER_BYTES, CommitHeader, DiskRole, FlushMarks, LastCommit, NewCommit, PAGE_BYTES,
    PoolSeed, Regions, Replayed, RingPiece, Root, Superblock, build_commit,
};
use std::io;

/// The two rings of commits, which hold the same. Offsets are bytes from the start of either.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    regions: Regions,
    /// The offset of the first commit after the newest durable root.
    tail: u64,
    /// The offset of the next commit, if it fits there.
    head: u64,
    seed: PoolSeed,
    marker: Marker,
    /// The offset of a commit that was written at the head and is not wanted.
    taken_back: Option<u64>,
}

impl Journal {
    /// Makes the journal after a root. Its last commit ends at `head`.
    pub(crate) fn new(
        superblock: &Superblock,
        root: &Root,
        seed: PoolSeed,
        replayed: &Replayed,
    ) -> Self {
        Self::with_head(superblock, root, seed, replayed.marks, replayed.head)
    }

    fn with_head(
        superblock: &Superblock,
        root: &Root,
        seed: PoolSeed,
        marks: FlushMarks,
        head: u64,
    ) -> Self {
        let (regions, tail) = (superblock.regions(), root.journal_offset);
        assert!(
            tail.max(head) <= regions.ring_bytes(),
            "head {head} and tail {tail} are in the ring"
        );
        let marker = Marker::new(superblock, root, seed, marks);
        Self { regions, tail, head, seed, marker, taken_back: None }
    }

    /// The journal behind a root as one that has no room: nothing is written to it before a
    /// checkpoint.
    pub(crate) fn full(
        superblock: &Superblock,
        root: &Root,
        seed: PoolSeed,
        marks: FlushMarks,
    ) -> Self {
        let head = match root.journal_offset {
            0 => superblock.regions().ring_bytes(),
            // A commit takes a page at least, and the head must not reach the tail.
            tail => tail - PAGE_BYTES as u64,
        };
        let journal = Self::with_head(superblock, root, seed, marks, head);
        assert!(!journal.has_room(PAGE_BYTES), "a full journal has no room");
        journal
    }

    pub(crate) const fn head(&self) -> u64 {
        self.head
    }

    /// The length of each ring.
    pub(crate) const fn ring_bytes(&self) -> u64 {
        self.regions.ring_bytes()
    }

    /// Bytes from the tail to the head.
    pub(crate) const fn used_bytes(&self) -> u64 {
        if self.head >= self.tail {
            self.head - self.tail
        } else {
            self.ring_bytes() - self.tail + self.head
        }
    }

    /// Returns the offset for a commit of this length, or `None` if it would reach the tail.
    fn place(&self, bytes: u64) -> Option<u64> {
        let fits = |at: u64, end: u64| at.checked_add(bytes).is_some_and(|after| after <= end);
        if self.head < self.tail {
            // The head must not catch up with the tail, or a full ring would look like an empty
            // one.
            return fits(self.head, self.tail - 1).then_some(self.head);
        }
        if fits(self.head, self.ring_bytes()) {
            return Some(self.head);
        }
        (self.tail > 0 && fits(0, self.tail - 1)).then_some(0)
    }

    /// Returns whether a commit of this length fits.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.place(bytes as u64).is_some()
    }

    /// Writes both copies of a commit, which the caller knows to fit, with the mark of the newest
    /// durable one if it is due. The journal counts the commit only after [`Self::advance`].
    pub(crate) fn write(
        &mut self,
        disk: &dyn Disk,
        commit: &[u8],
        (durable, now_ns): (u64, u64),
    ) -> Result<()> {
        let at = self
            .place(commit.len() as u64)
            .ok_or(VolumeError::NoSpace { disk: DiskRole::Metadata })?;
        let due = self.marker.due(durable, now_ns);
        let mark = due.as_ref().map(|due| DiskWrite::new(due.offset, due.page.as_slice()));
        let mut writes = self.copies(at, commit);
        let of_commit = writes.len();
        writes.extend(mark);
        disk.write_many(&mut writes);
        let marked = writes.split_off(of_commit);
        // A mark that cannot be written is left out.
        let is_marked = marked.iter().any(|write| write.outcome.is_ok());
        let written: io::Result<()> = writes.into_iter().try_for_each(|write| write.outcome);
        if let Some(DueMark { mark, .. }) = due.filter(|_| is_marked) {
            self.marker.note_written(mark);
        }
        written.map_err(VolumeError::io(DiskRole::Metadata, "write"))
    }

    fn write_copies(&self, disk: &dyn Disk, at: u64, commit: &[u8]) -> Result<()> {
        disk.write_all(&mut self.copies(at, commit))
            .map_err(VolumeError::io(DiskRole::Metadata, "write"))
    }

    fn copies<'c>(&self, at: u64, commit: &'c [u8]) -> Vec<DiskWrite<'c>> {
        assert!(!commit.is_empty(), "a commit has bytes");
        let mut rest = commit;
        let pieces =
            self.regions.ring(at, commit.len()).flat_map(|RingPiece { bytes, offsets }| {
                let (piece, behind) = rest.split_at(bytes.len());
                rest = behind;
                offsets.map(|offset| DiskWrite::new(offset, piece))
            });
        pieces.collect()
    }

    /// Takes back a commit of this length, which was written and not counted. It is in the journal
    /// until [`Self::erase_taken_back`].
    pub(crate) fn take_back(&mut self, bytes: usize) {
        self.taken_back = self.place(bytes as u64);
    }

    /// Erases a commit that was taken back. Another one with its number may get another place.
    pub(crate) fn erase_taken_back(&mut self, disk: &dyn Disk) -> Result<()> {
        if let Some(offset) = self.taken_back {
            self.erase(disk, offset)?;
            self.taken_back = None;
        }
        Ok(())
    }

    /// Makes durable that no commit begins at an offset.
    pub(crate) fn erase(&self, disk: &dyn Disk, offset: u64) -> Result<()> {
        self.write_copies(disk, offset, &[0; PAGE_BYTES])?;
        disk.sync().map_err(VolumeError::io(DiskRole::Metadata, "sync"))
    }

    /// Counts the commit of this length, which is durable.
    pub(crate) fn advance(&mut self, bytes: usize) {
        let used = self.used_bytes();
        let at = self.place(bytes as u64);
        assert!(at.is_some(), "a commit of {bytes} bytes was written where it fits");
        self.head = at.map_or(self.head, |at| at + bytes as u64);
        assert!(
            self.head <= self.ring_bytes() && self.used_bytes() >= used + bytes as u64,
            "the head moves on, and not past the tail"
        );
    }

    /// The flush marks that go with the commits.
    pub(crate) const fn marker(&mut self) -> &mut Marker {
        &mut self.marker
    }

    /// Drops the commits before this offset, which the newest durable checkpoint covers.
    pub(crate) fn trim(&mut self, offset: u64) {
        assert!(
            offset <= self.ring_bytes() && offset.is_multiple_of(PAGE_BYTES as u64),
            "the tail {offset} is a page of the ring"
        );
        let used = self.used_bytes();
        self.tail = offset;
        assert!(self.used_bytes() <= used, "the tail moves on, and not past the head");
    }

    /// Writes a commit again at its place, with both copies.
    pub(crate) fn rewrite(&self, disk: &dyn Disk, last: &LastCommit) -> Result<()> {
        let mut buffer = vec![0; COMMIT_HEADER_BYTES];
        buffer.extend_from_slice(&last.payload);
        let CommitHeader { number, generation, order, .. } = last.commit.header;
        build_commit(&mut buffer, NewCommit { number, generation, order }, self.seed);
        self.write_copies(disk, last.commit.offset, &buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_format::{FingerprintKind, Policy};
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const PAGES: u64 = 16;
    const PAGE: u64 = PAGE_BYTES as u64;

    fn journal() -> Journal {
        let superblock = Superblock {
            words: gemelo_format::WordForm::Narrow,
            unknown: gemelo_format::Features::NONE,
            header_copy: None,
            store: gemelo_format::StoreKind::Plain,
            block_bytes: 4096,
            pool_id: [1; 16],
            key: [2; 32],
            fingerprint: FingerprintKind::Blake3,
            ring_pages: PAGES,
        };
        let root = Root {
            generation: 1,
            next_commit: 1,
            journal_offset: 0,
            policy: Policy::Compact,
            table: None,
            table_bytes: 0,
            data_blocks: 9,
            next_volume: 1,
            references: 0,
            physical: 0,
        };
        let marks = FlushMarks { newest: None, next_offset: 0 };
        Journal::with_head(&superblock, &root, PoolSeed::of(&superblock), marks, 0)
    }

    #[test]
    fn the_used_part_ends_at_the_head_and_wraps_with_it() {
        let mut journal = journal();
        assert_eq!((journal.used_bytes(), journal.ring_bytes()), (0, PAGES * PAGE));
        journal.advance(14 * PAGE_BYTES);
        assert_eq!((journal.used_bytes(), journal.head()), (14 * PAGE, 14 * PAGE));
        assert!(!journal.has_room(4 * PAGE_BYTES), "the commits at the front are still needed");
        journal.trim(10 * PAGE);
        assert_eq!(journal.used_bytes(), 4 * PAGE);
        journal.advance(4 * PAGE_BYTES);
        assert_eq!((journal.used_bytes(), journal.head()), (10 * PAGE, 4 * PAGE));
        assert!(journal.has_room(4 * PAGE_BYTES) && !journal.has_room(6 * PAGE_BYTES));
        journal.trim(4 * PAGE);
        assert_eq!(journal.used_bytes(), 0);
    }

    proptest! {
        /// A trim gives up the commits before a place at which a commit begins, or all of them.
        #[test]
        fn no_commit_is_written_over_one_that_is_needed(
            steps in prop::collection::vec((any::<bool>(), 1u64..9), 1..200),
        ) {
            let mut journal = journal();
            let mut needed: VecDeque<std::ops::Range<u64>> = VecDeque::new();
            for (trims, number) in steps {
                let bytes = number * PAGE;
                if trims {
                    needed.drain(..needed.len().min(number as usize));
                    journal.trim(needed.front().map_or(journal.head(), |first| first.start));
                } else if journal.has_room(bytes as usize) {
                    journal.advance(bytes as usize);
                    let written = journal.head() - bytes..journal.head();
                    for other in &needed {
                        let is_apart = written.end <= other.start || other.end <= written.start;
                        prop_assert!(is_apart, "{:?} over {:?}", written, other);
                    }
                    prop_assert!(journal.used_bytes() >= bytes, "a full ring looks empty");
                    needed.push_back(written);
                } else {
                    prop_assert!(!needed.is_empty() || bytes > journal.ring_bytes() / 2);
                }
                prop_assert!(journal.head() <= journal.ring_bytes());
                let taken: u64 = needed.iter().map(|one| one.end - one.start).sum();
                prop_assert!((taken..=journal.ring_bytes()).contains(&journal.used_bytes()));
            }
        }
    }
}
