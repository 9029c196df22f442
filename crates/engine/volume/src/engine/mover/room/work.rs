//! The cleaner's thread: works when few blocks are free.

use super::pass::{Effort, Step};
use crate::engine::Engine;
use crate::engine::mover::{Mover, SpaceCleaner};
use crate::engine::worker::POLL_INTERVAL;
use crate::error::Result;
use gemelo_base::background::{Step as Turn, StopSignal};
use gemelo_base::scheduling::use_spare_time;
use std::time::Duration;

/// The thread works while less than this part of the blocks is free, until twice as many are.
const FREE_PART: u64 = 32;
/// Most blocks that are kept free in that way: 256 MiB of blocks of 4 KiB.
const MAX_FREE_BLOCKS: u64 = 1 << 16;
/// Bytes that are saved before the moves are made durable, which frees the old places.
const SAVED_AT_ONCE: u64 = 8 << 20;
/// Pause after a pass that has saved nothing.
const REST: Duration = Duration::from_secs(10);

/// The work of the thread.
pub(in crate::engine) fn work(engine: &Engine, stop: &StopSignal) {
    use_spare_time();
    while !stop.wait_for(POLL_INTERVAL) {
        if engine.health.check_writable().is_err() {
            continue;
        }
        engine.tasks.cleaner.turn(|| -> Result<Turn> {
            let is_of_use = CleanerThread { cleaner: &engine.cleaner, stop }.clean_if_short()?;
            Ok(if is_of_use { Turn::more(1) } else { Turn::then_rest(0, REST) })
        });
    }
}

/// The thread's turn.
struct CleanerThread<'e> {
    cleaner: &'e SpaceCleaner,
    stop: &'e StopSignal,
}

impl CleanerThread<'_> {
    /// Cleans if few blocks are free. Returns `false` if that is of no use at present.
    fn clean_if_short(&self) -> Result<bool> {
        let Mover { data, log, .. } = &*self.cleaner.mover;
        let (free, blocks) = data.allocator.free_of_all();
        let least = (blocks / FREE_PART).min(MAX_FREE_BLOCKS);
        if free >= least {
            self.forget_pass(free >= 2 * least);
            return Ok(true);
        }
        // Contents that were freed and are not usable yet may be enough.
        log.flush()?;
        log.settle_moves()?;
        data.free_retired();
        let mut is_short = false;
        while data.allocator.free_of_all().0 < 2 * least && !self.stop.is_raised() {
            let was_short = is_short;
            is_short = false;
            match self.clean_a_part(2 * least)? {
                Step::NoRoom if was_short => return Ok(false),
                Step::NoRoom => is_short = true,
                Step::Futile | Step::End(false) | Step::Waits => return Ok(false),
                Step::End(true) | Step::Saved(_) | Step::Moved | Step::Asked => {}
            }
            log.flush()?;
            log.settle_moves()?;
            data.await_retired();
            data.allocator.give_surplus();
        }
        Ok(true)
    }

    /// Gives the memory of an unfinished pass back that is not needed any more.
    fn forget_pass(&self, is_done: bool) {
        if is_done && let Some(mut pass) = self.cleaner.pass.try_lock() {
            pass.forget();
        }
    }

    /// Makes steps until enough is saved to make it durable. A write that waits for blocks takes
    /// part, so the lock is given back after each step.
    fn clean_a_part(&self, wanted: u64) -> Result<Step> {
        let mut saved = 0;
        loop {
            let Self { cleaner, stop } = self;
            let step = cleaner.clean_step(&mut cleaner.pass.lock(), Effort::Background, wanted)?;
            match step {
                Step::Saved(bytes) => saved += bytes,
                Step::Moved | Step::Asked => {}
                other => return Ok(other),
            }
            if saved >= SAVED_AT_ONCE || stop.is_raised() {
                return Ok(step);
            }
        }
    }
}
