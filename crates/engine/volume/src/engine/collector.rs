//! The collector: makes freed blocks usable, and gives free space back to the system, when a
//! command asks for it or in the background.

use super::Engine;
use super::pace::{Allowance, Pace};
use crate::counters::add;
use crate::error::{Result, VolumeError};
use gemelo_base::{Monitor, StopFlag, Unit};
use serde::{Deserialize, Serialize};

/// Blocks discarded at once: the writers miss them meanwhile.
const RUN_BLOCKS: u32 = 16_384;

/// Blocks that the collector has given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GcReport {
    /// Blocks that were freed and became usable.
    pub reclaimed_blocks: u64,
    /// Free blocks given back to the system.
    pub discarded_blocks: u64,
}

impl Engine {
    /// Writes a checkpoint, makes freed blocks usable, and gives free space of the data store back
    /// to the system, at most `max_bytes_per_s`: blocks that were freed, and not those that were
    /// never used or given back before.
    pub(crate) fn collect(
        &self,
        max_bytes_per_s: Option<u64>,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<GcReport> {
        let before = self.data.allocator.free_blocks();
        self.volumes.clearer.clear_hidden(&|| stop.is_raised())?;
        let is_full = match self.log.checkpoint() {
            Err(VolumeError::NoSpace { .. }) => true,
            other => other.map(|()| false)?,
        };
        if is_full {
            // The journal makes freed blocks durable, and giving their space back may make room for
            // a checkpoint.
            self.log.flush()?;
        }
        self.data.await_retired();
        let free = self.data.allocator.free_blocks();
        let all = self.data.allocator.undiscarded_blocks() + self.data.allocator.unswept_blocks();
        monitor.begin("Giving back free space", Unit::Items, Some(all));
        let pace = Pace::new(self, max_bytes_per_s, stop);
        let mut pass = CollectorPass { engine: self, monitor, pace, discarded_blocks: 0 };
        pass.discard_freed()?;
        pass.sweep()?;
        let discarded_blocks = pass.discarded_blocks;
        monitor.finish();
        if is_full {
            self.log.checkpoint()?;
        }
        Ok(GcReport { reclaimed_blocks: free.saturating_sub(before), discarded_blocks })
    }
}

/// An allowance that was not used is saved up, for a burst of this many seconds' worth.
const MAX_SAVED_S: u64 = 1;
/// Pause of the background collector after it has searched the whole store: 10 s.
const REST_NS: u64 = 10_000_000_000;

/// The collector of the background: gives the space of freed blocks back to the system, within a
/// rate.
#[derive(Debug)]
pub(super) struct Collector {
    bytes_per_s: u64,
    allowance: Allowance,
    next: u64,
}

impl Collector {
    pub(super) fn new(bytes_per_s: u64, now_ns: u64) -> Self {
        let most = bytes_per_s.saturating_mul(MAX_SAVED_S);
        let allowance = Allowance::empty(bytes_per_s, most, now_ns);
        Self { bytes_per_s, allowance, next: 0 }
    }

    /// Changes the rate. What was saved up at another one is gone.
    pub(super) fn set_rate(&mut self, bytes_per_s: u64, now_ns: u64) {
        if bytes_per_s != self.bytes_per_s {
            *self = Self { next: self.next, ..Self::new(bytes_per_s, now_ns) };
        }
    }

    /// Goes on, as far as the rate allows. Returns the number of blocks that were given back.
    pub(super) fn work(&mut self, engine: &Engine) -> Result<u64> {
        let (now_ns, mut done) = (engine.clock.now_ns(), 0);
        let is_off = self.bytes_per_s == 0 || self.allowance.is_resting(now_ns);
        self.allowance.earn(now_ns);
        if is_off || engine.data.allocator.undiscarded_blocks() == 0 {
            return Ok(done);
        }
        let block_bytes = engine.data.block_bytes() as u64;
        loop {
            let allowed = self.allowance.left() / block_bytes;
            let blocks = u32::try_from(allowed).unwrap_or(u32::MAX).min(RUN_BLOCKS);
            let least = engine.data.min_discard_blocks();
            if blocks < least {
                return Ok(done);
            }
            let (count, next) = engine.data.discard_undiscarded(self.next, least..=blocks)?;
            assert!(count <= blocks, "more was given back than allowed");
            self.allowance.spend(u64::from(count) * block_bytes);
            done += u64::from(count);
            add(&engine.counters.discarded_blocks, u64::from(count));
            let Some(next) = next else {
                self.next = 0;
                self.allowance.rest_until(now_ns.saturating_add(REST_NS));
                return Ok(done);
            };
            self.next = next;
        }
    }
}

/// A pass of the collector as a command.
struct CollectorPass<'e> {
    engine: &'e Engine,
    monitor: &'e dyn Monitor,
    pace: Pace<'e>,
    discarded_blocks: u64,
}

impl CollectorPass<'_> {
    /// Gives the space of blocks back that were freed since the pool was opened, at most as many as
    /// there are now: further ones may be freed all the time.
    fn discard_freed(&mut self) -> Result<()> {
        let data = &self.engine.data;
        let mut left = data.allocator.undiscarded_blocks();
        let mut next = Some(0);
        while let Some(from) = next.filter(|_| left > 0) {
            let most = u32::try_from(left).unwrap_or(u32::MAX).min(RUN_BLOCKS);
            let (count, after) = data.discard_undiscarded(from, 1..=most)?;
            assert!(u64::from(count) <= left, "more blocks were given back than asked for");
            assert!(after.is_none_or(|after| after > from), "a pass over the store goes on");
            left -= u64::from(count);
            next = after;
            self.go_on(count)?;
        }
        Ok(())
    }

    /// Goes once, after an opening, through the free blocks that may have been used before it. A
    /// file tells whether it takes more space than the blocks in use.
    fn sweep(&mut self) -> Result<()> {
        let engine = self.engine;
        let physical = engine.log.read().backend().totals().physical;
        if engine.data.has_space_beyond(physical + engine.superblock.reserved_blocks()) {
            while let Some(count) = engine.data.sweep(RUN_BLOCKS)? {
                self.go_on(count)?;
            }
        }
        Ok(())
    }

    /// Counts a piece, and waits as long as the rate demands.
    fn go_on(&mut self, count: u32) -> Result<()> {
        self.discarded_blocks += u64::from(count);
        add(&self.engine.counters.discarded_blocks, u64::from(count));
        self.monitor.advance(u64::from(count));
        self.pace.go_on(u64::from(count))
    }
}
