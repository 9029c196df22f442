//! Finding commits in the ring and reading their copies.

use super::mend::mend_payload;
use super::{GivenUp, decode_payload};
use crate::error::{FormatError, Result};
use crate::{
    BadChange, COMMIT_HEADER_BYTES, COPIES, Commit, CommitHeader, DiskRole, MAX_DAMAGED_BYTES,
    PAGE_BYTES, PoolSeed, Reading, Regions, RingPiece, Superblock,
};
use gemelo_disk::Disk;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;

/// Bytes that are read at once in a search for commits.
const SCAN_BYTES: usize = 1 << 20;
/// Most pages of the rings that may be unreadable: those of one damaged run. A disk can take
/// seconds to give up on each, and one with more of them is failing as a whole.
const MAX_UNREADABLE_PAGES: usize = MAX_DAMAGED_BYTES as usize / PAGE_BYTES + 1;

/// A commit that was read.
pub(super) struct FoundCommit {
    pub(super) commit: Commit,
    pub(super) payload: Vec<u8>,
    /// Neither copy was intact; the payload was put together from both.
    pub(super) is_mended: bool,
    /// The number of copies that were read and are damaged.
    pub(super) damaged_copies: usize,
}

/// The two rings of commits of a pool. Both copies of a commit have the same offset in bytes from
/// the starts of their rings.
pub(super) struct Ring<'d> {
    pub(super) disk: &'d dyn Disk,
    pub(super) superblock: &'d Superblock,
    pub(super) regions: Regions,
    pub(super) seed: PoolSeed,
    pub(super) reading: Reading,
    pub(super) unreadable: RefCell<Unreadable>,
}

/// A page of one of the rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RingPage {
    /// The number of the ring, from 0.
    pub(super) ring: usize,
    /// Offset in bytes from the ring's start.
    pub(super) offset: u64,
}

/// The pages of the rings that the disk could not read.
#[derive(Default)]
pub(super) struct Unreadable {
    pub(super) pages: BTreeSet<RingPage>,
    /// The error of the first read that failed; those of later ones are dropped.
    pub(super) error: Option<io::Error>,
}

