//! Roots: each names a checkpoint and the first commit after it.

use super::codec::Reader;
use super::regions::{COPIES, HeadPage, head_offsets, read_page};
use super::superblock::page_of;
use super::table::{decode_link, encode_link};
use super::{FlushMarks, LAST_NUMBER, NodeRef, PAGE_BYTES, Page, PoolSeed, Superblock};
use crate::DiskRole;
use crate::error::{FormatError, Result};
use crate::types::Policy;
use gemelo_disk::Disk;

const MAGIC: &[u8; 8] = b"GEMELORT";
const CHECKSUM_AT: usize = PAGE_BYTES - 8;

/// The root of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Number of the checkpoint, from 1. The root with the highest one is valid.
    pub generation: u64,
    /// The first commit that the checkpoint does not contain.
    pub next_commit: u64,
    /// Offset of that commit in bytes from the journal's start, whether it exists yet or not.
    pub journal_offset: u64,
    /// The policy of the metadata.
    pub policy: Policy,
    /// The first page of the table, unless nothing was written yet.
    pub table: Option<NodeRef>,
    /// Length of the table in bytes.
    pub table_bytes: u64,
    /// Size of the data store in blocks, block 0 included.
    pub data_blocks: u64,
    /// The id of the next volume.
    pub next_volume: u32,
    /// LBNs that have a PBN.
    pub references: u64,
    /// PBNs that have a reference.
    pub physical: u64,
}

impl Root {
    /// Encodes the root as a page.
    #[must_use]
    pub fn encode(&self, superblock: &Superblock, seed: PoolSeed) -> Box<Page> {
        let mut bytes = Vec::with_capacity(PAGE_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&superblock.pool_id);
        for number in [self.generation, self.next_commit, self.journal_offset] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&encode_link(self.table));
        bytes.extend_from_slice(&[self.policy.byte(), 0, 0, 0]);
        bytes.extend_from_slice(&self.table_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.data_blocks.to_le_bytes());
        bytes.extend_from_slice(&self.next_volume.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.references.to_le_bytes());
        bytes.extend_from_slice(&self.physical.to_le_bytes());
        bytes.resize(CHECKSUM_AT, 0);
        bytes.extend_from_slice(&seed.checksum(&bytes).to_le_bytes());
        page_of(&bytes)
    }

    fn decode(page: &Page, superblock: &Superblock, seed: PoolSeed) -> Option<FoundPage> {
        let (body, checksum) = page.split_at(CHECKSUM_AT);
        if seed.checksum(body).to_le_bytes() != checksum {
            return None;
        }
        let mut reader = Reader::new(body);
        if reader.array()? != *MAGIC || reader.array()? != superblock.pool_id {
            return None;
        }
        let [generation, next_commit, journal_offset] =
            [reader.u64()?, reader.u64()?, reader.u64()?];
        let table = decode_link(reader.array()?);
        let [byte, ..] = reader.array::<4>()?;
        let Some(policy) = Policy::from_byte(byte) else {
            return Some(FoundPage::Unknown { generation, byte });
        };
        let root = Self {
            generation,
            next_commit,
            journal_offset,
            policy,
            table,
            table_bytes: reader.u64()?,
            data_blocks: reader.u64()?,
            next_volume: (reader.u64()? & u64::from(u32::MAX)) as u32,
            references: reader.u64()?,
            physical: reader.u64()?,
        };
        root.can_be(superblock).then_some(FoundPage::Known(root))
    }

    /// Checks every field against its bounds, so later arithmetic cannot overflow.
    fn can_be(&self, superblock: &Superblock) -> bool {
        let ring_bytes = superblock.regions().ring_bytes();
        self.journal_offset <= ring_bytes
            && self.journal_offset.is_multiple_of(PAGE_BYTES as u64)
            && (1..=superblock.max_blocks()).contains(&self.data_blocks)
            && self.generation.max(self.next_commit) < LAST_NUMBER
            && self.next_commit > 0
            && self.next_volume > 0
    }

    /// Offsets of the root and of its copy on the metadata disk, in bytes. The copy is written
    /// when the root is durable.
    #[must_use]
    pub const fn offsets(generation: u64) -> [u64; COPIES] {
        head_offsets(HeadPage::Root { is_odd: !generation.is_multiple_of(2) })
    }
}

/// A page that passes the checksum of a root.
enum FoundPage {
    Known(Root),
    /// A root of metadata that this program cannot read.
    Unknown {
        generation: u64,
        byte: u8,
    },
}

/// The roots that were found.
#[derive(Debug)]
pub struct RootSearch {
    /// The root with the highest number.
    pub newest: Root,
    /// The newest root before that one.
    pub older: Option<Root>,
    /// Offsets in bytes of the places of the newest root that do not hold it, because they were
    /// damaged, or because the root was written elsewhere. A copy that a crash kept from being
    /// written, or that it left half written, is not among them.
    pub to_repair: Vec<u64>,
}

