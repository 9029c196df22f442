//! Reading and writing blocks of the data store, and getting free ones.

use super::Engine;
use crate::error::{Result, VolumeError};
use gemelo_format::{DiskRole, Pbn};
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a write that finds the store full waits for blocks that are on their way: most requests end within the short
/// waits, and a disk that needs longer than all of them, half a minute, is taken for one that hangs.
const SHORT_WAITS: u32 = 100;
const SHORT_WAIT: Duration = Duration::from_micros(100);
const MOST_WAITS: u32 = 30_000;
const WAIT: Duration = Duration::from_millis(1);
/// How long the collector waits for requests that still read freed blocks: 0.1 s. It finds those later ones another time.
const MOST_COLLECTOR_WAITS: u32 = 100;

impl Engine {
    pub(super) const fn data_offset(&self, pbn: Pbn) -> u64 {
        pbn.number() as u64 * self.superblock.block_bytes as u64
    }

    /// Reads from within a block on, into its neighbours if the buffer is longer.
    pub(super) fn read_data(&self, pbn: Pbn, within: usize, buffer: &mut [u8]) -> Result<()> {
        self.data
            .read_at(self.data_offset(pbn) + within as u64, buffer)
            .map_err(VolumeError::io(DiskRole::Data, "read"))
    }

    /// Writes blocks to PBNs, each run of neighbours at once; for each run that failed, calls `failed` with the run.
    pub(super) fn write_data(
        &self,
        blocks: &[(Pbn, &[u8])],
        mut failed: impl FnMut(&[(Pbn, &[u8])], &VolumeError),
    ) {
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(blocks.len());
        for run in blocks.chunk_by(|a, b| a.0.number() + 1 == b.0.number()) {
            let Some((first, _)) = run.first() else { continue };
            slices.clear();
            slices.extend(run.iter().map(|(_, content)| IoSlice::new(content)));
            if let Err(error) = self.data.write_at(self.data_offset(*first), &mut slices) {
                failed(run, &VolumeError::io(DiskRole::Data, "write")(error));
            }
        }
    }

    /// Takes free blocks for a write; `None` if there are not so many. They count as taken until the guard is dropped.
    pub(super) fn take_free(&self, wanted: usize) -> Option<(Vec<Pbn>, Taken<'_>)> {
        let mut pbns = Vec::with_capacity(wanted);
        let mut space = self.space.lock();
        if space.free() < wanted as u64 {
            return None;
        }
        space.take(wanted, &mut pbns);
        debug_assert_eq!(pbns.len(), wanted, "as many blocks as were free");
        self.taken_blocks.fetch_add(wanted as u64, Ordering::Relaxed);
        Some((pbns, Taken { all: &self.taken_blocks, count: wanted as u64 }))
    }

    /// The blocks that can be had, all counted at one instant.
    fn supply(&self) -> Supply {
        // Blocks that the collector has at the moment are free.
        let _collector = self.collector.lock();
        self.release(&mut Vec::new());
        // This waits for the commit that is being written, whose freed blocks are in limbo then.
        let committer = self.committer.lock();
        let state = self.state.read();
        let limbo = self.limbo.lock();
        let space = self.space.lock();
        let uncommitted = state.open.freed.len() + committer.waiting_blocks();
        let taken = self.taken_blocks.load(Ordering::Relaxed);
        Supply {
            free: space.free(),
            uncommitted: uncommitted as u64,
            others: limbo.len() as u64 + taken,
            last: state.open.last_number(),
        }
    }

    /// Waits until as many blocks are free as are wanted, or as many as there will be, if that is less: gives how many. What
    /// frees blocks is made durable, and requests that read freed blocks, or write to taken ones, are waited for. The
    /// caller holds no pin.
    pub(super) fn reclaim(&self, wanted: usize) -> Result<usize> {
        let wanted = wanted as u64;
        for number in 0..MOST_WAITS {
            let supply = self.supply();
            let goal = wanted.min(supply.free + supply.uncommitted + supply.others);
            if supply.free >= goal {
                return Ok(usize::try_from(goal).unwrap_or(usize::MAX));
            }
            if supply.uncommitted > 0 {
                self.make_durable(supply.last)?;
            } else {
                std::thread::sleep(if number < SHORT_WAITS { SHORT_WAIT } else { WAIT });
            }
        }
        Ok(0)
    }

    /// Waits until nobody reads freed blocks any more, for a while.
    pub(crate) fn reclaim_all(&self) {
        for _ in 0..MOST_COLLECTOR_WAITS {
            self.release(&mut Vec::new());
            if self.limbo.lock().len() == 0 {
                return;
            }
            std::thread::sleep(WAIT);
        }
    }
}

/// Blocks that are free, or may be soon.
struct Supply {
    free: u64,
    /// Freed by changes that are not durable yet.
    uncommitted: u64,
    /// In limbo, or taken by writes under way, which mostly free as many as they take.
    others: u64,
    /// The commit that frees the last of the uncommitted ones.
    last: u64,
}

/// Blocks that a write has taken, until it has made its changes or given them back.
pub(super) struct Taken<'e> {
    all: &'e AtomicU64,
    count: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.count, Ordering::Relaxed);
    }
}
