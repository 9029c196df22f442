//! Tells which PBNs of a plain store have space on disk.
//!
//! A write that needs no space cannot fail for lack of it, so it may be acknowledged before it is
//! made. Space is allocated ahead of the writes, in growing steps: allocating single blocks would
//! cost a system call each and leave a file in pieces. An allocation can wait 100 ms and more for
//! the file system's journal. A thread that nobody waits for therefore makes the next step while
//! half of the present one is left.

use gemelo_base::SparseBits;
use gemelo_base::locks::Mutex;
use gemelo_disk::Disk;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first step of allocation: a small pool takes little more than it stores.
const FIRST_STEP_BYTES: u64 = 1 << 20;
/// The longest step: half of it lasts for 128 ms at 1 GB/s.
const MAX_STEP_BYTES: u64 = 256 << 20;
/// A step is at most this part of the store, and of what was allocated before: what nobody needs in
/// the end is at most a third of what is stored.
const STORE_PER_STEP: u64 = 32;
const ALLOCATED_PER_STEP: u64 = 6;

#[derive(Debug, Default)]
struct Known {
    /// The PBNs that have space.
    pbns: SparseBits,
    /// Bytes that were allocated since the store was opened.
    allocated_bytes: u64,
    /// PBNs of the store when it was last measured. It can only become larger.
    blocks: u64,
    /// The next step, which should be allocated ahead.
    next: Option<Range<u64>>,
    /// Counts the discards. A step that was allocated while a discard ran may have holes again.
    discards: u64,
}

/// The PBNs of a store that have space on disk; see the module.
#[derive(Debug)]
pub(crate) struct Preallocated {
    block_bytes: u64,
    known: Mutex<Known>,
    /// `true` while a step waits to be allocated ahead, to be looked at without the lock.
    wants_ahead: AtomicBool,
}

impl Preallocated {
    pub(crate) fn new(block_bytes: u32) -> Self {
        Self {
            block_bytes: u64::from(block_bytes),
            known: Mutex::default(),
            wants_ahead: AtomicBool::new(false),
        }
    }

    /// Makes sure that these PBNs have space.
    ///
    /// # Errors
    /// Fails if there is no space, or if a system call fails.
    pub(crate) fn reserve(&self, disk: &dyn Disk, numbers: Range<u64>) -> io::Result<()> {
        let mut known = self.known.lock();
        if let Some(first) = numbers.clone().find(|number| !known.pbns.has(*number)) {
            self.allocate_now(disk, &mut known, first..numbers.end)?;
        }
        self.look_ahead(&mut known, numbers.end);
        Ok(())
    }

    /// Returns whether [`Self::reserve_ahead`] has something to do.
    pub(crate) fn wants_ahead(&self) -> bool {
        self.wants_ahead.load(Ordering::Relaxed)
    }

    /// Allocates the next step, if one is due. No lock is held meanwhile.
    pub(crate) fn reserve_ahead(&self, disk: &dyn Disk) {
        let (numbers, discards) = {
            let mut known = self.known.lock();
            self.wants_ahead.store(false, Ordering::Relaxed);
            let Some(numbers) = known.next.take() else { return };
            (numbers, known.discards)
        };
        let allocated = self.allocate(disk, numbers.clone());
        let mut known = self.known.lock();
        if allocated.is_ok() && known.discards == discards {
            known.allocated_bytes += (numbers.end - numbers.start) * self.block_bytes;
            known.pbns.set(numbers, true);
        }
    }

    /// Notes that these PBNs have no space any more.
    pub(crate) fn forget(&self, numbers: Range<u64>) {
        let mut known = self.known.lock();
        known.discards += 1;
        known.pbns.set(numbers, false);
    }

    /// Allocates space for PBNs that are written now, and a step beyond them.
    fn allocate_now(
        &self,
        disk: &dyn Disk,
        known: &mut Known,
        exact: Range<u64>,
    ) -> io::Result<()> {
        known.blocks = disk.len()? / self.block_bytes;
        let end = exact.end.saturating_add(self.step(known)).min(known.blocks).max(exact.end);
        // A step that does not fit, or that the system refuses, leaves what is needed now.
        let allocated = match self.allocate(disk, exact.start..end) {
            Ok(()) => exact.start..end,
            Err(_) => self.allocate(disk, exact.clone()).map(|()| exact)?,
        };
        known.allocated_bytes += (allocated.end - allocated.start) * self.block_bytes;
        known.pbns.set(allocated, true);
        Ok(())
    }

    /// Notes the next step if less than half of one is left behind `end`.
    fn look_ahead(&self, known: &mut Known, end: u64) {
        let step = self.step(known);
        let half = end.saturating_add(step / 2);
        if known.next.is_some() || half >= known.blocks || known.pbns.has(half) {
            return;
        }
        let start = (end..half).find(|number| !known.pbns.has(*number)).unwrap_or(half);
        known.next = Some(start..start.saturating_add(step).min(known.blocks));
        self.wants_ahead.store(true, Ordering::Relaxed);
    }

