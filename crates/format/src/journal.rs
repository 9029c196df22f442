//! The journal, read back after a crash: a ring of commits after the newest root.
//!
//! Writing commits is left to the engine.

use crate::error::{FormatError, Result};
use crate::{
    COMMIT_HEADER_BYTES, Change, Commit, CommitHeader, DiskRole, JOURNAL_PAGE, PAGE_BYTES,
    PoolSeed, Root, Superblock, Version, VolumeId,
};
use gemelo_disk::Disk;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that are read at once in a search for commits.
const SCAN_BYTES: usize = 1 << 20;

/// Converts a byte offset in the ring to a byte offset on the metadata disk.
#[must_use]
pub const fn ring_offset(offset: u64) -> u64 {
    JOURNAL_PAGE * PAGE_BYTES as u64 + offset
}

/// The newest commit that was replayed.
#[derive(Debug)]
pub struct LastCommit {
    /// Header and place of the commit.
    pub commit: Commit,
    /// The encoded changes.
    pub payload: Vec<u8>,
}

/// The part of a journal that could be replayed.
#[derive(Debug, Default)]
pub struct Replayed {
    /// Number of the next commit. After lost history, a number that no commit had.
    pub next_commit: u64,
    /// End of the newest commit, in bytes from the ring's start.
    pub head: u64,
    /// The highest generation that a commit names.
    pub generation: u64,
    /// Description of the history that is missing.
    pub lost: Option<String>,
    /// The newest commit, unless the journal had none.
    pub last: Option<LastCommit>,
    /// Blocks of each volume that lost commits changed, as far as those can still be read.
    pub undone: BTreeMap<VolumeId, u64>,
}

/// Reads the commits from a root on, and calls `apply` with the changes of each.
///
/// # Errors
/// If the disk cannot be read, a commit cannot be decoded, or `apply` fails.
pub fn replay_journal<E: From<FormatError>>(
    disk: &dyn Disk,
    superblock: &Superblock,
    root: &Root,
    seed: PoolSeed,
    apply: impl FnMut(Vec<Change>) -> std::result::Result<(), E>,
) -> std::result::Result<Replayed, E> {
    let ring_bytes = superblock.journal_pages * PAGE_BYTES as u64;
    let head = root.journal_offset.min(ring_bytes);
    JournalReader { disk, ring_bytes, head, seed, version: superblock.version }.replay(root, apply)
}

/// A replay under way. Offsets are bytes from the ring's start.
struct JournalReader<'d> {
    disk: &'d dyn Disk,
    ring_bytes: u64,
    /// The expected place of the next commit.
    head: u64,
    seed: PoolSeed,
    version: Version,
}

