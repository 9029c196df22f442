//! Counters of the activity of a volume and of a pool. They are the only source of statistics.

use gemelo_base::StatTable;
use schemars::JsonSchema;
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
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize, StatTable,
        )]
        #[stat(counter)]
        pub struct $stat {
            $($(#[$doc])* pub $name: u64),*
        }

        impl $live {
            pub(crate) fn read(&self) -> $stat {
                $stat { $($name: self.$name.load(Ordering::Relaxed)),* }
            }
        }

        impl $stat {
            /// Adds the counts of another one.
            #[allow(dead_code, reason = "only the counts of volumes are summed")]
            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    VolumeCounters,
    /// Counts of the activity of a volume since the pool was opened.
    VolumeStat {
        /// Read requests.
        reads,
        /// Bytes read.
        read_bytes,
        /// Write requests.
        writes,
        /// Bytes written.
        written_bytes,
        /// Blocks written that got a PBN of their own.
        unique_blocks,
        /// Blocks written that were shared.
        duplicate_blocks,
        /// Blocks overwritten with the content they had.
        unchanged_blocks,
        /// Blocks written with zeros only.
        zero_blocks,
        /// Unique blocks that replaced a block: copies on write.
        cow_blocks,
        /// Overwritten blocks that other LBNs still refer to, so that the write had to go elsewhere
        /// in every design: the copies on write of a store that writes in place.
        cow_shared_blocks,
        /// Blocks of an in-line volume that were stored without a look-up and left to the finder,
        /// because the write buffer was full.
        deferred_blocks,
        /// Trim and write-zeroes requests.
        trims,
        /// LBNs unmapped by trim and write-zeroes requests.
        trimmed_blocks,
        /// Blocks written in part, which are read first.
        patched_blocks,
        /// Partial writes of a block that were repeated, because another write changed the block
        /// meanwhile.
        patch_retries,
        /// Flush requests, and writes with immediate durability.
        flushes,
        /// Requests that failed.
        failed_requests,
        /// Batches of requests that waited for the rates of the volume, or of all volumes.
        paced_batches,
        /// Time that they waited.
        paced_ns,
        /// Blocks that the finder has looked at.
        examined_blocks,
        /// Blocks of these whose content was known, so that their own copy was freed.
        found_blocks,
        /// Blocks of these whose content became known to the index.
        identified_blocks,
        /// Blocks of these that a write replaced meanwhile, or that could not be read.
        aborted_blocks,
        /// Fingerprints of these that the finder has looked up in the index.
        index_lookups,
        /// Lists in which it has looked them up.
        index_batches,
    }
}

counters! {
    PoolCounters,
    /// Counts of the activity of a pool since it was opened.
    PoolActivity {
        /// Commits written to the journal.
        commits,
        /// Bytes of the commits written to the journal.
        journal_bytes,
        /// Commits of these that carry contents, so that a flush needed no sync of the data store.
        journal_data_commits,
        /// Bytes of the contents that they carry.
        journal_data_bytes,
        /// Checkpoints that succeeded.
        checkpoints,
        /// Pages written by checkpoints.
        checkpoint_pages,
        /// Checkpoints that failed.
        failed_checkpoints,
        /// Blocks given back by the collector to the system.
        discarded_blocks,
        /// Blocks of off-line volumes that the finder has looked at.
        examined_blocks,
        /// Examined blocks whose content was known, so that their own copy was freed.
        found_blocks,
        /// Examined blocks whose content became known to the index.
        identified_blocks,
        /// Examined blocks that a write replaced meanwhile, or that could not be read.
        aborted_blocks,
        /// Fingerprints that the finder has looked up in the index.
        index_lookups,
        /// Lists in which it has looked them up.
        index_batches,
        /// Blocks that were moved, so that neighbours in a volume are neighbours in the store.
        arranged_blocks,
        /// Blocks that were read to be moved and then left where they are, because a request
        /// changed them meanwhile, or because they could not be read or written.
        arrange_overtaken_blocks,
        /// Bytes that new contents took in a store that compresses, before the cleaner moved any.
        packed_bytes,
        /// Blocks that the cleaner has emptied.
        cleaned_blocks,
        /// Contents that it has moved out of them.
        cleaner_moved_blocks,
        /// Bytes that these took where it wrote them again.
        cleaner_moved_bytes,
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
