//! A commit of the journal: a header with two checksums, and changes.

use super::codec::Reader;
use super::{PAGE_BYTES, PoolSeed};

const MAGIC: &[u8; 8] = b"GEMELOJC";
/// Bytes of the header before the payload.
pub const COMMIT_HEADER_BYTES: usize = 48;
const CHECKSUM_AT: usize = 40;
/// Bytes of the shortest change: its tag and a number.
const MIN_CHANGE_BYTES: u64 = 2;

/// The fields of a commit's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitHeader {
    /// The number of the commit before it, plus one.
    pub number: u64,
    /// Generation of the newest durable root when the commit was written.
    pub generation: u64,
    /// Length of the payload in bytes.
    pub payload_bytes: u64,
    payload_checksum: u64,
}

/// A commit that was found in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// The header of the commit.
    pub header: CommitHeader,
    /// Offset of the commit in bytes from the journal's start.
    pub offset: u64,
}

impl CommitHeader {
    /// Decodes the header in the first bytes of a page, if a commit begins there.
    #[must_use]
    pub fn decode(page: &[u8], seed: PoolSeed) -> Option<Self> {
        let body = page.get(..CHECKSUM_AT)?;
        let mut reader = Reader::new(page);
        if reader.array()? != *MAGIC {
            return None;
        }
        let header = Self {
            number: reader.u64()?,
            generation: reader.u64()?,
            payload_bytes: reader.u64()?,
            payload_checksum: reader.u64()?,
        };
        (reader.u64()? == seed.checksum(body)).then_some(header)
    }

    /// Returns whether this is the payload of the commit.
    #[must_use]
    pub fn fits(&self, payload: &[u8], seed: PoolSeed) -> bool {
        payload.len() as u64 == self.payload_bytes
            && seed.checksum(payload) == self.payload_checksum
    }

    /// The most changes that the payload can hold.
    #[must_use]
    pub const fn max_changes(&self) -> u64 {
        self.payload_bytes / MIN_CHANGE_BYTES
    }

    /// Bytes of journal that one copy of the commit takes, or `None` if its length is impossible.
    #[must_use]
    pub fn copy_bytes(&self) -> Option<u64> {
        let bytes = self.payload_bytes.checked_add(COMMIT_HEADER_BYTES as u64)?;
        bytes.checked_next_multiple_of(PAGE_BYTES as u64)
    }
}

/// Fills the header at the front of a buffer, which has the payload after it, and pads the buffer
/// to whole pages.
pub fn build_commit(buffer: &mut Vec<u8>, number: u64, generation: u64, seed: PoolSeed) {
    assert!(buffer.len() >= COMMIT_HEADER_BYTES, "a commit has room for its header");
    assert!(number > 0, "commits are numbered from 1");
    let (head, payload) = buffer.split_at_mut(COMMIT_HEADER_BYTES);
    let mut header = Vec::with_capacity(COMMIT_HEADER_BYTES);
    header.extend_from_slice(MAGIC);
    for field in [number, generation, payload.len() as u64, seed.checksum(payload)] {
        header.extend_from_slice(&field.to_le_bytes());
    }
    header.extend_from_slice(&seed.checksum(&header).to_le_bytes());
    head.copy_from_slice(&header);
    buffer.resize(buffer.len().next_multiple_of(PAGE_BYTES), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Superblock;

    #[test]
    fn a_commit_is_recognised_and_any_flipped_byte_of_it_is_not() {
        let superblock = Superblock {
            header_copy: None,
            store: crate::StoreKind::Plain,
            block_bytes: 4096,
            pool_id: [1; 16],
            key: [2; 32],
            fingerprint: crate::types::FingerprintKind::Blake3,
            ring_pages: 8,
        };
        let seed = PoolSeed::of(&superblock);
        let mut buffer = vec![0; COMMIT_HEADER_BYTES];
        buffer.extend_from_slice(b"payload");
        build_commit(&mut buffer, 5, 2, seed);
        assert_eq!(buffer.len(), PAGE_BYTES);
        let reads = |bytes: &[u8]| {
            CommitHeader::decode(bytes, seed).is_some_and(|header| {
                header.fits(&bytes[COMMIT_HEADER_BYTES..COMMIT_HEADER_BYTES + 7], seed)
            })
        };
        assert!(reads(&buffer));
        for at in 0..COMMIT_HEADER_BYTES + 7 {
            let mut flipped = buffer.clone();
            flipped[at] ^= 0x10;
            assert!(!reads(&flipped), "byte {at}");
        }
    }
}
