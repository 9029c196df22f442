//! Figures of `scan`. The result of a scan describes data, so most of its figures are no merits.

use gemelo_record::{Better, Stats};
use gemelo_scan::{BlockSizeResult, NatureResult, ScanResult};

/// Returns the figures. Those of a block size have the size in bytes in front.
pub(crate) fn of_scan(scan: &ScanResult) -> Stats {
    let mut figures = Stats::default();
    let ScanResult { files, effort, .. } = scan;
    let read_bytes = files.data_bytes.saturating_sub(files.hole_bytes) as f64;
    let seconds = effort.elapsed_ns as f64 / 1e9;
    figures.push("scan/files", files.files as f64, Better::Neither);
    figures.push("scan/data_bytes", files.data_bytes as f64, Better::Neither);
    figures.push("scan/elapsed_ns", effort.elapsed_ns as f64, Better::Lower);
    figures.push("scan/bytes_per_s", read_bytes / seconds, Better::Higher);
    figures.push("scan/table_bytes", effort.table_bytes as f64, Better::Lower);
    for size in &scan.block_sizes {
        add(size, &mut figures);
    }
    figures
}

fn add(size: &BlockSizeResult, figures: &mut Stats) {
    let mut push = |name: &str, value: f64| {
        figures.push(format!("{}.scan/{name}", size.block_bytes), value, Better::Neither);
    };
    push("counted_bytes", size.counted_bytes as f64);
    push("distinct_bytes", size.distinct_bytes as f64);
    push("zero_bytes", size.zero_bytes as f64);
    push("dedup_ratio", size.dedup_ratio);
    push("saved_bytes", size.saved_bytes as f64);
    push("saved_share", size.saved_share);
    push("dedup_ratio_with_zeros", size.with_zeros.dedup_ratio);
    push("saved_bytes_with_zeros", size.with_zeros.saved_bytes as f64);
    push("saved_share_with_zeros", size.with_zeros.saved_share);
    if let Some(NatureResult { overall, .. }) = &size.nature {
        push("entropy_bits", overall.entropy_bits);
        push("lz4_saved_share", overall.lz4_saved_share);
        push("zstd_saved_share", overall.zstd_saved_share);
    }
}
