//! Writes that are acknowledged from memory: who waits for the disk below and who does not, and
//! what a disk that fails later does to a pool.

use crate::common::{
    BLOCK, content, flush, open, options_with, read, tuning, tuning_on_disk, write,
};
use gemelo_base::ManualClock;
use gemelo_disk::testing::DiskLayer;
use gemelo_disk::{Disk, DiskWrite, FileDisk};
use gemelo_format::{DedupMode, Policy};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, Tuning, VolumeError};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// Blocks of a pool: 10 MB, whose space is reserved in steps of 1 MiB.
const POOL_BLOCKS: u64 = 20_000;
/// Blocks that are written: more than half of a step, so that the next one is reserved, and less
/// than the write buffer holds.
const WRITTEN_BLOCKS: u64 = 1500;

/// An operation of a disk that can be made to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Write,
    Sync,
    Allocate,
}

/// A disk whose writes fail, and whose operations of one kind wait, when told to.
struct TestDisk {
    file: FileDisk,
    failure: Mutex<Option<io::ErrorKind>>,
    held: Mutex<Option<Kind>>,
    freed: Condvar,
    is_waiting: AtomicBool,
}

impl TestDisk {
    fn create(path: &Path) -> Arc<Self> {
        Arc::new(Self {
            file: FileDisk::create(path).unwrap(),
            failure: Mutex::new(None),
            held: Mutex::new(None),
            freed: Condvar::new(),
            is_waiting: AtomicBool::new(false),
        })
    }

    fn fail(&self, failure: Option<io::ErrorKind>) {
        *self.failure.lock().unwrap() = failure;
    }

    fn hold(&self, kind: Option<Kind>) {
        *self.held.lock().unwrap() = kind;
        self.freed.notify_all();
    }

    fn wait_while_held(&self, kind: Kind) {
        let mut held = self.held.lock().unwrap();
        while *held == Some(kind) {
            self.is_waiting.store(true, Ordering::SeqCst);
            held = self.freed.wait(held).unwrap();
        }
    }

    fn wait_until_held(&self) {
        while !self.is_waiting.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }
}

impl DiskLayer for TestDisk {
    fn below(&self) -> &dyn Disk {
        &self.file
    }

    fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
        self.wait_while_held(Kind::Allocate);
        self.file.allocate(offset, length)
    }
    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        self.wait_while_held(Kind::Write);
        let failure = *self.failure.lock().unwrap();
        match failure {
            Some(kind) => writes.iter_mut().for_each(|write| write.outcome = Err(kind.into())),
            None => self.file.write_many(writes),
        }
    }
    fn sync(&self) -> io::Result<()> {
        self.wait_while_held(Kind::Sync);
        self.file.sync()
    }
}

struct TestDisks {
    data: Arc<TestDisk>,
    metadata: Arc<TestDisk>,
    both: PoolDisks,
}

fn disks(directory: &Path, policy: Policy) -> TestDisks {
    let data = TestDisk::create(&directory.join("data"));
    let metadata = TestDisk::create(&directory.join("metadata"));
    let both =
        PoolDisks::new(Arc::clone(&data) as Arc<dyn Disk>, Arc::clone(&metadata) as Arc<dyn Disk>);
    Pool::format(&both, &options_with(policy, POOL_BLOCKS)).unwrap();
    TestDisks { data, metadata, both }
}

/// A pool with threads, and a volume of it.
fn served(disks: &PoolDisks, mode: DedupMode) -> Pool {
    // Neither the memory of the policy nor that of the buffer becomes full.
    let tuning = Tuning { background: true, write_buffer_bytes: 1 << 20, ..Tuning::default() };
    let pool = Pool::open_disks(disks.clone(), tuning, Arc::new(ManualClock::new())).unwrap();
    pool.create_volume("a", WRITTEN_BLOCKS * BLOCK as u64, mode).unwrap();
    pool
}