/// Finds the newest root.
///
/// The root is written and synced before its copy, and its copy before a flush mark names the
/// root. So a root that is not whole beside a whole copy was damaged. A copy that is not whole
/// beside a whole root was damaged if a mark names the root; otherwise a crash, or an error of the
/// disk, may have kept it from being written as a whole, and it may hold anything.
///
/// A disk may have written the newest root to a place of the other parity. It counts there as well:
/// a root is written only when everything that it names is durable, so its checksum proves that the
/// checkpoint is complete. Neither of its own places holds it then.
///
/// # Errors
/// Fails if no root is intact, if the disk cannot read a place that may have the only one, or if
/// the newest one is of metadata that this program cannot read.
pub fn find_roots(disk: &dyn Disk, superblock: &Superblock, seed: PoolSeed) -> Result<RootSearch> {
    let mut roots: Vec<(u64, Root)> = Vec::new();
    let (mut error, mut unknown) = (None, None);
    for offset in [0, 1].into_iter().flat_map(Root::offsets) {
        match read_page(disk, offset, |page| Root::decode(page, superblock, seed)) {
            Ok(Some(FoundPage::Known(root))) => roots.push((offset, root)),
            Ok(Some(FoundPage::Unknown { generation, byte })) => {
                unknown = unknown.max(Some((generation, byte)));
            }
            Ok(None) => {}
            Err(failed) => drop(error.get_or_insert(failed)),
        }
    }
    let newest = roots.iter().map(|(_, root)| root).max_by_key(|root| root.generation).cloned();
    if let Some((generation, byte)) = unknown
        && newest.as_ref().is_none_or(|newest| newest.generation < generation)
    {
        return Err(FormatError::Unknown { what: Policy::unknown(byte) });
    }
    let newest = match (newest, error) {
        (Some(newest), _) => newest,
        (None, Some(error)) => return Err(FormatError::io(DiskRole::Metadata, "read")(error)),
        (None, None) => return Err(FormatError::damaged("no root passes its checksum")),
    };
    let is_whole = |place: u64| roots.contains(&(place, newest.clone()));
    let [first, copy] = Root::offsets(newest.generation);
    let marks = FlushMarks::read(disk, superblock, seed);
    let to_repair = match (is_whole(first), is_whole(copy)) {
        (true, true) => Vec::new(),
        (true, false) if marks.has_root(newest.generation) => vec![copy],
        (true, false) => Vec::new(),
        (false, true) => vec![first],
        (false, false) => vec![first, copy],
    };
    // The copy of the newest root may still hold the root before the older one.
    let older = roots
        .into_iter()
        .map(|(_, root)| root)
        .filter(|root| root.generation < newest.generation)
        .max_by_key(|root| root.generation);
    Ok(RootSearch { newest, older, to_repair })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FingerprintKind, StoreKind, WordForm};
    use gemelo_disk::testing::MemoryDisk;

    const POLICY_AT: usize = 60;

    fn superblock() -> Superblock {
        Superblock {
            block_bytes: 4096,
            pool_id: [1; 16],
            key: [2; 32],
            fingerprint: FingerprintKind::Blake3,
            ring_pages: 8,
            header_copy: None,
            store: StoreKind::Plain,
            words: WordForm::Narrow,
            unknown: crate::Features::NONE,
        }
    }

    /// Writes a root with this byte for its policy, with a right checksum.
    fn put(disk: &MemoryDisk, generation: u64, byte: u8) {
        let (superblock, seed) = (superblock(), PoolSeed::of(&superblock()));
        let root = Root {
            generation,
            next_commit: 1,
            journal_offset: 0,
            policy: Policy::Compact,
            table: None,
            table_bytes: 0,
            data_blocks: 10,
            next_volume: 1,
            references: 0,
            physical: 0,
        };
        let mut page = root.encode(&superblock, seed);
        assert_eq!(page[POLICY_AT], Policy::Compact.byte());
        page[POLICY_AT] = byte;
        let (body, checksum) = page.split_at_mut(CHECKSUM_AT);
        checksum.copy_from_slice(&seed.checksum(body).to_le_bytes());
        for offset in Root::offsets(generation) {
            disk.write_at(offset, page.as_slice()).unwrap();
        }
    }

    #[test]
    fn metadata_of_an_earlier_program_are_refused_by_their_name() {
        let seed = PoolSeed::of(&superblock());
        for (byte, name) in [(0, "log"), (1, "ram"), (3, "btree"), (77, "77")] {
            let disk = MemoryDisk::default();
            put(&disk, 1, Policy::Compact.byte());
            put(&disk, 2, byte);
            let error = find_roots(&disk, &superblock(), seed).unwrap_err();
            assert!(matches!(error, FormatError::Unknown { .. }), "{error}");
            let said = error.to_string();
            assert!(said.contains(name) && said.contains("does not know"), "{said}");
            // A pool that an earlier program has moved to metadata that are known.
            put(&disk, 3, Policy::Compact.byte());
            assert_eq!(find_roots(&disk, &superblock(), seed).unwrap().newest.generation, 3);
        }
    }
}
