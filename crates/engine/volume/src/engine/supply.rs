//! Waiting for free blocks when the data store has too few.

use super::Engine;
use crate::error::Result;
use std::time::Duration;

/// Waits of a write that finds the store full, for blocks that are being freed: short ones first,
/// then longer ones. Most requests end within the short waits. A disk that needs more than all
/// waits together, half a minute, counts as one that hangs.
const SHORT_WAITS: u32 = 100;
const SHORT_WAIT: Duration = Duration::from_micros(100);
const MAX_WAITS: u32 = 30_000;
const WAIT: Duration = Duration::from_millis(1);
/// Waits of the collector for requests that still read freed blocks: 0.1 s in all. Its next round
/// finds blocks that are freed later.
const MAX_COLLECTOR_WAITS: u32 = 100;

/// Counts of blocks that are free, or may soon be.
struct Supply {
    free: u64,
    /// Blocks freed by changes that are not durable yet.
    uncommitted: u64,
    /// Retired, about to be given back by the free_veto, or taken by writes under way, which mostly
    /// free as many as they take.
    others: u64,
    /// The commit that frees the last of the uncommitted ones.
    last: u64,
}

impl Engine {
    /// Counts the blocks that can be had, all at one instant.
    fn supply(&self) -> Supply {
        // Blocks that are being discarded are free.
        let _paused = self.data.pause_discards();
        self.data.free_retired();
        // Taking this lock waits for the commit that is being written. Its freed blocks are retired
        // then.
        let log = self.log.still();
        let unmapped = self.data.unmapped();
        Supply {
            free: unmapped.free,
            uncommitted: log.freed_blocks(),
            others: unmapped.retired + unmapped.taken + unmapped.due,
            last: log.last_number(),
        }
    }

    /// Waits until `wanted` blocks are free, or all that can become free if those are fewer.
    /// Returns their number. Changes that free blocks are made durable; requests that read freed
    /// blocks, or write to taken ones, are waited for. The caller holds no pin.
    pub(super) fn reclaim(&self, wanted: usize) -> Result<usize> {
        let wanted = wanted as u64;
        for number in 0..MAX_WAITS {
            self.check_writable()?;
            let supply = self.supply();
            let goal = wanted.min(supply.free + supply.uncommitted + supply.others);
            if supply.free >= goal {
                return Ok(usize::try_from(goal).unwrap_or(usize::MAX));
            }
            if supply.uncommitted > 0 {
                self.log.make_durable(supply.last)?;
            } else {
                gemelo_base::pause(if number < SHORT_WAITS { SHORT_WAIT } else { WAIT });
            }
        }
        Ok(0)
    }

    /// Waits for a limited time until no request reads freed blocks any more.
    pub(crate) fn reclaim_all(&self) {
        for _ in 0..MAX_COLLECTOR_WAITS {
            if self.data.free_retired() == 0 {
                return;
            }
            gemelo_base::pause(WAIT);
        }
    }
}
