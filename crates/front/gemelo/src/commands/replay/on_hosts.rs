//! A replay on several hosts.

use super::{Arguments, text};
use crate::commands::host::Task;
use crate::commands::hosts::{self, Fleet, deliver, start_of};
use crate::context::Context;
use crate::exit::Outcome;
use crate::table::Table;
use gemelo_base::units::{format_count, format_duration_ns, format_rate};
use gemelo_job::replay::ReplayInput;
use gemelo_job::replay::hosts::{HostFile, bytes_per_s, host_replays, merge_files};
use gemelo_record::{HostRecord, Provenance};
use gemelo_replay::ReplayResult;
use serde::de::IgnoredAny;

type Record = HostRecord<ReplayInput, ReplayResult>;

/// Replays on the hosts, prints one result of all, and writes it.
pub(super) fn run(
    arguments: &Arguments,
    fleet: &Fleet,
    context: &Context,
) -> crate::Result<Outcome> {
    let job = &arguments.job;
    let environment = context.job_environment();
    let replays = host_replays(job, fleet.names(), arguments.own_targets, &environment)?;
    let tasks: Vec<Task> =
        replays.into_iter().map(|replay| Task::Replay { replay: Box::new(replay) }).collect();
    let finished = fleet.run::<IgnoredAny>(&tasks, |_| Ok(()), context)?;
    let provenance = Provenance::of_this_process(context.started_at);
    let merge = |files: &[HostFile<'_>]| merge_files(job, files, provenance);
    let file = hosts::join(hosts::records(finished)?, |one| bytes_per_s(&one.result), merge)?;
    let shown = || text::result(&file.file.result) + &table(&file.hosts);
    let failures = deliver(&file, shown, (&arguments.files, job.force), context);
    let result = &file.file.result;
    let is_success = file.hosts.iter().all(|host| host.failure.is_none())
        && result.is_complete
        && result.verification.wrong == 0;
    failures.or(if is_success { Outcome::Done } else { Outcome::Partial })
}

/// Returns the hosts side by side.
fn table(all: &[Record]) -> String {
    let mut table = Table::new();
    table.row(["host", "operations/s", "rate", "99 %", "max", "start"]);
    for host in all {
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
    let rates = all
        .iter()
        .filter_map(|host| Some((host.host.as_str(), bytes_per_s(&host.file.as_ref()?.result))));
    table.render(2) + &hosts::slowest_line(&rates.collect::<Vec<_>>(), format_rate)
}