impl JournalReader<'_> {
    /// A commit counts if one of its copies is good. The whole ring is searched before the end of the
    /// journal is believed: a later commit means that the one that should be next was damaged.
    fn replay<E: From<FormatError>>(
        &mut self,
        root: &Root,
        mut apply: impl FnMut(Vec<Change>) -> std::result::Result<(), E>,
    ) -> std::result::Result<Replayed, E> {
        let mut number = root.next_commit;
        let mut last = None;
        let mut found: Option<Vec<Commit>> = None;
        loop {
            let next = match self.next_commit(number)? {
                Some(next) => Some(next),
                None => {
                    if found.is_none() {
                        found = Some(self.search(number)?);
                    }
                    self.second_copy(number, found.as_deref().unwrap_or_default())?
                }
            };
            let Some((commit, payload)) = next else { break };
            if commit.header.generation > root.generation {
                break;
            }
            let changes = Change::decode_all(&payload, self.version).ok_or_else(|| {
                FormatError::damaged(format!("the changes of commit {number} cannot be decoded"))
            })?;
            apply(changes)?;
            self.head = commit.offset + self.commit_bytes(&commit.header).unwrap_or(0);
            last = Some(LastCommit { commit, payload });
            number += 1;
        }
        let found = match found {
            Some(found) => found,
            None => self.search(number)?,
        };
        let judged = Self::judge(root, number, &found);
        let undone = match judged.lost {
            Some(_) => self.count_changes(&found)?,
            None => BTreeMap::new(),
        };
        Ok(Replayed { last, undone, head: self.head, ..judged })
    }

    /// Blocks of each volume that commits change which cannot be replayed.
    fn count_changes(&self, commits: &[Commit]) -> Result<BTreeMap<VolumeId, u64>> {
        let mut changed = BTreeMap::new();
        let mut counted = BTreeSet::new();
        for Commit { header, offset } in commits {
            if counted.contains(&header.number) {
                continue;
            }
            let Some(payload) = self.payload_at(*offset, header)? else { continue };
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
    fn next_commit(&self, number: u64) -> Result<Option<(Commit, Vec<u8>)>> {
        for offset in [self.head, 0] {
            if let Some(found) = self.commit_at(offset, number)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The commit that begins here, from the first of its copies that is good. The header of the first
    /// copy has to be good, as it says where the second one is.
    fn commit_at(&self, offset: u64, number: u64) -> Result<Option<(Commit, Vec<u8>)>> {
        let Some(header) = self.header_at(offset, number)? else { return Ok(None) };
        let fits =
            self.commit_bytes(&header).is_some_and(|bytes| bytes <= self.ring_bytes - offset);
        let Some(copy_bytes) = header.copy_bytes().filter(|_| fits) else { return Ok(None) };
        for copy in 0..self.version.commit_copies() {
            if let Some(payload) = self.payload_at(offset + copy * copy_bytes, &header)? {
                return Ok(Some((Commit { header, offset }, payload)));
            }
        }
        Ok(None)
    }

    /// The commit of this number from its second copy, where the header of the first one is damaged.
    fn second_copy(&self, number: u64, found: &[Commit]) -> Result<Option<(Commit, Vec<u8>)>> {
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
            if let Some(payload) = self.payload_at(*offset, header)? {
                return Ok(Some((Commit { header: *header, offset: start }, payload)));
            }
        }
        Ok(None)
    }

    fn header_at(&self, offset: u64, number: u64) -> Result<Option<CommitHeader>> {
        if offset + PAGE_BYTES as u64 > self.ring_bytes {
            return Ok(None);
        }
        let mut first = [0; PAGE_BYTES];
        self.disk
            .read_at(ring_offset(offset), &mut first)
            .map_err(FormatError::io(DiskRole::Metadata, "read"))?;
        Ok(CommitHeader::decode(&first, self.seed).filter(|header| header.number == number))
    }

    /// The payload of the copy that begins here, if it is the one that the header names.
    fn payload_at(&self, offset: u64, header: &CommitHeader) -> Result<Option<Vec<u8>>> {
        let fits = header
            .copy_bytes()
            .is_some_and(|bytes| bytes <= self.ring_bytes.saturating_sub(offset));
        let Some(length) = usize::try_from(header.payload_bytes).ok().filter(|_| fits) else {
            return Ok(None);
        };
        let mut payload = vec![0; length];
        self.disk
            .read_at(ring_offset(offset) + COMMIT_HEADER_BYTES as u64, &mut payload)
            .map_err(FormatError::io(DiskRole::Metadata, "read"))?;
        Ok(header.fits(&payload, self.seed).then_some(payload))
    }

    /// All headers in the ring of commits from this number on.
    fn search(&self, number: u64) -> Result<Vec<Commit>> {
        let mut found = Vec::new();
        let mut buffer = vec![0; SCAN_BYTES];
        let mut offset = 0;
        while offset < self.ring_bytes {
            let bytes = (self.ring_bytes - offset).min(SCAN_BYTES as u64);
            let part = buffer.get_mut(..bytes as usize).unwrap_or_default();
            self.disk
                .read_at(ring_offset(offset), part)
                .map_err(FormatError::io(DiskRole::Metadata, "read"))?;
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
}
