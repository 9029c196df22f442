//! Figures of a pool and its volumes.

use crate::counters::{PoolActivity, VolumeStat};
use crate::engine::{Engine, FinderStats, VolumeLayout, identity_of, layout_of};
use crate::error::Result;
use crate::load::LoadStat;
use gemelo_base::StatTable;
use gemelo_format::{
    COPIES, Compression, FingerprintKind, Origin, PAGE_BYTES, Policy, SnapshotId, VolumeId,
    VolumeRecord,
};
use gemelo_metadata::CacheStats;
use gemelo_store::{BufferStats, ContentCacheStats};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A volume in a list.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize, StatTable)]
#[stat(gauge)]
pub struct VolumeSummary {
    /// The record of the volume. The name of its origin is the present one if the volume that it
    /// was cloned from is still there.
    #[stat(skip)]
    #[serde(flatten)]
    pub record: VolumeRecord,
    /// The identity of a snapshot, which copies in other pools keep; [`None`] for a volume that
    /// takes writes.
    #[stat(skip)]
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub identity: Option<SnapshotId>,
    /// Blocks of the volume that hold a content.
    pub mapped_blocks: u64,
    /// Groups of 64 blocks with blocks that the finder has not examined since they were written.
    pub dirty_groups: u64,
    /// These blocks.
    pub backlog_blocks: u64,
    /// Time since the oldest of these groups was marked or looked at last.
    pub oldest_ns: u64,
    /// `true` if the finder has to examine the whole volume.
    pub is_swept: bool,
    /// The time for which the finder leaves a block alone after a write at present.
    pub delay_ns: u64,
    /// Blocks that were written again before the finder examined them.
    pub rewritten_blocks: u64,
    /// The order of the volume in the store.
    #[stat(skip)]
    pub layout: VolumeLayout,
    /// Counts of the volume's activity since the pool was opened.
    #[stat(skip)]
    pub stat: VolumeStat,
    /// Figures of the volume's load.
    #[stat(skip)]
    pub load: LoadStat,
}

/// A pool in numbers.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize, StatTable)]
#[stat(gauge)]
pub struct PoolStat {
    /// Bytes of a block.
    pub block_bytes: u32,
    /// The kind of the pool's fingerprints.
    #[stat(skip)]
    pub fingerprint: FingerprintKind,
    /// The policy of the metadata.
    #[stat(skip)]
    pub policy: Policy,
    /// The compression of new volumes: off, lz4 or zstd:LEVEL. Off for a pool that stores all
    /// contents as they are.
    #[stat(skip)]
    pub compression: Compression,
    /// References of all volumes to blocks. A block counts once for each reference.
    pub logical_blocks: u64,
    /// Contents that are stored, each of the size of a block.
    pub physical_blocks: u64,
    /// Blocks that the data store has room for.
    pub capacity_blocks: u64,
    /// Blocks of the data store that hold its header.
    pub reserved_blocks: u64,
    /// Blocks that hold contents. Compressed contents share blocks, so these may be fewer than the
    /// contents.
    pub used_blocks: u64,
    /// Blocks that are free for use at once.
    pub free_blocks: u64,
    /// Contents that are freed, and whose space is not usable yet: the change that frees them is
    /// not durable, or they are being read. Like those that are stored, each has the size of a
    /// block.
    pub pending_blocks: u64,
    /// Fingerprints in the index. With `compact`, some may be those of freed blocks.
    pub index_entries: u64,
    /// Memory of map, records and index in bytes.
    pub metadata_memory_bytes: u64,
    /// Look-ups of pages in the cache. None is a miss once everything is in memory.
    #[stat(skip)]
    pub metadata_cache: CacheStats,
    /// Length of the metadata disk in bytes.
    pub metadata_disk_bytes: u64,
    /// Bytes of the metadata disk that the newest checkpoint takes, without superblocks, roots and
    /// journal.
    pub metadata_used_bytes: u64,
    /// Bytes of the journal from the newest checkpoint to the newest commit.
    pub journal_used_bytes: u64,
    /// Length of the journal in bytes.
    pub journal_bytes: u64,
    /// The number of checkpoints since the pool was made.
    pub generation: u64,
    /// The number of volumes.
    pub volumes: u64,
    /// The reason why the pool takes no changes any more; [`None`] for one that has not stopped.
    #[stat(skip)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Figures of the write buffer since the pool was opened.
    #[stat(skip)]
    pub write_buffer: BufferStats,
    /// Figures of the cache of contents since the pool was opened.
    #[stat(skip)]
    pub content_cache: ContentCacheStats,
    /// Figures of the finder since the pool was opened.
    #[stat(skip)]
    pub finder: FinderStats,
    /// Counts of the pool's activity since it was opened.
    #[stat(skip)]
    pub activity: PoolActivity,
}

