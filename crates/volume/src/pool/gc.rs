//! The collector, run by hand: makes freed blocks usable, and gives free space back to the system.

use super::Pool;
use crate::counters::add;
use crate::engine::Engine;
use crate::error::{DiskRole, Result, VolumeError};
use crate::types::Pbn;
use gemelo_base::{Monitor, StopFlag, Unit};

/// Blocks discarded at once: the writers miss them meanwhile.
const RUN_BLOCKS: u32 = 16_384;

/// What the collector did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GcReport {
    /// Blocks that were freed and became usable.
    pub reclaimed_blocks: u64,
    /// Free blocks given back to the system.
    pub discarded_blocks: u64,
}

impl Pool {
    /// Writes a checkpoint, makes freed blocks usable, and gives free space of the data store back to the system, at most
    /// `most_bytes_per_s`.
    ///
    /// # Errors
    /// If the checkpoint or a discard fails, or the work was stopped.
    pub fn gc(
        &self,
        most_bytes_per_s: Option<u64>,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<GcReport> {
        let engine = &self.engine;
        let before = engine.space.lock().free();
        engine.checkpoint()?;
        engine.reclaim_all();
        let free = engine.space.lock().free();
        monitor.begin("Giving back free space", Unit::Items, Some(free));
        let discarded_blocks = engine.discard_free(most_bytes_per_s, monitor, stop)?;
        monitor.finish();
        Ok(GcReport { reclaimed_blocks: free.saturating_sub(before), discarded_blocks })
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
            let collector = self.collector.lock();
            let Some((first, count)) = self.space.lock().take_run(next, RUN_BLOCKS) else { break };
            let bytes = u64::from(count) * block_bytes;
            let result = self.data.discard(u64::from(first.number()) * block_bytes, bytes);
            self.give_back((first.number()..first.number() + count).filter_map(Pbn::new).collect());
            drop(collector);
            result.map_err(VolumeError::io(DiskRole::Data, "discard from"))?;
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
