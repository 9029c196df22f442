//! Campaigns whose targets are directories and commands, so that they need no other program.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failure here is that of the test, which has no caller to tell"
)]

mod commands;
mod main_figures;
mod plans;
mod removal;
mod runs;

use gemelo_base::{Classified as _, FailureKind, Recorder, StopFlag, SystemClock};
use gemelo_campaign::{CampaignError, Environment, Plan, Summary, clean, run};
use gemelo_record::{
    CampaignRecord, Outcome, Provenance, RunRecord, read_campaign, read_run, run_directory,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::SystemTime;

/// A plan, the directory of its campaign, and what was said of it.
struct Place {
    directory: tempfile::TempDir,
    recorder: Recorder,
}

impl Place {
    /// A place with this plan.
    fn with(plan: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("campaign-").tempdir().unwrap();
        let place = Self { directory, recorder: Recorder::new() };
        place.set_plan(plan);
        place
    }

    fn set_plan(&self, plan: &str) {
        fs::write(self.path("plan.toml"), plan).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    /// The campaign's directory.
    fn out(&self) -> PathBuf {
        self.path("out")
    }

    fn run(&self) -> Result<Summary, CampaignError> {
        run_in(&self.path(""), false, &self.recorder)
    }

    fn resume(&self) -> Result<Summary, CampaignError> {
        run_in(&self.path(""), true, &self.recorder)
    }

    /// Runs it in a process of its own, which the plan may kill.
    fn run_elsewhere(&self) -> ExitStatus {
        let mut other = Command::new(std::env::current_exe().unwrap());
        other.args(["--exact", "elsewhere"]).env(DIRECTORY, self.path(""));
        other.output().unwrap().status
    }

    fn record(&self) -> CampaignRecord {
        read_campaign(&self.out()).unwrap()
    }

    /// The records of all runs, in the order of the plan.
    fn records(&self) -> Vec<RunRecord> {
        let runs = self.record().runs;
        runs.iter().map(|run| read_run(&self.out(), &run.id).unwrap()).collect()
    }
}

fn run_in(place: &Path, resume: bool, recorder: &Recorder) -> Result<Summary, CampaignError> {
    let text = fs::read_to_string(place.join("plan.toml")).unwrap();
    let plan = Plan::read(&text, place, &[]).unwrap();
    let environment = Environment {
        program: Path::new("/no/such/program"),
        clock: SystemClock::new(),
        monitor: recorder,
        stop: &StopFlag::new(),
        provenance: Provenance::of_this_process(SystemTime::UNIX_EPOCH),
        waits_for_quiet: false,
    };
    run(&plan, &place.join("out"), resume, &environment)
}

/// Set in the process of [`Place::run_elsewhere`]: the directory of the place.
const DIRECTORY: &str = "GEMELO_TEST_CAMPAIGN";

/// The campaign of another test; nothing where it is called as a test.
#[test]
fn elsewhere() {
    if let Some(place) = std::env::var_os(DIRECTORY) {
        drop(run_in(Path::new(&place), false, &Recorder::new()));
    }
}

/// The campaign did not begin: the message and the kind of the reason.
fn refused(result: Result<Summary, CampaignError>, kind: FailureKind, told: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(told), "{error}");
}

/// The number of runs that are done, and of those that failed.
fn outcomes(place: &Place) -> (usize, usize) {
    let records = place.records();
    let of = |is: fn(&Outcome) -> bool| records.iter().filter(|run| is(&run.outcome)).count();
    (of(|one| matches!(one, Outcome::Done)), of(|one| matches!(one, Outcome::Failed { .. })))
}

/// Everything outside of its results that a campaign in a directory has left.
fn leftovers(place: &Place) -> Vec<String> {
    let work = place.out().join("work");
    let work = work.exists().then(|| work.display().to_string());
    gemelo_tools::uses_of(&place.path("")).into_iter().chain(work).collect()
}
