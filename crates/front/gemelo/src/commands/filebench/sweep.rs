//! The results of a sweep as a table.

use crate::table::Table;
use gemelo_base::units::format_size;
use gemelo_job::filebench::Point;

/// Returns a table with the rates, the latency and the stored bytes for each value.
pub(super) fn table(name: &str, points: &[Point]) -> String {
    let mut table = Table::new();
    table.row([
        name,
        "ops/s",
        "MB/s",
        "MB/s over I/O time",
        "ms/op",
        "generation",
        "written",
        "stored",
    ]);
    for point in points {
        let value = point.value.clone().unwrap_or_default();
        for run in &point.runs {
            let Some(last) = run.intervals.last() else { continue };
            let made: u64 = run.filesets.iter().map(|fileset| fileset.written_bytes).sum();
            let written: u64 = last
                .flowops
                .iter()
                .filter(|flowop| flowop.writes)
                .map(|flowop| flowop.data_bytes)
                .sum();
            let busy_ns = last.elapsed_s * 1e9 * last.threads as f64;
            table.row([
                value.clone(),
                format!("{:.0}", last.operations_per_s),
                format!("{:.1}", last.data_bytes_per_s / 1e6),
                format!("{:.1}", last.data_bytes_per_io_s / 1e6),
                format!("{:.3}", last.mean_latency_ns / 1e6),
                format!("{:.1} %", last.generation_ns as f64 / busy_ns.max(1.0) * 100.0),
                format_size(made + written),
                run.stored_bytes
                    .map_or_else(|| "?".to_owned(), |bytes| format_size(bytes.max(0) as u64)),
            ]);
        }
    }
    table.render(0)
}
