//! Small pools of every kind, as they lie on their disks.

use crate::disk::{BLOCK_BYTES, disk_of, tuning, write};
use gemelo_base::{Silent, StopFlag, SystemClock};
use gemelo_check::{CheckReport, Walk};
use gemelo_disk::Disk;
use gemelo_disk::testing::{MemoryDisk, SyntheticDisk};
use gemelo_format::{
    COMMIT_HEADER_BYTES, CommitHeader, Compression, DedupMode, MapEntry, PAGE_BYTES, Policy,
    PoolSeed, Root, StoreTable, Superblock, find_roots, read_chain, read_superblock,
};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, PoolOptions, record_damage};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// Size of each volume in blocks. A map has pages below a directory.
const VOLUME_BLOCKS: u64 = 2100;
/// Blocks of a pool.
const BLOCKS: u64 = 1500;
/// Blocks of a pool whose PBNs have more than 32 bits.
const WIDE_BLOCKS: u64 = 1 << 34;
/// Openings of such a pool. Each goes on in another part of the data store.
const WIDE_LIVES: u64 = 24;

/// A kind of pools.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    policy: Policy,
    compression: Option<Compression>,
    is_wide: bool,
    /// `true` if the pool was not closed, so its journal has commits.
    is_crashed: bool,
}

impl Kind {
    /// All kinds.
    fn all() -> impl Iterator<Item = Self> {
        let stores = [(None, false), (Some(Compression::Lz4), false), (None, true)];
        let of_policy = move |policy: Policy| {
            let words = |is_wide| match is_wide {
                true => gemelo_format::WordForm::Wide,
                false => gemelo_format::WordForm::Narrow,
            };
            let stores = stores.into_iter().filter(move |(_, wide)| policy.has_words(words(*wide)));
            stores.flat_map(move |(compression, is_wide)| {
                [false, true].map(|is_crashed| Self { policy, compression, is_wide, is_crashed })
            })
        };
        Policy::ALL.into_iter().flat_map(of_policy)
    }

    fn options(self) -> PoolOptions {
        let blocks = if self.is_wide { WIDE_BLOCKS } else { BLOCKS };
        PoolOptions {
            block_bytes: BLOCK_BYTES as u32,
            capacity_bytes: blocks * BLOCK_BYTES as u64,
            journal_bytes: Some(256 << 10),
            policy: self.policy,
            compression: self.compression,
            ..PoolOptions::default()
        }
    }
}

/// The blocks of a data disk that are not zeros.
#[derive(Clone)]
pub(crate) struct DataImage {
    bytes: u64,
    pub(crate) blocks: Vec<(u64, Vec<u8>)>,
}

impl DataImage {
    pub(super) fn of(
        disk: &dyn Disk,
        numbers: impl IntoIterator<Item = u64>,
    ) -> anyhow::Result<Self> {
        let bytes = disk.len()?;
        let end = bytes / BLOCK_BYTES as u64;
        let numbers: BTreeSet<u64> = numbers.into_iter().filter(|number| *number < end).collect();
        let mut blocks = Vec::new();
        for number in numbers {
            let mut block = vec![0; BLOCK_BYTES];
            disk.read_at(number * BLOCK_BYTES as u64, &mut block)?;
            if block.iter().any(|byte| *byte != 0) {
                blocks.push((number, block));
            }
        }
        Ok(Self { bytes, blocks })
    }

    /// Writes them to a file, which takes no space for the others.
    pub(super) fn write_to(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        for (number, block) in &self.blocks {
            file.write_all_at(block, number * BLOCK_BYTES as u64)?;
        }
        file.set_len(self.bytes)
    }

    /// Makes a disk with these blocks, which takes no memory for the others.
    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        let disk = SyntheticDisk::new(BLOCK_BYTES);
        for (number, block) in &self.blocks {
            let _ = disk.write_at(number * BLOCK_BYTES as u64, block);
        }
        let _ = disk.set_len(self.bytes);
        Arc::new(disk)
    }
}

/// A commit of the journal.
#[derive(Clone)]
pub(crate) struct SampleCommit {
    pub(crate) header: CommitHeader,
    pub(crate) payload: Vec<u8>,
}

