//! A replay on several hosts.

use super::{Arguments, text};
use crate::commands::host::Task;
use crate::commands::hosts::{self, Fleet, HostColumns, start_of};
use crate::context::Context;
use crate::exit::Outcome;
use gemelo_base::units::{format_count, format_duration_ns, format_rate};
use gemelo_job::FleetJob as _;
use gemelo_job::replay::hosts::FleetReplay;

type ReplayRecord = hosts::HostRecordOf<FleetReplay>;

/// Replays on the hosts, prints one result of all, and writes it.
pub(super) fn run(
    arguments: &Arguments,
    fleet: &Fleet,
    context: &Context,
) -> crate::Result<Outcome> {
    let (job, own_targets) = (&arguments.job, arguments.own_targets);
    let replays = FleetReplay::new(job, fleet.names(), own_targets, &context.job_environment())?;
    let task = |replay| Task::Replay { replay };
    let file = hosts::run(&replays, task, hosts::no_file, (fleet, context))?;
    let shown = || text::result(&file.file.result) + &table(&file.hosts);
    let results = (&arguments.files, job.force);
    hosts::deliver::<FleetReplay>(&file, shown, |_| false, results, context)
}

/// Returns the hosts side by side.
fn table(all: &[ReplayRecord]) -> String {
    let row = |host: &ReplayRecord| -> Option<Vec<String>> {
        let result = &host.file.as_ref()?.result;
        let mut latencies = result.reads.response_ns.clone();
        latencies.merge(&result.writes.response_ns);
        let operations = result.reads.operations + result.writes.operations;
        let seconds = (result.duration_ns as f64 / 1e9).max(1e-9);
        Some(vec![
            host.host.clone(),
            format_count((operations as f64 / seconds).round() as u64),
            format_rate(FleetReplay::rate(result)),
            latencies.percentile_ns(99.0).map_or(String::new(), format_duration_ns),
            latencies.summary().map_or(String::new(), |all| format_duration_ns(all.max_ns)),
            start_of(host, 0),
        ])
    };
    hosts::table(
        all,
        &HostColumns {
            headings: &["operations/s", "rate", "99 %", "max", "start"],
            rows: &|host| row(host).into_iter().collect(),
            rate: &|host| Some(FleetReplay::rate(&host.file.as_ref()?.result)),
            format: &format_rate,
        },
    )
}
