//! Figures of `pool stat`.

use gemelo_record::{Better, Figures};
use serde::Deserialize;

/// The parts of a pool's report that become figures.
#[derive(Deserialize)]
pub(crate) struct PoolView {
    pool: Pool,
    dedup_ratio: f64,
    used_share: f64,
    space: Option<Space>,
}

#[derive(Deserialize)]
struct Pool {
    block_bytes: u64,
    logical_blocks: u64,
    physical_blocks: u64,
    metadata_memory_bytes: u64,
    metadata_used_bytes: u64,
    journal_used_bytes: u64,
    volumes: u64,
}

#[derive(Deserialize)]
struct Space {
    dedup_ratio_without_snapshots: f64,
}

impl PoolView {
    pub(crate) fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        let pool = &self.pool;
        let bytes = |blocks: u64| blocks as f64 * pool.block_bytes as f64;
        let metadata_bytes = pool.metadata_used_bytes.saturating_add(pool.journal_used_bytes);
        figures.push("space/data_bytes", bytes(pool.physical_blocks), Better::Lower);
        figures.push("space/metadata_bytes", metadata_bytes as f64, Better::Lower);
        figures.push("space/logical_bytes", bytes(pool.logical_blocks), Better::Neither);
        figures.push("space/dedup_ratio", self.dedup_ratio, Better::Higher);
        figures.push("space/used_share", self.used_share, Better::Lower);
        figures.push("usage/memory_bytes", pool.metadata_memory_bytes as f64, Better::Lower);
        figures.push("pool/volumes", pool.volumes as f64, Better::Neither);
        if let Some(space) = &self.space {
            let ratio = space.dedup_ratio_without_snapshots;
            figures.push("space/dedup_ratio_without_snapshots", ratio, Better::Higher);
        }
        figures
    }
}