/// A small pool and its structs.
pub(crate) struct Sample {
    pub(crate) data: DataImage,
    pub(crate) metadata: Vec<u8>,
    pub(crate) superblock: Superblock,
    pub(crate) seed: PoolSeed,
    pub(crate) root: Root,
    pub(crate) table: StoreTable,
    /// The commits after the root, which lie one after another.
    pub(crate) commits: Vec<SampleCommit>,
    /// The number of the next commit.
    pub(crate) next_commit: u64,
    /// Its offset in the rings.
    pub(crate) head: usize,
}

static SAMPLES: LazyLock<Vec<Sample>> =
    LazyLock::new(|| Kind::all().filter_map(|kind| Sample::make(kind).ok()).collect());

/// All samples.
pub(crate) fn samples() -> &'static [Sample] {
    &SAMPLES
}

/// Splits an input into the sample that its first byte selects, and the rest.
pub(crate) fn selected(bytes: &[u8]) -> Option<(&'static Sample, &[u8])> {
    selected_of(&SAMPLES, bytes)
}

/// Splits an input into the one of these samples that its first byte selects, and the rest.
pub(super) fn selected_of<'s, 'b>(
    samples: &'s [Sample],
    bytes: &'b [u8],
) -> Option<(&'s Sample, &'b [u8])> {
    let (first, rest) = bytes.split_first().unwrap_or((&0, &[]));
    Some((samples.get(usize::from(*first) % samples.len().max(1))?, rest))
}

impl Sample {
    fn make(kind: Kind) -> anyhow::Result<Self> {
        let metadata = disk_of(Vec::new());
        let disks = PoolDisks::new(Arc::new(SyntheticDisk::new(BLOCK_BYTES)), metadata.clone());
        Pool::format(&disks, &kind.options())?;
        live(kind, &disks)?;
        let superblock = read_superblock(&*metadata, &mut Vec::new())?;
        let places = places(&disks)?;
        let numbers = (0..BLOCKS).chain(superblock.header_copy.map(gemelo_format::Pbn::number));
        let data = DataImage::of(&*disks.data, numbers.chain(places))?;
        Self::of(data, &metadata)
    }

    /// The sample of a pool that is there.
    pub(super) fn of(data: DataImage, metadata: &MemoryDisk) -> anyhow::Result<Self> {
        let superblock = read_superblock(metadata, &mut Vec::new())?;
        let seed = PoolSeed::of(&superblock);
        let root = find_roots(metadata, &superblock, seed)?.newest;
        let chain = read_chain(metadata, &superblock, &root, seed)?;
        let table = StoreTable::decode(&chain.stream).unwrap_or_default();
        let (next_commit, head) = (root.next_commit, root.journal_offset as usize);
        let metadata = metadata.image();
        let mut sample = Self {
            data,
            metadata,
            superblock,
            seed,
            root,
            table,
            commits: Vec::new(),
            next_commit,
            head,
        };
        while let Some((at, commit)) = sample.next_of_journal() {
            sample.head = at + commit.header.copy_bytes().unwrap_or_default() as usize;
            sample.next_commit += 1;
            sample.commits.push(commit);
        }
        Ok(sample)
    }

    /// The next commit and its offset, which is at the head or at the start of the rings.
    fn next_of_journal(&self) -> Option<(usize, SampleCommit)> {
        [self.head, 0].into_iter().find_map(|at| Some((at, self.commit_at(at)?)))
    }

    /// The next commit, if it is at this offset of the rings.
    fn commit_at(&self, offset: usize) -> Option<SampleCommit> {
        let regions = self.superblock.regions();
        if offset + PAGE_BYTES > regions.ring_bytes() as usize {
            return None;
        }
        let [start, _] = regions.ring(offset as u64, PAGE_BYTES).next()?.offsets;
        let bytes = self.metadata.get(start as usize..)?;
        let header = CommitHeader::decode(bytes, self.seed)?;
        let end = COMMIT_HEADER_BYTES + header.payload_bytes as usize;
        let payload = bytes.get(COMMIT_HEADER_BYTES..end)?.to_vec();
        (header.number == self.next_commit).then_some(SampleCommit { header, payload })
    }

    /// The pool on disks of its own, with these metadata.
    pub(crate) fn disks(data: &DataImage, metadata: &[u8]) -> PoolDisks {
        PoolDisks::new(data.disk(), disk_of(metadata.to_vec()))
    }
}

