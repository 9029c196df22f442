//! Which PBNs of a plain store are known to have space on disk.
//!
//! A write that needs no space cannot fail for want of it, so it may be acknowledged before it is
//! made. Space is allocated ahead of what is written, in growing steps, because the allocation of
//! single blocks costs a call each and leaves a file in pieces.

use gemelo_disk::Disk;
use parking_lot::Mutex;
use std::io;
use std::ops::Range;

/// The first step of allocation: a small pool takes little more than it stores.
const FIRST_STEP_BYTES: u64 = 1 << 20;
/// The longest step. Longer ones save nothing more.
const MOST_STEP_BYTES: u64 = 64 << 20;

#[derive(Debug, Default)]
struct Known {
    /// A bit for each PBN that has space.
    words: Vec<u64>,
    /// Bytes that were allocated since the store was opened.
    allocated_bytes: u64,
}

impl Known {
    fn has(&self, number: u32) -> bool {
        let word = self.words.get(number as usize / 64);
        word.is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    fn set(&mut self, numbers: Range<u32>, has_space: bool) {
        if has_space && self.words.len() <= numbers.end as usize / 64 {
            self.words.resize(numbers.end as usize / 64 + 1, 0);
        }
        for number in numbers {
            let Some(word) = self.words.get_mut(number as usize / 64) else { return };
            let bit = 1 << (number % 64);
            *word = if has_space { *word | bit } else { *word & !bit };
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct LaidOut {
    block_bytes: u64,
    known: Mutex<Known>,
}

impl LaidOut {
    pub(crate) fn new(block_bytes: u32) -> Self {
        Self { block_bytes: u64::from(block_bytes), known: Mutex::default() }
    }

    /// Makes sure that these PBNs have space.
    ///
    /// # Errors
    /// If there is none, or the system says so.
    pub(crate) fn reserve(&self, disk: &dyn Disk, numbers: Range<u32>) -> io::Result<()> {
        let mut known = self.known.lock();
        let Some(first) = numbers.clone().find(|number| !known.has(*number)) else {
            return Ok(());
        };
        let blocks = u32::try_from(disk.len()? / self.block_bytes).unwrap_or(u32::MAX);
        let ahead_bytes = known.allocated_bytes.clamp(FIRST_STEP_BYTES, MOST_STEP_BYTES);
        let ahead = u32::try_from(ahead_bytes / self.block_bytes).unwrap_or(u32::MAX);
        let end = numbers.end.saturating_add(ahead).min(blocks).max(numbers.end);
        // A step that does not fit, or that the system refuses, leaves what is needed now.
        let exact = first..numbers.end;
        let allocated = match self.allocate(disk, first..end) {
            Ok(()) => first..end,
            Err(_) => self.allocate(disk, exact.clone()).map(|()| exact)?,
        };
        known.allocated_bytes += u64::from(allocated.end - allocated.start) * self.block_bytes;
        known.set(allocated, true);
        Ok(())
    }

    fn allocate(&self, disk: &dyn Disk, numbers: Range<u32>) -> io::Result<()> {
        let bytes = |number: u32| u64::from(number) * self.block_bytes;
        disk.allocate(bytes(numbers.start), bytes(numbers.end) - bytes(numbers.start))
    }

    /// Notes that these PBNs have no space any more.
    pub(crate) fn forget(&self, numbers: Range<u32>) {
        self.known.lock().set(numbers, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_disk::{DiskRead, DiskWrite};

    /// A disk that has space for `room` bytes, and remembers what was allocated.
    struct Thin {
        room: u64,
        calls: Mutex<Vec<(u64, u64)>>,
    }

    impl Disk for Thin {
        fn len(&self) -> io::Result<u64> {
            Ok(1 << 30)
        }
        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
            if offset + length > self.room {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            self.calls.lock().push((offset, length));
            Ok(())
        }
        fn read_many(&self, _: &mut [DiskRead<'_>]) {}
        fn write_many(&self, _: &mut [DiskWrite<'_>]) {}
        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
        fn discard(&self, _: u64, _: u64) -> io::Result<()> {
            Ok(())
        }
    }

    fn thin(room: u64) -> Thin {
        Thin { room, calls: Mutex::default() }
    }

    #[test]
    fn space_is_allocated_ahead_in_growing_steps_up_to_the_end_of_the_disk() {
        let (disk, laid_out) = (thin(u64::MAX), LaidOut::new(4096));
        for number in 1..1 << 18 {
            laid_out.reserve(&disk, number..number + 1).unwrap();
        }
        let calls = disk.calls.lock();
        assert_eq!(calls[0], (4096, (1 << 20) + 4096));
        assert!(calls.len() < 40, "{calls:?}");
        assert!(calls.iter().all(|(_, length)| *length <= MOST_STEP_BYTES + 4096));
        let (offset, length) = calls[calls.len() - 1];
        assert_eq!(offset + length, 1 << 30);
    }

    #[test]
    fn without_room_ahead_the_blocks_themselves_are_allocated_and_beyond_it_is_an_error() {
        let (disk, laid_out) = (thin(10 * 4096), LaidOut::new(4096));
        laid_out.reserve(&disk, 1..5).unwrap();
        laid_out.reserve(&disk, 3..10).unwrap();
        assert_eq!(*disk.calls.lock(), [(4096, 4 * 4096), (5 * 4096, 5 * 4096)]);
        let full = laid_out.reserve(&disk, 9..11).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        laid_out.reserve(&disk, 1..10).unwrap();
        assert_eq!(disk.calls.lock().len(), 2, "the space is known");
        laid_out.forget(4..6);
        laid_out.reserve(&disk, 1..10).unwrap();
        assert_eq!(disk.calls.lock()[2], (4 * 4096, 6 * 4096), "what was discarded has none");
    }
}
