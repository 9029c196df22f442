//! Jobs that several hosts run together.

use super::begun::{Begun, BegunHosts};
use super::{Outputs, text};
use crate::commands::host::Task;
use crate::commands::hosts::{self, Fleet, HostColumns, start_of};
use crate::context::Context;
use crate::exit::Outcome;
use gemelo_base::units::{format_count, format_duration_ns, format_rate};
use gemelo_job::JobOptions;
use gemelo_job::bench::hosts::{FleetJobs, bytes_per_s};
use gemelo_load::{OperationStats, RunResult};

type JobRecord = hosts::HostRecordOf<FleetJobs>;

/// Runs the jobs on the hosts, prints one result of all, and writes it.
pub(super) fn run(
    jobs: Vec<JobOptions>,
    outputs: &Outputs,
    (fleet, own_targets): (&Fleet, bool),
    context: &Context,
) -> crate::Result<Outcome> {
    let force = jobs.iter().any(|job| job.load.force == Some(true));
    outputs.files.check(force)?;
    let jobs = FleetJobs::new(jobs, fleet.names(), own_targets, &context.job_environment())?;
    let begun = BegunHosts::new(Begun::new(&outputs.files, force, context), fleet.names());
    let receive = |host: usize, bytes: &[u8]| begun.receive(host, bytes);
    let file = hosts::run(&jobs, |jobs| Task::Bench { jobs }, receive, (fleet, context));
    let (mut file, begun) = (file?, begun.into_begun());
    // The merged intervals have them now.
    let of_hosts = file.hosts.iter_mut().filter_map(|host| host.file.as_mut());
    of_hosts.flat_map(|file| &mut file.result).for_each(|result| result.interval_parts.clear());
    let is_in_text = |warning: &String| text::has(&file.file.result, warning);
    let results = (&outputs.files, begun.may_overwrite());
    let shown = || shown(&file, outputs.brief);
    hosts::deliver::<FleetJobs>(&file, shown, is_in_text, results, context)
}

fn shown(file: &hosts::HostsFileOf<FleetJobs>, brief: bool) -> String {
    let (inputs, results) = (&file.file.input, &file.file.result);
    let mut shown = String::new();
    if !brief {
        for (number, (input, result)) in inputs.iter().zip(results).enumerate() {
            shown += &text::job(input, result);
            shown += &table(&file.hosts, number);
        }
    }
    if results.len() > 1 || brief {
        let gap = if brief { "" } else { "\n" };
        shown += &format!("{gap}{}", text::summary(inputs, results));
    }
    shown
}

/// Returns the hosts side by side in one job, with the offset of their clocks and the delay of
/// their start.
fn table(all: &[JobRecord], job: usize) -> String {
    let rows = |host: &JobRecord| {
        let Some(total) = result(host, job).map(|result| &result.total) else { return Vec::new() };
        let sides = [("read", &total.reads), ("write", &total.writes)];
        let is_mixed = sides.iter().all(|(_, side)| side.is_some());
        let row = |(operation, side): (&str, &Option<OperationStats>)| {
            let name = match is_mixed {
                true => format!("{} {operation}", host.host),
                false => host.host.clone(),
            };
            Some(row(name, side.as_ref()?, host, job))
        };
        sides.into_iter().filter_map(row).collect()
    };
    hosts::table(
        all,
        &HostColumns {
            headings: &["operations/s", "rate", "mean", "99 %", "max", "start", "clock"],
            rows: &rows,
            rate: &|host| result(host, job).map(bytes_per_s),
            format: &format_rate,
        },
    )
}

/// Returns the result of a host in one job.
fn result(host: &JobRecord, job: usize) -> Option<&RunResult> {
    host.file.as_ref()?.result.get(job)
}

fn row(name: String, side: &OperationStats, host: &JobRecord, job: usize) -> Vec<String> {
    let latency = &side.latency.summary;
    let offset = host.date_offset_ns;
    let sign = if offset < 0 { "-" } else { "+" };
    vec![
        name,
        format_count(side.operations_per_s.round() as u64),
        format_rate(side.bytes_per_s),
        format_duration_ns(latency.mean_ns.round() as u64),
        latency.percentile_ns(99.0).map_or(String::new(), format_duration_ns),
        format_duration_ns(latency.max_ns),
        start_of(host, job),
        format!("{sign}{}", format_duration_ns(offset.unsigned_abs())),
    ]
}
