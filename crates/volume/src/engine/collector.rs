//! The collector: makes freed blocks usable, and gives free space back to the system, when a
//! command asks for it or in the background.

use super::Engine;
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
    /// to the system, at most `most_bytes_per_s`.
    pub(crate) fn collect(
        &self,
        most_bytes_per_s: Option<u64>,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<GcReport> {
        let before = self.free_blocks();
        self.clear_hidden(&|| stop.is_raised())?;
        let is_full = match self.checkpoint() {
            Err(VolumeError::NoSpace { .. }) => true,
            other => other.map(|()| false)?,
        };
        if is_full {
            // The journal makes freed blocks durable, and giving their space back may make room for
            // a checkpoint.
            self.flush()?;
        }
        self.reclaim_all();
        let free = self.free_blocks();
        monitor.begin("Giving back free space", Unit::Items, Some(free));
        let discarded_blocks = self.discard_free(most_bytes_per_s, monitor, stop)?;
        monitor.finish();
        if is_full {
            self.checkpoint()?;
        }
        Ok(GcReport { reclaimed_blocks: free.saturating_sub(before), discarded_blocks })
    }
}

/// An allowance that was not used is saved up, for a burst of this many seconds' worth.
const MOST_SAVED_S: u64 = 1;
/// Pause of the background collector after it has searched the whole store: 10 s.
const REST_NS: u64 = 10_000_000_000;

/// The collector of the background: gives the space of freed blocks back to the system, within a
/// rate.
#[derive(Debug)]
pub(super) struct Collector {
    bytes_per_s: u64,
    allowed_bytes: u64,
    at_ns: u64,
    next: u32,
}

impl Collector {
    pub(super) const fn new(bytes_per_s: u64, now_ns: u64) -> Self {
        Self { bytes_per_s, allowed_bytes: 0, at_ns: now_ns, next: 0 }
    }

    /// Goes on, as far as the rate allows.
    pub(super) fn work(&mut self, engine: &Engine) -> Result<()> {
        let now_ns = engine.clock.now_ns();
        if self.bytes_per_s == 0 || now_ns <= self.at_ns {
            return Ok(());
        }
        let earned = u128::from(self.bytes_per_s) * u128::from(now_ns - self.at_ns) / 1_000_000_000;
        let most = self.bytes_per_s.saturating_mul(MOST_SAVED_S);
        self.allowed_bytes =
            self.allowed_bytes.saturating_add(u64::try_from(earned).unwrap_or(most)).min(most);
        self.at_ns = now_ns;
        let block_bytes = engine.block_bytes() as u64;
        if engine.data.undiscarded_blocks() == 0 {
            return Ok(());
        }
        loop {
            let blocks =
                u32::try_from(self.allowed_bytes / block_bytes).unwrap_or(u32::MAX).min(RUN_BLOCKS);
            if blocks < engine.data.least_discard_blocks() {
                return Ok(());
            }
            let (count, next) = engine.data.discard_undiscarded(self.next, blocks)?;
            self.allowed_bytes -= u64::from(count) * block_bytes;
            add(&engine.counters.discarded_blocks, u64::from(count));
            let Some(next) = next else {
                self.next = 0;
                self.at_ns = now_ns.saturating_add(REST_NS);
                return Ok(());
            };
            self.next = next;
        }
    }
}

impl Engine {
    fn discard_free(
        &self,
        most_bytes_per_s: Option<u64>,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<u64> {
        let block_bytes = self.block_bytes() as u64;
        let mut next = 0;
        let mut discarded = 0;
        let mut due_ns = self.clock.now_ns();
        loop {
            if stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
            let Some((first, count)) = self.data.discard_free(next, RUN_BLOCKS)? else { break };
            let bytes = u64::from(count) * block_bytes;
            discarded += u64::from(count);
            next = first.number() + count;
            monitor.advance(u64::from(count));
            if let Some(rate) = most_bytes_per_s {
                due_ns = due_ns.saturating_add(bytes.saturating_mul(1_000_000_000) / rate.max(1));
                self.clock.sleep_until_ns(due_ns);
            }
        }
        add(&self.counters.discarded_blocks, discarded);
        Ok(discarded)
    }
}
