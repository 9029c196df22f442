//! The ring of commits: where the next one goes, and reading them back after a crash.

use crate::disk::Disk;
use crate::error::{DiskRole, Result, VolumeError};
use crate::format::{
    COMMIT_HEADER_BYTES, Change, Commit, CommitHeader, JOURNAL_PAGE, PAGE_BYTES, PoolSeed, Root, Superblock,
};
use std::io::IoSlice;

/// Bytes read at once when looking for commits.
const SCAN_BYTES: usize = 1 << 20;

/// The ring. Offsets are bytes from its start.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    ring_bytes: u64,
    /// Where the first commit after the newest durable root begins.
    tail: u64,
    /// Where the next commit begins, if it fits there.
    head: u64,
    seed: PoolSeed,
}

impl Journal {
    /// The journal behind a root, without the commits that may be in it.
    pub(crate) fn new(superblock: &Superblock, root: &Root, seed: PoolSeed) -> Self {
        let ring_bytes = superblock.journal_pages * PAGE_BYTES as u64;
        let start = root.journal_offset.min(ring_bytes);
        Self { ring_bytes, tail: start, head: start, seed }
    }

    pub(crate) const fn head(&self) -> u64 {
        self.head
    }

    pub(crate) const fn ring_bytes(&self) -> u64 {
        self.ring_bytes
    }

    /// Bytes from the tail to the head.
    pub(crate) const fn used_bytes(&self) -> u64 {
        if self.head >= self.tail { self.head - self.tail } else { self.ring_bytes - self.tail + self.head }
    }

    /// Where a commit of this length goes; `None` if it would reach the tail.
    fn place(&self, bytes: u64) -> Option<u64> {
        let fits = |at: u64, end: u64| at.checked_add(bytes).is_some_and(|after| after <= end);
        if self.head < self.tail {
            // The head must not catch up with the tail, or a full ring would look like an empty one.
            return fits(self.head, self.tail - 1).then_some(self.head);
        }
        if fits(self.head, self.ring_bytes) {
            return Some(self.head);
        }
        (self.tail > 0 && fits(0, self.tail - 1)).then_some(0)
    }

    /// Whether a commit of this length fits.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.place(bytes as u64).is_some()
    }

    /// Writes a commit, which the caller knows to fit. It is not there before [`Self::advance`].
    pub(crate) fn write(&self, disk: &dyn Disk, commit: &[u8]) -> Result<()> {
        let at = self.place(commit.len() as u64).ok_or(VolumeError::NoSpace { disk: DiskRole::Metadata })?;
        let offset = JOURNAL_PAGE * PAGE_BYTES as u64 + at;
        disk.write_at(offset, &mut [IoSlice::new(commit)])
            .map_err(VolumeError::io(DiskRole::Metadata, "write"))
    }

    /// The commit of this length is durable.
    pub(crate) fn advance(&mut self, bytes: usize) {
        if let Some(at) = self.place(bytes as u64) {
            self.head = at + bytes as u64;
        }
    }

    /// What is before this offset is in the newest durable checkpoint.
    pub(crate) const fn trim(&mut self, offset: u64) {
        self.tail = offset;
    }

    /// Reads the commits from a root on and hands out their changes.
    pub(crate) fn replay(
        &mut self,
        disk: &dyn Disk,
        root: &Root,
        mut apply: impl FnMut(Vec<Change>) -> Result<()>,
    ) -> Result<Replayed> {
        let mut number = root.next_commit;
        while let Some((commit, payload)) = self.next_commit(disk, number)? {
            if commit.header.generation > root.generation {
                break;
            }
            let changes = Change::decode_all(&payload)
                .ok_or_else(|| VolumeError::damaged(format!("commit {number} makes no sense")))?;
            apply(changes)?;
            self.head = commit.offset + commit.header.journal_bytes().unwrap_or(0);
            number += 1;
        }
        let mut replayed = Replayed { next_commit: number, generation: root.generation, lost: None };
        self.look_beyond(disk, root, &mut replayed)?;
        Ok(replayed)
    }

    /// The commit of this number, at the head or at the ring's start.
    fn next_commit(&self, disk: &dyn Disk, number: u64) -> Result<Option<(Commit, Vec<u8>)>> {
        for offset in [self.head, 0] {
            if let Some(found) = self.commit_at(disk, offset, number)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn commit_at(&self, disk: &dyn Disk, offset: u64, number: u64) -> Result<Option<(Commit, Vec<u8>)>> {
        let start = JOURNAL_PAGE * PAGE_BYTES as u64 + offset;
        if offset + PAGE_BYTES as u64 > self.ring_bytes {
            return Ok(None);
        }
        let mut first = [0; PAGE_BYTES];
        disk.read_at(start, &mut first).map_err(VolumeError::io(DiskRole::Metadata, "read"))?;
        let Some(header) = CommitHeader::decode(&first, self.seed).filter(|header| header.number == number)
        else {
            return Ok(None);
        };
        let fits = header.journal_bytes().is_some_and(|bytes| bytes <= self.ring_bytes - offset);
        let length = usize::try_from(header.payload_bytes).unwrap_or(usize::MAX);
        if !fits {
            return Ok(None);
        }
        let mut payload = vec![0; length];
        disk.read_at(start + COMMIT_HEADER_BYTES as u64, &mut payload)
            .map_err(VolumeError::io(DiskRole::Metadata, "read"))?;
        Ok(header.fits(&payload, self.seed).then_some((Commit { header, offset }, payload)))
    }

    /// A crash breaks at most the last commit. If a later one is there, the one that should be next was damaged; if one
    /// of a later generation is there, the root that went with it was.
    fn look_beyond(&self, disk: &dyn Disk, root: &Root, replayed: &mut Replayed) -> Result<()> {
        let next = replayed.next_commit;
        let mut buffer = vec![0; SCAN_BYTES];
        let mut offset = 0;
        while offset < self.ring_bytes {
            let bytes = (self.ring_bytes - offset).min(SCAN_BYTES as u64);
            let part = buffer.get_mut(..bytes as usize).unwrap_or_default();
            disk.read_at(JOURNAL_PAGE * PAGE_BYTES as u64 + offset, part)
                .map_err(VolumeError::io(DiskRole::Metadata, "read"))?;
            for header in part.chunks(PAGE_BYTES).filter_map(|page| CommitHeader::decode(page, self.seed)) {
                if header.generation > root.generation {
                    replayed.lost = Some(format!(
                        "the root of checkpoint {}, which commit {} follows: the newest one left is {}",
                        header.generation, header.number, root.generation
                    ));
                } else if header.number > next && replayed.lost.is_none() {
                    replayed.lost =
                        Some(format!("commit {next} of the journal, which commit {} follows", header.number));
                }
                replayed.generation = replayed.generation.max(header.generation);
                replayed.next_commit = replayed.next_commit.max(header.number.saturating_add(1));
            }
            offset += bytes;
        }
        if replayed.lost.is_none() {
            replayed.next_commit = next;
        }
        Ok(())
    }
}

/// How far a journal could be replayed.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// The number of the next commit; with lost history, one that no commit had.
    pub(crate) next_commit: u64,
    /// The highest generation there was.
    pub(crate) generation: u64,
    /// What of the history is not there, in words.
    pub(crate) lost: Option<String>,
}
