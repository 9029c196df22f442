//! Merges the results of hosts that ran one script from the same moment on, each on files of its
//! own.

use super::result::{FilesetResult, FlowopResult, WorkloadInterval, WorkloadResult};
use super::seconds;

/// The result of one run on one host.
#[derive(Debug, Clone, Copy)]
pub struct WorkloadPart<'a> {
    /// Name of the host.
    pub host: &'a str,
    /// Its result.
    pub result: &'a WorkloadResult,
}

/// Returns the result of all hosts together.
#[must_use]
pub fn merge(parts: &[WorkloadPart<'_>]) -> WorkloadResult {
    let results = || parts.iter().map(|part| part.result);
    let count = results().map(|result| result.intervals.len()).max().unwrap_or(0);
    let interval = |number: usize| {
        let all = results().filter_map(|result| result.intervals.get(number));
        merged_interval(&all.collect::<Vec<_>>())
    };
    let early = |part: &WorkloadPart<'_>| {
        let reason = part.result.ended_early.as_ref()?;
        Some(format!("host {}: {reason}", part.host))
    };
    WorkloadResult {
        filesets: parts.iter().flat_map(filesets).collect(),
        intervals: (0..count).map(interval).collect(),
        seconds: seconds::together(results().map(|result| &result.seconds[..])),
        ended_early: parts.iter().find_map(early),
        complete: !parts.is_empty() && results().all(|result| result.complete),
        stored_bytes: results().map(|result| result.stored_bytes).sum(),
    }
}

/// The filesets of a host, with its name before their paths.
fn filesets<'a>(part: &'a WorkloadPart<'_>) -> impl Iterator<Item = FilesetResult> + 'a {
    part.result.filesets.iter().map(|fileset| FilesetResult {
        path: format!("{}:{}", part.host, fileset.path),
        ..fileset.clone()
    })
}

fn merged_interval(parts: &[&WorkloadInterval]) -> WorkloadInterval {
    let elapsed_s = parts.iter().map(|part| part.elapsed_s).fold(0.0, f64::max);
    let threads = parts.iter().map(|part| part.threads).sum();
    let elapsed_ns = (elapsed_s * 1e9).round() as u64;
    let mut flowops: Vec<FlowopResult> = Vec::new();
    for part in parts {
        for (number, flowop) in part.flowops.iter().enumerate() {
            match flowops.get_mut(number) {
                Some(sum) => add(sum, flowop),
                None => flowops.push(flowop.clone()),
            }
        }
    }
    for flowop in &mut flowops {
        flowop.operations_per_s = flowop.operations as f64 / elapsed_s.max(1e-9);
        flowop.data_bytes_per_s = flowop.data_bytes as f64 / elapsed_s.max(1e-9);
    }
    WorkloadInterval::new(flowops, elapsed_ns, threads)
}

/// Adds the figures of another host. The hosts run one script, so the flowops are the same.
fn add(sum: &mut FlowopResult, more: &FlowopResult) {
    assert_eq!(sum.name, more.name, "hosts run the same script");
    sum.min_latency_ns = match (sum.operations, more.operations) {
        (0, _) => more.min_latency_ns,
        (_, 0) => sum.min_latency_ns,
        _ => sum.min_latency_ns.min(more.min_latency_ns),
    };
    sum.max_latency_ns = sum.max_latency_ns.max(more.max_latency_ns);
    sum.operations += more.operations;
    sum.data_bytes += more.data_bytes;
    sum.total_latency_ns += more.total_latency_ns;
    sum.generation_ns += more.generation_ns;
    if sum.operations > 0 {
        sum.mean_latency_ns = sum.total_latency_ns as f64 / sum.operations as f64;
    }
    for (bucket, count) in sum.latency_histogram.iter_mut().zip(&more.latency_histogram) {
        *bucket += count;
    }
}
