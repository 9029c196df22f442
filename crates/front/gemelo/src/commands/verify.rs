//! `gemelo verify` checks the data that a run left on its target, by the run's result file.

use super::bench::verified;
use super::host::Task;
use super::hosts::{self, Fleet, Handling, HostOptions};
use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome, failed, refused};
use clap::Args;
use gemelo_base::ShowPath as _;
use gemelo_base::units::format_count;
use gemelo_job::bench::{BEGUN_SCHEMA, JobInput, SCHEMA};
use gemelo_job::target_of;
use gemelo_job::verify::{Verified, VerifyError, verify, verify_begun};
use gemelo_load::{History, RunResult};
use gemelo_record::{HostsFile, ResultFile, ResultFileError, read_result};
use gemelo_target::TargetUri;
use std::path::PathBuf;

/// Check every block that a run with --keep left on its target.
///
/// The result file of the run determines the expected content of each block. With --hosts, which
/// must be as many as those of the run, each host checks the part that it wrote.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The result file that `gemelo bench --json` wrote
    result: PathBuf,
    /// The target that holds the data now [default: the target of the run]
    #[arg(long, value_name = "URI")]
    target: Option<TargetUri>,
    #[command(flatten)]
    hosts: HostOptions,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let file = read_result::<HostsFile<Vec<JobInput>, Vec<RunResult>>>(&arguments.result, SCHEMA);
    if let Err(ResultFileError::Schema { found, .. }) = &file
        && found == BEGUN_SCHEMA
    {
        return of_killed(arguments, context);
    }
    let file = file.or_bad_input()?;
    if let Some(fleet) = arguments.hosts.fleet()? {
        return on_hosts(&fleet, file, arguments.target.as_ref(), context, |file, target| {
            Task::Verify { file, target }
        });
    }
    let checked = verify(&file.file, arguments.target.clone(), &context.job_environment());
    finish(checked, arguments, context)
}

/// Checks what a run wrote that was killed.
fn of_killed(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let result = &arguments.result;
    let file = read_result::<HostsFile<Vec<JobInput>, Option<History>>>(result, BEGUN_SCHEMA)
        .or_bad_input()?;
    let fleet = arguments.hosts.fleet()?;
    if fleet.is_some() && file.hosts.is_empty() {
        return Err(refused!(
            "{} is of a run on one host that was killed: leave out --hosts",
            result.shown()
        ));
    }
    context.monitor.warn(
        "the run was killed: each block is checked for any content that the run wrote there, and \
         not for the newest",
    );
    if let Some(fleet) = fleet {
        return on_hosts(&fleet, file, arguments.target.as_ref(), context, |file, target| {
            Task::VerifyKilled { file, target }
        });
    }
    let target = arguments.target.as_ref();
    if file.hosts.is_empty() {
        let checked = verify_begun(&file.file, target.cloned(), &context.job_environment());
        return finish(checked, arguments, context);
    }
    let mut outcome = Outcome::Done;
    for host in &file.hosts {
        let begun = host.file.as_ref().ok_or_else(|| failed!("host {} has no result", host.host));
        let target = target.map(|target| target_of(target, &host.host, host.index));
        let checked = verify_begun(begun.or_bad_input()?, target, &context.job_environment());
        if finish(checked, arguments, context)? != Outcome::Done {
            outcome = Outcome::Partial;
        }
    }
    Ok(outcome)
}

fn finish(
    checked: Result<Verified, VerifyError>,
    arguments: &Arguments,
    context: &Context,
) -> crate::Result<Outcome> {
    let checked = match checked {
        Err(error @ (VerifyError::NothingKept | VerifyError::OtherHistory)) => {
            return Err(error).with_context(|| arguments.result.shown().to_string()).or_bad_input();
        }
        other => other?,
    };
    context.print(&format!("{}:\n{}", checked.target, verified(&checked.verification)))?;
    match checked.failure {
        Some(failure) => Err(failed!("{failure}")),
        None if checked.verification.is_success() => Ok(Outcome::Done),
        None => Ok(Outcome::Partial),
    }
}

/// Has each host check its part.
fn on_hosts<Measured>(
    fleet: &Fleet,
    file: HostsFile<Vec<JobInput>, Measured>,
    target: Option<&TargetUri>,
    context: &Context,
    task: impl Fn(Box<ResultFile<Vec<JobInput>, Measured>>, Option<TargetUri>) -> Task,
) -> crate::Result<Outcome> {
    let (names, count) = (fleet.names(), file.hosts.len());
    if names.len() != count {
        return Err(refused!(
            "the result is of {count} hosts, and --hosts has {}: give as many, in the same order",
            names.len()
        ));
    }
    let tasks = names.iter().zip(file.hosts).map(|(name, host)| {
        let result = host.file.ok_or_else(|| failed!("host {name} has no result"));
        let target = target.map(|target| target_of(target, name, host.index));
        result.map(|file| task(Box::new(file), target)).or_bad_input()
    });
    let tasks = tasks.collect::<crate::Result<Vec<Task>>>()?;
    let mut is_right = true;
    let mut rates = Vec::new();
    let handling = Handling { agree: &|_| Ok(()), receive: &hosts::no_file, goes_on: false };
    for (name, one) in names.iter().zip(fleet.run(&tasks, &handling, context)?) {
        let (found, failure) = hosts::told::<Verified>(one.end);
        is_right &= failure.is_none();
        let failure = match found {
            None => failure,
            Some(found) => {
                let text =
                    format!("{} {}:\n{}", one.host, found.target, verified(&found.verification));
                context.print(&text)?;
                let seconds = found.elapsed_ns.max(1) as f64 / 1e9;
                rates.push((name.as_str(), found.verification.checked_blocks as f64 / seconds));
                found.failure.map(|failure| failure.to_string())
            }
        };
        if let Some(failure) = failure {
            context.monitor.warn(&format!("host {}: {failure}", one.host));
        }
    }
    let format = |rate: f64| format!("{} blocks/s", format_count(rate.round() as u64));
    context.print(&hosts::slowest_line(&rates, format))?;
    Ok(if is_right { Outcome::Done } else { Outcome::Partial })
}
