//! A script on several hosts.

use super::{Arguments, sweep};
use crate::commands::host::Task;
use crate::commands::hosts::{self, Fleet, deliver, start_of};
use crate::context::Context;
use crate::exit::Outcome;
use crate::table::Table;
use gemelo_base::units::{format_count, format_duration_ns};
use gemelo_job::filebench::hosts::{HostFile, host_scripts, merge_files, operations_per_s};
use gemelo_job::filebench::{FilebenchInput, Point};
use gemelo_record::{HostRecord, Provenance};
use serde::de::IgnoredAny;

type Record = HostRecord<FilebenchInput, Vec<Point>>;

/// Runs the script on the hosts, prints one result of all, and writes it.
pub(super) fn run(
    arguments: &Arguments,
    script: &str,
    fleet: &Fleet,
    context: &Context,
) -> crate::Result<Outcome> {
    let job = &arguments.job;
    let scripts = host_scripts(job, script, fleet.names(), arguments.own_targets)?;
    let tasks: Vec<Task> =
        scripts.into_iter().map(|script| Task::Filebench { script: Box::new(script) }).collect();
    let finished = fleet.run::<IgnoredAny>(&tasks, |_| Ok(()), context)?;
    let provenance = Provenance::of_this_process(context.started_at);
    let merge = |files: &[HostFile<'_>]| merge_files(job, files, provenance);
    let file = hosts::join(hosts::records(finished)?, operations_per_s, merge)?;
    let name = job.sweep.as_ref().map_or("", |sweep| sweep.name.as_str());
    let shown = || sweep::table(name, &file.file.result) + "\n" + &table(&file.hosts);
    let failures = deliver(&file, shown, (&arguments.files, job.force), context);
    let is_complete = file.hosts.iter().all(|host| host.failure.is_none());
    failures.or(if is_complete { Outcome::Done } else { Outcome::Partial })
}

/// Returns the hosts side by side, in each of their runs.
fn table(all: &[Record]) -> String {
    let mut table = Table::new();
    table.row(["host", "ops/s", "MB/s", "ms/op", "max", "start"]);
    for host in all {
        let runs = host.file.iter().flat_map(|file| &file.result).flat_map(|point| &point.runs);
        let mut count = 0;
        for (number, run) in runs.enumerate() {
            let Some(last) = run.intervals.last() else { continue };
            count += 1;
            let max_ns = last.flowops.iter().map(|flowop| flowop.max_latency_ns).max();
            table.row([
                host.host.clone(),
                format!("{:.0}", last.operations_per_s),
                format!("{:.1}", last.data_bytes_per_s / 1e6),
                format!("{:.3}", last.mean_latency_ns / 1e6),
                format_duration_ns(max_ns.unwrap_or(0)),
                start_of(host, number),
            ]);
        }
        if count == 0 {
            table.row([host.host.clone(), "no result".to_owned()]);
        }
    }
    let rates = all
        .iter()
        .filter_map(|host| Some((host.host.as_str(), operations_per_s(host.file.as_ref()?))));
    let format = |rate: f64| format!("{} operations/s", format_count(rate.round() as u64));
    table.render(2) + &hosts::slowest_line(&rates.collect::<Vec<_>>(), format)
}
