//! Tests of load from outside: real files, `null:`, and a target in memory with injected faults, on
//! real and manual time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of a test fails the test, and a test that is skipped says so"
)]

mod faults;
mod files;
mod measures;
mod memory;
mod pacing;

use gemelo_base::{ManualClock, Silent, StopFlag, SystemClock};
use gemelo_content::{ContentSpec, Distribution};
use gemelo_load::{Contents, Environment, Job, JobSpec, RunResult, run, verify};
use gemelo_target::Target;

const BLOCK: usize = 4096;

/// Returns the bytes of `count` blocks.
const fn blocks(count: u64) -> u64 {
    count * BLOCK as u64
}

fn contents(job: &Job) -> Contents {
    let distribution = Distribution::parse("0 70\n2 10\n").unwrap();
    Contents::new(&ContentSpec::new(distribution, job.spec().block_bytes, 3), job).unwrap()
}

/// Runs a job on real time.
fn run_on(job: &Job, target: &dyn Target) -> RunResult {
    let (clock, stop) = (SystemClock::new(), StopFlag::new());
    let environment =
        Environment { clock: &clock, monitor: &Silent, stop: &stop, start: &gemelo_base::AtOnce };
    run(job, &contents(job), target, None, &environment, None).unwrap()
}

/// Runs a job on manual time.
fn run_by(clock: &ManualClock, stop: &StopFlag, job: &Job, target: &dyn Target) -> RunResult {
    let environment = Environment { clock, monitor: &Silent, stop, start: &gemelo_base::AtOnce };
    run(job, &contents(job), target, None, &environment, None).unwrap()
}

/// Checks a target against the history of a result.
fn verify_on(job: &Job, target: &dyn Target, result: &RunResult) -> gemelo_load::Verification {
    let (clock, stop) = (SystemClock::new(), StopFlag::new());
    let environment =
        Environment { clock: &clock, monitor: &Silent, stop: &stop, start: &gemelo_base::AtOnce };
    let (verification, failure) =
        verify(result.history.as_ref().unwrap(), &contents(job), target, &environment);
    assert_eq!(failure, None);
    verification
}

fn job(spec: JobSpec) -> Job {
    Job::new(spec).unwrap()
}

/// Returns the reads and writes in the measured part of a result.
fn operations(result: &RunResult) -> (u64, u64) {
    let count = |side: &Option<gemelo_load::OperationStats>| {
        side.as_ref().map_or(0, |side| side.operations)
    };
    (count(&result.total.reads), count(&result.total.writes))
}
