//! Figures of `scan`. The result of a scan describes data, so most of its figures are no merits.

use gemelo_record::{Better, Stats};
use serde::Deserialize;

/// The parts of a scan's result that become figures.
#[derive(Deserialize)]
pub(crate) struct ScanView {
    partial: bool,
    files: Files,
    effort: Effort,
    block_sizes: Vec<BlockSize>,
}

#[derive(Deserialize)]
struct Files {
    files: u64,
    data_bytes: u64,
    hole_bytes: u64,
}

#[derive(Deserialize)]
struct Effort {
    elapsed_ns: u64,
    table_bytes: u64,
}

#[derive(Deserialize)]
struct BlockSize {
    block_bytes: u64,
    counted_bytes: u64,
    zero_bytes: u64,
    distinct_bytes: u64,
    dedup_ratio: f64,
    saved_bytes: u64,
    saved_share: f64,
    with_zeros: WithZeros,
    nature: Option<Nature>,
}

#[derive(Deserialize)]
struct WithZeros {
    dedup_ratio: f64,
    saved_bytes: u64,
    saved_share: f64,
}

#[derive(Deserialize)]
struct Nature {
    overall: Overall,
}

#[derive(Deserialize)]
struct Overall {
    entropy_bits: f64,
    lz4_saved_share: f64,
    zstd_saved_share: f64,
}

impl ScanView {
    /// Returns whether the scan covered all data.
    pub(crate) fn is_complete(&self) -> bool {
        !self.partial
    }

    /// Returns the figures. Those of a block size have the size in bytes in front.
    pub(crate) fn figures(&self) -> Stats {
        let mut figures = Stats::default();
        let Self { files, effort, .. } = self;
        let read_bytes = files.data_bytes.saturating_sub(files.hole_bytes) as f64;
        let seconds = effort.elapsed_ns as f64 / 1e9;
        figures.push("scan/files", files.files as f64, Better::Neither);
        figures.push("scan/data_bytes", files.data_bytes as f64, Better::Neither);
        figures.push("scan/elapsed_ns", effort.elapsed_ns as f64, Better::Lower);
        figures.push("scan/bytes_per_s", read_bytes / seconds, Better::Higher);
        figures.push("scan/table_bytes", effort.table_bytes as f64, Better::Lower);
        for size in &self.block_sizes {
            size.add_to(&mut figures);
        }
        figures
    }
}

impl BlockSize {
    fn add_to(&self, figures: &mut Stats) {
        let mut push = |name: &str, value: f64| {
            figures.push(format!("{}.scan/{name}", self.block_bytes), value, Better::Neither);
        };
        push("counted_bytes", self.counted_bytes as f64);
        push("distinct_bytes", self.distinct_bytes as f64);
        push("zero_bytes", self.zero_bytes as f64);
        push("dedup_ratio", self.dedup_ratio);
        push("saved_bytes", self.saved_bytes as f64);
        push("saved_share", self.saved_share);
        push("dedup_ratio_with_zeros", self.with_zeros.dedup_ratio);
        push("saved_bytes_with_zeros", self.with_zeros.saved_bytes as f64);
        push("saved_share_with_zeros", self.with_zeros.saved_share);
        if let Some(Nature { overall }) = &self.nature {
            push("entropy_bits", overall.entropy_bits);
            push("lz4_saved_share", overall.lz4_saved_share);
            push("zstd_saved_share", overall.zstd_saved_share);
        }
    }
}
