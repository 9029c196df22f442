//! The ring of commits: where the next one goes, and reading them back after a crash.

use crate::error::{DiskRole, Result, VolumeError};
use crate::format::{
    COMMIT_HEADER_BYTES, Change, Commit, CommitHeader, JOURNAL_PAGE, PAGE_BYTES, PoolSeed, Root,
    Superblock, Version, build_commit, mirror_commit,
};
use crate::types::VolumeId;
use gemelo_disk::Disk;
use std::collections::{BTreeMap, BTreeSet};

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
    version: Version,
}

impl Journal {
    /// The journal behind a root, without the commits that may be in it.
    pub(crate) fn new(superblock: &Superblock, root: &Root, seed: PoolSeed) -> Self {
        let ring_bytes = superblock.journal_pages * PAGE_BYTES as u64;
        let start = root.journal_offset.min(ring_bytes);
        Self { ring_bytes, tail: start, head: start, seed, version: superblock.version }
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
        let at = self
            .place(commit.len() as u64)
            .ok_or(VolumeError::NoSpace { disk: DiskRole::Metadata })?;
        disk.write_at(ring_offset(at), commit).map_err(VolumeError::io(DiskRole::Metadata, "write"))
    }

    /// The commit of this length is durable.
    pub(crate) fn advance(&mut self, bytes: usize) {
        if let Some(at) = self.place(bytes as u64) {
            self.head = at + bytes as u64;
        }
        debug_assert!(self.head <= self.ring_bytes, "the head is in the ring");
    }

    /// What is before this offset is in the newest durable checkpoint.
    pub(crate) fn trim(&mut self, offset: u64) {
        debug_assert!(offset <= self.ring_bytes, "the tail is in the ring");
        self.tail = offset;
    }

    /// Reads the commits from a root on and hands out their changes.
    ///
    /// A commit counts if one of its copies is good. The whole ring is searched before the end of the
    /// journal is believed: a later commit means that the one that should be next was damaged.
    pub(crate) fn replay(
        &mut self,
        disk: &dyn Disk,
        root: &Root,
        mut apply: impl FnMut(Vec<Change>) -> Result<()>,
    ) -> Result<Replayed> {
        let mut number = root.next_commit;
        let mut last = None;
        let mut found: Option<Vec<Commit>> = None;
        loop {
            let next = match self.next_commit(disk, number)? {
                Some(next) => Some(next),
                None => {
                    if found.is_none() {
                        found = Some(self.search(disk, number)?);
                    }
                    self.second_copy(disk, number, found.as_deref().unwrap_or_default())?
                }
            };
            let Some((commit, payload)) = next else { break };
            if commit.header.generation > root.generation {
                break;
            }
            let changes = Change::decode_all(&payload, self.version).ok_or_else(|| {
                VolumeError::damaged(format!("the changes of commit {number} cannot be decoded"))
            })?;
            apply(changes)?;
            self.head = commit.offset + self.commit_bytes(&commit.header).unwrap_or(0);
            last = Some(LastCommit { commit, payload });
            number += 1;
        }
        let found = match found {
            Some(found) => found,
            None => self.search(disk, number)?,
        };
        let judged = Self::judge(root, number, &found);
        let undone = match judged.lost {
            Some(_) => self.count_changes(disk, &found)?,
            None => BTreeMap::new(),
        };
        Ok(Replayed { last, undone, ..judged })
    }

    /// Blocks of each volume that commits change which cannot be replayed.
    fn count_changes(
        &self,
        disk: &dyn Disk,
        commits: &[Commit],
    ) -> Result<BTreeMap<VolumeId, u64>> {
        let mut changed = BTreeMap::new();
        let mut counted = BTreeSet::new();
        for Commit { header, offset } in commits {
            if counted.contains(&header.number) {
                continue;
            }
            let Some(payload) = self.payload_at(disk, *offset, header)? else { continue };
            counted.insert(header.number);
            for change in Change::decode_all(&payload, self.version).unwrap_or_default() {
                if let Some((volume, blocks)) = change.changed_blocks() {
                    *changed.entry(volume).or_default() += blocks;
                }
            }
        }
        Ok(changed)
    }

