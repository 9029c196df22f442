//! Finding commits in the ring and reading their copies.

use super::mend::mend_payload;
use super::{GivenUp, ring_offset};
use crate::error::{FormatError, Result};
use crate::{
    COMMIT_HEADER_BYTES, Change, Commit, CommitHeader, DiskRole, PAGE_BYTES, PoolSeed, Version,
};
use gemelo_disk::Disk;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;

/// Bytes that are read at once in a search for commits.
const SCAN_BYTES: usize = 1 << 20;
/// Most pages of the ring that may be unreadable. A disk can take seconds to give up on each, and
/// one with more of them is failing as a whole.
const MOST_UNREADABLE_PAGES: usize = 64;

/// A commit that was read.
pub(super) struct Found {
    pub(super) commit: Commit,
    pub(super) payload: Vec<u8>,
    /// Neither copy was intact; the payload was put together from both.
    pub(super) is_mended: bool,
}

/// The ring of commits of a pool. Offsets are bytes from the ring's start.
pub(super) struct Ring<'d> {
    pub(super) disk: &'d dyn Disk,
    pub(super) ring_bytes: u64,
    pub(super) seed: PoolSeed,
    pub(super) version: Version,
    pub(super) unreadable: RefCell<Unreadable>,
}

/// The pages of the ring that the disk could not read.
#[derive(Default)]
pub(super) struct Unreadable {
    /// Offsets of the pages in bytes from the ring's start.
    pub(super) pages: BTreeSet<u64>,
    /// The first error.
    pub(super) error: Option<io::Error>,
}

