//! The ring of commits: the place of the next one, and writing it. `gemelo-format` reads them back.

use crate::error::{Result, VolumeError};
use crate::marker::Marker;
use gemelo_disk::Disk;
use gemelo_format::{
    COMMIT_HEADER_BYTES, CommitHeader, DiskRole, FlushMarks, LastCommit, PAGE_BYTES, PoolSeed,
    Root, Superblock, build_commit, mirror_commit, ring_offset,
};

/// The ring of commits. Offsets are bytes from its start.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    ring_bytes: u64,
    /// The offset of the first commit after the newest durable root.
    tail: u64,
    /// The offset of the next commit, if it fits there.
    head: u64,
    seed: PoolSeed,
    marker: Marker,
}

impl Journal {
    /// Makes the journal after a root. Its last commit ends at `head`.
    pub(crate) fn new(
        superblock: &Superblock,
        root: &Root,
        seed: PoolSeed,
        (head, marks): (u64, FlushMarks),
    ) -> Self {
        let ring_bytes = superblock.journal_pages * PAGE_BYTES as u64;
        let tail = root.journal_offset.min(ring_bytes);
        Self { ring_bytes, tail, head, seed, marker: Marker::new(superblock, root, seed, marks) }
    }

    /// The journal behind a root as one that has no room: nothing is written to it before a
    /// checkpoint.
    pub(crate) fn full(
        superblock: &Superblock,
        root: &Root,
        seed: PoolSeed,
        marks: FlushMarks,
    ) -> Self {
        let mut journal = Self::new(superblock, root, seed, (0, marks));
        // A commit takes two pages at least, one for each copy.
        journal.head = match journal.tail {
            0 => journal.ring_bytes,
            tail => tail.saturating_sub(PAGE_BYTES as u64),
        };
        journal
    }

    pub(crate) const fn head(&self) -> u64 {
        self.head
    }

    pub(crate) const fn ring_bytes(&self) -> u64 {
        self.ring_bytes
    }

    /// Bytes from the tail to the head.
    pub(crate) const fn used_bytes(&self) -> u64 {
        if self.head >= self.tail {
            self.head - self.tail
        } else {
            self.ring_bytes - self.tail + self.head
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
        if fits(self.head, self.ring_bytes) {
            return Some(self.head);
        }
        (self.tail > 0 && fits(0, self.tail - 1)).then_some(0)
    }

    /// Returns whether a commit of this length fits.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.place(bytes as u64).is_some()
    }

    /// Writes a commit, which the caller knows to fit. The journal counts it only after
    /// [`Self::advance`].
    pub(crate) fn write(&self, disk: &dyn Disk, commit: &[u8]) -> Result<()> {
        let at = self
            .place(commit.len() as u64)
            .ok_or(VolumeError::NoSpace { disk: DiskRole::Metadata })?;
        disk.write_at(ring_offset(at), commit).map_err(VolumeError::io(DiskRole::Metadata, "write"))
    }

    /// Counts the commit of this length, which is durable.
    pub(crate) fn advance(&mut self, bytes: usize) {
        if let Some(at) = self.place(bytes as u64) {
            self.head = at + bytes as u64;
        }
        debug_assert!(self.head <= self.ring_bytes, "the head is in the ring");
    }

    /// The flush marks that go with the commits.
    pub(crate) const fn marker(&mut self) -> &mut Marker {
        &mut self.marker
    }

    /// Drops the commits before this offset, which the newest durable checkpoint covers.
    pub(crate) fn trim(&mut self, offset: u64) {
        debug_assert!(offset <= self.ring_bytes, "the tail is in the ring");
        self.tail = offset;
    }

    /// Writes a commit again at its place, with all its copies.
    pub(crate) fn rewrite(&self, disk: &dyn Disk, last: &LastCommit) -> Result<()> {
        let mut buffer = vec![0; COMMIT_HEADER_BYTES];
        buffer.extend_from_slice(&last.payload);
        let CommitHeader { number, generation, .. } = last.commit.header;
        build_commit(&mut buffer, number, generation, self.seed);
        mirror_commit(&mut buffer);
        disk.write_at(ring_offset(last.commit.offset), &buffer)
            .map_err(VolumeError::io(DiskRole::Metadata, "write"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_format::{BackendKind, FingerprintKind, Version};
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const PAGES: u64 = 16;
    const PAGE: u64 = PAGE_BYTES as u64;

    fn journal() -> Journal {
        let superblock = Superblock {
            version: Version::V2,
            header_copy: None,
            block_bytes: 4096,
            pool_id: [1; 16],
            key: [2; 32],
            backend: BackendKind::Log,
            fingerprint: FingerprintKind::Blake3,
            journal_pages: PAGES,
        };
        let root = Root {
            generation: 1,
            next_commit: 1,
            journal_offset: 0,
            table: Default::default(),
            table_bytes: 0,
            data_blocks: 9,
            next_volume: 1,
            references: 0,
            physical: 0,
        };
        let marks = FlushMarks { newest: None, next_offset: 0 };
        Journal::new(&superblock, &root, PoolSeed::of(&superblock), (0, marks))
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
