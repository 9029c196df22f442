//! A job on several hosts: its parts are run, and one result of all of them is shown and written.

use super::{Fleet, Handling};
use crate::commands::host::Task;
use crate::context::Context;
use crate::exit::{Failures, Outcome, failed};
use crate::result_options::ResultOptions;
use gemelo_figures::AnyResult;
use gemelo_fleet::{Finished, HostEnd};
use gemelo_job::FleetJob;
use gemelo_record::{HostRecord, HostsFile, Provenance, ResultFile, slowest};
use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Serialize};
use serde_json::Value;

/// The result of a job of all hosts.
pub(crate) type HostsFileOf<Job> = HostsFile<<Job as FleetJob>::Input, <Job as FleetJob>::Measured>;

/// The part that one host has in a job.
pub(crate) type HostRecordOf<Job> =
    HostRecord<<Job as FleetJob>::Input, <Job as FleetJob>::Measured>;

/// Runs a job, and makes one file of the results of the hosts. `receive` takes the parts of what
/// the hosts send meanwhile.
pub(crate) fn run<Job: FleetJob>(
    job: &Job,
    task: impl Fn(Box<Job::Part>) -> Task,
    receive: impl Fn(usize, &[u8]) -> Result<(), String>,
    (fleet, context): (&Fleet, &Context),
) -> crate::Result<HostsFileOf<Job>> {
    let tasks: Vec<Task> = job.parts().into_iter().map(|part| task(Box::new(part))).collect();
    let agree = |plans: &[&Value]| {
        let plans = plans.iter().map(|plan| Job::Plan::deserialize(*plan));
        let plans = plans.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        job.agree(fleet.names(), &plans)
    };
    let handling = Handling { agree: &agree, receive: &receive, goes_on: false };
    let hosts = records(fleet.run(&tasks, &handling, context)?)?;
    let provenance = Provenance::of_this_process(context.started_at);
    join(hosts, |one| Job::rate(&one.result), |files| job.file(files, provenance))
}

/// Refuses files, for a job whose hosts send none.
pub(crate) fn no_file(_host: usize, _bytes: &[u8]) -> Result<(), String> {
    Err("it sent a file that nobody asked for".to_owned())
}

/// Makes one file of the results of the hosts. Its warnings tell of hosts that failed.
pub(crate) fn join<Input, Measured>(
    hosts: Vec<HostRecord<Input, Measured>>,
    rate: impl Fn(&ResultFile<Input, Measured>) -> f64,
    merge: impl FnOnce(
        &[gemelo_record::HostFile<'_, Input, Measured>],
    ) -> Option<ResultFile<Input, Measured>>,
) -> crate::Result<HostsFile<Input, Measured>> {
    let files: Vec<_> = hosts.iter().filter_map(HostRecord::result).collect();
    let slowest_host = slowest(&files, rate).map(str::to_owned);
    let mut file = merge(&files).ok_or_else(|| failed!("no host has a result"))?;
    let failures = hosts.iter().filter_map(|host| Some((&host.host, host.failure.as_ref()?)));
    file.warnings.extend(failures.map(|(host, failure)| format!("host {host}: {failure}")));
    Ok(HostsFile { file, slowest_host, hosts })
}

/// Prints a result unless it goes to the standard output in another form, tells those of its
/// warnings that the text does not have, and writes it.
pub(crate) fn deliver<Job: FleetJob>(
    file: &HostsFileOf<Job>,
    text: impl FnOnce() -> String,
    is_in_text: impl Fn(&String) -> bool,
    (results, force): (&ResultOptions, bool),
    context: &Context,
) -> crate::Result<Outcome>
where
    HostsFileOf<Job>: Serialize + Clone + Into<AnyResult>,
{
    let monitor = context.monitor.as_ref();
    let mut failures = Failures::default();
    if !results.is_standard_output() {
        failures.note(context.print(&text()), monitor);
    }
    let warnings = file.file.warnings.iter().filter(|warning| !is_in_text(warning));
    warnings.for_each(|warning| monitor.warn(warning));
    results.write(force, file, &mut failures, monitor);
    let is_success =
        file.hosts.iter().all(|host| host.failure.is_none()) && Job::is_success(&file.file.result);
    failures.or(if is_success { Outcome::Done } else { Outcome::Partial })
}

/// Returns the parts of the hosts as records. Fails if no host has a result.
pub(crate) fn records<Input: DeserializeOwned, Measured: DeserializeOwned>(
    finished: Vec<Finished>,
) -> crate::Result<Vec<HostRecord<Input, Measured>>> {
    let records: Vec<_> = (0..).zip(finished).map(|(index, one)| record(index, one)).collect();
    if let (true, Some(first)) = (records.iter().all(|one| one.file.is_none()), records.first()) {
        let reason = first.failure.clone().unwrap_or_default();
        return Err(failed!("no host has a result: host {}: {reason}", first.host));
    }
    Ok(records)
}

/// Returns the part of a host as a record.
fn record<Input: DeserializeOwned, Measured: DeserializeOwned>(
    index: u32,
    finished: Finished,
) -> HostRecord<Input, Measured> {
    let (file, failure) = told(finished.end);
    HostRecord {
        host: finished.host,
        index,
        round_trip_ns: finished.clock.map_or(0, |clock| clock.round_trip_ns),
        date_offset_ns: finished.clock.map_or(0, |clock| clock.date_offset_ns),
        start_delays_ns: finished.delays_ns,
        failure,
        file,
    }
}

/// Returns what a host has told, and the reason why it is not all of its task.
pub(crate) fn told<Told: DeserializeOwned>(end: HostEnd) -> (Option<Told>, Option<String>) {
    match end {
        HostEnd::Lost(reason) => (None, Some(reason)),
        HostEnd::Failed(refusal) => (None, Some(refusal.message)),
        HostEnd::Done(done) => match Told::deserialize(done.result) {
            Ok(told) if done.is_complete => (Some(told), None),
            Ok(told) => (Some(told), Some("it has done a part of its task".to_owned())),
            Err(error) => (None, Some(format!("its result cannot be read: {error}"))),
        },
    }
}