impl Ring<'_> {
    /// Bytes of the ring that a commit takes with its copies.
    pub(super) fn commit_bytes(&self, header: &CommitHeader) -> Option<u64> {
        header.copy_bytes()?.checked_mul(self.version.commit_copies())
    }

    /// The commit of this number at one of two places: the head, or the ring's start. The header of
    /// its first copy has to be good, as it says where the second one is.
    pub(super) fn commit_at_any(&self, starts: [u64; 2], number: u64) -> Result<Option<Found>> {
        for start in starts {
            let Some(header) = self.header_at(start, number)? else { continue };
            if let Some(found) = self.commit_from(start, &header)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The commit of this number from the header of its second copy, where that of the first one is
    /// damaged. The first copy has to begin at one of two places.
    pub(super) fn second_copy(
        &self,
        starts: [u64; 2],
        number: u64,
        headers: &[Commit],
    ) -> Result<Option<Found>> {
        if self.version.commit_copies() < 2 {
            return Ok(None);
        }
        for Commit { header, offset } in headers.iter().filter(|at| at.header.number == number) {
            let start = header.copy_bytes().and_then(|bytes| offset.checked_sub(bytes));
            let Some(start) = start.filter(|start| starts.contains(start)) else { continue };
            if let Some(found) = self.commit_from(start, header)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The commit of this number wherever one of its headers was found.
    pub(super) fn commit_anywhere(&self, number: u64, headers: &[Commit]) -> Result<Option<Found>> {
        for Commit { header, offset } in headers.iter().filter(|at| at.header.number == number) {
            let as_second = header.copy_bytes().and_then(|bytes| offset.checked_sub(bytes));
            for start in [Some(*offset), as_second].into_iter().flatten() {
                if let Some(found) = self.commit_from(start, header)? {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// The commit whose first copy begins here: from a copy that is good, or put together from
    /// both.
    fn commit_from(&self, start: u64, header: &CommitHeader) -> Result<Option<Found>> {
        let fits = self
            .commit_bytes(header)
            .is_some_and(|bytes| bytes <= self.ring_bytes.saturating_sub(start));
        let Some(copy_bytes) = header.copy_bytes().filter(|_| fits) else { return Ok(None) };
        let commit = Commit { header: *header, offset: start };
        for copy in 0..self.version.commit_copies() {
            if let Some(payload) = self.payload_at(start + copy * copy_bytes, header)? {
                return Ok(Some(Found { commit, payload, is_mended: false }));
            }
        }
        let mended = self.mend(start, header)?;
        Ok(mended.map(|payload| Found { commit, payload, is_mended: true }))
    }

    fn mend(&self, start: u64, header: &CommitHeader) -> Result<Option<Vec<u8>>> {
        let copy_bytes = header.copy_bytes().and_then(|bytes| usize::try_from(bytes).ok());
        let Some(copy_bytes) = copy_bytes.filter(|_| self.version.commit_copies() > 1) else {
            return Ok(None);
        };
        let first = self.read(start, copy_bytes)?;
        let second = self.read(start + copy_bytes as u64, copy_bytes)?;
        Ok(mend_payload(header, self.seed, first, second))
    }

    fn read(&self, offset: u64, bytes: usize) -> Result<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        self.read_pages(offset, &mut buffer)?;
        Ok(buffer)
    }

    /// Reads whole pages. Pages that the disk cannot read are noted, and are zeros, which fit no
    /// checksum.
    fn read_pages(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if self.disk.read_at(ring_offset(offset), buffer).is_ok() {
            return Ok(());
        }
        for (page, at) in buffer.chunks_mut(PAGE_BYTES).zip((offset..).step_by(PAGE_BYTES)) {
            let Err(error) = self.disk.read_at(ring_offset(at), page) else { continue };
            let mut unreadable = self.unreadable.borrow_mut();
            unreadable.pages.insert(at);
            let is_end = error.kind() == io::ErrorKind::UnexpectedEof;
            if is_end || unreadable.pages.len() > MOST_UNREADABLE_PAGES {
                return Err(FormatError::io(DiskRole::Metadata, "read")(error));
            }
            unreadable.error.get_or_insert(error);
            page.fill(0);
        }
        Ok(())
    }

    fn header_at(&self, offset: u64, number: u64) -> Result<Option<CommitHeader>> {
        if offset + PAGE_BYTES as u64 > self.ring_bytes {
            return Ok(None);
        }
        let first = self.read(offset, PAGE_BYTES)?;
        Ok(CommitHeader::decode(&first, self.seed).filter(|header| header.number == number))
    }

    /// The payload of the copy that begins here, if it is the one that the header names.
    fn payload_at(&self, offset: u64, header: &CommitHeader) -> Result<Option<Vec<u8>>> {
        let fits = header
            .copy_bytes()
            .is_some_and(|bytes| bytes <= self.ring_bytes.saturating_sub(offset));
        let bytes =
            header.copy_bytes().filter(|_| fits).and_then(|bytes| usize::try_from(bytes).ok());
        let Some(bytes) = bytes else { return Ok(None) };
        let mut copy = self.read(offset, bytes)?;
        // The length of the copy is larger than that of the payload, so it has 64 bits, too.
        copy.truncate(COMMIT_HEADER_BYTES + header.payload_bytes as usize);
        let payload = copy.split_off(COMMIT_HEADER_BYTES.min(copy.len()));
        Ok(header.fits(&payload, self.seed).then_some(payload))
    }

    /// All headers in the ring of commits from this number on.
    pub(super) fn search(&self, number: u64) -> Result<Vec<Commit>> {
        let mut found = Vec::new();
        let mut buffer = vec![0; SCAN_BYTES];
        let mut offset = 0;
        while offset < self.ring_bytes {
            let bytes = (self.ring_bytes - offset).min(SCAN_BYTES as u64);
            let part = buffer.get_mut(..bytes as usize).unwrap_or_default();
            self.read_pages(offset, part)?;
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

    /// The parts of the commits from this number on, as far as those can be read.
    pub(super) fn given_up(&self, from: u64, headers: &[Commit]) -> Result<GivenUp> {
        let mut given_up = GivenUp::default();
        let numbers: BTreeSet<u64> =
            headers.iter().map(|at| at.header.number).filter(|number| *number >= from).collect();
        for number in numbers {
            let Some(found) = self.commit_anywhere(number, headers)? else { continue };
            for change in Change::decode_all(&found.payload, self.version).unwrap_or_default() {
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
