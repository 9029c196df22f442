//! The region for requests in flight: memory that the virtual machine keeps for this process, and
//! gives to the next one after a crash ("Inflight I/O tracking" of the vhost-user protocol, split
//! queues).
//!
//! It says which requests of each queue have no answer, so a queue may answer them in any order:
//! the next process executes the others once more and loses none. A request counts as answered from
//! the moment in which the index of its used ring moves, so the region keeps the last head and the
//! last index, and [`Tracker::recover`] finds out whether that moment came.

use crate::config::{MAX_QUEUE_SIZE, MAX_QUEUES};
use crate::request::Breach;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vhost::vhost_user::message::VhostUserInflight;
use vm_memory::{AtomicAccess, Bytes, FileOffset, MmapRegion, VolatileMemory, VolatileMemoryError};

/// Offsets in the part of a queue.
const VERSION: usize = 8;
const QUEUE_SIZE: usize = 10;
const LAST_HEAD: usize = 12;
const USED_INDEX: usize = 14;
const ENTRIES: usize = 16;

/// Length in bytes of an entry, of which each descriptor has one, and offsets in it.
const ENTRY_BYTES: usize = 16;
const IS_IN_FLIGHT: usize = 0;
const NEXT: usize = 6;
const COUNTER: usize = 8;

/// The version of the layout, which the protocol fixes.
const LAYOUT: u16 = 1;

/// The part of each queue begins at a multiple of this.
const ALIGNMENT: usize = 64;

const fn queue_bytes(queue_size: u16) -> usize {
    (ENTRIES + ENTRY_BYTES * queue_size as usize).next_multiple_of(ALIGNMENT)
}

