//! Jobs that several hosts run together.

use super::begun::{Begun, BegunHosts};
use super::{Outputs, text};
use crate::commands::host::Task;
use crate::commands::hosts::{self, Fleet};
use crate::context::Context;
use crate::exit::{Failures, Outcome};
use gemelo_base::units::format_rate;
use gemelo_job::JobOptions;
use gemelo_job::bench::JobInput;
use gemelo_job::bench::hosts::{FleetJobs, agree, bytes_per_s, rate};
use gemelo_load::RunResult;
use gemelo_record::{HostRecord, HostsFile, Provenance};

type Record = HostRecord<JobInputs, Vec<RunResult>>;
type File = HostsFile<JobInputs, Vec<RunResult>>;
type JobInputs = Vec<JobInput>;

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
    let tasks: Vec<Task> =
        jobs.of_hosts.iter().map(|jobs| Task::Bench { jobs: Box::new(jobs.clone()) }).collect();
    let agree = |plans: &[JobInputs]| agree(fleet.names(), plans);
    let begun = BegunHosts::new(Begun::new(&outputs.files, force, context), fleet.names());
    let receive = |host: usize, bytes: &[u8]| begun.receive(host, bytes);
    let finished = fleet.run_receiving(&tasks, agree, receive, context);
    let file = finished.and_then(|finished| merged(&jobs, hosts::records(finished)?, context));
    let (file, begun) = (file?, begun.into_begun());
    let monitor = context.monitor.as_ref();
    let mut failures = Failures::default();
    if !outputs.files.is_standard_output() {
        failures.note(context.print(&shown(&file, outputs.brief)), monitor);
    }
    // The text has the warnings of the results.
    let of_results: Vec<&String> = file.file.result.iter().flat_map(|one| &one.warnings).collect();
    let others = file.file.warnings.iter().filter(|text| !of_results.contains(text));
    others.for_each(|warning| monitor.warn(warning));
    outputs.files.write(begun.may_overwrite(), &file, &mut failures, monitor);
    let is_success = file.hosts.iter().all(|host| host.failure.is_none())
        && file.file.result.iter().all(RunResult::is_success);
    failures.or(if is_success { Outcome::Done } else { Outcome::Partial })
}

/// Merges the results of the hosts.
fn merged(jobs: &FleetJobs, hosts: Vec<Record>, context: &Context) -> crate::Result<File> {
    let provenance = Provenance::of_this_process(context.started_at);
    let mut file = hosts::join(hosts, rate, |files| Some(jobs.merge(files, provenance)))?;
    // The merged intervals have them now.
    let of_hosts = file.hosts.iter_mut().filter_map(|host| host.file.as_mut());
    of_hosts.flat_map(|file| &mut file.result).for_each(|result| result.interval_parts.clear());
    Ok(file)
}

fn shown(file: &File, brief: bool) -> String {
    let (inputs, results) = (&file.file.input, &file.file.result);
    let mut shown = String::new();
    if !brief {
        for (number, (input, result)) in inputs.iter().zip(results).enumerate() {
            shown += &text::job(input, result);
            shown += &hosts::table(&file.hosts, number);
            shown += &slowest_line(file, number);
        }
    }
    if results.len() > 1 || brief {
        let gap = if brief { "" } else { "\n" };
        shown += &format!("{gap}{}", text::summary(inputs, results));
    }
    shown
}

/// The host that was slowest in a job, against the mean of all.
fn slowest_line(file: &File, number: usize) -> String {
    let rate = |host: &Record| Some(bytes_per_s(host.file.as_ref()?.result.get(number)?));
    let rates = file.hosts.iter().filter_map(|host| Some((host.host.as_str(), rate(host)?)));
    hosts::slowest_line(&rates.collect::<Vec<_>>(), format_rate)
}