    /// PBNs of a step.
    fn step(&self, known: &Known) -> u64 {
        let store_bytes = known.blocks * self.block_bytes;
        let most = (store_bytes / STORE_PER_STEP).clamp(FIRST_STEP_BYTES, MAX_STEP_BYTES);
        let bytes = (known.allocated_bytes / ALLOCATED_PER_STEP).clamp(FIRST_STEP_BYTES, most);
        bytes / self.block_bytes
    }

    fn allocate(&self, disk: &dyn Disk, numbers: Range<u64>) -> io::Result<()> {
        let bytes = |number: u64| number * self.block_bytes;
        disk.allocate(bytes(numbers.start), bytes(numbers.end) - bytes(numbers.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_disk::testing::{DiskLayer, SinkDisk};

    /// A disk that has space for `room` bytes, and remembers what was allocated.
    struct Thin {
        below: SinkDisk,
        room: u64,
        calls: Mutex<Vec<(u64, u64)>>,
    }

    impl DiskLayer for Thin {
        fn below(&self) -> &dyn Disk {
            &self.below
        }
        fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
            if offset + length > self.room {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            self.calls.lock().push((offset, length));
            Ok(())
        }
    }

    fn thin(room: u64) -> Thin {
        Thin { below: SinkDisk::new(1 << 30, 0), room, calls: Mutex::default() }
    }

    #[test]
    fn space_is_allocated_ahead_in_growing_steps_up_to_the_end_of_the_disk() {
        let (disk, preallocated) = (thin(u64::MAX), Preallocated::new(4096));
        for number in 1..1 << 18 {
            preallocated.reserve(&disk, number..number + 1).unwrap();
        }
        let calls = disk.calls.lock();
        assert_eq!(calls[0], (4096, (1 << 20) + 4096));
        assert!(calls.len() < 70, "{calls:?}");
        // A thirty-second of the disk is 32 MiB.
        assert!(calls.iter().all(|(_, length)| *length <= (32 << 20) + 4096), "{calls:?}");
        let (offset, length) = calls[calls.len() - 1];
        assert_eq!(offset + length, 1 << 30);
    }

    #[test]
    fn without_room_ahead_the_blocks_themselves_are_allocated_and_beyond_it_is_an_error() {
        let (disk, preallocated) = (thin(10 * 4096), Preallocated::new(4096));
        preallocated.reserve(&disk, 1..5).unwrap();
        preallocated.reserve(&disk, 3..10).unwrap();
        assert_eq!(*disk.calls.lock(), [(4096, 4 * 4096), (5 * 4096, 5 * 4096)]);
        let full = preallocated.reserve(&disk, 9..11).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        preallocated.reserve(&disk, 1..10).unwrap();
        assert_eq!(disk.calls.lock().len(), 2, "the space is known");
        preallocated.forget(4..6);
        preallocated.reserve(&disk, 1..10).unwrap();
        assert_eq!(disk.calls.lock()[2], (4 * 4096, 6 * 4096), "what was discarded has none");
    }

    #[test]
    fn the_next_step_is_allocated_ahead_so_that_no_write_waits_for_it() {
        let (disk, preallocated) = (thin(u64::MAX), Preallocated::new(4096));
        preallocated.reserve(&disk, 1..2).unwrap();
        for number in 2..1 << 18 {
            let before = disk.calls.lock().len();
            preallocated.reserve(&disk, number..number + 1).unwrap();
            assert_eq!(disk.calls.lock().len(), before, "PBN {number} had no space");
            if preallocated.wants_ahead() {
                preallocated.reserve_ahead(&disk);
            }
            let end = disk.calls.lock().iter().map(|(at, length)| at + length).max();
            let most = number * 4096 / 3 * 4 + (3 << 20);
            assert!(end.is_some_and(|end| end <= most), "{end:?} for {number} blocks");
        }
        assert!(!preallocated.wants_ahead(), "the end of the disk is reached");
    }

    #[test]
    fn a_step_that_a_discard_has_met_is_not_taken_for_space() {
        struct Punched<'d>(&'d Thin, &'d Preallocated);
        impl DiskLayer for Punched<'_> {
            fn below(&self) -> &dyn Disk {
                self.0
            }
            fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
                Disk::allocate(self.0, offset, length)?;
                self.1.forget(300..310);
                Ok(())
            }
        }
        let (disk, preallocated) = (thin(u64::MAX), Preallocated::new(4096));
        preallocated.reserve(&disk, 1..200).unwrap();
        preallocated.reserve(&disk, 400..401).unwrap();
        assert!(preallocated.wants_ahead());
        preallocated.reserve_ahead(&Punched(&disk, &preallocated));
        let before = disk.calls.lock().len();
        preallocated.reserve(&disk, 456..460).unwrap();
        assert_eq!(disk.calls.lock().len(), before + 1, "its space is unknown");
    }
}
