//! Tests of what a device keeps: a disk that has lost everything gets it again.

use super::*;
use gemelo_device::{Extent, Geometry};
use std::sync::Mutex;

/// A disk that notes how often it was flushed.
struct Disk {
    bytes: Mutex<Vec<u8>>,
    flushes: AtomicU64,
}

impl Disk {
    fn new() -> Self {
        Self { bytes: Mutex::new(vec![0; 1 << 16]), flushes: AtomicU64::new(0) }
    }

    fn byte(&self, at: usize) -> u8 {
        self.bytes.lock().unwrap()[at]
    }

    fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }
}

impl BlockDevice for Disk {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: 1 << 16,
            minimum_block_bytes: 1,
            preferred_block_bytes: 4096,
            maximum_request_bytes: 1 << 20,
            read_only: false,
        }
    }

    fn execute(&self, batch: &mut [Request<'_>]) {
        let mut bytes = self.bytes.lock().unwrap();
        let size_bytes = bytes.len() as u64;
        for Request { operation, outcome } in batch {
            let (offset, length, data) = match operation {
                Operation::Write { offset, data, .. } => (*offset, data.len() as u64, Some(*data)),
                Operation::WriteZeroes { offset, length, .. }
                | Operation::Trim { offset, length, .. } => (*offset, *length, None),
                Operation::Read { .. } => continue,
                Operation::Flush => {
                    self.flushes.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
            };
            let place = offset as usize..(offset + length) as usize;
            match (bytes.get_mut(place), data) {
                (Some(place), Some(data)) => place.copy_from_slice(data),
                (Some(place), None) => place.fill(0),
                (None, _) => *outcome = Err(DeviceError::OutOfRange { offset, length, size_bytes }),
            }
        }
    }

    fn extents(&self, _: u64, _: u64, _: usize) -> Result<Vec<Extent>, DeviceError> {
        Ok(Vec::new())
    }
}

const OWNER: u64 = 7;

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        path(&self.directory.path().join("kept"), 3)
    }

    fn create(&self, queues: u16) -> Kept {
        Kept::create(&self.path(), OWNER, queues, false).unwrap()
    }

    fn open(&self, queues: u16) -> Kept {
        Kept::open(&self.path(), OWNER, queues).unwrap()
    }
}

fn write(offset: u64, data: &[u8]) -> Change<'_> {
    Change::Write { offset, data }
}

#[test]
fn what_was_acknowledged_and_not_flushed_is_made_again_in_its_order() {
    let (files, disk) = (Files::new(), Disk::new());
    let kept = files.create(2);
    let mut logs = [0, 1].map(|queue| kept.log(queue).unwrap().unwrap());
    let mut keep = |queue: usize, change| logs[queue].keep(&kept, change, &disk).unwrap();
    keep(0, write(0, &[1; 100]));
    keep(1, write(50, &[2; 100]));
    keep(0, write(60, &[3; 5]));
    keep(1, Change::Trim { offset: 0, length: 10 });
    keep(0, Change::Zeroes { offset: 140, length: 4, may_free: false });
    keep(0, write(1 << 16, &[9; 8]));
    drop(kept);
    // The next server finds a disk that has lost everything.
    let lost = Disk::new();
    assert_eq!(files.open(2).make_again(&lost).unwrap(), 6);
    let found = [0, 10, 49, 50, 60, 64, 65, 139, 140, 144, 149, 150].map(|at| lost.byte(at));
    assert_eq!(found, [0, 1, 1, 2, 3, 3, 2, 2, 0, 2, 2, 0]);
    assert_eq!(lost.flushes(), 1);
    assert_eq!(files.open(2).make_again(&lost).unwrap(), 0, "it is done once");
}

#[test]
fn what_a_flush_has_made_durable_is_not_made_again() {
    let (files, disk) = (Files::new(), Disk::new());
    let kept = files.create(2);
    let mut logs = [0, 1].map(|queue| kept.log(queue).unwrap().unwrap());
    logs[0].keep(&kept, write(0, &[1]), &disk).unwrap();
    logs[1].keep(&kept, write(0, &[2]), &disk).unwrap();
    let number = kept.before_flush();
    // This comes while the flush is executed, and may not be covered.
    logs[1].keep(&kept, write(1, &[3]), &disk).unwrap();
    kept.after_flush(number);
    // The log that begins anew has lost the second change, and the first one must not come back.
    logs[1].keep(&kept, write(2, &[4]), &disk).unwrap();
    let after = Disk::new();
    assert_eq!(files.open(2).make_again(&after).unwrap(), 2);
    assert_eq!([0, 1, 2].map(|at| after.byte(at)), [0, 3, 4]);
}

#[test]
fn a_log_begins_anew_after_a_flush_and_flushes_when_it_is_full() {
    let (files, disk) = (Files::new(), Disk::new());
    let kept = files.create(8);
    let mut log = kept.log(0).unwrap().unwrap();
    let data = vec![5; 1 << 15];
    for _ in 0..3 {
        log.keep(&kept, write(0, &data), &disk).unwrap();
        kept.flush(&disk).unwrap();
    }
    log.keep(&kept, write(0, &data), &disk).unwrap();
    assert_eq!(log.used, HEAD_BYTES + data.len(), "flushed changes take no room");
    assert_eq!(disk.flushes(), 3);
    let many = log_bytes(8) / data.len() * 2;
    (0..many).for_each(|_| log.keep(&kept, write(0, &data), &disk).unwrap());
    assert_eq!(disk.flushes(), 5, "each time that it was full");
}

#[test]
fn only_the_file_of_the_device_is_believed() {
    let files = Files::new();
    let disk = Disk::new();
    assert!(Kept::open(&files.path(), OWNER, 2).is_err(), "there is none");
    let kept = files.create(2);
    let mut log = kept.log(0).unwrap().unwrap();
    log.keep(&kept, write(0, &[1; 9]), &disk).unwrap();
    assert!(Kept::open(&files.path(), OWNER + 1, 2).is_err(), "another owner");
    assert!(Kept::open(&files.path(), OWNER, 1).is_err(), "other queues");
    // Its own words are checked as well.
    for (at, wrong) in [(0, u64::MAX), (0, 20), (2, 5)] {
        let before = word(&log.map, at).swap(wrong, Ordering::Relaxed);
        assert!(files.open(2).make_again(&disk).is_err(), "word {at} is {wrong}");
        word(&log.map, at).store(before, Ordering::Relaxed);
    }
    assert_eq!(files.open(2).make_again(&disk).unwrap(), 1);
    kept.file.set_len(PAGE_BYTES as u64).unwrap();
    assert!(Kept::open(&files.path(), OWNER, 2).is_err(), "it is short");
    std::fs::set_permissions(
        files.path().parent().unwrap(),
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    assert!(Kept::create(&files.path(), OWNER, 2, false).is_err(), "others may write there");
}

#[test]
fn a_device_that_makes_each_change_durable_keeps_nothing() {
    let files = Files::new();
    let kept = Kept::create(&files.path(), OWNER, 2, true).unwrap();
    assert!(kept.log(0).unwrap().is_none());
    let kept = files.open(2);
    assert!(kept.is_write_through());
    assert_eq!(kept.make_again(&Disk::new()).unwrap(), 0);
    remove(&files.path()).unwrap();
    remove(&files.path()).unwrap();
}
