//! A disk that writes one of its writes to a wrong place and says that all is well.

use super::DiskLayer;
use crate::{Disk, DiskWrite};
use gemelo_base::random::mix_pair;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Places of wrong writes are multiples of this number of bytes.
const UNIT_BYTES: u64 = 512;

/// A layer with a misdirected write: it lands at another place of the same disk, whose bytes it
/// replaces, and the intended place keeps its old bytes.
pub struct MisdirectingDisk {
    below: Arc<dyn Disk>,
    /// Writes until the one that is misdirected.
    left: AtomicU64,
    seed: u64,
}

impl MisdirectingDisk {
    /// Misdirects the write after this many others. The seed gives its place.
    #[must_use]
    pub fn new(below: Arc<dyn Disk>, after: u64, seed: u64) -> Self {
        Self { below, left: AtomicU64::new(after), seed }
    }

    /// Returns whether the write was misdirected by now.
    #[must_use]
    pub fn has_misdirected(&self) -> bool {
        self.left.load(Ordering::SeqCst) == u64::MAX
    }

    /// Counts a write. Returns whether it is the one.
    fn is_misdirected(&self) -> bool {
        let count = |left: u64| (left != u64::MAX).then(|| left.checked_sub(1).unwrap_or(u64::MAX));
        self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count) == Ok(0)
    }

    /// A place for this many bytes on the disk, which does not become longer.
    fn wrong_place(&self, bytes: usize) -> u64 {
        let room = self.below.len().unwrap_or(0).saturating_sub(bytes as u64);
        mix_pair(self.seed, 0) % (room / UNIT_BYTES + 1) * UNIT_BYTES
    }
}

impl DiskLayer for MisdirectingDisk {
    fn below(&self) -> &dyn Disk {
        &*self.below
    }

    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        for write in writes {
            if !self.is_misdirected() {
                self.below.write_many(std::slice::from_mut(write));
                continue;
            }
            let mut wrong = DiskWrite::new(self.wrong_place(write.bytes.len()), write.bytes);
            self.below.write_many(std::slice::from_mut(&mut wrong));
            write.outcome = wrong.outcome;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MemoryDisk;

    #[test]
    fn one_write_lands_elsewhere_and_its_place_keeps_its_bytes() {
        let below = Arc::new(MemoryDisk::new(vec![0; 64 << 10], 64 << 10));
        let disk = MisdirectingDisk::new(Arc::clone(&below) as Arc<dyn Disk>, 1, 7);
        let at = |number: u64| disk.write_at(number * 512, &[number as u8; 512]).unwrap();
        at(1);
        assert!(!disk.has_misdirected());
        at(2);
        assert!(disk.has_misdirected());
        at(3);
        let image = below.image();
        let places = |byte: u8| image.iter().filter(|found| **found == byte).count();
        assert_eq!([1, 2, 3].map(places), [512; 3], "each is there once");
        assert!(image[512..1024].iter().all(|byte| *byte == 1));
        assert!(image[1024..1536].iter().all(|byte| *byte == 0), "the old bytes");
        assert!(image[1536..2048].iter().all(|byte| *byte == 3));
    }
}
