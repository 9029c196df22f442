//! The reads of the metadata disk that an opening makes.

use super::pair::Pair;
use super::{CACHE_BYTES, VOLUME_BLOCKS, checksum_of, record};
use gemelo_disk::testing::DiskLayer;
use gemelo_disk::{Disk, DiskRead};
use gemelo_format::{BackendKind, Change, Fingerprint, Lbn, Part, Pbn, VolumeId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts lists of reads, and the pages in them.
struct CountingDisk {
    below: Arc<dyn Disk>,
    lists: AtomicU64,
    pages: AtomicU64,
    /// The first pages of a list that fail.
    failing: AtomicU64,
}

impl DiskLayer for CountingDisk {
    fn below(&self) -> &dyn Disk {
        &*self.below
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        self.lists.fetch_add(1, Ordering::Relaxed);
        self.pages.fetch_add(reads.len() as u64, Ordering::Relaxed);
        self.below.read_many(reads);
        let is_list = reads.len() > 1;
        let failing = if is_list { self.failing.load(Ordering::Relaxed) as usize } else { 0 };
        for read in reads.iter_mut().take(failing) {
            read.buffer.fill(0xAA);
        }
    }
}

/// The counts are read in lists, each page once. The second copy replaces a damaged first one.
#[test]
fn used_blocks_are_read_ahead() {
    const LEAVES: u64 = 150;
    for (kind, failing) in
        [BackendKind::Table, BackendKind::Compact].map(|kind| [(kind, 0), (kind, 3)]).concat()
    {
        let mut pair = Pair::new(kind, 1);
        pair.apply(&Change::Create(record(1, VOLUME_BLOCKS * 512)));
        let each = Part::Counts.array_entries() as u64;
        for leaf in 0..LEAVES {
            let pbn = (leaf * each + 1) as u32;
            pair.apply(&Change::Store {
                volume: VolumeId(1),
                lbn: Lbn(leaf),
                pbn: Pbn::new(pbn).unwrap(),
                fingerprint: Fingerprint::NONE,
                checksum: checksum_of(pbn),
            });
        }
        pair.backend.freeze();
        let root = pair.write();
        pair.backend.finish();
        let (lists, pages) = (AtomicU64::new(0), AtomicU64::new(0));
        let failing = AtomicU64::new(failing);
        let disk = Arc::new(CountingDisk { below: pair.metadata(), lists, pages, failing });
        pair.reload_from(Arc::clone(&disk) as Arc<dyn Disk>, &root, CACHE_BYTES);
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (lists, pages) = (read(&disk.lists), read(&disk.pages));
        let mut used = 0;
        pair.backend.visit_used(Pbn::FIRST, &mut |_| used += 1).unwrap();
        assert_eq!(used, LEAVES);
        let again = read(&disk.failing);
        assert!(read(&disk.lists) - lists <= 2 + 2 * again, "{kind:?}");
        assert!(read(&disk.pages) - pages <= LEAVES + 1 + 2 * again, "{kind:?}");
        let lists = read(&disk.lists);
        let beyond = Pbn::new((LEAVES * each) as u32).unwrap();
        pair.backend.visit_used(beyond, &mut |_| used += 1).unwrap();
        assert_eq!((used, read(&disk.lists)), (LEAVES, lists), "nothing is there");
    }
}
