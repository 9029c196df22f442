//! Tests of packing.

use super::*;
use crate::BlockStore;
use gemelo_disk::testing::MemoryDisk;
use gemelo_disk::{Disk, DiskRead, DiskWrite};
use gemelo_format::{FingerprintKind, StoreKind};

pub(crate) fn superblock(block_bytes: u32) -> Superblock {
    Superblock {
        block_bytes,
        pool_id: [1; 16],
        key: [2; 32],
        fingerprint: FingerprintKind::Blake3,
        ring_pages: 8,
        header_copy: None,
        words: gemelo_format::WordForm::Narrow,
        store: StoreKind::Packed(Compression::Lz4),
    }
}

/// A disk whose reads fail in one way.
struct Unreadable {
    disk: MemoryDisk,
    kind: io::ErrorKind,
}

impl Disk for Unreadable {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.disk.set_len(length)
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        reads.iter_mut().for_each(|read| read.outcome = Err(self.kind.into()));
    }

    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        self.disk.write_many(writes);
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.disk.discard(offset, length)
    }
}

#[test]
fn a_block_that_is_not_read_in_time_keeps_its_other_contents() {
    let (superblock, image) = (superblock(512), vec![7; 16 * 512]);
    for (kind, is_kept) in [(io::ErrorKind::TimedOut, true), (io::ErrorKind::Other, false)] {
        let disk = Arc::new(Unreadable { disk: MemoryDisk::new(image.clone(), u64::MAX), kind });
        let blocks = BlockStore::new(Arc::clone(&disk) as Arc<dyn Disk>, &superblock);
        let store = PackedStore::over(Arc::new(blocks), &superblock);
        let pbn = PackedPlace { block: 3, slot: 1 }.pbn().unwrap();
        let form = [&20u16.to_le_bytes()[..], &[1; 40]].concat();
        let outcome = store.write_forms(&[(pbn, &form)]);
        assert_eq!(outcome.err().map(|error| error.kind()), is_kept.then_some(kind));
        assert_eq!(disk.disk.image() == image, is_kept);
    }
}