impl PoolStat {
    /// Blocks of the data store that take the contents to which volumes refer. Where contents share
    /// blocks, those that are freed and not usable yet count with the mean size.
    #[must_use]
    pub fn data_blocks(&self) -> u64 {
        let stored = u128::from(self.physical_blocks);
        let all = stored + u128::from(self.pending_blocks);
        let blocks = (u128::from(self.used_blocks) * stored).checked_div(all).unwrap_or(0);
        u64::try_from(blocks).unwrap_or(self.used_blocks)
    }

    /// Logical blocks / physical blocks; 1 for an empty pool.
    #[must_use]
    pub fn dedup_ratio(&self) -> f64 {
        if self.physical_blocks == 0 {
            1.0
        } else {
            self.logical_blocks as f64 / self.physical_blocks as f64
        }
    }
}

/// Returns all volumes, by name.
pub(super) fn summaries(engine: &Engine) -> Vec<VolumeSummary> {
    let records: Vec<(u64, VolumeRecord)> = {
        let state = engine.log.read();
        let all = state.backend().volumes().into_iter();
        let mapped_blocks = |record: &VolumeRecord| state.backend().mapped_blocks(record.id);
        all.map(|record| (mapped_blocks(&record), record)).collect()
    };
    let names: BTreeMap<VolumeId, String> =
        records.iter().map(|(_, record)| (record.id, record.name.clone())).collect();
    let (live, now_ns) = (engine.catalogue.all(), engine.clock.now_ns());
    let summary = |(mapped_blocks, mut record): (u64, VolumeRecord)| {
        if let Origin::Clone { volume, name } = &mut record.birth.origin
            && let Some(present) = names.get(volume)
        {
            name.clone_from(present);
        }
        let shared = live.get(&record.name);
        let backlog = shared.map(|volume| volume.backlog()).unwrap_or_default();
        VolumeSummary {
            identity: identity_of(&engine.superblock, &record),
            layout: shared
                .map(|volume| layout_of(&engine.log, engine.superblock.store, volume))
                .unwrap_or_default(),
            dirty_groups: backlog.groups,
            backlog_blocks: backlog.blocks,
            oldest_ns: backlog.oldest_ns.map_or(0, |at_ns| now_ns.saturating_sub(at_ns)),
            is_swept: backlog.is_swept,
            delay_ns: backlog.delay_ns,
            rewritten_blocks: backlog.rewritten_blocks,
            stat: shared.map(|volume| volume.counters().read()).unwrap_or_default(),
            load: shared.map(|volume| volume.load().read()).unwrap_or_default(),
            record,
            mapped_blocks,
        }
    };
    let is_shown = |record: &VolumeRecord| !record.is_hidden && !record.is_unfinished();
    let shown = records.into_iter().filter(|(_, record)| is_shown(record));
    let mut list: Vec<VolumeSummary> = shown.map(summary).collect();
    list.sort_by(|a, b| a.record.name.cmp(&b.record.name));
    list
}

/// Returns the figures of the pool.
pub(super) fn stat_of(engine: &Engine) -> Result<PoolStat> {
    let journal = engine.log.journal_figures();
    let (policy, totals) = {
        let state = engine.log.read();
        (state.backend().policy(), state.backend().totals())
    };
    let free_blocks = engine.data.allocator.free_blocks();
    let reserved_blocks = engine.superblock.reserved_blocks();
    assert!(totals.data_blocks >= reserved_blocks, "the data store has its reserved blocks");
    let in_use = engine.contents_in_use();
    let capacity_blocks = totals.data_blocks - reserved_blocks;
    let used_blocks = capacity_blocks.saturating_sub(free_blocks);
    Ok(PoolStat {
        block_bytes: engine.superblock.block_bytes,
        fingerprint: engine.superblock.fingerprint,
        policy,
        compression: engine.superblock.store.compression(),
        metadata_cache: totals.cache,
        logical_blocks: totals.references,
        physical_blocks: totals.physical,
        capacity_blocks,
        reserved_blocks,
        used_blocks,
        free_blocks,
        pending_blocks: in_use.saturating_sub(totals.physical),
        index_entries: totals.index_entries,
        metadata_memory_bytes: totals.memory_bytes,
        metadata_disk_bytes: engine.log.disk_bytes()?,
        metadata_used_bytes: COPIES as u64 * totals.pages * PAGE_BYTES as u64,
        journal_used_bytes: COPIES as u64 * journal.used_bytes,
        journal_bytes: COPIES as u64 * journal.ring_bytes,
        generation: journal.generation,
        volumes: engine.catalogue.len() as u64,
        stopped: engine.health.stop_reason().map(|reason| reason.to_string()),
        write_buffer: engine.data.buffer_figures(),
        content_cache: engine.data.content_cache_figures(),
        finder: engine.finder.figures(),
        activity: engine.counters.read(),
    })
}
