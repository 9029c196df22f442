//! Figures of `replay`.

use crate::timing::Second;
use crate::{bench, timing};
use gemelo_record::{Better, Stats};
use gemelo_replay::{ReplayResult, SecondStats};

/// Returns the figures of a replay.
#[must_use]
pub fn of_replay(result: &ReplayResult) -> Stats {
    let mut figures = Stats::default();
    let seconds = result.duration_ns as f64 / 1e9;
    let (mut operations, mut bytes) = (0.0, 0.0);
    for (name, of_kind) in [("write", &result.writes), ("read", &result.reads)] {
        if of_kind.operations == 0 {
            continue;
        }
        let counts = [of_kind.operations as f64, of_kind.data_bytes as f64];
        operations += of_kind.operations as f64;
        bytes += of_kind.data_bytes as f64;
        timing::throughput(&mut figures, name, counts, seconds);
        let latency = format!("{name}/latency");
        if let Some(summary) = &of_kind.response_summary {
            timing::summary(&mut figures, &latency, summary);
        }
        timing::curve(&mut figures, &latency, &of_kind.response_ns);
        if of_kind.service_ns != of_kind.response_ns {
            timing::curve(&mut figures, &format!("{name}/service"), &of_kind.service_ns);
        }
    }
    figures.push("all/operations_per_s", operations / seconds, Better::Higher);
    figures.push("all/bytes_per_s", bytes / seconds, Better::Higher);
    // At a set speed, the length of the trace decides on the time.
    let better = if result.lateness.is_none() { Better::Lower } else { Better::Neither };
    figures.push("run/elapsed_ns", result.duration_ns as f64, better);
    if let Some(lateness) = &result.lateness {
        figures.push("run/late_operations", lateness.late as f64, Better::Lower);
    }
    figures.push("verify/wrong_blocks", result.verification.wrong as f64, Better::Lower);
    series(&mut figures, result);
    if let Some(stored) = &result.stored {
        bench::space(&mut figures, stored);
    }
    figures
}

/// Adds the operations of each second.
fn series(figures: &mut Stats, result: &ReplayResult) {
    let second = |start_ns, length_ns, of: SecondStats| Second {
        start_ns,
        length_ns,
        operations: of.operations,
        data_bytes: of.data_bytes,
        latency_sum_ns: of.response_sum_ns,
    };
    let all = || result.seconds.iter();
    let writes = all().map(|one| second(one.start_ns, one.length_ns, one.writes));
    timing::seconds(figures, "write", &writes.collect::<Vec<_>>());
    let reads = all().map(|one| second(one.start_ns, one.length_ns, one.reads));
    timing::seconds(figures, "read", &reads.collect::<Vec<_>>());
}
