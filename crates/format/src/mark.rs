//! The flush mark: the number of a commit that is durable, kept outside of the journal. With it the
//! end of the journal is told from a last commit that was damaged.

use super::codec::Reader;
use super::superblock::page_of;
use super::{PAGE_BYTES, Page, PoolSeed, Superblock};
use gemelo_disk::Disk;

const MAGIC: &[u8; 8] = b"GEMELOFM";
const CHECKSUM_AT: usize = PAGE_BYTES - 8;
/// The byte offsets of the two pages that a mark is written to in turns.
const OFFSETS: [u64; 2] = [6 * PAGE_BYTES as u64, 7 * PAGE_BYTES as u64];
/// The highest number of a commit; the same bound as in a root.
const LAST_NUMBER: u64 = 1 << 62;

/// Says that a commit, and all commits before it, are durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushMark {
    /// The number of the commit.
    pub commit: u64,
}

impl FlushMark {
    /// Encodes the mark of a pool as a page.
    #[must_use]
    pub fn encode(self, pool_id: &[u8; 16], seed: PoolSeed) -> Box<Page> {
        let mut bytes = Vec::with_capacity(PAGE_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(pool_id);
        bytes.extend_from_slice(&self.commit.to_le_bytes());
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
        Some(Self { commit: reader.u64()? }).filter(|mark| mark.commit < LAST_NUMBER)
    }
}

/// The newest flush mark of a pool, and the page that the next one goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushMarks {
    /// The newest mark. A pool that was never flushed, or that was made without marks, has none.
    pub newest: Option<FlushMark>,
    /// The byte offset of the page that does not hold the newest mark. A torn write of the next
    /// mark leaves the newest one intact.
    pub next_offset: u64,
}

impl FlushMarks {
    /// Reads the marks. A page that cannot be read, or that fails its checksum, has no mark: a
    /// crash may have torn it.
    #[must_use]
    pub fn read(disk: &dyn Disk, superblock: &Superblock, seed: PoolSeed) -> Self {
        let [first, second] = OFFSETS.map(|offset| {
            let mut page = Box::new([0; PAGE_BYTES]);
            disk.read_at(offset, page.as_mut_slice()).ok()?;
            FlushMark::decode(&page, superblock, seed)
        });
        let commit_of = |mark: Option<FlushMark>| mark.map(|mark| mark.commit);
        let [even, odd] = OFFSETS;
        if commit_of(first) > commit_of(second) {
            Self { newest: first, next_offset: odd }
        } else {
            Self { newest: second, next_offset: even }
        }
    }

    /// Notes that a mark was written to [`Self::next_offset`].
    pub fn note_written(&mut self, mark: FlushMark) {
        let [even, odd] = OFFSETS;
        self.newest = Some(mark);
        self.next_offset = if self.next_offset == even { odd } else { even };
    }
}
