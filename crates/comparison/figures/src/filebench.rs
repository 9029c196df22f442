//! Figures of `filebench`.

use crate::prefix::{Prefixes, append, plain};
use crate::timing::{self, Second};
use gemelo_filebench::WorkloadResult;
use gemelo_filebench::run::RunSecond;
use gemelo_job::filebench::{FilebenchFile, Point};
use gemelo_record::{Better, Curve, Stats};
use std::collections::BTreeMap;

/// Returns the figures of all runs of a file. A sweep has its variable and the value in front of
/// each name: `entropy=5.filebench/operations_per_s`.
#[must_use]
pub fn of_filebench(file: &FilebenchFile) -> Stats {
    let mut figures = Stats::default();
    for point in &file.result {
        let sweep = file.input.sweep.as_deref().zip(point.value.as_deref());
        let prefix = sweep.map(|(name, value)| plain(&format!("{name}={value}")));
        append(&mut figures, prefix.as_deref(), of_point(point));
    }
    figures
}

fn of_point(point: &Point) -> Stats {
    let mut figures = Stats::default();
    for (run, number) in point.runs.iter().zip(1_u32..) {
        let prefix = (point.runs.len() > 1).then(|| format!("run{number}"));
        append(&mut figures, prefix.as_deref(), of_workload(run));
    }
    figures
}

/// Returns the figures of one run, from the statistics at its end.
fn of_workload(run: &WorkloadResult) -> Stats {
    let mut figures = Stats::default();
    let Some(end) = run.intervals.last() else { return figures };
    figures.push("filebench/operations_per_s", end.operations_per_s, Better::Higher);
    figures.push("filebench/bytes_per_s", end.data_bytes_per_s, Better::Higher);
    figures.push("filebench/bytes_per_io_s", end.data_bytes_per_io_s, Better::Higher);
    if end.generation_ns > 0 {
        // The speed of the data source alone.
        let bytes_per_s = end.data_bytes as f64 / (end.generation_ns as f64 / 1e9);
        figures.push("filebench/generated_bytes_per_s", bytes_per_s, Better::Higher);
    }
    if end.operations > 0 {
        figures.push("filebench/latency_mean_ns", end.mean_latency_ns, Better::Lower);
    }
    figures.push("filebench/operations", end.operations as f64, Better::Neither);
    figures.push("filebench/data_bytes", end.data_bytes as f64, Better::Neither);
    for (name, per_s) in [("read", end.reads_per_s), ("write", end.writes_per_s)] {
        if per_s > 0.0 {
            figures.push(format!("{name}/operations_per_s"), per_s, Better::Higher);
        }
    }
    figures.push("run/elapsed_ns", end.elapsed_s * 1e9, Better::Neither);
    if let Some(stored_bytes) = run.stored_bytes {
        figures.push("space/data_bytes", stored_bytes as f64, Better::Lower);
    }
    let second = |one: &RunSecond| Second {
        start_ns: one.start_ns,
        length_ns: one.length_ns,
        operations: one.operations,
        data_bytes: one.data_bytes,
        latency_sum_ns: one.latency_sum_ns,
    };
    let seconds: Vec<Second> = run.seconds.iter().map(second).collect();
    timing::seconds(&mut figures, "filebench", &seconds);
    let mut all = BTreeMap::new();
    let mut prefixes = Prefixes::default();
    for flowop in end.flowops.iter().filter(|flowop| flowop.is_io && flowop.operations > 0) {
        let name = format!("flowop-{}", prefixes.unique(&flowop.name));
        figures.push(format!("{name}/operations_per_s"), flowop.operations_per_s, Better::Higher);
        figures.push(format!("{name}/latency_mean_ns"), flowop.mean_latency_ns, Better::Lower);
        for (place, count) in flowop.latency_histogram.iter().enumerate() {
            let all: &mut u64 = all.entry(highest_ns(place)).or_insert(0);
            *all = all.saturating_add(*count);
        }
    }
    let counts: Vec<[u64; 2]> =
        all.into_iter().filter(|(_, count)| *count > 0).map(|(ns, count)| [ns, count]).collect();
    if !counts.is_empty() {
        figures.curves.push(Curve { name: "filebench/latency_ns".to_owned(), counts });
    }
    figures
}

/// The highest latency of a place of the histogram, whose steps are powers of two.
fn highest_ns(place: usize) -> u64 {
    let power = u32::try_from(place).ok().and_then(|place| 1_u64.checked_shl(place));
    power.map_or(u64::MAX, |power| power - 1)
}