/// The blocks of the data store that maps refer to.
fn places(disks: &PoolDisks) -> anyhow::Result<Vec<u64>> {
    let Some(walk) = Walk::of(disks, &mut CheckReport::default())? else { return Ok(Vec::new()) };
    let mut numbers = Vec::new();
    for volume in walk.volumes.values() {
        let pbns = walk.places(volume)?.into_iter().filter_map(MapEntry::pbn);
        numbers.extend(pbns.map(|pbn| walk.superblock.store.first_block(pbn)));
    }
    Ok(numbers)
}

fn opened(disks: &PoolDisks) -> anyhow::Result<Pool> {
    Ok(Pool::open_disks(disks.clone(), tuning(), Arc::new(SystemClock::new()))?)
}

/// Makes volumes with shared and repeated blocks, snapshots, clones, removed and hidden ones, marks
/// of damage, checkpoints, and commits after them.
fn live(kind: Kind, disks: &PoolDisks) -> anyhow::Result<()> {
    let size_bytes = VOLUME_BLOCKS * BLOCK_BYTES as u64;
    let pool = opened(disks)?;
    pool.create_volume("one", size_bytes, DedupMode::Inline)?;
    pool.create_volume("two", size_bytes, DedupMode::Off)?;
    pool.create_volume("three", size_bytes, DedupMode::Offline)?;
    for (number, name) in ["one", "two", "one", "three"].into_iter().enumerate() {
        fill(&pool, name, number as u64 * 70, (number as u64 % 3, 200));
    }
    pool.snapshot_volume("one", "first")?;
    pool.clone_volume("one", "copy")?;
    fill(&pool, "copy", 150, (9, 40));
    pool.checkpoint()?;
    pool.close()?;
    record_damage(disks, &[7])?;
    let lives = if kind.is_wide { WIDE_LIVES } else { 1 };
    for life in 0..lives {
        let pool = opened(disks)?;
        // Blocks with many references, and others.
        for copy in 0..4 {
            fill(&pool, "one", 900 + 30 * life + 4 * copy, (20, 3));
        }
        fill(&pool, "two", 1100 + 20 * life, (30 + life, 10));
        pool.checkpoint()?;
        pool.close()?;
    }
    let pool = opened(disks)?;
    fill(&pool, "copy", 1030, (70, 30));
    pool.gc(None, &Silent, &StopFlag::new())?;
    pool.snapshot_volume("copy", "second")?;
    pool.checkpoint()?;
    fill(&pool, "one", 5, (80, 25));
    fill(&pool, "one", 1040, (70, 20));
    pool.remove_volume("first")?;
    pool.rename_volume("two", "other")?;
    pool.resize_volume("one", size_bytes / 2)?;
    pool.set_mode("three", DedupMode::Inline)?;
    pool.clone_volume("second", "third")?;
    pool.flush()?;
    fill(&pool, "third", 3, (90, 15));
    pool.flush()?;
    if !kind.is_crashed {
        pool.close()?;
    }
    // A pool that is not closed keeps the commits after the checkpoint in its journal.
    Ok(())
}

/// Writes blocks of which some repeat, from an LBN on.
fn fill(pool: &Pool, name: &str, lbn: u64, (seed, blocks): (u64, u64)) {
    let content = |number: u64| {
        let word = (seed << 32 | (number % 150)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        word.to_le_bytes().repeat(BLOCK_BYTES / 8)
    };
    let data: Vec<u8> = (0..blocks).flat_map(content).collect();
    write(pool, name, lbn * BLOCK_BYTES as u64, &data);
    let _ = pool.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_sample_with_all_structs() {
        assert_eq!(samples().len(), Kind::all().count());
        for (kind, sample) in Kind::all().zip(samples()) {
            let StoreTable { volumes, counts, many, fingerprints, .. } = &sample.table;
            assert!(volumes.iter().any(|volume| volume.map.height > 0), "{kind:?}");
            assert!(volumes.iter().any(|volume| volume.follows.is_some()), "{kind:?}");
            let roots = [counts, many, fingerprints].map(|tree| tree.root.is_some());
            assert_eq!(roots, [true; 3], "{kind:?}");
            assert_eq!(sample.commits.is_empty(), !kind.is_crashed, "{kind:?}");
            let highest = sample.data.blocks.iter().map(|(number, _)| *number).max();
            assert_eq!(highest.unwrap() > u64::from(u32::MAX), kind.is_wide, "{kind:?}");
        }
    }
}
