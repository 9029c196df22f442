//! Tests of pages that are written while others read and make them.

use super::*;
use crate::tests::superblock;
use gemelo_disk::testing::{DiskLayer, MemoryDisk};
use std::sync::OnceLock;

/// Reads pages before it writes them.
#[derive(Default)]
struct ReadingDisk {
    below: MemoryDisk,
    pages: OnceLock<Arc<Pages>>,
    made: Mutex<Vec<NodeRef>>,
    checked: AtomicU64,
}

impl DiskLayer for ReadingDisk {
    fn below(&self) -> &dyn Disk {
        &self.below
    }

    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        for (number, at) in self.made.lock().iter().enumerate() {
            let page = self.pages.get().unwrap().read(*at, Width::Narrow).unwrap();
            assert_eq!(page[0], number as u8);
            self.checked.fetch_add(1, Ordering::Relaxed);
        }
        self.below.write_many(writes);
    }
}

/// The other thread of a merge may write a page that this one reads.
#[test]
fn pages_are_found_until_they_are_written() {
    let (disk, superblock) = (Arc::new(ReadingDisk::default()), superblock());
    let home = BackendContext::new(Arc::clone(&disk) as Arc<dyn Disk>, &superblock);
    // A cache of two pages.
    let pages = Arc::new(Pages::new(&home, PoolSeed::of(&superblock), 0));
    assert!(disk.pages.set(Arc::clone(&pages)).is_ok());
    disk.below.set_len(64 << 20).unwrap();
    for number in 0..WRITE_PAGES - 1 {
        let at = pages.write(Arc::new([number as u8; PAGE_BYTES]), Width::Narrow).unwrap();
        disk.made.lock().push(at);
    }
    assert_eq!(disk.checked.load(Ordering::Relaxed), 0, "none is written yet");
    pages.write(Arc::new([0; PAGE_BYTES]), Width::Narrow).unwrap();
    assert_eq!(disk.checked.load(Ordering::Relaxed), WRITE_PAGES as u64 - 1);
    assert_eq!(pages.flush().unwrap(), WRITE_PAGES as u64);
}

/// Pages of some threads over a disk; more lists than may wait.
fn make_beside(pages: &Pages) -> Result<()> {
    let make = |first: usize| {
        (first..first + 4 * WRITE_PAGES).try_for_each(|number| {
            let page = Arc::new([number as u8; PAGE_BYTES]);
            let at = pages.write(Arc::clone(&page), Width::Narrow)?;
            assert!(pages.read(at, Width::Narrow)? == page);
            Ok(())
        })
    };
    pages.write_beside(|| {
        std::thread::scope(|scope| {
            let other = scope.spawn(|| make(0));
            make(7).and(other.join().unwrap())
        })
    })
}

/// Pages with a cache of so many bytes, or else of two pages.
fn over(disk: Arc<dyn Disk>, cache_bytes: u64) -> Pages {
    let superblock = superblock();
    disk.set_len(64 << 20).unwrap();
    Pages::new(&BackendContext::new(disk, &superblock), PoolSeed::of(&superblock), cache_bytes)
}

#[test]
fn a_thread_writes_what_others_make() {
    let pages = over(Arc::new(MemoryDisk::default()), 0);
    make_beside(&pages).unwrap();
    assert_eq!(pages.flush().unwrap(), 8 * WRITE_PAGES as u64);
    assert!(pages.writer.lock().is_none());
    let panicked = std::panic::AssertUnwindSafe(|| pages.write_beside::<()>(|| panic!("work")));
    assert!(std::panic::catch_unwind(panicked).is_err(), "and the thread has ended");
    assert!(pages.writer.lock().is_none());
}

/// A disk without space.
#[derive(Default)]
struct FullDisk(MemoryDisk);

impl DiskLayer for FullDisk {
    fn below(&self) -> &dyn Disk {
        &self.0
    }

    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        let full = || Err(std::io::ErrorKind::StorageFull.into());
        writes.iter_mut().for_each(|write| write.outcome = full());
    }
}

#[test]
fn a_failure_of_the_thread_that_writes_is_that_of_the_work() {
    let pages = over(Arc::new(FullDisk::default()), 0);
    assert!(make_beside(&pages).is_err());
    assert!(pages.in_use() > 0);
    pages.abandon();
    assert_eq!(pages.in_use(), 0, "the next attempt takes the same slots");
    // The last list would have been written by the flush alone.
    let made = pages.write_beside(|| {
        (0..WRITE_PAGES)
            .try_for_each(|_| pages.write(Arc::new([1; PAGE_BYTES]), Width::Narrow).map(drop))
    });
    assert!(made.is_err(), "the thread alone has failed");
}

/// The memory of an evicted page serves the next one. It holds the very page that is not read here.
#[test]
fn a_page_that_cannot_be_read_is_not_the_one_that_its_memory_had() {
    let disk = Arc::new(MemoryDisk::default());
    let pages = over(Arc::clone(&disk) as Arc<dyn Disk>, 1 << 20);
    let write = |number: usize| {
        let page = Arc::new([number as u8; PAGE_BYTES]);
        let at = pages.write(page, Width::Narrow).unwrap();
        pages.flush().unwrap();
        at
    };
    let made: Vec<NodeRef> = (0..256).map(write).collect();
    let memory = pages.cache.memory();
    let evicted = made[usize::from(memory[0])];
    assert!(pages.seed.checksum(&*memory) == evicted.checksum && !pages.cache.has(evicted));
    pages.cache.keep(memory);
    disk.set_len(0).unwrap();
    assert!(pages.read_ahead(&[evicted])[0].is_none());
}
