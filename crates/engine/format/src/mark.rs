//! The flush mark: the number of a commit that is durable, and the generation of a root whose
//! copies are, kept outside of both. With it the end of the journal differs from a last commit that
//! was damaged, and a copy of a root that was never finished from one that was damaged later.

use super::codec::Reader;
use super::regions::{COPIES, HeadPage, head_offsets, read_page};
use super::superblock::page_of;
use super::{LAST_NUMBER, PAGE_BYTES, Page, PoolSeed, Superblock};
use gemelo_disk::Disk;

const MAGIC: &[u8; 8] = b"GEMELOFM";
const CHECKSUM_AT: usize = PAGE_BYTES - 8;
/// The byte offsets of the two pages that a mark is written to in turns.
const OFFSETS: [u64; COPIES] = head_offsets(HeadPage::FlushMark);

/// Says that a commit, all commits before it, and a root with its copy are durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlushMark {
    /// The number of the commit; 0 if there was none.
    pub commit: u64,
    /// The generation of the root.
    pub generation: u64,
}

impl FlushMark {
    /// Encodes the mark of a pool as a page.
    #[must_use]
    pub fn encode(self, pool_id: &[u8; 16], seed: PoolSeed) -> Box<Page> {
        let mut bytes = Vec::with_capacity(PAGE_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(pool_id);
        bytes.extend_from_slice(&self.commit.to_le_bytes());
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.resize(CHECKSUM_AT, 0);
        bytes.extend_from_slice(&seed.checksum(&bytes).to_le_bytes());
        page_of(&bytes)
    }

    fn decode(page: &Page, superblock: &Superblock, seed: PoolSeed) -> Option<Self> {
        let (body, checksum) = page.split_at(CHECKSUM_AT);
        if seed.checksum(body).to_le_bytes() != checksum {
            return None;
        }
        let mut reader = Reader::new(body);
        if reader.array()? != *MAGIC || reader.array()? != superblock.pool_id {
            return None;
        }
        let mark = Self { commit: reader.u64()?, generation: reader.u64()? };
        (mark.commit.max(mark.generation) < LAST_NUMBER).then_some(mark)
    }
}

/// The newest flush mark of a pool, and the page that the next one goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushMarks {
    /// The newest mark, unless both pages are damaged.
    pub newest: Option<FlushMark>,
    /// The byte offset of the page that does not hold the newest mark. A torn write of the next
    /// mark leaves the newest one intact.
    pub next_offset: u64,
}

impl FlushMarks {
    /// The byte offsets of the pages that marks are written to in turns.
    pub const OFFSETS: [u64; COPIES] = OFFSETS;

    /// Reads the marks. A page that cannot be read, or that fails its checksum, has no mark: a
    /// crash may have torn one of them.
    #[must_use]
    pub fn read(disk: &dyn Disk, superblock: &Superblock, seed: PoolSeed) -> Self {
        let [first, second] = OFFSETS.map(|offset| {
            read_page(disk, offset, |page| FlushMark::decode(page, superblock, seed)).ok().flatten()
        });
        let [even, odd] = OFFSETS;
        if first > second {
            Self { newest: first, next_offset: odd }
        } else {
            Self { newest: second, next_offset: even }
        }
    }

    /// Returns whether a mark says that this root and its copy are durable.
    #[must_use]
    pub fn has_root(&self, generation: u64) -> bool {
        self.newest.is_some_and(|mark| mark.generation >= generation)
    }

    /// Notes that a mark was written to [`Self::next_offset`].
    pub fn note_written(&mut self, mark: FlushMark) {
        assert!(self.newest <= Some(mark), "marks go up: {mark:?} follows {:?}", self.newest);
        let [even, odd] = OFFSETS;
        self.newest = Some(mark);
        self.next_offset = if self.next_offset == even { odd } else { even };
    }
}
