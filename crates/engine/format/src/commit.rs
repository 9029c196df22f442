//! A commit of the journal: a header with two checksums, and changes.

use super::codec::Reader;
use super::{LAST_NUMBER, PAGE_BYTES, Pbn, PoolSeed};
use std::collections::BTreeSet;

/// The magic number of a commit, by its order.
const MAGICS: [(CommitOrder, &[u8; 8]); 2] =
    [(CommitOrder::AfterContents, b"GEMELOJC"), (CommitOrder::BesideContents, b"GEMELOJB")];
/// Bytes of the header before the payload.
pub const COMMIT_HEADER_BYTES: usize = 48;
const CHECKSUM_AT: usize = 40;
/// Bytes of a PBN.
const PBN_BYTES: usize = 5;
/// Bytes of the number of PBNs.
const COUNT_BYTES: usize = size_of::<u32>();
/// Bytes of the shortest change: its tag and a number.
const MIN_CHANGE_BYTES: u64 = 2;

/// The time at which a commit was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitOrder {
    /// After the contents that it refers to were in the data store, or with them in the commit.
    AfterContents,
    /// At the same time as the contents that it stores. Until both are complete, no later commit
    /// and no flush mark is written, so the last commit alone is in doubt: it counts if its
    /// contents are there.
    BesideContents,
}

impl CommitOrder {
    fn magic(self) -> &'static [u8; 8] {
        let [(_, after), (order, beside)] = MAGICS;
        if self == order { beside } else { after }
    }
}

/// The fields of a commit's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitHeader {
    /// The number of the commit before it, plus one.
    pub number: u64,
    /// Generation of the newest durable root when the commit was written.
    pub generation: u64,
    /// The time at which the commit was written.
    pub order: CommitOrder,
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
        let magic = reader.array()?;
        let (order, _) = MAGICS.into_iter().find(|(_, known)| **known == magic)?;
        let header = Self {
            number: reader.u64()?,
            generation: reader.u64()?,
            order,
            payload_bytes: reader.u64()?,
            payload_checksum: reader.u64()?,
        };
        let is_possible = (1..LAST_NUMBER).contains(&header.number)
            && header.generation < LAST_NUMBER
            && header.payload_bytes < LAST_NUMBER;
        (reader.u64()? == seed.checksum(body) && is_possible).then_some(header)
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

/// The fields of a header that do not follow from the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewCommit {
    /// The number of the commit.
    pub number: u64,
    /// Generation of the newest durable root.
    pub generation: u64,
    /// The time at which the commit is written.
    pub order: CommitOrder,
}

/// Fills the header at the front of a buffer, which has the payload after it, and pads the buffer
/// to whole pages.
pub fn build_commit(buffer: &mut Vec<u8>, commit: NewCommit, seed: PoolSeed) {
    let NewCommit { number, generation, order } = commit;
    assert!(buffer.len() >= COMMIT_HEADER_BYTES, "a commit has room for its header");
    assert!(number > 0, "commits are numbered from 1");
    let (head, payload) = buffer.split_at_mut(COMMIT_HEADER_BYTES);
    let mut header = Vec::with_capacity(COMMIT_HEADER_BYTES);
    header.extend_from_slice(order.magic());
    for field in [number, generation, payload.len() as u64, seed.checksum(payload)] {
        header.extend_from_slice(&field.to_le_bytes());
    }
    header.extend_from_slice(&seed.checksum(&header).to_le_bytes());
    head.copy_from_slice(&header);
    buffer.resize(buffer.len().next_multiple_of(PAGE_BYTES), 0);
}

/// Appends the blocks that a commit frees to its changes, if it is written beside its contents. A
/// block that it also stores may have another content as soon as the commit is complete.
pub fn append_freed(buffer: &mut Vec<u8>, freed: &[Pbn]) {
    for pbn in freed {
        let [bytes @ .., _, _, _] = pbn.number().to_le_bytes();
        buffer.extend_from_slice(&bytes);
    }
    let count = u32::try_from(freed.len());
    assert!(count.is_ok(), "a commit frees fewer blocks than there are");
    buffer.extend_from_slice(&count.unwrap_or(u32::MAX).to_le_bytes());
}

/// Returns the bytes that [`append_freed`] appends.
#[must_use]
pub const fn freed_bytes(freed: usize) -> usize {
    freed * PBN_BYTES + COUNT_BYTES
}

/// Splits a payload into its changes and the blocks that [`append_freed`] has appended. `pbn_of`
/// returns the PBN of a number, if the pool can have it.
pub(crate) fn split_freed(
    payload: &[u8],
    pbn_of: impl Fn(u64) -> Option<Pbn>,
) -> Option<(&[u8], BTreeSet<Pbn>)> {
    let (rest, count) = payload.split_last_chunk()?;
    let bytes = usize::try_from(u32::from_le_bytes(*count)).ok()?.checked_mul(PBN_BYTES)?;
    let (changes, freed) = rest.split_at_checked(rest.len().checked_sub(bytes)?)?;
    let pbn = |bytes: &[u8; PBN_BYTES]| {
        let [b0, b1, b2, b3, b4] = *bytes;
        pbn_of(u64::from_le_bytes([b0, b1, b2, b3, b4, 0, 0, 0]))
    };
    let freed = freed.as_chunks().0.iter().map(pbn);
    Some((changes, freed.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Superblock;

    #[test]
    fn the_freed_blocks_of_a_commit_are_split_from_its_changes() {
        for count in [0, 1, 7] {
            let freed: Vec<Pbn> = (1..=count).map(|number| Pbn::new(number).unwrap()).collect();
            let mut payload = b"changes".to_vec();
            append_freed(&mut payload, &freed);
            assert_eq!(payload.len(), 7 + freed_bytes(freed.len()));
            let (changes, found) = split_freed(&payload, Pbn::new).unwrap();
            assert!(changes == b"changes" && found.into_iter().eq(freed));
        }
        assert!(split_freed(&[1, 0, 0, 0], Pbn::new).is_none());
        assert!(split_freed(&[0; 3], Pbn::new).is_none());
    }

    #[test]
    fn a_commit_of_either_order_is_recognised_and_any_flipped_byte_of_it_is_not() {
        let superblock = Superblock {
            header_copy: None,
            store: crate::StoreKind::Plain,
            words: crate::WordForm::Narrow,
            unknown: crate::Features::NONE,
            block_bytes: 4096,
            pool_id: [1; 16],
            key: [2; 32],
            fingerprint: crate::types::FingerprintKind::Blake3,
            ring_pages: 8,
        };
        let seed = PoolSeed::of(&superblock);
        for (order, _) in MAGICS {
            let mut buffer = vec![0; COMMIT_HEADER_BYTES];
            buffer.extend_from_slice(b"payload");
            build_commit(&mut buffer, NewCommit { number: 5, generation: 2, order }, seed);
            assert_eq!(buffer.len(), PAGE_BYTES);
            let reads = |bytes: &[u8]| {
                CommitHeader::decode(bytes, seed).is_some_and(|header| {
                    let payload = &bytes[COMMIT_HEADER_BYTES..COMMIT_HEADER_BYTES + 7];
                    header.order == order && header.fits(payload, seed)
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
}
