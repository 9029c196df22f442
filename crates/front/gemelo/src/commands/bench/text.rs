//! The result of a run as text.

use crate::stored::stored_text;
use crate::table::Table;
use gemelo_base::units::{
    format_count, format_counted, format_counted_as, format_duration_ns, format_rate, format_size,
};
use gemelo_content::{Distribution, ScaledDistribution};
use gemelo_job::bench::JobInput;
use gemelo_load::{
    Ended, Measured, OperationStats, Pace, RunResult, Timing, Verification, WrittenDistribution,
};
use std::fmt::Write as _;

/// Percentiles that the text shows. The result file has more.
const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

/// Returns a job that has not run.
pub(crate) fn plan(input: &JobInput) -> String {
    format!("{}: {}\n  {:<12}{}\n", input.name, load(input), "target", input.target)
}

/// Returns the result of one job.
pub(crate) fn job(input: &JobInput, result: &RunResult) -> String {
    let mut text = format!("{}: {}\n", input.name, load(input));
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<12}{value}");
    };
    line("target", input.target.to_string());
    if let Some(populated) = &result.populated {
        let rate = populated.data_bytes as f64 * 1e9 / (populated.elapsed_ns.max(1)) as f64;
        let (size, time) =
            (format_size(populated.data_bytes), format_duration_ns(populated.elapsed_ns));
        line("populated", format!("{size} in {time}, {}", format_rate(rate)));
    }
    line("ended", ended(input, result));
    let figures = [("reads", &result.total.reads), ("writes", &result.total.writes)];
    for (name, figures) in figures {
        if let Some(figures) = figures {
            line(name, throughput(figures));
        }
    }
    line("generating", generating(&result.total, result.processes.len()));
    line("processor", usage(result));
    text += &latencies(&result.total, input.job.pace);
    if let Some(written) = &result.written {
        text += &written_text(input, written);
    }
    if let Some(stored) = &result.stored {
        text += &stored_text(stored);
    }
    if let Some(verification) = &result.verification {
        text += &verified(verification);
    }
    for warning in &result.warnings {
        let _ = writeln!(text, "  warning: {warning}");
    }
    text
}

/// Returns whether the text of one of the jobs has a warning.
pub(crate) fn has(results: &[RunResult], warning: &String) -> bool {
    results.iter().any(|result| result.warnings.contains(warning))
}

/// Returns a table of all jobs, for a run of several.
pub(crate) fn summary(inputs: &[JobInput], results: &[RunResult]) -> String {
    let mut table = Table::new();
    table.row(["job", "operations/s", "rate", "mean latency", "99 %", "max"]);
    for (input, result) in inputs.iter().zip(results) {
        for (name, figures) in [("read", &result.total.reads), ("write", &result.total.writes)] {
            let Some(figures) = figures else { continue };
            let is_mixed = result.total.reads.is_some() && result.total.writes.is_some();
            let job = if is_mixed { format!("{} {name}", input.name) } else { input.name.clone() };
            let latency = &figures.latency.summary;
            table.row([
                job,
                format_count(figures.operations_per_s.round() as u64),
                format_rate(figures.bytes_per_s),
                format_duration_ns(latency.mean_ns.round() as u64),
                latency.percentile_ns(99.0).map_or(String::new(), format_duration_ns),
                format_duration_ns(latency.max_ns),
            ]);
        }
    }
    table.render(0)
}

fn load(input: &JobInput) -> String {
    let job = &input.job;
    let operation = match job.operation {
        gemelo_load::JobOperation::Write => "writes".to_owned(),
        gemelo_load::JobOperation::Read => "reads".to_owned(),
        gemelo_load::JobOperation::Mixed => format!("{:.0} % writes", job.write_share * 100.0),
    };
    let pace = match job.pace {
        Pace::Peak => "peak".to_owned(),
        Pace::Rate { ops_per_s } => format!("{ops_per_s} operations a second and process"),
        Pace::Rates { reads_per_s, writes_per_s } => {
            format!("{reads_per_s} reads and {writes_per_s} writes a second and process")
        }
    };
    let processes = format_counted_as(u64::from(job.processes), "process", "processes");
    format!(
        "{} {operation} of {}, {processes} on {} each, {} queue depth {}, {pace}, contents {}",
        job.pattern,
        format_size(job.request_bytes() as u64),
        format_size(job.file_bytes),
        job.engine,
        job.queue_depth,
        input.distribution
    )
}

fn ended(input: &JobInput, result: &RunResult) -> String {
    let how = match (&result.failure, result.ended) {
        (Some(failure), _) => format!("FAILED, {failure}"),
        (None, Ended::Time) => "time is over".to_owned(),
        (None, Ended::Bytes) => "all bytes done".to_owned(),
        // The hosts of a run are also stopped when one of them is lost.
        (None, Ended::Stopped) if input.job.hosts > 1 => "stopped before its end".to_owned(),
        (None, Ended::Stopped) => "stopped by the user".to_owned(),
        (None, Ended::Failed) => "FAILED".to_owned(),
    };
    let time = format_duration_ns(result.elapsed_ns);
    let measured = if result.measured_ns == result.elapsed_ns {
        String::new()
    } else {
        format!(", measured {}", format_duration_ns(result.measured_ns))
    };
    format!("after {time}{measured}: {how}")
}

fn throughput(figures: &OperationStats) -> String {
    format!(
        "{}, {}, {}, {} operations/s",
        format_counted(figures.operations, "operation"),
        format_size(figures.data_bytes),
        format_rate(figures.bytes_per_s),
        format_count(figures.operations_per_s.round() as u64)
    )
}