    /// Bytes of the ring that a commit takes with its copies.
    fn commit_bytes(&self, header: &CommitHeader) -> Option<u64> {
        header.copy_bytes()?.checked_mul(self.version.commit_copies())
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

    /// The commit that begins here, from the first of its copies that is good. The header of the first
    /// copy has to be good, as it says where the second one is.
    fn commit_at(
        &self,
        disk: &dyn Disk,
        offset: u64,
        number: u64,
    ) -> Result<Option<(Commit, Vec<u8>)>> {
        let Some(header) = self.header_at(disk, offset, number)? else { return Ok(None) };
        let fits =
            self.commit_bytes(&header).is_some_and(|bytes| bytes <= self.ring_bytes - offset);
        let Some(copy_bytes) = header.copy_bytes().filter(|_| fits) else { return Ok(None) };
        for copy in 0..self.version.commit_copies() {
            if let Some(payload) = self.payload_at(disk, offset + copy * copy_bytes, &header)? {
                return Ok(Some((Commit { header, offset }, payload)));
            }
        }
        Ok(None)
    }

    /// The commit of this number from its second copy, where the header of the first one is damaged.
    fn second_copy(
        &self,
        disk: &dyn Disk,
        number: u64,
        found: &[Commit],
    ) -> Result<Option<(Commit, Vec<u8>)>> {
        if self.version.commit_copies() < 2 {
            return Ok(None);
        }
        for Commit { header, offset } in
            found.iter().filter(|commit| commit.header.number == number)
        {
            let start = header.copy_bytes().and_then(|bytes| offset.checked_sub(bytes));
            let Some(start) = start.filter(|start| [self.head, 0].contains(start)) else {
                continue;
            };
            if let Some(payload) = self.payload_at(disk, *offset, header)? {
                return Ok(Some((Commit { header: *header, offset: start }, payload)));
            }
        }
        Ok(None)
    }

    fn header_at(&self, disk: &dyn Disk, offset: u64, number: u64) -> Result<Option<CommitHeader>> {
        if offset + PAGE_BYTES as u64 > self.ring_bytes {
            return Ok(None);
        }
        let mut first = [0; PAGE_BYTES];
        disk.read_at(ring_offset(offset), &mut first)
            .map_err(VolumeError::io(DiskRole::Metadata, "read"))?;
        Ok(CommitHeader::decode(&first, self.seed).filter(|header| header.number == number))
    }

    /// The payload of the copy that begins here, if it is the one that the header names.
    fn payload_at(
        &self,
        disk: &dyn Disk,
        offset: u64,
        header: &CommitHeader,
    ) -> Result<Option<Vec<u8>>> {
        let fits = header
            .copy_bytes()
            .is_some_and(|bytes| bytes <= self.ring_bytes.saturating_sub(offset));
        let Some(length) = usize::try_from(header.payload_bytes).ok().filter(|_| fits) else {
            return Ok(None);
        };
        let mut payload = vec![0; length];
        disk.read_at(ring_offset(offset) + COMMIT_HEADER_BYTES as u64, &mut payload)
            .map_err(VolumeError::io(DiskRole::Metadata, "read"))?;
        Ok(header.fits(&payload, self.seed).then_some(payload))
    }

    /// All headers in the ring of commits from this number on.
    fn search(&self, disk: &dyn Disk, number: u64) -> Result<Vec<Commit>> {
        let mut found = Vec::new();
        let mut buffer = vec![0; SCAN_BYTES];
        let mut offset = 0;
        while offset < self.ring_bytes {
            let bytes = (self.ring_bytes - offset).min(SCAN_BYTES as u64);
            let part = buffer.get_mut(..bytes as usize).unwrap_or_default();
            disk.read_at(ring_offset(offset), part)
                .map_err(VolumeError::io(DiskRole::Metadata, "read"))?;
            for (page, at) in part.chunks(PAGE_BYTES).zip((offset..).step_by(PAGE_BYTES)) {
                let header = CommitHeader::decode(page, self.seed);
                found.extend(
                    header
                        .filter(|header| header.number >= number)
                        .map(|header| Commit { header, offset: at }),
                );
            }
            offset += bytes;
        }
        Ok(found)
    }

    /// Tells the end of the journal from damage. A crash breaks at most the last commit. If a later one
    /// is there, the one that should be next was damaged; if one of a later generation is there, the
    /// root that went with it was.
    fn judge(root: &Root, next: u64, found: &[Commit]) -> Replayed {
        let mut judged =
            Replayed { next_commit: next, generation: root.generation, ..Replayed::default() };
        for Commit { header, .. } in found.iter().filter(|commit| commit.header.number >= next) {
            if header.generation > root.generation {
                judged.lost = Some(format!(
                    "the root of checkpoint {}, which commit {} follows; the newest one left is {}",
                    header.generation, header.number, root.generation
                ));
            } else if header.number > next && judged.lost.is_none() {
                judged.lost = Some(format!(
                    "commit {next} of the journal, which commit {} follows",
                    header.number
                ));
            }
            judged.generation = judged.generation.max(header.generation);
            judged.next_commit = judged.next_commit.max(header.number.saturating_add(1));
        }
        if judged.lost.is_none() {
            judged.next_commit = next;
        }
        judged
    }

    /// Writes a commit again, with all its copies, to where it is.
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

/// Where a byte of the ring is on the metadata disk.
const fn ring_offset(offset: u64) -> u64 {
    JOURNAL_PAGE * PAGE_BYTES as u64 + offset
}

/// The newest commit that was replayed.
#[derive(Debug)]
pub(crate) struct LastCommit {
    commit: Commit,
    payload: Vec<u8>,
}

/// How far a journal could be replayed.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// The number of the next commit; with lost history, one that no commit had.
    pub(crate) next_commit: u64,
    /// The highest generation there was.
    pub(crate) generation: u64,
    /// The part of the history that is missing, in words.
    pub(crate) lost: Option<String>,
    /// The newest commit, unless the journal had none.
    pub(crate) last: Option<LastCommit>,
    /// With lost history: blocks of each volume that commits changed which cannot be replayed.
    pub(crate) undone: BTreeMap<VolumeId, u64>,
}
