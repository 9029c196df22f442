//! Figures of `pool stat`.

use gemelo_record::{Better, Stats};
use gemelo_serve::PoolFigures;
use gemelo_volume::{PoolStat, VolumeStat};

/// Returns the figures of a pool, of the finder, and of the requests of its clients.
pub(crate) fn of_pool(figures_of_pool: &PoolFigures) -> Stats {
    let PoolFigures { report, space } = figures_of_pool;
    let mut figures = Stats::default();
    let pool = &report.pool;
    let bytes = |blocks: u64| blocks as f64 * f64::from(pool.block_bytes);
    let metadata_bytes = pool.metadata_used_bytes.saturating_add(pool.journal_used_bytes);
    figures.push("space/data_bytes", bytes(pool.data_blocks()), Better::Lower);
    figures.push("space/metadata_bytes", metadata_bytes as f64, Better::Lower);
    figures.push("space/logical_bytes", bytes(pool.logical_blocks), Better::Neither);
    figures.push("space/dedup_ratio", report.dedup_ratio, Better::Higher);
    figures.push("space/used_share", report.used_share, Better::Lower);
    let memory = pool.metadata_memory_bytes as f64;
    figures.push("pool/metadata_memory_bytes", memory, Better::Lower);
    figures.push("pool/volumes", pool.volumes as f64, Better::Neither);
    let PoolStat { activity, finder, metadata_cache: cache, .. } = pool;
    for (name, value) in [
        ("pool/journal_bytes", activity.journal_bytes),
        ("pool/checkpoint_pages", activity.checkpoint_pages),
        ("finder/examined_blocks", activity.examined_blocks),
        ("finder/found_blocks", activity.found_blocks),
        ("finder/aborted_blocks", activity.aborted_blocks),
        ("finder/index_lookups", activity.index_lookups),
        ("finder/index_batches", activity.index_batches),
        ("finder/rewritten_blocks", finder.rewritten_blocks),
        ("finder/working_ns", finder.working_ns),
        ("finder/cpu_ns", finder.cpu_ns),
        ("finder/fingerprint_hits", finder.remembered.hits),
        ("finder/fingerprint_misses", finder.remembered.misses),
        ("pool/cache_hits", cache.hits),
        ("pool/cache_misses", cache.misses),
    ] {
        figures.push(name, value as f64, Better::Neither);
    }
    let sum = |of: fn(&VolumeStat) -> u64| -> f64 {
        report.volumes.iter().map(|volume| of(&volume.summary.stat) as f64).sum()
    };
    for (name, value) in [
        ("pool/written_bytes", sum(|stat| stat.written_bytes)),
        ("pool/cow_blocks", sum(|stat| stat.cow_blocks)),
        ("pool/cow_shared_blocks", sum(|stat| stat.cow_shared_blocks)),
        ("pool/deferred_blocks", sum(|stat| stat.deferred_blocks)),
    ] {
        figures.push(name, value, Better::Neither);
    }
    if let Some(space) = space {
        let ratio = space.dedup_ratio_without_snapshots;
        figures.push("space/dedup_ratio_without_snapshots", ratio, Better::Higher);
    }
    figures
}
