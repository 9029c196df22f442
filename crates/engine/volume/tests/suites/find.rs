//! The finder as a command, by several threads.

use crate::common::simulated::Simulation;
use crate::common::{BLOCK, content, flush, open, options, read, tuning_on_disk, write};
use gemelo_base::{Silent, StopFlag};
use gemelo_disk::testing::DiskLayer;
use gemelo_disk::{Disk, DiskRead};
use gemelo_format::DedupMode;
use gemelo_store::PoolDisks;
use gemelo_volume::{FinderTuning, Pool, Tuning};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Blocks for which several threads are worth it.
const BLOCKS: u64 = 20_000;
/// Different contents of them.
const CONTENTS: u64 = 6000;

/// A disk that notes how many lists of reads are under way together.
struct WatchedDisk {
    below: Arc<dyn Disk>,
    reading: AtomicU64,
    most: AtomicU64,
}

impl DiskLayer for WatchedDisk {
    fn below(&self) -> &dyn Disk {
        &*self.below
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        let reading = 1 + self.reading.fetch_add(1, Ordering::Relaxed);
        self.most.fetch_max(reading, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(1));
        self.below.read_many(reads);
        self.reading.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn many_blocks_are_read_by_several_threads_and_each_content_is_stored_once() {
    let simulation = Simulation::new(1);
    let PoolDisks { metadata, data: below, .. } = simulation.disks();
    let (reading, most) = (AtomicU64::new(0), AtomicU64::new(0));
    let data = Arc::new(WatchedDisk { below, reading, most });
    let disks = PoolDisks::new(Arc::clone(&data) as Arc<dyn Disk>, metadata);
    Pool::format(&disks, &options(2 * BLOCKS)).unwrap();
    // No fingerprint is remembered from a write.
    let finder = FinderTuning { memory_bytes: 0, ..FinderTuning::default() };
    let pool = open(&disks, Tuning { finder, ..tuning_on_disk() }).unwrap();
    pool.create_volume("vm", BLOCKS * BLOCK as u64, DedupMode::Offline).unwrap();
    let volume = pool.volume("vm").unwrap();
    let id_of = |lbn: u64| 1 + lbn % CONTENTS;
    let bytes: Vec<u8> = (0..BLOCKS).flat_map(|lbn| content(id_of(lbn), BLOCK)).collect();
    write(&volume, 0, &bytes).unwrap();
    flush(&volume).unwrap();
    let report = pool.find(&Silent, &StopFlag::new()).unwrap();
    assert_eq!(report.examined_blocks, BLOCKS);
    assert_eq!((report.identified_blocks, report.shared_blocks), (CONTENTS, BLOCKS - CONTENTS));
    assert!(data.most.load(Ordering::Relaxed) > 1, "one thread has read everything");
    assert_eq!(pool.prove(5).unwrap(), Vec::<String>::new());
    assert!(read(&volume, 0, bytes.len()).unwrap() == bytes);
}