fn generating(total: &Measured, processes: usize) -> String {
    let mut text = format!("{:.1} % of the time of the processes", total.generating_share * 100.0);
    let blocks = total.writes.as_ref().map_or(0, |writes| writes.operations);
    if blocks > 0 && processes > 0 {
        let _ = write!(text, ", {} a block", format_duration_ns(total.generating_ns / blocks));
    }
    if total.late_operations + total.missed_operations > 0 {
        let _ = write!(
            text,
            "; {} started late, {} never",
            format_counted(total.late_operations, "operation"),
            format_count(total.missed_operations)
        );
    }
    text
}

fn usage(result: &RunResult) -> String {
    let share = |time_ns: u64| time_ns as f64 * 100.0 / result.elapsed_ns.max(1) as f64;
    format!(
        "{:.0} % user, {:.0} % system; memory at most {}",
        share(result.usage.user_ns),
        share(result.usage.system_ns),
        format_size(result.usage.peak_memory_bytes)
    )
}

fn latencies(total: &Measured, pace: Pace) -> String {
    let mut table = Table::new();
    let mut header = vec![String::new(), "mean".to_owned()];
    header.extend(PERCENTILES.iter().map(|percent| format!("{percent} %")));
    header.push("max".to_owned());
    table.row(header);
    let mut row = |name: &str, timing: &Timing| {
        let summary = &timing.summary;
        let mut cells = vec![name.to_owned(), format_duration_ns(summary.mean_ns.round() as u64)];
        let percentiles = PERCENTILES.iter().map(|percent| summary.percentile_ns(*percent));
        cells.extend(percentiles.map(|value| value.map_or(String::new(), format_duration_ns)));
        cells.push(format_duration_ns(summary.max_ns));
        table.row(cells);
    };
    for (name, figures) in [("read", &total.reads), ("write", &total.writes)] {
        let Some(figures) = figures else { continue };
        row(&format!("{name} latency"), &figures.latency);
        if let (Some(service), false) = (&figures.service, pace == Pace::Peak) {
            row(&format!("{name} service time"), service);
        }
    }
    if let Some(syncs) = &total.syncs {
        row("fdatasync", syncs);
    }
    table.render(2)
}

/// Returns the distribution that was written, beside the requested one at the size of a data set.
fn written_text(input: &JobInput, written: &WrittenDistribution) -> String {
    let Ok(found) = Distribution::of_pairs(&written.distribution, written.zero_blocks) else {
        return String::new();
    };
    let asked = ScaledDistribution::new(&input.content.distribution, input.data_set_blocks)
        .and_then(|scaled| scaled.to_distribution());
    let mut table = Table::new();
    let has_zeros =
        [Some(&found), asked.as_ref().ok()].iter().flatten().any(|one| one.zero_blocks() > 0);
    let titles = ["written", "blocks", "unique", "duplicates", "dedup ratio"];
    let of_zeros = ["zeros", "with zeros"].into_iter().filter(|_| has_zeros);
    table.row(titles.into_iter().chain(of_zeros));
    let mut row = |name: &str, distribution: &Distribution| {
        let summary = distribution.summary();
        let percent = |part: u64| format!("{:.2} %", part as f64 * 100.0 / summary.blocks as f64);
        let cells = [
            name.to_owned(),
            format_count(summary.blocks),
            percent(summary.unique),
            percent(summary.duplicates),
            format!("{:.4}", summary.dedup_ratio()),
        ];
        let with_zeros = format!("{:.4}", summary.dedup_ratio_with_zeros());
        let of_zeros = [percent(summary.zero_blocks), with_zeros].into_iter();
        table.row(cells.into_iter().chain(of_zeros.filter(|_| has_zeros)));
    };
    row("  by this run", &found);
    if let Ok(asked) = &asked {
        row("  asked, a data set", asked);
    }
    let mut text = table.render(2);
    let data_set = input.data_set_blocks;
    let data_sets = found.blocks() as f64 / data_set as f64;
    if found.blocks() > data_set {
        let _ = writeln!(
            text,
            "  ({data_sets:.1} data sets; each has the distribution and the same shared contents)"
        );
    } else if found.blocks() < data_set {
        let share = data_sets * 100.0;
        let _ = writeln!(
            text,
            "  ({share:.1} % of a data set; copies of a content are spread over all of it)"
        );
    }
    if written.counted_blocks < written.blocks || written.sampled_share < 1.0 {
        let _ = writeln!(
            text,
            "  (counted: the first {1} of {0} blocks, and {2:.1} % of the shared contents)",
            format_count(written.blocks),
            format_count(written.counted_blocks),
            written.sampled_share * 100.0
        );
    }
    text
}

/// Returns the result of verification, with the wrong blocks.
pub(crate) fn verified(verification: &Verification) -> String {
    let mut text =
        format!("  verified    {}", format_counted(verification.checked_blocks, "block"));
    text += &match verification.wrong_blocks {
        0 => ", all as written".to_owned(),
        wrong => format!(", {} WRONG", format_count(wrong)),
    };
    if verification.unknown_blocks > 0 {
        let _ =
            write!(text, "; {} with unknown content", format_count(verification.unknown_blocks));
    }
    if !verification.is_complete {
        text += "; not all blocks were checked";
    }
    text.push('\n');
    for mismatch in &verification.mismatches {
        let _ = writeln!(text, "    {mismatch}");
    }
    text
}
