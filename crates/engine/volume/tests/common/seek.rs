//! A disk that counts its seeks: reads that do not begin where the read before has ended.

use gemelo_disk::testing::DiskLayer;
use gemelo_disk::{Disk, DiskRead};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Time of a seek, and bytes per second, of the simulated disk: those of a hard disk.
const SEEK_NS: u64 = 8_000_000;
const BYTES_PER_S: u64 = 200_000_000;

pub struct SeekDisk {
    disk: Arc<dyn Disk>,
    end: AtomicU64,
    seeks: AtomicU64,
    bytes: AtomicU64,
}

/// Reads of a disk.
#[derive(Debug, Clone, Copy)]
pub struct Reads {
    pub seeks: u64,
    pub bytes: u64,
}

impl Reads {
    /// The time that the simulated disk needs for them.
    pub const fn cost_ns(self) -> u64 {
        self.seeks * SEEK_NS + self.bytes * 1_000_000_000 / BYTES_PER_S
    }
}

impl SeekDisk {
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, end: AtomicU64::new(0), seeks: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// Returns the reads since the last call.
    pub fn take(&self) -> Reads {
        Reads {
            seeks: self.seeks.swap(0, Ordering::Relaxed),
            bytes: self.bytes.swap(0, Ordering::Relaxed),
        }
    }
}

impl DiskLayer for SeekDisk {
    fn below(&self) -> &dyn Disk {
        &*self.disk
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        for read in reads.iter() {
            let bytes = read.buffer.len() as u64;
            let end = self.end.swap(read.offset + bytes, Ordering::Relaxed);
            self.seeks.fetch_add(u64::from(end != read.offset), Ordering::Relaxed);
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        self.disk.read_many(reads);
    }
}
