//! Waiting for free blocks when the data store has too few.

use super::mover::{Effort, Step};
use crate::engine::data::DataPath;
use crate::engine::health::Health;
use crate::engine::log::Log;
use crate::engine::mover::SpaceCleaner;
use crate::engine::parts::Common;
use crate::error::Result;
use std::sync::Arc;
use std::time::Duration;

/// Waits of a write that finds the store full, for blocks that are being freed: short ones first,
/// then longer ones. Most requests end within the short waits. A disk that needs more than all
/// waits together, half a minute, counts as one that hangs.
const SHORT_WAITS: u32 = 100;
const SHORT_WAIT: Duration = Duration::from_micros(100);
const MAX_WAITS: u32 = 30_000;
const WAIT: Duration = Duration::from_millis(1);
/// A write fails after the cleaner has worked for it as often in a row and no block became free.
const MAX_FUTILE_CLEANINGS: u32 = 16;
/// Blocks that a write cleans beyond those that it needs, so that the next ones find some.
const CLEANED_AHEAD: u64 = 64;
/// A pass of the cleaner for a write aims at this part of the store, because it walks over all
/// maps.
const CLEANED_PART: u64 = 64;
/// All contents are moved in stores of at most this many blocks. In larger ones, windows of the
/// cleaner leave little free.
const MAX_SLID_BLOCKS: u64 = 1024;
/// Passes of the cleaner for a write that wait for contents of a domain to come back.
const MAX_ASKED: u32 = 3;

/// Counts of blocks that are free, or may soon be.
struct Supply {
    free: u64,
    /// Blocks freed by changes that are not durable yet.
    uncommitted: u64,
    /// Blocks whose contents were moved away, which are free after a checkpoint.
    named: u64,
    /// Retired, about to be given back by the veto, or taken by writes under way, which mostly
    /// free as many as they take.
    others: u64,
    /// The commit that frees the last of the uncommitted ones.
    last: u64,
}

/// The outcome of the cleaner's work for a write.
enum Cleaning {
    /// Blocks were emptied, and are free when that is durable.
    Done,
    /// Another thread empties blocks.
    Waited,
    /// No more can be saved.
    Nothing,
}

/// Waits for free blocks; see the module.
pub(crate) struct Reclaimer {
    data: Arc<DataPath>,
    log: Arc<Log>,
    health: Arc<Health>,
    cleaner: Arc<SpaceCleaner>,
}

impl Reclaimer {
    pub(in crate::engine) fn new(common: &Common, cleaner: &Arc<SpaceCleaner>) -> Self {
        Self {
            data: Arc::clone(&common.data),
            log: Arc::clone(&common.log),
            health: Arc::clone(&common.health),
            cleaner: Arc::clone(cleaner),
        }
    }

    /// Counts the blocks that can be had, all at one instant.
    fn supply(&self) -> Supply {
        // Blocks that are being discarded are free.
        let _paused = self.data.pause_discards();
        self.data.free_retired();
        self.data.allocator.give_surplus();
        // Taking this lock waits for the commit that is being written. Its freed blocks are retired
        // then.
        let log = self.log.still();
        let unmapped = self.data.unmapped();
        Supply {
            free: unmapped.free,
            uncommitted: log.freed_blocks(),
            named: unmapped.named,
            others: unmapped.retired + unmapped.taken + unmapped.due,
            last: log.last_number(),
        }
    }

    /// Waits until `wanted` blocks are free, or all that can become free if those are fewer.
    /// Returns their number. Changes that free blocks are made durable; requests that read freed
    /// blocks, or write to taken ones, are waited for. Then blocks that are used in part are
    /// emptied. The caller holds no pin.
    pub(super) fn reclaim(&self, wanted: usize) -> Result<usize> {
        let wanted = wanted as u64;
        let (mut most_free, mut futile) = (0, 0);
        for number in 0..MAX_WAITS {
            self.health.check_writable()?;
            let supply = self.supply();
            let others = supply.named + supply.others;
            let goal = wanted.min(supply.free + supply.uncommitted + others);
            if supply.free >= goal {
                // A long write can be made in parts.
                let is_enough = goal == wanted || goal >= CLEANED_AHEAD;
                futile = if supply.free > most_free { 0 } else { futile };
                most_free = most_free.max(supply.free);
                if !is_enough && futile < MAX_FUTILE_CLEANINGS {
                    match self.clean_for(wanted.min(CLEANED_AHEAD))? {
                        Cleaning::Done => futile += 1,
                        Cleaning::Waited => {}
                        Cleaning::Nothing => return Ok(goal as usize),
                    }
                    continue;
                }
                return Ok(usize::try_from(goal).unwrap_or(usize::MAX));
            }
            if supply.uncommitted > 0 {
                self.log.make_durable(supply.last)?;
            } else {
                if supply.named > 0 {
                    self.log.settle_moves()?;
                }
                gemelo_base::pause(if number < SHORT_WAITS { SHORT_WAIT } else { WAIT });
            }
        }
        Ok(0)
    }

    /// Empties blocks that are used in part until about `wanted` are saved, or waits a little for
    /// the thread that does.
    fn clean_for(&self, wanted: u64) -> Result<Cleaning> {
        if !self.data.is_packed() {
            return Ok(Cleaning::Nothing);
        }
        let Some(mut cleaner) = self.cleaner.pass.try_lock() else {
            gemelo_base::pause(WAIT);
            return Ok(Cleaning::Waited);
        };
        let (_, blocks) = self.data.allocator.free_of_all();
        let goal_bytes = (wanted + CLEANED_AHEAD) * self.data.block_bytes() as u64;
        let (aim, mut saved_bytes) = (wanted.max(blocks / CLEANED_PART), 0);
        let (mut is_durable, mut effort, mut asked) = (false, Effort::Full, 0);
        while saved_bytes < goal_bytes {
            match self.cleaner.clean_step(&mut cleaner, effort, aim)? {
                Step::Saved(bytes) => saved_bytes += bytes,
                Step::Moved => is_durable = false,
                Step::Asked => {}
                Step::Waits if asked < MAX_ASKED => {
                    asked += 1;
                    self.data.await_coming_back();
                }
                Step::Waits => return Ok(Cleaning::Nothing),
                Step::Futile if effort == Effort::Full && blocks <= MAX_SLID_BLOCKS => {
                    effort = Effort::Sliding;
                }
                Step::End(true) => return Ok(Cleaning::Done),
                // A pass of the background looks at fewer blocks than one for a write.
                Step::End(false) => {}
                // The blocks that were emptied become the cleaner's when that is durable.
                Step::NoRoom if !is_durable => {
                    self.log.flush()?;
                    self.log.settle_moves()?;
                    self.data.await_retired();
                    is_durable = true;
                }
                // There may be room for a smaller one.
                Step::NoRoom if saved_bytes == 0 => cleaner.skip_window(),
                Step::Futile if saved_bytes == 0 => return Ok(Cleaning::Nothing),
                Step::NoRoom | Step::Futile => return Ok(Cleaning::Done),
            }
        }
        Ok(Cleaning::Done)
    }
}
