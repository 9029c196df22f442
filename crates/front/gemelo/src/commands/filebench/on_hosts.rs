//! A script on several hosts.

use super::{Arguments, sweep};
use crate::commands::host::Task;
use crate::commands::hosts::{self, Fleet, start_of};
use crate::context::Context;
use crate::exit::{Failures, Outcome};
use crate::files;
use crate::table::Table;
use gemelo_base::units::format_duration_ns;
use gemelo_job::filebench::hosts::{HostFile, host_scripts, merge_files, slowest};
use gemelo_job::filebench::{FilebenchInput, FilebenchOptions, Point};
use gemelo_record::{HostRecord, HostsFile, Provenance};
use serde::de::IgnoredAny;

type Record = HostRecord<FilebenchInput, Vec<Point>>;
type File = HostsFile<FilebenchInput, Vec<Point>>;

/// Runs the script on the hosts, prints one result of all, and writes it.
pub(super) fn run(
    arguments: &Arguments,
    script: &str,
    fleet: &Fleet,
    context: &Context,
) -> anyhow::Result<Outcome> {
    let Arguments { job, json, report, .. } = arguments;
    let scripts = host_scripts(job, script, fleet.names(), arguments.own_targets)?;
    let tasks: Vec<Task> =
        scripts.into_iter().map(|script| Task::Filebench { script: Box::new(script) }).collect();
    let finished = fleet.run::<IgnoredAny>(&tasks, |_| Ok(()), context)?;
    let file = merged(job, hosts::records(finished)?, context)?;
    let monitor = context.monitor.as_ref();
    let mut failures = Failures::default();
    if !files::is_some_standard_output(json.as_deref()) && !report.is_standard_output() {
        let name = job.sweep.as_ref().map_or("", |sweep| sweep.name.as_str());
        let shown = sweep::table(name, &file.file.result) + "\n" + &table(&file.hosts);
        failures.note(context.print(&shown), monitor);
    }
    file.file.warnings.iter().for_each(|warning| monitor.warn(warning));
    if let Some(path) = json {
        failures.note(files::write_json(path, job.force, &file), monitor);
    }
    failures.note(report.write(job.force, &file), monitor);
    let is_complete = file.hosts.iter().all(|host| host.failure.is_none());
    failures.or(if is_complete { Outcome::Done } else { Outcome::Partial })
}

/// Merges the results of the hosts.
fn merged(job: &FilebenchOptions, hosts: Vec<Record>, context: &Context) -> anyhow::Result<File> {
    let provenance = Provenance::of_this_process(context.started_at);
    let files: Vec<HostFile<'_>> = hosts
        .iter()
        .filter_map(|host| Some(HostFile { host: &host.host, file: host.file.as_ref()? }))
        .collect();
    let slowest_host = slowest(&files).map(str::to_owned);
    let merged = merge_files(job, &files, provenance);
    let mut file = merged.ok_or_else(|| anyhow::anyhow!("no host has a result"))?;
    let failures = hosts.iter().filter_map(|host| Some((&host.host, host.failure.as_ref()?)));
    file.warnings.extend(failures.map(|(host, failure)| format!("host {host}: {failure}")));
    Ok(HostsFile { file, slowest_host, hosts })
}

/// Returns the hosts side by side, in each of their runs.
fn table(hosts: &[Record]) -> String {
    let mut table = Table::new();
    table.row(["host", "ops/s", "MB/s", "ms/op", "max", "start"]);
    for host in hosts {
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
    table.render(2)
}
