//! A script on several hosts.

use super::{Arguments, sweep};
use crate::commands::host::Task;
use crate::commands::hosts::{self, Fleet, HostColumns, start_of};
use crate::context::Context;
use crate::exit::Outcome;
use gemelo_base::units::{format_count, format_duration_ns};
use gemelo_filebench::WorkloadResult;
use gemelo_job::FleetJob as _;
use gemelo_job::filebench::hosts::FleetScript;

type ScriptRecord = hosts::HostRecordOf<FleetScript>;

/// Runs the script on the hosts, prints one result of all, and writes it.
pub(super) fn run(
    arguments: &Arguments,
    script: &str,
    fleet: &Fleet,
    context: &Context,
) -> crate::Result<Outcome> {
    let job = &arguments.job;
    let scripts = FleetScript::new(job, script, fleet.names(), arguments.own_targets)?;
    let task = |script| Task::Filebench { script };
    let file = hosts::run(&scripts, task, hosts::no_file, (fleet, context))?;
    let name = job.sweep.as_ref().map_or("", |sweep| sweep.name.as_str());
    let shown = || sweep::table(name, &file.file.result) + "\n" + &table(&file.hosts);
    let results = (&arguments.files, job.force);
    hosts::deliver::<FleetScript>(&file, shown, |_| false, results, context)
}

/// Returns the hosts side by side, in each of their runs.
fn table(all: &[ScriptRecord]) -> String {
    let rows = |host: &ScriptRecord| {
        let runs = host.file.iter().flat_map(|file| &file.result).flat_map(|point| &point.runs);
        runs.enumerate().filter_map(|(number, run)| row(host, number, run)).collect()
    };
    hosts::table(
        all,
        &HostColumns {
            headings: &["ops/s", "MB/s", "ms/op", "max", "start"],
            rows: &rows,
            rate: &|host| Some(FleetScript::rate(&host.file.as_ref()?.result)),
            format: &|rate| format!("{} operations/s", format_count(rate.round() as u64)),
        },
    )
}

fn row(host: &ScriptRecord, number: usize, run: &WorkloadResult) -> Option<Vec<String>> {
    let last = run.intervals.last()?;
    let max_ns = last.flowops.iter().map(|flowop| flowop.max_latency_ns).max();
    Some(vec![
        host.host.clone(),
        format!("{:.0}", last.operations_per_s),
        format!("{:.1}", last.data_bytes_per_s / 1e6),
        format!("{:.3}", last.mean_latency_ns / 1e6),
        format_duration_ns(max_ns.unwrap_or(0)),
        start_of(host, number),
    ])
}
