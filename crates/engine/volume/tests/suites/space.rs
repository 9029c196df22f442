//! A store that is nearly full: a write is refused only if the store is truly full.

use crate::common::{BLOCK, content, flush, options, options_with, read, tuning, write};
use gemelo_base::ManualClock;
use gemelo_base::random::Random;
use gemelo_device::DeviceError;
use gemelo_disk::testing::DiskLayer;
use gemelo_disk::{Disk, DiskRead, FileDisk};
use gemelo_format::{DedupMode, Policy};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, Tuning};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A disk with slow syncs and reads.
struct SlowDisk {
    file: FileDisk,
    sync_ms: u64,
    read_ms: AtomicU64,
}

impl DiskLayer for SlowDisk {
    fn below(&self) -> &dyn Disk {
        &self.file
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        std::thread::sleep(Duration::from_millis(self.read_ms.load(Ordering::Relaxed)));
        self.file.read_many(reads);
    }
    fn sync(&self) -> io::Result<()> {
        std::thread::sleep(Duration::from_millis(self.sync_ms));
        self.file.sync()
    }
}

fn slow_disk(path: &Path, sync_ms: u64) -> Arc<SlowDisk> {
    Arc::new(SlowDisk {
        file: FileDisk::create(path).unwrap(),
        sync_ms,
        read_ms: AtomicU64::new(0),
    })
}

fn unique(random: &mut Random, blocks: u64) -> Vec<u8> {
    (0..blocks).flat_map(|_| content(random.next_u64() | 1, BLOCK)).collect()
}

/// Makes a pool of this many blocks. Returns it with its data store.
fn slow_pool(directory: &Path, blocks: u64, tuning: Tuning) -> (Pool, Arc<SlowDisk>) {
    let data = slow_disk(&directory.join("data"), 2);
    let disks = PoolDisks::new(
        Arc::clone(&data) as Arc<dyn Disk>,
        slow_disk(&directory.join("metadata"), 2),
    );
    Pool::format(&disks, &options(2 + blocks)).unwrap();
    (Pool::open_disks(disks, tuning, Arc::new(ManualClock::new())).unwrap(), data)
}

/// A write waits for blocks that a commit under way frees or that a write under way replaces.
#[test]
fn clients_that_overwrite_never_find_the_store_full() {
    const CLIENTS: u64 = 4;
    let directory = tempfile::tempdir().unwrap();
    let (pool, _) = slow_pool(directory.path(), 256 + 24, Tuning::default());
    pool.create_volume("a", 256 * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    write(&volume, 0, &unique(&mut Random::new(77), 256)).unwrap();
    flush(&volume).unwrap();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let volume = volume.clone();
            scope.spawn(move || {
                let mut random = Random::new(client + 1);
                for number in 0..100 {
                    let at = client * 64 + random.below(48);
                    write(&volume, at * BLOCK as u64, &unique(&mut random, 16)).unwrap();
                    if number % 5 == 0 {
                        flush(&volume).unwrap();
                    }
                }
            });
        }
    });
    flush(&volume).unwrap();
    assert_eq!(pool.stat().unwrap().free_blocks, 24);
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
}

#[test]
fn a_write_waits_for_a_slow_reader_of_the_blocks_it_needs() {
    let directory = tempfile::tempdir().unwrap();
    let (pool, data) = slow_pool(directory.path(), 32, tuning());
    pool.create_volume("a", 32 * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    let mut random = Random::new(1);
    write(&volume, 0, &unique(&mut random, 16)).unwrap();
    flush(&volume).unwrap();
    std::thread::scope(|scope| {
        data.read_ms.store(1500, Ordering::Relaxed);
        let reader = volume.clone();
        scope.spawn(move || read(&reader, 0, BLOCK).unwrap());
        std::thread::sleep(Duration::from_millis(50));
        data.read_ms.store(0, Ordering::Relaxed);
        // The second write takes the blocks that the first has freed while they are still read.
        write(&volume, 0, &unique(&mut random, 16)).unwrap();
        write(&volume, 0, &unique(&mut random, 16)).unwrap();
    });
}

/// With one free block, one block after another is replaced.
#[test]
fn a_long_overwrite_passes_through_a_single_free_block() {
    for policy in [Policy::Compact, Policy::Cbt] {
        let directory = tempfile::tempdir().unwrap();
        let disk = |name: &str| Arc::new(FileDisk::create(&directory.path().join(name)).unwrap());
        let disks = PoolDisks::new(disk("data"), disk("metadata"));
        Pool::format(&disks, &options_with(policy, 2 + 33)).unwrap();
        let pool = Pool::open_disks(disks, tuning(), Arc::new(ManualClock::new())).unwrap();
        pool.create_volume("a", 64 * BLOCK as u64, DedupMode::Inline).unwrap();
        let volume = pool.volume("a").unwrap();
        let mut random = Random::new(1);
        write(&volume, 0, &unique(&mut random, 32)).unwrap();
        let bytes = unique(&mut random, 32);
        write(&volume, 0, &bytes).unwrap();
        assert!(read(&volume, 0, bytes.len()).unwrap() == bytes);
        // The last write needs a new block. The store is truly full then, and the write is refused
        // at once.
        write(&volume, 32 * BLOCK as u64, &unique(&mut random, 1)).unwrap();
        let began = Instant::now();
        let refused = write(&volume, 40 * BLOCK as u64, &unique(&mut random, 16));
        assert!(matches!(refused, Err(DeviceError::NoSpace)));
        assert!(began.elapsed() < Duration::from_secs(5), "nothing was there to wait for");
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
    }
}
