//! Pools of 256 TiB, whose PBNs have more than 32 bits.

use crate::common::{content, open, read, tuning, write};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, CheckReport, Walk, check};
use gemelo_disk::testing::{MemoryDisk, SyntheticDisk};
use gemelo_disk::{Disk, FileDisk};
use gemelo_format::{Compression, DedupMode, MapEntry, Pbn, Policy, WordForm};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, PoolOptions, Tuning, Volume, VolumeError};
use std::collections::BTreeMap;
use std::sync::Arc;

const BLOCK: usize = 4096;
const PIB: u64 = 1 << 50;
const CAPACITY_BYTES: u64 = PIB / 4;
/// Blocks of the volume that are written, far apart.
const WRITTEN: u64 = 40;
/// Lives of a pool: some for each of the parts that an opening compares.
const LIVES: u64 = 190;
/// Most memory of the process.
const MAX_MEMORY_KB: u64 = 300 << 10;

fn options() -> PoolOptions {
    PoolOptions {
        capacity_bytes: CAPACITY_BYTES,
        policy: Policy::Compact,
        journal_bytes: Some(1 << 20),
        ..PoolOptions::default()
    }
}

fn made(options: &PoolOptions) -> PoolDisks {
    made_on(Arc::new(MemoryDisk::default()), options)
}

fn made_on(metadata: Arc<dyn Disk>, options: &PoolOptions) -> PoolDisks {
    let disks = PoolDisks::new(Arc::new(SyntheticDisk::new(BLOCK)), metadata);
    Pool::format(&disks, options).unwrap();
    disks
}

fn opened(disks: &PoolDisks) -> Pool {
    open(disks, Tuning { cache_bytes: Some(4 << 20), ..tuning() }).unwrap()
}

fn place(lbn: u64) -> u64 {
    lbn * (1 << 40) + lbn * BLOCK as u64
}

/// The volume and what it has.
struct Written {
    ids: BTreeMap<u64, u64>,
    next_id: u64,
}

impl Written {
    /// Writes contents to some LBNs, of which some are already in the pool.
    fn write(&mut self, volume: &Volume, random: &mut Random) {
        for _ in 0..20 {
            let lbn = random.below(WRITTEN);
            let id = match random.below(3) {
                0 => 1 + random.below(self.next_id),
                _ => self.next_id,
            };
            self.next_id += 1;
            write(volume, place(lbn), &content(id, BLOCK)).unwrap();
            self.ids.insert(lbn, id);
        }
    }

    fn compare(&self, volume: &Volume) {
        for (lbn, id) in &self.ids {
            assert!(read(volume, place(*lbn), BLOCK).unwrap() == content(*id, BLOCK), "LBN {lbn}");
        }
    }
}

/// The PBNs of all volumes, by the checker's own reading.
fn pbns(disks: &PoolDisks) -> Vec<u64> {
    let walk = Walk::of(disks, &mut CheckReport::default()).unwrap().unwrap();
    let places = walk.volumes.values().flat_map(|volume| walk.places(volume).unwrap());
    places.filter_map(MapEntry::pbn).map(Pbn::number).collect()
}

