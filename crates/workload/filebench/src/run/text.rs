//! Formats statistics like the original program.

use super::result::{FlowopResult, WorkloadInterval};
use std::fmt::Write;

const MB: f64 = 1024.0 * 1024.0;

/// Returns `Per-Operation Breakdown` and `IO Summary`. The last flowop comes first, as in the
/// original.
pub(super) fn breakdown(interval: &WorkloadInterval, histogram: bool) -> String {
    let mut text = String::from("Per-Operation Breakdown\n");
    for flowop in interval.flowops.iter().rev() {
        line(&mut text, flowop, histogram);
    }
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "IO Summary: {:5} ops {:5.3} ops/s {:.0}/{:.0} rd/wr {:5.1}mb/s {:5.3}ms/op",
        interval.operations,
        interval.operations_per_s,
        interval.reads_per_s,
        interval.writes_per_s,
        interval.data_bytes_per_s / MB,
        interval.mean_latency_ns / 1e6
    );
    if interval.generation_ns > 0 {
        let _ = write!(
            text,
            "\nData generation: {:.3} s of {:.3} s in {} threads, not in the latencies; \
             {:.1}mb/s over I/O time",
            interval.generation_ns as f64 / 1e9,
            interval.elapsed_s * interval.threads as f64,
            interval.threads,
            interval.data_bytes_per_io_s / MB
        );
    }
    text
}

fn line(text: &mut String, flowop: &FlowopResult, histogram: bool) {
    let _ = write!(
        text,
        "{:<20} {}ops {:8.0}ops/s {:5.1}mb/s {:8.3}ms/op [{:.3}ms - {:5.3}ms]",
        flowop.name,
        flowop.operations,
        flowop.operations_per_s,
        flowop.data_bytes_per_s / MB,
        flowop.mean_latency_ns / 1e6,
        flowop.min_latency_ns as f64 / 1e6,
        flowop.max_latency_ns as f64 / 1e6
    );
    if histogram {
        text.push_str("\t[ ");
        for count in &flowop.latency_histogram {
            let _ = write!(text, "{count} ");
        }
        text.push(']');
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flowop::Kind;
    use crate::run::cells::Stats;

    #[test]
    fn the_form_is_the_familiar_one() {
        let figures = |count, bytes, generate_ns| Stats {
            count,
            bytes,
            total_ns: count * 500_000,
            generate_ns,
            min_ns: 1_000,
            max_ns: 2_000_000,
            ..Stats::default()
        };
        let second = 1_000_000_000;
        let flowops = vec![
            FlowopResult::new(
                "readfile1",
                Kind::ReadWholeFile,
                &figures(1000, 100 << 20, 0),
                second,
            ),
            FlowopResult::new("append", Kind::AppendFile, &figures(10, 0, 0), second),
            FlowopResult::new("limit", Kind::EventLimit, &figures(7, 0, 0), second),
        ];
        let text = breakdown(&WorkloadInterval::new(flowops, second, 1), false);
        assert_eq!(
            text,
            "Per-Operation Breakdown\n\
             limit                7ops        7ops/s   0.0mb/s    0.500ms/op [0.001ms - 2.000ms]\n\
             append               10ops       10ops/s   0.0mb/s    0.500ms/op [0.001ms - 2.000ms]\n\
             readfile1            1000ops     1000ops/s 100.0mb/s    0.500ms/op [0.001ms - 2.000ms]\n\
             IO Summary:  1010 ops 1010.000 ops/s 1000/10 rd/wr 100.0mb/s 0.500ms/op"
        );
    }

    #[test]
    fn generation_is_told_apart_and_histograms_only_when_asked() {
        let figures = Stats {
            count: 1,
            bytes: 1 << 20,
            total_ns: 250_000_000,
            generate_ns: 750_000_000,
            ..Stats::default()
        };
        let flowop = FlowopResult::new("w", Kind::Write, &figures, 1_000_000_000);
        let interval = WorkloadInterval::new(vec![flowop], 1_000_000_000, 1);
        assert!((interval.data_bytes_per_io_s / MB - 4.0).abs() < 1e-9);
        let text = breakdown(&interval, true);
        assert!(text.contains("\t[ 0 0 "));
        assert!(text.contains("Data generation: 0.750 s of 1.000 s in 1 threads"), "{text}");
        assert!(text.ends_with("4.0mb/s over I/O time"));
    }
}
