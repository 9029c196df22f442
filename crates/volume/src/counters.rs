//! What a volume and a pool have done, the only source of statistics.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($(#[$meta:meta])* $live:ident, $(#[$stat_meta:meta])* $stat:ident { $($(#[$doc:meta])* $name:ident),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Default)]
        pub(crate) struct $live {
            $(pub(crate) $name: AtomicU64),*
        }

        $(#[$stat_meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        pub struct $stat {
            $($(#[$doc])* pub $name: u64),*
        }

        impl $live {
            pub(crate) fn read(&self) -> $stat {
                $stat { $($name: self.$name.load(Ordering::Relaxed)),* }
            }
        }

        impl $stat {
            /// Every counter's name and value.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

counters! {
    VolumeCounters,
    /// What a volume has done since the pool was opened.
    VolumeStat {
        /// Read requests.
        reads,
        /// Bytes read.
        read_bytes,
        /// Write requests.
        writes,
        /// Bytes written.
        written_bytes,
        /// Blocks written that got a block of their own.
        unique_blocks,
        /// Blocks written that were shared.
        duplicate_blocks,
        /// Blocks overwritten with the content they had.
        unchanged_blocks,
        /// Blocks written with zeros only.
        zero_blocks,
        /// Unique blocks that replaced a block: copies on write.
        cow_blocks,
        /// Trim and write-zeroes requests.
        trims,
        /// LBNs unmapped by them.
        trimmed_blocks,
        /// Blocks written in part, hence read before.
        patched_blocks,
        /// Blocks that another write had overtaken before their change was made, and that were done again.
        patch_retries,
        /// Flush requests, and writes with immediate durability.
        flushes,
        /// Requests that failed.
        failed_requests,
    }
}

counters! {
    PoolCounters,
    /// What a pool has done since it was opened.
    PoolActivity {
        /// Commits written to the journal.
        commits,
        /// Bytes of them.
        journal_bytes,
        /// Checkpoints that succeeded.
        checkpoints,
        /// Pages written by them.
        checkpoint_pages,
        /// Checkpoints that failed.
        failed_checkpoints,
        /// Blocks given back by the collector to the system.
        discarded_blocks,
        /// Blocks of off-line volumes that the finder has read and fingerprinted.
        examined_blocks,
        /// Those whose content was known, so that their own copy was freed.
        found_blocks,
        /// Those whose content is known from then on.
        identified_blocks,
        /// Those that a write replaced meanwhile, or that could not be read.
        aborted_blocks,
        /// Contents that had the fingerprint of another one.
        collisions,
        /// Blocks that were found damaged when they were read.
        damaged_blocks,
        /// Damaged blocks whose content was written anew.
        healed_blocks,
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    if amount > 0 {
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}
