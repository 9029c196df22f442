//! Writes that are acknowledged from memory: who waits for the disk below and who does not, and
//! what a disk that fails later does to a pool.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails, and says why"
)]

mod common;

use common::{BLOCK, content, flush, open, options, read, tuning, write};
use gemelo_base::ManualClock;
use gemelo_disk::{Disk, DiskRead, DiskWrite, FileDisk};
use gemelo_format::DedupMode;
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, Tuning, VolumeError};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// A data disk whose writes fail or wait when told to, and that reserves no space.
struct TestDisk {
    file: FileDisk,
    failure: Mutex<Option<io::ErrorKind>>,
    holds_writes: Mutex<bool>,
    holds_syncs: Mutex<bool>,
    freed: Condvar,
    is_waiting: AtomicBool,
}

impl TestDisk {
    fn fail(&self, failure: Option<io::ErrorKind>) {
        *self.failure.lock().unwrap() = failure;
    }

    fn set(&self, hold: &Mutex<bool>, is_held: bool) {
        *hold.lock().unwrap() = is_held;
        self.freed.notify_all();
    }

    fn wait(&self, hold: &Mutex<bool>) {
        let mut is_held = hold.lock().unwrap();
        while *is_held {
            self.is_waiting.store(true, Ordering::SeqCst);
            is_held = self.freed.wait(is_held).unwrap();
        }
    }

    fn wait_until_held(&self) {
        while !self.is_waiting.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }
}

impl Disk for TestDisk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }
    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        self.file.read_many(reads);
    }
    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        self.wait(&self.holds_writes);
        let failure = *self.failure.lock().unwrap();
        match failure {
            Some(kind) => writes.iter_mut().for_each(|write| write.outcome = Err(kind.into())),
            None => self.file.write_many(writes),
        }
    }
    fn sync(&self) -> io::Result<()> {
        self.wait(&self.holds_syncs);
        self.file.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.file.discard(offset, length)
    }
}

fn disks(folder: &Path) -> (Arc<TestDisk>, PoolDisks) {
    let file = |name: &str| FileDisk::create(&folder.join(name)).unwrap();
    let data = Arc::new(TestDisk {
        file: file("data"),
        failure: Mutex::new(None),
        holds_writes: Mutex::new(false),
        holds_syncs: Mutex::new(false),
        freed: Condvar::new(),
        is_waiting: AtomicBool::new(false),
    });
    let disks = PoolDisks::new(Arc::clone(&data) as Arc<dyn Disk>, Arc::new(file("metadata")));
    Pool::format(&disks, &options(2000)).unwrap();
    (data, disks)
}

/// A pool with threads, and a volume of it.
fn served(disks: &PoolDisks) -> Pool {
    let tuning = Tuning { background: true, write_buffer_bytes: 1 << 20, ..tuning() };
    let pool = Pool::open_disks(disks.clone(), tuning, Arc::new(ManualClock::new())).unwrap();
    pool.create_volume("a", 1000 * BLOCK as u64, DedupMode::Inline).unwrap();
    pool
}

/// While the file system below is full, what was acknowledged stays readable, nothing that refers
/// to it becomes durable, and the pool goes on once there is room.
#[test]
fn a_full_file_system_fails_flushes_and_checkpoints_and_stops_nothing() {
    for is_dropped in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (data, disks) = disks(folder.path());
        let mut pool = open(&disks, tuning()).unwrap();
        pool.create_volume("a", 100 * BLOCK as u64, DedupMode::Inline).unwrap();
        let volume = pool.volume("a").unwrap();
        write(&volume, 0, &content(1, BLOCK)).unwrap();
        flush(&volume).unwrap();
        data.fail(Some(io::ErrorKind::StorageFull));
        write(&volume, 0, &content(2, BLOCK)).unwrap();
        assert!(matches!(pool.checkpoint(), Err(VolumeError::NoSpace { .. })));
        assert!(matches!(pool.flush(), Err(VolumeError::NoSpace { .. })));
        assert!(read(&volume, 0, BLOCK).unwrap() == content(2, BLOCK));
        assert!(write(&volume, 0, &content(3, BLOCK)).is_err(), "its own error, while it fails");
        let expected = if is_dropped {
            drop((volume, pool));
            data.fail(None);
            pool = open(&disks, tuning()).unwrap();
            1
        } else {
            data.fail(None);
            flush(&volume).unwrap();
            drop((volume, pool));
            pool = open(&disks, tuning()).unwrap();
            2
        };
        let volume = pool.volume("a").unwrap();
        assert!(read(&volume, 0, BLOCK).unwrap() == content(expected, BLOCK), "{is_dropped}");
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
        write(&volume, 0, &content(4, BLOCK)).unwrap();
        pool.checkpoint().unwrap();
    }
}

#[test]
fn a_content_that_cannot_be_written_stops_the_pool_at_the_next_flush() {
    let folder = tempfile::tempdir().unwrap();
    let (data, disks) = disks(folder.path());
    let pool = open(&disks, tuning()).unwrap();
    pool.create_volume("a", 100 * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    data.fail(Some(io::ErrorKind::Other));
    write(&volume, 0, &content(2, BLOCK)).unwrap();
    assert!(matches!(pool.flush(), Err(VolumeError::Io { .. })));
    data.fail(None);
    assert!(matches!(pool.flush(), Err(VolumeError::Stopped { .. })));
    assert!(write(&volume, 0, &content(3, BLOCK)).is_err());
    assert!(read(&volume, 0, BLOCK).unwrap() == content(2, BLOCK));
}

/// Neither a disk that writes nothing nor one that is being synced holds a write or a read up.
#[test]
fn writes_and_reads_wait_neither_for_writes_below_nor_for_syncs() {
    for syncs in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (data, disks) = disks(folder.path());
        let pool = served(&disks);
        let volume = pool.volume("a").unwrap();
        let hold = if syncs { &data.holds_syncs } else { &data.holds_writes };
        write(&volume, 0, &content(1, BLOCK)).unwrap();
        data.set(hold, true);
        write(&volume, 0, &content(2, BLOCK)).unwrap();
        std::thread::scope(|scope| {
            let flushed = scope.spawn(|| flush(&volume).unwrap());
            data.wait_until_held();
            for block in 0..200u64 {
                let bytes = content(10 + block, BLOCK);
                write(&volume, block * BLOCK as u64, &bytes).unwrap();
                assert!(read(&volume, block * BLOCK as u64, BLOCK).unwrap() == bytes);
            }
            assert!(!flushed.is_finished());
            data.set(hold, false);
        });
        pool.close().unwrap();
        let pool = open(&disks, tuning()).unwrap();
        let last = read(&pool.volume("a").unwrap(), 199 * BLOCK as u64, BLOCK).unwrap();
        assert!(last == content(209, BLOCK));
    }
}
