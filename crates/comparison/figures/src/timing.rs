//! Latencies as figures and curves.

use gemelo_load::{LatencyHistogram, LatencySummary};
use gemelo_record::{Better, Curve, Stats};

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
