//! Figures of `bench` and `suite`.

use crate::prefix::{Prefixes, append};
use crate::timing::SHORTEST_SHARE;
use crate::{timing, written};
use gemelo_job::bench::BenchFile;
use gemelo_load::{
    Ended, Interval, IntervalStats, Measured, OperationStats, Phase, RunResult, Stored, Timing,
};
use gemelo_record::{Better, Series, Stats};

/// Returns the figures of all jobs of a file. With several jobs, each name has the name of its job
/// in front: `nurand-write.write/operations_per_s`.
#[must_use]
pub fn of_bench(file: &BenchFile) -> Stats {
    let mut figures = Stats::default();
    let mut prefixes = Prefixes::default();
    let names = file.input.iter().map(|input| input.name.as_str()).chain(std::iter::repeat("job"));
    for (result, name) in file.result.iter().zip(names) {
        let prefix = (file.input.len() > 1).then(|| prefixes.unique(name));
        append(&mut figures, prefix.as_deref(), of_run(result));
    }
    figures
}

/// Returns the figures of one job.
#[must_use]
pub fn of_run(result: &RunResult) -> Stats {
    let mut figures = Stats::default();
    operations(&mut figures, &result.total);
    whole_run(&mut figures, result);
    if let Some(stored) = &result.stored {
        space(&mut figures, stored);
    }
    series(&mut figures, &result.intervals);
    figures
}

fn operations(figures: &mut Stats, total: &Measured) {
    let (mut operations_per_s, mut bytes_per_s) = (0.0, 0.0);
    for (name, of_kind) in [("write", &total.writes), ("read", &total.reads)] {
        let Some(of_kind) = of_kind else { continue };
        operations_per_s += of_kind.operations_per_s;
        bytes_per_s += of_kind.bytes_per_s;
        of_operation(figures, name, of_kind);
    }
    figures.push("all/operations_per_s", operations_per_s, Better::Higher);
    figures.push("all/bytes_per_s", bytes_per_s, Better::Higher);
    if let Some(syncs) = &total.syncs {
        times(figures, "sync/latency", syncs);
    }
    figures.push("run/generating_share", total.generating_share, Better::Neither);
    if [&total.writes, &total.reads].into_iter().flatten().any(|kind| kind.service.is_some()) {
        figures.push("run/late_operations", total.late_operations as f64, Better::Lower);
        figures.push("run/missed_operations", total.missed_operations as f64, Better::Lower);
    }
}

fn of_operation(figures: &mut Stats, name: &str, of_kind: &OperationStats) {
    let OperationStats { operations, data_bytes, operations_per_s, bytes_per_s, .. } = of_kind;
    figures.push(format!("{name}/operations_per_s"), *operations_per_s, Better::Higher);
    figures.push(format!("{name}/bytes_per_s"), *bytes_per_s, Better::Higher);
    figures.push(format!("{name}/operations"), *operations as f64, Better::Neither);
    figures.push(format!("{name}/data_bytes"), *data_bytes as f64, Better::Neither);
    times(figures, &format!("{name}/latency"), &of_kind.latency);
    if let Some(service) = &of_kind.service {
        times(figures, &format!("{name}/service"), service);
    }
}

fn times(figures: &mut Stats, name: &str, timing: &Timing) {
    timing::summary(figures, name, &timing.summary);
    timing::curve(figures, name, &timing.histogram);
}

fn whole_run(figures: &mut Stats, result: &RunResult) {
    // The length of a run with a time limit is the user's choice.
    let better = if result.ended == Ended::Bytes { Better::Lower } else { Better::Neither };
    figures.push("run/elapsed_ns", result.elapsed_ns as f64, better);
    let processor_ns = result.usage.user_ns.saturating_add(result.usage.system_ns);
    let cpu_share = processor_ns as f64 / result.elapsed_ns as f64;
    figures.push("usage/cpu_share", cpu_share, Better::Lower);
    figures.push("usage/memory_bytes", result.usage.peak_memory_bytes as f64, Better::Lower);
    if let Some(populated) = &result.populated {
        let seconds = populated.elapsed_ns as f64 / 1e9;
        figures.push("populate/bytes_per_s", populated.data_bytes as f64 / seconds, Better::Higher);
    }
    if let Some(written) = &result.written {
        written::figures(figures, written);
    }
    if let Some(verification) = &result.verification {
        figures.push("verify/wrong_blocks", verification.wrong_blocks as f64, Better::Lower);
    }
}

/// Adds the space of the pool below the target.
pub(crate) fn space(figures: &mut Stats, stored: &Stored) {
    let bytes = |blocks: u64| blocks as f64 * stored.after.block_bytes as f64;
    figures.push("space/data_bytes", bytes(stored.after.data_blocks), Better::Lower);
    figures.push("space/logical_bytes", bytes(stored.after.logical_blocks), Better::Neither);
    figures.push("space/dedup_ratio", stored.after.dedup_ratio(), Better::Higher);
}

/// The choice of the reads or of the writes of an interval.
type OfKind = fn(&Interval) -> Option<IntervalStats>;

/// Adds time series of the measured part. An interval without operations has no latency.
fn series(figures: &mut Stats, intervals: &[Interval]) {
    let measured = || intervals.iter().filter(|interval| interval.phase == Phase::Measured);
    let whole_ns = measured().next().map_or(0.0, |interval| interval.length_ns as f64);
    let lasted = |interval: &&Interval| interval.length_ns as f64 >= SHORTEST_SHARE * whole_ns;
    let intervals: Vec<&Interval> = measured().filter(lasted).collect();
    let kinds: [(&str, OfKind); 2] =
        [("write", |interval| interval.writes), ("read", |interval| interval.reads)];
    for (name, of_kind) in kinds {
        if intervals.iter().all(|interval| of_kind(interval).is_none()) {
            continue;
        }
        let mut add = |quantity: &str, value: &dyn Fn(&Interval) -> Option<f64>| {
            let point = |interval: &&Interval| Some((interval.start_ns, value(interval)?));
            let is_number = |(_, value): &(u64, f64)| value.is_finite();
            let points = intervals.iter().filter_map(point).filter(is_number).collect();
            figures.series.push(Series { name: format!("{name}/{quantity}"), points });
        };
        add("operations_per_s", &|interval| {
            let operations = of_kind(interval).map_or(0, |figures| figures.operations);
            Some(operations as f64 / (interval.length_ns as f64 / 1e9))
        });
        add("bytes_per_s", &|interval| {
            Some(of_kind(interval).map_or(0.0, |figures| figures.bytes_per_s))
        });
        add("latency_mean_ns", &|interval| of_kind(interval).map(|figures| figures.mean_ns));
        add("latency_p99_ns", &|interval| of_kind(interval).map(|figures| figures.p99_ns as f64));
    }
}
