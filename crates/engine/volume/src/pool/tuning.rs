//! Settings of an open pool.

use crate::engine::{FinderTuning, InlineOverload, LayoutTuning};
use gemelo_disk::{IoMode, SystemCache};
use gemelo_metadata::{CacheSize, IndexSampling};
use std::time::Duration;

/// Settings of an open pool. They are not stored on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// The longest time until a change is made durable without a flush.
    pub commit_interval: Duration,
    /// `true` if every read compares contents with their checksums.
    pub verify_reads: bool,
    /// `true` if bytes are compared before a block is shared, with every kind of fingerprint.
    pub verify_bytes: bool,
    /// `true` if the pool takes no changes, because it is damaged or only inspected.
    pub read_only: bool,
    /// The most references to a block. Beyond it a content gets a fresh copy.
    pub max_references: u32,
    /// Memory in bytes for pages and changes of the metadata: at least 64 KiB. It does not include
    /// an index in memory. With [`None`], it is what the metadata need, up to a part of the memory
    /// of the process.
    pub cache_bytes: Option<u64>,
    /// The contents that an index in memory has. Of the others, it finds those that
    /// were written beside them.
    pub index_sampling: IndexSampling,
    /// The most pages of the metadata that an opening after a crash may have to read for the
    /// journal. Half of them ask for a checkpoint, and all make writers wait
    /// for it.
    pub max_replay_reads: u64,
    /// `true` if commits, checkpoints and the search for duplicates run in the background.
    /// Otherwise each runs only when it is asked for or a request needs it.
    pub background: bool,
    /// The settings of the finder.
    pub finder: FinderTuning,
    /// The policy for blocks of in-line volumes while the write buffer is full.
    pub inline_overload: InlineOverload,
    /// The most freed bytes per second that the background gives back to the system; 0 for none.
    pub collect_bytes_per_s: u64,
    /// The way in which contents are written. Only a pool that is opened by its directory follows
    /// it.
    pub io: IoMode,
    /// Most bytes of memory for contents that are acknowledged and not written yet. The memory
    /// grows as it is needed.
    pub write_buffer_bytes: u64,
    /// Most bytes of memory for contents that were written lately, and for those that are read
    /// often where the system keeps none of these; 0 for none. With [`None`], there are 256 MiB, or
    /// none where the system keeps what was written. It is taken step by step once it is used. A
    /// pool that takes no changes has none.
    pub content_cache_bytes: Option<u64>,
    /// Most bytes of new contents that a flush writes into the journal instead of syncing the data
    /// store; 0 for none, [`None`] for as many as suit the disk.
    pub max_journal_data_bytes: Option<u64>,
    /// Threads that write these contents, each a run of up to 1 MiB at a time.
    pub write_threads: usize,
    /// The settings of the arranger.
    pub layout: LayoutTuning,
}

/// Settings of a volume of an open pool. Its record has the mode and the compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeTuning {
    /// As [`FinderTuning::delay`].
    pub finder_delay: Duration,
    /// As [`FinderTuning::max_delay`].
    pub finder_max_delay: Duration,
    /// `true` if bytes are compared before a block is shared by a write to this volume.
    pub verify_bytes: bool,
    /// `true` if the finder remembers fingerprints of contents while they are written here.
    pub remembers_fingerprints: bool,
    /// `true` if blocks may be left to the finder while the volume is in-line. It does not change
    /// in an open pool.
    pub takes_deferred: bool,
}

/// Bytes of the cache of contents, unless they are set.
const CONTENT_CACHE_BYTES: u64 = 256 << 20;

/// Memory of a process that has a pool for one copy. What a copy reads and writes, it reads and
/// writes once, so more would not make it faster.
const COPY_METADATA_CACHE_BYTES: u64 = 16 << 20;
/// The same for contents that were written lately.
const COPY_CONTENT_CACHE_BYTES: u64 = 4 << 20;
/// The same for contents that are not written yet.
const COPY_WRITE_BUFFER_BYTES: u64 = 8 << 20;

/// Four seconds of a disk that reads 20,000 pages a second at random.
const MAX_REPLAY_READS: u64 = 80_000;

impl Default for Tuning {
    fn default() -> Self {
        Self {
            commit_interval: Duration::from_secs(5),
            verify_reads: true,
            verify_bytes: false,
            read_only: false,
            max_references: u32::MAX,
            cache_bytes: None,
            index_sampling: IndexSampling::ALL,
            max_replay_reads: MAX_REPLAY_READS,
            background: true,
            finder: FinderTuning::default(),
            inline_overload: InlineOverload::default(),
            collect_bytes_per_s: 64 << 20,
            io: IoMode::Direct,
            write_buffer_bytes: 64 << 20,
            content_cache_bytes: None,
            max_journal_data_bytes: None,
            // Direct writes of 1 MiB reach 1.1 GB/s with one thread on a virtual disk that reaches
            // 1.7 GB/s with four.
            write_threads: 4,
            layout: LayoutTuning::default(),
        }
    }
}

impl Tuning {
    /// The size of the cache of the metadata.
    #[must_use]
    pub fn metadata_cache(&self) -> CacheSize {
        self.cache_bytes.map_or_else(CacheSize::default, CacheSize::Given)
    }

    /// Bytes of the cache of contents over a disk with this cache of the system.
    pub(crate) fn content_cache_bytes(&self, system: SystemCache) -> u64 {
        let usual = if system.keeps_written { 0 } else { CONTENT_CACHE_BYTES };
        self.content_cache_bytes.unwrap_or(usual)
    }

    /// The settings of a process that has the pool for one copy: with little memory, whatever a
    /// server may have.
    #[must_use]
    pub fn for_copy(self) -> Self {
        let at_most = |set: Option<u64>, most: u64| set.map_or(most, |bytes| bytes.min(most));
        Self {
            cache_bytes: Some(at_most(self.cache_bytes, COPY_METADATA_CACHE_BYTES)),
            content_cache_bytes: Some(at_most(self.content_cache_bytes, COPY_CONTENT_CACHE_BYTES)),
            write_buffer_bytes: self.write_buffer_bytes.min(COPY_WRITE_BUFFER_BYTES),
            finder: FinderTuning { memory_bytes: 0, ..self.finder },
            ..self
        }
    }

    /// The settings of a volume that has none of its own.
    #[must_use]
    pub fn volume_tuning(&self) -> VolumeTuning {
        VolumeTuning {
            finder_delay: self.finder.delay,
            finder_max_delay: self.finder.max_delay,
            verify_bytes: self.verify_bytes,
            remembers_fingerprints: true,
            takes_deferred: self.inline_overload == InlineOverload::Defer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_copy_takes_no_more_than_it_needs_and_no_more_than_it_may() {
        let large = Tuning {
            cache_bytes: Some(512 * MIB),
            content_cache_bytes: Some(512 * MIB),
            write_buffer_bytes: 512 * MIB,
            ..Tuning::default()
        };
        let small = Tuning {
            cache_bytes: Some(MIB),
            content_cache_bytes: Some(0),
            write_buffer_bytes: MIB,
            ..Tuning::default()
        };
        let bytes = |tuning: Tuning| {
            let tuning = tuning.for_copy();
            assert_eq!(tuning.finder.memory_bytes, 0);
            [
                tuning.cache_bytes.unwrap(),
                tuning.content_cache_bytes.unwrap(),
                tuning.write_buffer_bytes,
            ]
        };
        let most = [16, 4, 8].map(|mib| mib * MIB);
        assert_eq!((bytes(large), bytes(Tuning::default())), (most, most));
        assert_eq!(bytes(small), [MIB, 0, MIB]);
    }
}
