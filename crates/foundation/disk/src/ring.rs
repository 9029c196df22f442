//! Direct writes of separate runs, all in flight at once, by `io_uring`.
//!
//! The free blocks of a store that was overwritten at random for long lie in runs of two or three.
//! One system call after another keeps one write in flight, and a disk with a queue does several
//! times as much with many. Where the system has no rings, as in many containers, the caller writes
//! one run after another.

use crate::DiskWrite;
use crate::cached::MAX_SLICES;
use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most runs in flight at once for one list.
const DEPTH: u32 = 64;
/// Time between two looks at a ring that cannot be waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The rings of a disk: one for each list that is being written, kept for the next one.
#[derive(Default)]
pub(crate) struct Rings {
    idle: Mutex<Vec<IoUring>>,
    /// `true` once the system has refused to make a ring.
    is_refused: AtomicBool,
}

impl std::fmt::Debug for Rings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rings").field("is_refused", &self.is_refused).finish_non_exhaustive()
    }
}

/// The memory of a run, and its place in the file.
struct Flight<'w> {
    offset: u64,
    bytes: usize,
    slices: Vec<IoSlice<'w>>,
}

impl<'w> Flight<'w> {
    fn of(run: &[DiskWrite<'w>]) -> Self {
        let slices: Vec<IoSlice<'w>> = run.iter().map(|write| IoSlice::new(write.bytes)).collect();
        let offset = run.first().map_or(0, |write| write.offset);
        Self { offset, bytes: slices.iter().map(|slice| slice.len()).sum(), slices }
    }
}

impl Rings {
    /// Writes runs, and returns for each whether all of it was written. Of another one any part may
    /// have been written, and the reason is unknown.
    pub(crate) fn write(&self, file: &File, runs: &[&mut [DiskWrite<'_>]]) -> Vec<bool> {
        let mut are_written = vec![false; runs.len()];
        let mut ring = None;
        let parts = runs.chunks(DEPTH as usize).zip(are_written.chunks_mut(DEPTH as usize));
        for (some, are_written) in parts {
            let Some(mut taken) = ring.take().or_else(|| self.take()) else { break };
            let flights: Vec<Flight<'_>> = some.iter().map(|run| Flight::of(run)).collect();
            if write_together(&mut taken, file, &flights, are_written) {
                ring = Some(taken);
            }
        }
        self.idle().extend(ring);
        are_written
    }

    fn idle(&self) -> MutexGuard<'_, Vec<IoUring>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<IoUring> {
        if self.is_refused.load(Ordering::Relaxed) {
            return None;
        }
        let idle = self.idle().pop();
        idle.or_else(|| {
            let made = IoUring::new(DEPTH);
            made.inspect_err(|_| self.is_refused.store(true, Ordering::Relaxed)).ok()
        })
    }

    /// Returns the number of rings that are kept.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.idle().len()
    }

    /// Makes no ring from now on.
    #[cfg(test)]
    pub(crate) fn refuse(&self) {
        self.is_refused.store(true, Ordering::Relaxed);
    }
}

/// Writes at most [`DEPTH`] runs at once, waits for all of them, and notes which were written as a
/// whole. Returns whether the ring can be used again.
fn write_together(
    ring: &mut IoUring,
    file: &File,
    flights: &[Flight<'_>],
    are_written: &mut [bool],
) -> bool {
    assert!(flights.len() <= DEPTH as usize, "a ring has an entry for each run");
    assert_eq!(flights.len(), are_written.len(), "each run has an outcome");
    let mut in_flight = 0;
    for (at, flight) in (0u64..).zip(flights) {
        let (Ok(count), true) =
            (u32::try_from(flight.slices.len()), flight.slices.len() <= MAX_SLICES)
        else {
            continue;
        };
        // A slice of the standard library has the form of the kernel's.
        let slices = flight.slices.as_ptr().cast();
        let entry = opcode::Writev::new(types::Fd(file.as_raw_fd()), slices, count)
            .offset(flight.offset)
            .build()
            .user_data(at);
        // SAFETY: the slices and their bytes are borrowed until this function returns, and it
        // returns when every entry that the kernel has taken is complete. The kernel only reads
        // them. The file is open for as long.
        if unsafe { ring.submission().push(&entry) }.is_err() {
            break;
        }
        in_flight += 1;
    }
    let mut is_sound = true;
    while in_flight > 0 {
        if is_sound {
            is_sound = submit_and_wait(ring).is_ok();
            if !is_sound {
                // Entries that the kernel has not taken are dropped with the ring.
                in_flight -= ring.submission().len();
            }
        } else {
            gemelo_base::pause(POLL_INTERVAL);
        }
        for done in ring.completion() {
            in_flight -= 1;
            let at = usize::try_from(done.user_data()).unwrap_or(usize::MAX);
            let found = flights.get(at).zip(are_written.get_mut(at));
            assert!(found.is_some(), "a completion belongs to a run");
            if let Some((flight, is_written)) = found {
                *is_written = usize::try_from(done.result()) == Ok(flight.bytes);
            }
        }
    }
    is_sound
}

/// Hands over the entries of a ring and waits for a completion, or for a reason to look again.
fn submit_and_wait(ring: &IoUring) -> io::Result<()> {
    match ring.submit_and_wait(1) {
        Ok(_) => Ok(()),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::INTR | Errno::AGAIN | Errno::BUSY) => Ok(()),
            _ => Err(error),
        },
    }
}