impl Ring<'_> {
    /// The offset after a commit that was read from the ring.
    pub(super) fn end_of(&self, commit: &Commit) -> u64 {
        let bytes = commit.header.copy_bytes().unwrap_or(u64::MAX);
        let end = commit.offset.saturating_add(bytes);
        assert!(end <= self.regions.ring_bytes(), "a commit that was read ends in the ring");
        end
    }

    /// The commit of this number at one of two places: the head, or the ring's start. One header
    /// is enough, because both copies are at the same place of their rings.
    pub(super) fn commit_at_any(
        &self,
        starts: [u64; 2],
        number: u64,
    ) -> Result<Option<FoundCommit>> {
        for offset in starts {
            for ring in 0..COPIES {
                let at = RingPage { ring, offset };
                let Some(header) = self.header_at(at, number)? else { continue };
                if let Some(found) = self.commit_from(offset, &header)? {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// Returns whether a commit of this number begins at one of two places.
    pub(super) fn has_header_at_any(&self, starts: [u64; 2], number: u64) -> Result<bool> {
        for offset in starts {
            for ring in 0..COPIES {
                if self.header_at(RingPage { ring, offset }, number)?.is_some() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The commit of this number wherever one of its headers was found.
    pub(super) fn commit_anywhere(
        &self,
        number: u64,
        headers: &[Commit],
    ) -> Result<Option<FoundCommit>> {
        for Commit { header, offset } in headers.iter().filter(|at| at.header.number == number) {
            if let Some(found) = self.commit_from(*offset, header)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The commit that begins at an offset: from a copy that is good, or put together from both.
    fn commit_from(&self, offset: u64, header: &CommitHeader) -> Result<Option<FoundCommit>> {
        let room = self.regions.ring_bytes().saturating_sub(offset);
        let Some(bytes) = header.copy_bytes().filter(|bytes| *bytes <= room) else {
            return Ok(None);
        };
        let Ok(bytes) = usize::try_from(bytes) else { return Ok(None) };
        let commit = Commit { header: *header, offset };
        let (mut good, mut bad) = (None, Vec::new());
        for ring in 0..COPIES {
            let copy = self.read(RingPage { ring, offset }, bytes)?;
            let payload = self.payload_of(&copy, header);
            // A payload that fits counts, even if the header before it is damaged.
            let is_whole = CommitHeader::decode(&copy, self.seed).as_ref() == Some(header);
            if payload.is_none() || !is_whole {
                bad.push(copy);
            }
            good = good.or(payload);
            if good.is_some() && self.reading == Reading::OneGood {
                break;
            }
        }
        let damaged_copies = bad.len();
        let found = |payload, is_mended| FoundCommit { commit, payload, is_mended, damaged_copies };
        if let Some(payload) = good {
            return Ok(Some(found(payload, false)));
        }
        let copies: std::result::Result<[Vec<u8>; COPIES], _> = bad.try_into();
        let mended = copies.ok().and_then(|[a, b]| mend_payload(header, self.seed, a, b));
        Ok(mended.map(|payload| found(payload, true)))
    }

    /// The payload of a copy that was read, if it is the one that the header names.
    fn payload_of(&self, copy: &[u8], header: &CommitHeader) -> Option<Vec<u8>> {
        let end = COMMIT_HEADER_BYTES.checked_add(usize::try_from(header.payload_bytes).ok()?)?;
        let payload = copy.get(COMMIT_HEADER_BYTES..end)?;
        header.fits(payload, self.seed).then(|| payload.to_vec())
    }

    fn read(&self, at: RingPage, bytes: usize) -> Result<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        self.read_pages(at, &mut buffer)?;
        Ok(buffer)
    }

    /// Reads whole pages. Pages that the disk cannot read are noted, and are zeros, which fit no
    /// checksum.
    fn read_pages(&self, at: RingPage, buffer: &mut [u8]) -> Result<()> {
        let mut rest = buffer;
        for RingPiece { bytes, offsets: [first, second] } in
            self.regions.ring(at.offset, rest.len())
        {
            let (piece, behind) = std::mem::take(&mut rest).split_at_mut(bytes.len());
            rest = behind;
            let offset = at.offset + bytes.start as u64;
            let start = if at.ring == 0 { first } else { second };
            self.read_piece(RingPage { offset, ..at }, start, piece)?;
        }
        Ok(())
    }

    /// Reads pages that lie side by side, from this byte of the disk on.
    fn read_piece(&self, at: RingPage, start: u64, buffer: &mut [u8]) -> Result<()> {
        if self.disk.read_at(start, buffer).is_ok() {
            return Ok(());
        }
        for (page, within) in buffer.chunks_mut(PAGE_BYTES).zip((0..).step_by(PAGE_BYTES)) {
            let Err(error) = self.disk.read_at(start + within, page) else { continue };
            let mut unreadable = self.unreadable.borrow_mut();
            unreadable.pages.insert(RingPage { ring: at.ring, offset: at.offset + within });
            // Commits beyond the end of the disk are lost. The search for them costs no time.
            let is_end = error.kind() == io::ErrorKind::UnexpectedEof;
            if !is_end && unreadable.pages.len() > MAX_UNREADABLE_PAGES {
                return Err(FormatError::io(DiskRole::Metadata, "read")(error));
            }
            unreadable.error.get_or_insert(error);
            page.fill(0);
        }
        Ok(())
    }

    fn header_at(&self, at: RingPage, number: u64) -> Result<Option<CommitHeader>> {
        if at.offset + PAGE_BYTES as u64 > self.regions.ring_bytes() {
            return Ok(None);
        }
        let first = self.read(at, PAGE_BYTES)?;
        Ok(CommitHeader::decode(&first, self.seed).filter(|header| header.number == number))
    }

    /// All headers in the rings of commits from this number on.
    pub(super) fn search(&self, number: u64) -> Result<Vec<Commit>> {
        let mut found = Vec::new();
        let mut buffer = vec![0; SCAN_BYTES];
        for ring in 0..COPIES {
            for start in (0..self.regions.ring_bytes()).step_by(SCAN_BYTES) {
                let bytes = (self.regions.ring_bytes() - start).min(SCAN_BYTES as u64) as usize;
                let (part, _) = buffer.split_at_mut(bytes);
                self.read_pages(RingPage { ring, offset: start }, part)?;
                for (page, offset) in part.chunks(PAGE_BYTES).zip((start..).step_by(PAGE_BYTES)) {
                    let header = CommitHeader::decode(page, self.seed);
                    let header = header.filter(|header| header.number >= number);
                    found.extend(header.map(|header| Commit { header, offset }));
                }
            }
        }
        Ok(found)
    }

    /// The parts of the commits from this number on, as far as those can be read.
    pub(super) fn given_up(&self, from: u64, headers: &[Commit]) -> Result<GivenUp> {
        let mut given_up = GivenUp::default();
        let numbers: BTreeSet<u64> =
            headers.iter().map(|at| at.header.number).filter(|number| *number >= from).collect();
        for number in numbers {
            let Some(found) = self.commit_anywhere(number, headers)? else { continue };
            let FoundCommit { commit, payload, .. } = found;
            let changes = match decode_payload(self.superblock, &commit.header, &payload) {
                Ok((changes, _)) => changes,
                Err(BadChange::Malformed) => continue,
                Err(bad) => return Err(bad.of_commit(number)),
            };
            for change in changes {
                given_up.expected.extend(change.expected_content());
                if let Some((volume, blocks)) = change.changed_blocks() {
                    let sum = given_up.changed_blocks.entry(volume).or_default();
                    *sum = sum.saturating_add(blocks);
                }
            }
        }
        Ok(given_up)
    }
}
