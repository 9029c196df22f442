//! Figures of `pool stat`.

use gemelo_record::{Better, Stats};
use serde::Deserialize;

/// The parts of a pool's report that become figures.
#[derive(Deserialize)]
pub(crate) struct PoolView {
    pool: Pool,
    dedup_ratio: f64,
    used_share: f64,
    space: Option<Space>,
    #[serde(default)]
    volumes: Vec<Volume>,
}

#[derive(Deserialize)]
struct Volume {
    stat: VolumeStat,
}

/// The requests of the clients of a volume since the pool was opened.
#[derive(Deserialize)]
struct VolumeStat {
    written_bytes: u64,
    cow_blocks: u64,
    #[serde(default)]
    cow_shared_blocks: u64,
    #[serde(default)]
    deferred_blocks: u64,
}

#[derive(Deserialize)]
struct Pool {
    block_bytes: u64,
    logical_blocks: u64,
    physical_blocks: u64,
    used_blocks: u64,
    metadata_memory_bytes: u64,
    metadata_used_bytes: u64,
    journal_used_bytes: u64,
    volumes: u64,
    activity: Option<Activity>,
    #[serde(default)]
    finder: Finder,
    #[serde(default)]
    cache: Cache,
}

/// The work of the pool since it was opened.
#[derive(Deserialize)]
struct Activity {
    journal_bytes: u64,
    checkpoint_pages: u64,
    examined_blocks: u64,
    found_blocks: u64,
    aborted_blocks: u64,
    #[serde(default)]
    index_lookups: u64,
    #[serde(default)]
    index_batches: u64,
}

/// The work of the finder.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Finder {
    rewritten_blocks: u64,
    working_ns: u64,
    cpu_ns: u64,
    remembered: Remembered,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Remembered {
    hits: u64,
    misses: u64,
}

/// Look-ups of pages of metadata.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Cache {
    hits: u64,
    misses: u64,
}

#[derive(Deserialize)]
struct Space {
    dedup_ratio_without_snapshots: f64,
}

impl PoolView {
    pub(crate) fn figures(&self) -> Stats {
        let mut figures = Stats::default();
        let pool = &self.pool;
        let bytes = |blocks: u64| blocks as f64 * pool.block_bytes as f64;
        let metadata_bytes = pool.metadata_used_bytes.saturating_add(pool.journal_used_bytes);
        // Freed blocks may still count as used. Compressed contents share blocks.
        let data_blocks = pool.physical_blocks.min(pool.used_blocks);
        figures.push("space/data_bytes", bytes(data_blocks), Better::Lower);
        figures.push("space/metadata_bytes", metadata_bytes as f64, Better::Lower);
        figures.push("space/logical_bytes", bytes(pool.logical_blocks), Better::Neither);
        figures.push("space/dedup_ratio", self.dedup_ratio, Better::Higher);
        figures.push("space/used_share", self.used_share, Better::Lower);
        let memory = pool.metadata_memory_bytes as f64;
        figures.push("pool/metadata_memory_bytes", memory, Better::Lower);
        figures.push("pool/volumes", pool.volumes as f64, Better::Neither);
        if let Some(activity) = &pool.activity {
            let Activity { journal_bytes, checkpoint_pages, .. } = activity;
            for (name, value) in [
                ("pool/journal_bytes", journal_bytes),
                ("pool/checkpoint_pages", checkpoint_pages),
                ("finder/examined_blocks", &activity.examined_blocks),
                ("finder/found_blocks", &activity.found_blocks),
                ("finder/aborted_blocks", &activity.aborted_blocks),
                ("finder/index_lookups", &activity.index_lookups),
                ("finder/index_batches", &activity.index_batches),
            ] {
                figures.push(name, *value as f64, Better::Neither);
            }
        }
        let Pool { finder, cache, .. } = pool;
        for (name, value) in [
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
            self.volumes.iter().map(|volume| of(&volume.stat) as f64).sum()
        };
        for (name, value) in [
            ("pool/written_bytes", sum(|stat| stat.written_bytes)),
            ("pool/cow_blocks", sum(|stat| stat.cow_blocks)),
            ("pool/cow_shared_blocks", sum(|stat| stat.cow_shared_blocks)),
            ("pool/deferred_blocks", sum(|stat| stat.deferred_blocks)),
        ] {
            figures.push(name, value, Better::Neither);
        }
        if let Some(space) = &self.space {
            let ratio = space.dedup_ratio_without_snapshots;
            figures.push("space/dedup_ratio_without_snapshots", ratio, Better::Higher);
        }
        figures
    }
}
