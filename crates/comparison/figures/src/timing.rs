//! Latencies as figures and curves.

use gemelo_load::{LatencyHistogram, LatencySummary};
use gemelo_record::{Better, Curve, Series, Stats};

/// The percentiles that become figures, with the words of their names.
const PERCENTILES: [(f64, &str); 5] =
    [(50.0, "p50"), (90.0, "p90"), (99.0, "p99"), (99.9, "p99.9"), (99.99, "p99.99")];

/// Adds mean, percentiles and maximum of the times `name`, such as `write/latency`.
pub(crate) fn summary(figures: &mut Stats, name: &str, summary: &LatencySummary) {
    figures.push(format!("{name}_mean_ns"), summary.mean_ns, Better::Lower);
    for (percent, word) in PERCENTILES {
        if let Some(latency_ns) = summary.percentile_ns(percent) {
            figures.push(format!("{name}_{word}_ns"), latency_ns as f64, Better::Lower);
        }
    }
    figures.push(format!("{name}_max_ns"), summary.max_ns as f64, Better::Lower);
}

/// Adds the distribution of the times `name`.
pub(crate) fn curve(figures: &mut Stats, name: &str, histogram: &LatencyHistogram) {
    if !histogram.counts.is_empty() {
        let curve = Curve { name: format!("{name}_ns"), counts: histogram.counts.clone() };
        figures.curves.push(curve);
    }
}

/// Adds operations and bytes of an operation such as `write`, each in all and a second.
pub(crate) fn throughput(figures: &mut Stats, name: &str, counts: [f64; 2], seconds: f64) {
    let [operations, bytes] = counts;
    figures.push(format!("{name}/operations_per_s"), operations / seconds, Better::Higher);
    figures.push(format!("{name}/bytes_per_s"), bytes / seconds, Better::Higher);
    figures.push(format!("{name}/operations"), operations, Better::Neither);
    figures.push(format!("{name}/data_bytes"), bytes, Better::Neither);
}

/// The share of the length of the first interval that another must have to be part of a time
/// series: the values of short rests are not comparable with the others.
pub(crate) const SHORTEST_SHARE: f64 = 0.5;

/// The operations of a second of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Second {
    pub(crate) start_ns: u64,
    pub(crate) length_ns: u64,
    pub(crate) operations: u64,
    pub(crate) data_bytes: u64,
    pub(crate) latency_sum_ns: u64,
}

/// Adds time series of an operation such as `write`, unless there was none. A second without
/// operations has no latency.
pub(crate) fn seconds(figures: &mut Stats, name: &str, seconds: &[Second]) {
    if seconds.iter().all(|second| second.operations == 0) {
        return;
    }
    let whole = seconds.iter().filter(|second| second.length_ns as f64 >= SHORTEST_SHARE * 1e9);
    let mut add = |quantity: &str, value: &dyn Fn(&Second) -> f64| {
        let points = whole.clone().map(|second| (second.start_ns, value(second)));
        let points = points.filter(|(_, value)| value.is_finite()).collect();
        figures.series.push(Series { name: format!("{name}/{quantity}"), points });
    };
    let per_s = |count: u64, second: &Second| count as f64 / (second.length_ns as f64 / 1e9);
    add("operations_per_s", &|second| per_s(second.operations, second));
    add("bytes_per_s", &|second| per_s(second.data_bytes, second));
    add("latency_mean_ns", &|second| second.latency_sum_ns as f64 / second.operations as f64);
}
