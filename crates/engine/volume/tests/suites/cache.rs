//! The cache of contents: clones that are read at once, and a medium that is worse than the cache.

use crate::common::simulated::Simulation;
use crate::common::{content, open, read, tuning_on_disk, write};
use gemelo_base::{ManualClock, Silent, StopFlag};
use gemelo_disk::testing::DiskLayer;
use gemelo_disk::{Disk, DiskRead};
use gemelo_format::{Compression, DedupMode};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, PoolOptions, ScrubOptions, Tuning};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

const BLOCK: usize = 4096;
/// Blocks of the image that is cloned.
const BLOCKS: u64 = 300;
const CLONES: u64 = 100;
/// Blocks of a request.
const AT_ONCE: u64 = 12;

/// A disk that counts the bytes that are read.
struct CountingDisk {
    below: Arc<dyn Disk>,
    read_bytes: AtomicU64,
}

impl DiskLayer for CountingDisk {
    fn below(&self) -> &dyn Disk {
        &*self.below
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        let bytes: u64 = reads.iter().map(|read| read.buffer.len() as u64).sum();
        self.read_bytes.fetch_add(bytes, Ordering::SeqCst);
        self.below.read_many(reads);
        // Others find that a read is under way.
        std::thread::yield_now();
    }
}

/// A content of which a half compresses well.
fn halved(id: u64) -> Vec<u8> {
    let mut bytes = content(id, BLOCK);
    bytes[BLOCK / 2..].fill(7);
    bytes
}

fn image() -> Vec<u8> {
    (1..=BLOCKS).flat_map(halved).collect()
}

/// Makes a pool with a volume `image` and its clones, and opens it again with nothing in memory.
fn pool_of_clones(
    simulation: &Simulation,
    compression: Option<Compression>,
    content_cache_bytes: u64,
) -> (Arc<CountingDisk>, Pool) {
    let options = PoolOptions {
        journal_bytes: Some(1 << 20),
        block_bytes: BLOCK as u32,
        capacity_bytes: 1000 * BLOCK as u64,
        compression,
        ..PoolOptions::default()
    };
    Pool::format(&simulation.disks(), &options).unwrap();
    let pool = open(&simulation.disks(), tuning_on_disk()).unwrap();
    pool.create_volume("image", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
    write(&pool.volume("image").unwrap(), 0, &image()).unwrap();
    for clone in 0..CLONES {
        pool.clone_volume("image", &format!("clone{clone}")).unwrap();
    }
    pool.close().unwrap();
    let PoolDisks { data, metadata, .. } = simulation.disks();
    let data = Arc::new(CountingDisk { below: data, read_bytes: AtomicU64::new(0) });
    let disks = PoolDisks::new(data.clone(), metadata);
    let tuning = Tuning { content_cache_bytes: Some(content_cache_bytes), ..tuning_on_disk() };
    let pool = Pool::open_disks(disks, tuning, Arc::new(ManualClock::new())).unwrap();
    data.read_bytes.store(0, Ordering::SeqCst);
    (data, pool)
}

/// Reads all clones at once, in requests that begin at other places of the image in each.
fn read_clones(pool: &Pool) {
    let (image, barrier) = (&image(), &Barrier::new(CLONES as usize));
    std::thread::scope(|scope| {
        for clone in 0..CLONES {
            let volume = pool.volume(&format!("clone{clone}")).unwrap();
            scope.spawn(move || {
                barrier.wait();
                let requests = BLOCKS / AT_ONCE;
                for request in 0..requests {
                    let at = ((request + clone % 7) % requests * AT_ONCE) as usize * BLOCK;
                    let length = AT_ONCE as usize * BLOCK;
                    let found = read(&volume, at as u64, length).unwrap();
                    assert!(found == image[at..at + length], "clone {clone} at {at}");
                }
            });
        }
    });
}

/// A hundred clones of an image that are read at once read each block of it once, and the cache
/// holds the image once.
#[test]
fn clones_that_are_read_at_once_take_the_reads_and_the_memory_of_one_image() {
    for compression in [None, Some(Compression::Lz4)] {
        let simulation = Simulation::new(1);
        let (data, pool) = pool_of_clones(&simulation, compression, 2 * BLOCKS * BLOCK as u64);
        read_clones(&pool);
        let stat = pool.stat().unwrap();
        let image_bytes = stat.used_blocks * BLOCK as u64;
        let is_compressed = image_bytes < BLOCKS * BLOCK as u64;
        assert_eq!(is_compressed, compression.is_some());
        let read_bytes = data.read_bytes.load(Ordering::SeqCst);
        assert_eq!(read_bytes, image_bytes, "{compression:?}: read from the disk");
        let cache = stat.content_cache;
        assert_eq!(cache.held_bytes, image_bytes, "{compression:?}: held in memory");
        assert_eq!(cache.misses * BLOCK as u64, image_bytes, "{compression:?}");
    }
}

/// A cache of a part of the image is right and keeps to its size.
#[test]
fn clones_of_an_image_that_is_larger_than_the_cache_are_read_right() {
    for compression in [None, Some(Compression::Lz4)] {
        let simulation = Simulation::new(1);
        let most = BLOCKS / 5 * BLOCK as u64;
        let (_data, pool) = pool_of_clones(&simulation, compression, most);
        read_clones(&pool);
        let cache = pool.stat().unwrap().content_cache;
        assert_eq!((cache.capacity_bytes, cache.held_bytes), (most, most));
    }
}

/// While a content in the cache is read, a scrub finds that the medium has lost it, and heals it
/// from there. A content that is damaged in both is an error.
#[test]
fn a_scrub_sees_a_medium_that_is_worse_than_the_cache() {
    let simulation = Simulation::new(1);
    let (data, pool) = pool_of_clones(&simulation, None, 2 * BLOCKS * BLOCK as u64);
    let volume = pool.volume("clone3").unwrap();
    assert!(read(&volume, 0, image().len()).unwrap() == image());
    let place_of = |id: u64| {
        let disk = simulation.images()[0].clone();
        let at = disk.chunks(BLOCK).position(|block| *block == halved(id));
        at.map(|at| at as u64 * BLOCK as u64)
    };
    let place = place_of(5).unwrap();
    data.below.write_at(place + 100, &[0xee; 8]).unwrap();
    assert!(read(&volume, 0, image().len()).unwrap() == image(), "the cache has it");
    let scrub = |heals: bool| {
        let options = ScrubOptions { heals, max_bytes_per_s: None };
        pool.scrub(options, &Silent, &StopFlag::new()).unwrap()
    };
    let report = scrub(false);
    assert!(!report.is_clean(), "{report:?}");
    let report = scrub(true);
    assert!(report.is_clean() && report.healed_contents == 1, "{report:?}");
    assert_eq!(place_of(5), Some(place), "it is on the medium again");
    assert!(scrub(false).is_clean());
    assert!(read(&volume, 0, image().len()).unwrap() == image());
}
