//! Pages of metadata that look-ups need are read without the lock that changes take.

use crate::common::{content, open, read, tuning, write};
use gemelo_disk::testing::{DiskLayer, MemoryDisk};
use gemelo_disk::{Disk, DiskRead};
use gemelo_format::{DedupMode, Policy};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, PoolOptions, Tuning};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BLOCK: usize = 4096;
/// Bytes of a volume in a page of its map.
const LEAF: u64 = 512 * BLOCK as u64;
const LEAVES: u64 = 64;
/// Far longer than a write takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Tells of the next read, and holds it until it is let go.
#[derive(Default)]
struct HoldingDisk {
    below: MemoryDisk,
    gate: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl DiskLayer for HoldingDisk {
    fn below(&self) -> &dyn Disk {
        &self.below
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        let gate = self.gate.lock().unwrap().take();
        if let Some((begun, let_go)) = gate {
            begun.send(()).unwrap();
            let_go.recv_timeout(PATIENCE).unwrap();
        }
        self.below.read_many(reads);
    }
}

#[test]
fn a_writer_does_not_wait_for_the_pages_of_another() {
    let metadata = Arc::new(HoldingDisk::default());
    let disks = PoolDisks::new(Arc::new(MemoryDisk::default()), Arc::clone(&metadata) as _);
    let options = PoolOptions {
        block_bytes: BLOCK as u32,
        capacity_bytes: 64 << 20,
        policy: Policy::Compact,
        ..PoolOptions::default()
    };
    Pool::format(&disks, &options).unwrap();
    let opened = || open(&disks, Tuning { cache_bytes: Some(8 << 20), ..tuning() }).unwrap();
    let pool = opened();
    pool.create_volume("a", LEAVES * LEAF, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    (0..LEAVES).for_each(|leaf| write(&volume, leaf * LEAF, &content(leaf, BLOCK)).unwrap());
    drop(volume);
    pool.close().unwrap();
    let pool = opened();
    let volume = pool.volume("a").unwrap();
    // Its pages are in the cache from now on.
    write(&volume, 0, &content(1000, BLOCK)).unwrap();
    let ((begun, has_begun), (go, let_go)) = (channel(), channel());
    *metadata.gate.lock().unwrap() = Some((begun, let_go));
    let volume = &volume;
    std::thread::scope(|scope| {
        let held = scope.spawn(|| write(volume, LEAF * (LEAVES / 2), &content(2000, BLOCK)));
        has_begun.recv_timeout(PATIENCE).unwrap();
        let (done, is_done) = channel();
        let other = scope.spawn(move || {
            write(volume, 0, &content(3000, BLOCK)).unwrap();
            done.send(()).unwrap();
        });
        let waited = is_done.recv_timeout(PATIENCE / 4);
        go.send(()).unwrap();
        assert_eq!(waited, Ok(()), "a write waits for the read of another one");
        other.join().unwrap();
        held.join().unwrap().unwrap();
    });
    for (leaf, id) in [(0, 3000), (LEAVES / 2, 2000)] {
        assert!(read(volume, leaf * LEAF, BLOCK).unwrap() == content(id, BLOCK));
    }
}
