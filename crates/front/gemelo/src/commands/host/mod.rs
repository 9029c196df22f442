//! `gemelo host` runs the task of a command with --hosts. That command starts it, on each host, and
//! speaks to it on its standard streams.

use crate::context::Context;
use crate::exit::{Failure, OrFailed as _, OrFailure as _, Outcome, failed};
use crate::files::NewFiles;
use clap::Args;
use gemelo_base::ShowPath as _;
use gemelo_base::StartLine;
use gemelo_filebench::Console;
use gemelo_fleet::{Done, Refusal, Session};
use gemelo_job::bench::hosts::{HostJobs, take_for_checked};
use gemelo_job::bench::{self, BegunFile, BenchFile, ResolvedJob};
use gemelo_job::filebench::hosts::HostScript;
use gemelo_job::replay::{self, ReplayJobOptions};
use gemelo_job::verify::{self, Verified, VerifyError};
use gemelo_job::{JobEnvironment, Ran};
use gemelo_record::Provenance;
use gemelo_scan::{ScanOptions, ScanRequest};
use gemelo_target::TargetUri;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::Seek;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

/// Run the part of a command with --hosts that is for this host
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Remove this directory, from which the program was started, at once
    #[arg(long, value_name = "DIRECTORY")]
    remove: Option<PathBuf>,
}

/// The task of a host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "kebab-case")]
pub(crate) enum Task {
    /// Jobs of load.
    Bench {
        /// The jobs of the host.
        jobs: Box<HostJobs>,
    },
    /// The replay of a trace.
    Replay {
        /// The replay of the host.
        replay: Box<ReplayJobOptions>,
    },
    /// A script of Filebench's language.
    Filebench {
        /// The script of the host.
        script: Box<HostScript>,
    },
    /// The check of the data that a run left.
    Verify {
        /// The result of the host in that run.
        file: Box<BenchFile>,
        /// The target that holds the data now.
        target: Option<TargetUri>,
    },
    /// The check of the data that a killed run left.
    VerifyKilled {
        /// What the host told when its last job began.
        file: Box<BegunFile>,
        /// The target that holds the data now.
        target: Option<TargetUri>,
    },
    /// A scan, whose fingerprint set is sent.
    Scan {
        /// The paths and the settings.
        request: Box<ScanRequest>,
    },
}

/// The streams carry the protocol, so this ends the process with its status and prints nothing.
pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    if let Some(directory) = &arguments.remove {
        remove_own_copy(directory);
    }
    let host = Provenance::of_this_process(context.started_at).host;
    let work = |task, session: &Session| {
        perform(task, session, context)
            .map_err(|failure| Refusal { message: failure.message(), kind: failure.kind() })
    };
    let is_told = gemelo_fleet::serve(env!("CARGO_PKG_VERSION"), host, &context.stop, work);
    Ok(if is_told { Outcome::Done } else { Outcome::Partial })
}

/// Removes the copy of this program that was made for this run alone. It runs on without its file.
/// A file that this process does not run is of somebody else, and stays.
fn remove_own_copy(directory: &std::path::Path) {
    let copy = directory.join("gemelo");
    let own = std::fs::File::open("/proc/self/exe").and_then(gemelo_base::FileIdentity::of);
    if own.is_ok_and(|own| own.is_at(&copy)) {
        // Nobody is there who could be told of an error.
        let _ = std::fs::remove_file(copy);
        let _ = std::fs::remove_dir(directory);
    }
}

fn perform(task: Value, session: &Session, context: &Context) -> crate::Result<Done> {
    let monitor = session.monitor();
    let environment = JobEnvironment {
        targets: &context.targets,
        clock: &context.clock,
        monitor: &monitor,
        stop: &context.stop,
        start: session,
        outputs: &NewFiles,
    };
    match Task::deserialize(task).or_failed()? {
        Task::Bench { jobs } => run_jobs(*jobs, session, &environment, context),
        Task::Replay { replay } => {
            let resolved = replay::resolve(&replay, &environment)?;
            begin(session, &Value::Null)?;
            done(resolved.run(&environment)?, &environment, context)
        }
        Task::Filebench { script } => {
            let resolved = script.resolve()?;
            begin(session, &Value::Null)?;
            let console: Arc<dyn Console> = Arc::new(Unread);
            done(resolved.run(&console, &environment)?, &environment, context)
        }
        Task::Verify { file, target } => {
            check(session, || verify::verify(&file, target, &environment))
        }
        Task::VerifyKilled { file, target } => {
            check(session, || verify::verify_begun(&file, target, &environment))
        }
        Task::Scan { request } => scan(*request, session, context),
    }
}