fn assert_clean(disks: &PoolDisks) {
    let report = check(disks, CheckOptions { data: true }, &Silent, &StopFlag::new()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}

fn memory_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Each opening goes on in a later part of the store, so blocks come to lie everywhere, and near
/// its end.
#[test]
fn blocks_lie_everywhere_in_a_pool_of_256_tib() {
    // In a file, which is no memory of the process.
    let folder = tempfile::tempdir().unwrap();
    let metadata = FileDisk::create(&folder.path().join("metadata")).unwrap();
    let disks = made_on(Arc::new(metadata), &options());
    let (mut random, mut written) = (Random::new(5), Written { ids: BTreeMap::new(), next_id: 1 });
    let mut highest = 0;
    for life in 0..LIVES {
        let pool = opened(&disks);
        if life == 0 {
            pool.create_volume("a", place(WRITTEN), DedupMode::Inline).unwrap();
        }
        let volume = pool.volume("a").unwrap();
        written.compare(&volume);
        written.write(&volume, &mut random);
        written.write(&volume, &mut random);
        pool.flush().unwrap();
        if life == 0 {
            let collected = pool.gc(None, &Silent, &StopFlag::new()).unwrap();
            assert!(collected.discarded_blocks > 0);
        }
        written.compare(&volume);
        // It keeps this part of the store in use.
        pool.snapshot_volume("a", &format!("snapshot {life}")).unwrap();
        pool.clone_volume("a", "clone").unwrap();
        write(&pool.volume("clone").unwrap(), 0, &content(1 << 40, BLOCK)).unwrap();
        pool.remove_volume("clone").unwrap();
        if life % 20 == 0 {
            assert_eq!(pool.prove(9).unwrap(), Vec::<String>::new());
        }
        drop(volume);
        if life % 3 == 0 {
            // As after a crash.
            drop(pool);
        } else {
            pool.close().unwrap();
        }
        if life % 40 == 0 || life + 1 == LIVES {
            highest = pbns(&disks).into_iter().max().max(Some(highest)).unwrap();
            assert_clean(&disks);
        }
    }
    assert!(highest > WordForm::Wide.end() / 64 * 63, "the highest PBN is {highest}");
    let memory_kb = memory_kb();
    assert!(memory_kb < MAX_MEMORY_KB, "{memory_kb} KiB of memory");
}

/// The wide form is for pools that may need it, and those of the others stay as they were.
#[test]
fn the_size_that_a_pool_may_get_decides_the_form_of_its_words() {
    let narrow = PoolOptions { capacity_bytes: 16 << 40, ..options() };
    for (options, words) in [
        (narrow.clone(), WordForm::Narrow),
        (
            PoolOptions { capacity_bytes: (16 << 40) + BLOCK as u64, ..narrow.clone() },
            WordForm::Wide,
        ),
        (
            PoolOptions { max_capacity_bytes: Some(CAPACITY_BYTES), ..narrow.clone() },
            WordForm::Wide,
        ),
    ] {
        let disks = made(&options);
        let superblock = disks.read_superblock(&mut Vec::new()).unwrap();
        assert_eq!(superblock.words, words, "{options:?}");
        let pool = opened(&disks);
        let grown = pool.grow(CAPACITY_BYTES);
        assert_eq!(grown.is_ok(), words == WordForm::Wide, "{grown:?}");
    }
}

#[test]
fn what_cannot_be_so_large_is_refused_with_a_way_out() {
    let refused = |options: PoolOptions| {
        let disks =
            PoolDisks::new(Arc::new(SyntheticDisk::new(BLOCK)), Arc::new(MemoryDisk::default()));
        match Pool::format(&disks, &options) {
            Err(VolumeError::BadOption { what, rule }) => (what, rule),
            other => panic!("{other:?}"),
        }
    };
    for policy in Policy::ALL.into_iter().filter(|policy| !policy.has_words(WordForm::Wide)) {
        let (what, rule) = refused(PoolOptions { policy, ..options() });
        assert_eq!(what, "capacity 256 TiB");
        assert!(rule.contains("16 TiB") && rule.contains("compact"), "{rule}");
        let max_capacity_bytes = Some(CAPACITY_BYTES);
        let small = PoolOptions { policy, capacity_bytes: 1 << 30, ..options() };
        assert_eq!(refused(PoolOptions { max_capacity_bytes, ..small }).0, "capacity 256 TiB");
    }
    let (_, rule) = refused(PoolOptions { capacity_bytes: CAPACITY_BYTES + PIB, ..options() });
    assert!(rule.contains("256 TiB") && !rule.contains("compact"), "{rule}");
    let compression = Some(Compression::Lz4);
    let (_, rule) = refused(PoolOptions { compression, ..options() });
    assert!(rule.contains("2 TiB"), "{rule}");
}