/// While the file system below is full, what was acknowledged stays readable, a flush makes it
/// durable in the journal, a checkpoint leaves it there, and the pool goes on once there is room.
#[test]
fn a_full_file_system_leaves_contents_to_the_journal_and_stops_nothing() {
    for (is_dropped, max_journal_data_bytes) in
        [(false, Some(0)), (true, Some(0)), (false, None), (true, None)]
    {
        let tuning = || Tuning { max_journal_data_bytes, ..tuning() };
        let folder = tempfile::tempdir().unwrap();
        let TestDisks { data, both: disks, .. } = disks(folder.path(), Policy::Compact);
        let mut pool = open(&disks, tuning()).unwrap();
        pool.create_volume("a", 100 * BLOCK as u64, DedupMode::Inline).unwrap();
        let volume = pool.volume("a").unwrap();
        write(&volume, 0, &content(1, BLOCK)).unwrap();
        flush(&volume).unwrap();
        data.fail(Some(io::ErrorKind::StorageFull));
        write(&volume, 0, &content(2, BLOCK)).unwrap();
        // A content that the journal carries is durable, whatever the data store does.
        pool.flush().unwrap();
        pool.checkpoint().unwrap();
        assert!(read(&volume, 0, BLOCK).unwrap() == content(2, BLOCK));
        assert!(write(&volume, 0, &content(3, BLOCK)).is_err(), "its own error, while it fails");
        if is_dropped {
            drop((volume, pool));
            // It opens on the full file system, too.
            pool = open(&disks, tuning()).unwrap();
            assert_eq!(read(&pool.volume("a").unwrap(), 0, BLOCK).unwrap(), content(2, BLOCK));
            pool.checkpoint().unwrap();
            data.fail(None);
        } else {
            data.fail(None);
            flush(&volume).unwrap();
            drop((volume, pool));
            pool = open(&disks, tuning()).unwrap();
        }
        let volume = pool.volume("a").unwrap();
        assert!(read(&volume, 0, BLOCK).unwrap() == content(2, BLOCK), "{is_dropped}");
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
        write(&volume, 0, &content(4, BLOCK)).unwrap();
        pool.checkpoint().unwrap();
    }
}

#[test]
fn a_content_that_cannot_be_written_stops_the_pool_at_the_next_flush() {
    let folder = tempfile::tempdir().unwrap();
    let TestDisks { data, both: disks, .. } = disks(folder.path(), Policy::Compact);
    let pool = open(&disks, tuning_on_disk()).unwrap();
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

/// Nothing that a flush, a checkpoint or the reservation of space does on a disk holds a write or a
/// read up. Each operation is held until all requests are done, so a request that waits for it
/// hangs.
#[test]
fn no_request_waits_for_an_operation_of_the_background() {
    const HELD: [(&str, Kind); 5] = [
        ("data", Kind::Write),
        ("data", Kind::Sync),
        ("data", Kind::Allocate),
        ("metadata", Kind::Write),
        ("metadata", Kind::Sync),
    ];
    for policy in Policy::ALL {
        for mode in [DedupMode::Off, DedupMode::Inline, DedupMode::Offline] {
            for (name, kind) in HELD {
                check_requests_while_held(policy, mode, name, kind);
            }
        }
    }
}

fn check_requests_while_held(policy: Policy, mode: DedupMode, name: &str, kind: Kind) {
    let directory = tempfile::tempdir().unwrap();
    let disks = disks(directory.path(), policy);
    let pool = served(&disks.both, mode);
    let volume = pool.volume("a").unwrap();
    let held = if name == "data" { &disks.data } else { &disks.metadata };
    write(&volume, 0, &content(1, BLOCK)).unwrap();
    held.hold(Some(kind));
    write(&volume, 0, &content(2, BLOCK)).unwrap();
    std::thread::scope(|scope| {
        let flushed = scope.spawn(|| pool.checkpoint().unwrap());
        if kind != Kind::Allocate {
            held.wait_until_held();
        }
        for block in 0..WRITTEN_BLOCKS {
            let bytes = content(10 + block, BLOCK);
            write(&volume, block * BLOCK as u64, &bytes).unwrap();
            assert!(read(&volume, block * BLOCK as u64, BLOCK).unwrap() == bytes);
        }
        // The step ahead of the writes is allocated by a thread that nobody waits for.
        held.wait_until_held();
        assert!(kind == Kind::Allocate || !flushed.is_finished(), "{policy:?} {mode:?} {name}");
        held.hold(None);
    });
    pool.close().unwrap();
    let pool = open(&disks.both, tuning()).unwrap();
    let last =
        read(&pool.volume("a").unwrap(), (WRITTEN_BLOCKS - 1) * BLOCK as u64, BLOCK).unwrap();
    assert!(last == content(9 + WRITTEN_BLOCKS, BLOCK), "{policy:?} {mode:?} {name} {kind:?}");
}