/// Tells what the host makes of its task, and waits for the others.
fn begin(session: &Session, plan: &impl Serialize) -> crate::Result<()> {
    let plan = serde_json::to_value(plan).or_failed()?;
    session.checked(plan).map_err(|refusal| Failure::new(refusal.kind, refusal.message))
}

/// Checks data once all hosts are ready.
fn check(
    session: &Session,
    verify: impl FnOnce() -> Result<Verified, VerifyError>,
) -> crate::Result<Done> {
    begin(session, &Value::Null)?;
    session.wait();
    let found = verify()?;
    let is_complete = found.failure.is_none() && found.verification.is_success();
    Ok(Done { result: serde_json::to_value(&found).or_failed()?, is_complete })
}

/// Tells the result of a run, and warns of the errors that ended it.
fn done<Input: Serialize, Measured: Serialize, Error: Into<Failure>>(
    mut ran: Ran<Input, Measured, Error>,
    environment: &JobEnvironment<'_>,
    context: &Context,
) -> crate::Result<Done> {
    let is_complete = ran.is_success && ran.errors.is_empty();
    for error in std::mem::take(&mut ran.errors) {
        environment.monitor.warn(&error.into().message());
    }
    let file = ran.into_file(Provenance::of_this_process(context.started_at));
    Ok(Done { result: serde_json::to_value(&file).or_failed()?, is_complete })
}

fn run_jobs(
    jobs: HostJobs,
    session: &Session,
    environment: &JobEnvironment<'_>,
    context: &Context,
) -> crate::Result<Done> {
    let mut jobs = jobs.resolve(environment)?;
    bench::check(&jobs)?;
    begin(session, &ResolvedJob::inputs(&jobs))?;
    take_for_checked(&mut jobs);
    let begins = |input, history| {
        let file = super::bench::begun_file(input, Some(history), context);
        // The run goes on without it. A lost coordinator ends it in another way.
        let _ = serde_json::to_string(&file).map(|line| session.send((line + "\n").as_bytes()));
    };
    let ran = bench::run_telling(jobs, environment, begins, |_, _| ControlFlow::Continue(()));
    if ran.result.is_empty() {
        let first = ran.errors.into_iter().next().map(Failure::from);
        return Err(first.unwrap_or_else(|| failed!("stopped before the run began")));
    }
    done(ran, environment, context)
}

/// A console whose lines nobody reads: the result has all figures.
struct Unread;

impl Console for Unread {
    fn line(&self, _text: &str) {}
}

/// Scans the paths of this host, and sends the fingerprint set.
fn scan(request: ScanRequest, session: &Session, context: &Context) -> crate::Result<Done> {
    let directory = request.spill_directory.clone().unwrap_or_else(std::env::temp_dir);
    let options = ScanOptions::new(request)?;
    begin(session, &Value::Null)?;
    let mut set = tempfile::tempfile_in(&directory)
        .with_context(|| format!("cannot make a temporary file in {}", directory.shown()))?;
    let monitor = session.monitor();
    let saved = gemelo_scan::scan_and_save(&options, Some(&set), &monitor, &context.stop)?;
    saved.set.context("cannot save the fingerprint set")?;
    set.rewind().and_then(|()| session.send(&set)).context("cannot send the fingerprint set")?;
    let is_complete = !saved.result.partial && saved.result.files.unreadable == 0;
    let file = super::scan::file_of_host(saved.result, options.request(), context);
    Ok(Done { result: serde_json::to_value(&file).or_failed()?, is_complete })
}
