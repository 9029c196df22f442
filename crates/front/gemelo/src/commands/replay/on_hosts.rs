//! A replay on several hosts.

use super::{Arguments, text};
use crate::commands::host::Task;
use crate::commands::hosts::{self, Fleet, start_of};
use crate::context::Context;
use crate::exit::{Failures, Outcome};
use crate::files;
use crate::table::Table;
use gemelo_base::units::{format_count, format_duration_ns, format_rate};
use gemelo_job::replay::hosts::{HostFile, bytes_per_s, host_replays, merge_files, slowest};
use gemelo_job::replay::{ReplayInput, ReplayJobOptions};
use gemelo_record::{HostRecord, HostsFile, Provenance};
use gemelo_replay::ReplayResult;
use serde::de::IgnoredAny;

type Record = HostRecord<ReplayInput, ReplayResult>;
type File = HostsFile<ReplayInput, ReplayResult>;

/// Replays on the hosts, prints one result of all, and writes it.
pub(super) fn run(
    arguments: &Arguments,
    fleet: &Fleet,
    context: &Context,
) -> anyhow::Result<Outcome> {
    let Arguments { job, json, report, .. } = arguments;
    let environment = context.job_environment();
    let replays = host_replays(job, fleet.names(), arguments.own_targets, &environment)?;
    let tasks: Vec<Task> =
        replays.into_iter().map(|replay| Task::Replay { replay: Box::new(replay) }).collect();
    let finished = fleet.run::<IgnoredAny>(&tasks, |_| Ok(()), context)?;
    let file = merged(job, hosts::records(finished)?, context)?;
    let monitor = context.monitor.as_ref();
    let mut failures = Failures::default();
    if !files::is_some_standard_output(json.as_deref()) && !report.is_standard_output() {
        let shown = text::result(&file.file.result) + &table(&file.hosts);
        failures.note(context.print(&shown), monitor);
    }
    file.file.warnings.iter().for_each(|warning| monitor.warn(warning));
    if let Some(path) = json {
        failures.note(files::write_json(path, job.force, &file), monitor);
    }
    failures.note(report.write(job.force, &file), monitor);
    let result = &file.file.result;
    let is_success = file.hosts.iter().all(|host| host.failure.is_none())
        && result.is_complete
        && result.verification.wrong == 0;
    failures.or(if is_success { Outcome::Done } else { Outcome::Partial })
}

/// Merges the results of the hosts.
fn merged(job: &ReplayJobOptions, hosts: Vec<Record>, context: &Context) -> anyhow::Result<File> {
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

/// Returns the hosts side by side.
fn table(hosts: &[Record]) -> String {
    let mut table = Table::new();
    table.row(["host", "operations/s", "rate", "99 %", "max", "start"]);
    for host in hosts {
        let Some(file) = &host.file else {
            table.row([host.host.clone(), "no result".to_owned()]);
            continue;
        };
        let result = &file.result;
        let mut latencies = result.reads.response_ns.clone();
        latencies.merge(&result.writes.response_ns);
        let operations = result.reads.operations + result.writes.operations;
        let seconds = (result.duration_ns as f64 / 1e9).max(1e-9);
        table.row([
            host.host.clone(),
            format_count((operations as f64 / seconds).round() as u64),
            format_rate(bytes_per_s(result)),
            latencies.percentile_ns(99.0).map_or(String::new(), format_duration_ns),
            latencies.summary().map_or(String::new(), |all| format_duration_ns(all.max_ns)),
            start_of(host, 0),
        ]);
    }
    table.render(2)
}
