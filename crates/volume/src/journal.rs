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