/// Makes an empty region of the size that a virtual machine asks for.
pub(crate) fn create(wanted: &VhostUserInflight) -> io::Result<(VhostUserInflight, File)> {
    let VhostUserInflight { num_queues, queue_size, .. } = *wanted;
    let is_valid = (1..=MAX_QUEUES as u16).contains(&num_queues)
        && (1..=MAX_QUEUE_SIZE as u16).contains(&queue_size);
    if !is_valid {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let bytes = (queue_bytes(queue_size) * usize::from(num_queues)) as u64;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("gemelo-in-flight", flags)?;
    ftruncate(&file, bytes)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok((VhostUserInflight::new(bytes, 0, num_queues, queue_size), file.into()))
}

/// Returns whether a file has this number of bytes. A mapping beyond its end would be a trap. Other
/// kinds of files have no end.
pub(crate) fn holds(file: &File, bytes: u64) -> bool {
    file.metadata().is_ok_and(|metadata| !metadata.is_file() || bytes <= metadata.len())
}

/// A mapped region.
#[derive(Clone)]
pub(crate) struct Region {
    mapped: Arc<MmapRegion>,
    queues: u16,
    queue_size: u16,
}

impl Region {
    /// Maps the region that a virtual machine gives.
    pub(crate) fn map(given: &VhostUserInflight, file: File) -> Result<Self, Breach> {
        let VhostUserInflight { mmap_size, mmap_offset, num_queues, queue_size } = *given;
        let is_valid = (1..=MAX_QUEUES as u16).contains(&num_queues)
            && (1..=MAX_QUEUE_SIZE as u16).contains(&queue_size);
        let bytes = queue_bytes(queue_size) * usize::from(num_queues);
        let end = mmap_offset.checked_add(bytes as u64);
        let is_in_file = end.is_some_and(|end| holds(&file, end));
        if !is_valid || mmap_size < bytes as u64 || !is_in_file {
            return Err(Breach::InFlight("it is too small for its queues"));
        }
        let mapped = MmapRegion::from_file(FileOffset::new(file, mmap_offset), bytes);
        let mapped = Arc::new(mapped.map_err(|_| Breach::InFlight("it cannot be mapped"))?);
        Ok(Self { mapped, queues: num_queues, queue_size })
    }

    /// Returns the part of a queue of this size, if the region has one.
    pub(crate) fn tracker(&self, queue: u16, size: u16) -> Option<Tracker> {
        let has_it = queue < self.queues && size <= self.queue_size;
        let start = queue_bytes(self.queue_size) * usize::from(queue);
        let mapped = Arc::clone(&self.mapped);
        has_it.then_some(Tracker { mapped, start, size, counter: 0 })
    }
}

/// The requests of a queue that have no answer.
pub(crate) struct Tracker {
    mapped: Arc<MmapRegion>,
    /// First byte of the queue's part.
    start: usize,
    size: u16,
    /// Requests begun so far, by which they are ordered.
    counter: u64,
}

fn broken(_: VolatileMemoryError) -> Breach {
    Breach::InFlight("a place in it cannot be used")
}

impl Tracker {
    fn get<T: AtomicAccess>(&self, place: usize) -> Result<T, Breach> {
        self.mapped.as_volatile_slice().load(self.start + place, Ordering::Acquire).map_err(broken)
    }

    fn set<T: AtomicAccess>(&self, place: usize, value: T) -> Result<(), Breach> {
        let memory = self.mapped.as_volatile_slice();
        memory.store(value, self.start + place, Ordering::Release).map_err(broken)
    }

    /// Returns the place of the entry of a head.
    fn entry(&self, head: u16) -> Result<usize, Breach> {
        let place = ENTRIES + ENTRY_BYTES * usize::from(head);
        (head < self.size).then_some(place).ok_or(Breach::InFlight("it names no descriptor"))
    }

    /// Finds the requests without an answer in the order in which they began. `used_index` is that
    /// of the used ring. Returns [`None`] if the region is new.
    pub(crate) fn recover(&mut self, used_index: u16) -> Result<Option<Vec<u16>>, Breach> {
        if self.get::<u16>(VERSION)? == 0 {
            self.set(QUEUE_SIZE, self.size)?;
            self.set(USED_INDEX, used_index)?;
            self.set(VERSION, LAYOUT)?;
            return Ok(None);
        }
        if self.get::<u16>(VERSION)? != LAYOUT || self.get::<u16>(QUEUE_SIZE)? != self.size {
            return Err(Breach::InFlight("it is of another queue"));
        }
        if self.get::<u16>(USED_INDEX)? != used_index {
            // The last answer reached the used ring, and nothing after it happened.
            self.set(self.entry(self.get(LAST_HEAD)?)? + IS_IN_FLIGHT, 0u8)?;
            self.set(USED_INDEX, used_index)?;
        }
        let mut heads = Vec::new();
        for head in 0..self.size {
            let entry = self.entry(head)?;
            if self.get::<u8>(entry + IS_IN_FLIGHT)? != 0 {
                heads.push((self.get::<u64>(entry + COUNTER)?, head));
            }
        }
        heads.sort_unstable();
        self.counter = heads.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        Ok(Some(heads.into_iter().map(|(_, head)| head).collect()))
    }

    /// Notes that a request begins.
    pub(crate) fn begin(&mut self, head: u16) -> Result<(), Breach> {
        let entry = self.entry(head)?;
        self.set(entry + COUNTER, self.counter)?;
        self.counter = self.counter.wrapping_add(1);
        self.set(entry + IS_IN_FLIGHT, 1u8)
    }

    /// Notes that the used ring gets an answer next.
    pub(crate) fn before_answer(&self, head: u16) -> Result<(), Breach> {
        let last: u16 = self.get(LAST_HEAD)?;
        self.set(self.entry(head)? + NEXT, last)?;
        self.set(LAST_HEAD, head)
    }

    /// Notes that the used ring has the answer, and its index.
    pub(crate) fn after_answer(&self, head: u16, used_index: u16) -> Result<(), Breach> {
        self.set(self.entry(head)? + IS_IN_FLIGHT, 0u8)?;
        self.set(USED_INDEX, used_index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region() -> Region {
        let (given, file) = create(&VhostUserInflight::new(0, 0, 2, 8)).unwrap();
        Region::map(&given, file).unwrap()
    }

    #[test]
    fn a_crash_at_any_step_keeps_each_request_without_an_answer_once() {
        // The steps of the last answer that happened, and whether the used ring has it.
        for (steps, is_used) in [(0, false), (1, false), (1, true), (2, true)] {
            let region = region();
            let mut tracker = region.tracker(1, 8).unwrap();
            assert_eq!(tracker.recover(65_535).unwrap(), None);
            for head in [5, 2, 7, 0] {
                tracker.begin(head).unwrap();
            }
            tracker.before_answer(7).unwrap();
            tracker.after_answer(7, 0).unwrap();
            tracker.begin(7).unwrap();
            if steps > 0 {
                tracker.before_answer(2).unwrap();
            }
            let used_index = u16::from(is_used);
            if steps > 1 {
                tracker.after_answer(2, used_index).unwrap();
            }
            let mut next = region.tracker(1, 8).unwrap();
            let expected: &[u16] = if is_used { &[5, 0, 7] } else { &[5, 2, 0, 7] };
            assert_eq!(next.recover(used_index).unwrap().unwrap(), expected, "after {steps}");
            // It goes on behind them.
            next.begin(2).unwrap();
            let last = region.tracker(1, 8).unwrap().recover(used_index).unwrap().unwrap();
            assert_eq!(last.last(), Some(&2));
            assert_eq!(region.tracker(0, 8).unwrap().recover(0).unwrap(), None, "another queue");
        }
    }

    #[test]
    fn regions_and_heads_that_do_not_fit_are_refused() {
        let region = region();
        assert!(region.tracker(2, 8).is_none() && region.tracker(0, 9).is_none());
        let mut tracker = region.tracker(0, 8).unwrap();
        tracker.recover(0).unwrap();
        assert!(tracker.begin(8).is_err() && tracker.before_answer(8).is_err());
        tracker.set(LAST_HEAD, 60_000u16).unwrap();
        assert!(region.tracker(0, 8).unwrap().recover(1).is_err());
        assert!(region.tracker(0, 4).unwrap().recover(0).is_err(), "a queue of another size");
        let (given, file) = create(&VhostUserInflight::new(0, 0, 1, 8)).unwrap();
        let longer = VhostUserInflight { queue_size: 1024, ..given };
        assert!(Region::map(&longer, file.try_clone().unwrap()).is_err());
        let lie = VhostUserInflight { queue_size: 1024, mmap_size: 1 << 20, ..given };
        assert!(Region::map(&lie, file).is_err(), "longer than its file");
        for (queues, size) in [(0, 8), (17, 8), (1, 0), (1, 2000)] {
            assert!(create(&VhostUserInflight::new(0, 0, queues, size)).is_err());
        }
    }
}
