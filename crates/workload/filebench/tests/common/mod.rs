//! Runs scripts, each in a directory of its own.

#![allow(dead_code, reason = "every test binary uses a part of it")]

use gemelo_base::{AtOnce, Monitor, Silent, StopFlag};
use gemelo_filebench::{Console, Options, Outcome, Script, WorkloadError, WorkloadResult, execute};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// Collects lines.
#[derive(Default)]
pub(crate) struct Lines(Mutex<Vec<String>>);

impl Console for Lines {
    fn line(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

/// The outcome of a run and its directory.
pub(crate) struct Ran {
    pub(crate) directory: TempDir,
    pub(crate) outcome: Outcome,
    pub(crate) lines: Vec<String>,
}

impl Ran {
    pub(crate) fn result(&self) -> &WorkloadResult {
        self.outcome.runs.last().expect("a run")
    }

    /// Returns the operations and bytes of a flowop at the end of the run.
    pub(crate) fn flowop(&self, name: &str) -> (u64, u64) {
        let last = self.result().intervals.last().expect("statistics");
        let flowop = last.flowops.iter().find(|flowop| flowop.name == name).expect("the flowop");
        (flowop.operations, flowop.data_bytes)
    }

    /// Returns all files below the directory of a fileset, with their sizes.
    pub(crate) fn files(&self, fileset: &str) -> Vec<(PathBuf, u64)> {
        let mut found = Vec::new();
        collect(&self.directory.path().join(fileset), &mut found);
        found.sort();
        found
    }
}

pub(crate) fn collect(directory: &Path, found: &mut Vec<(PathBuf, u64)>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else {
            let bytes = path.metadata().unwrap().len();
            found.push((path, bytes));
        }
    }
}

/// Runs a script whose `$dir` is a new directory. The files are kept.
pub(crate) fn run(text: &str) -> Ran {
    run_with(text, &Options { keep: true, ..Options::default() })
}

pub(crate) fn run_with(text: &str, options: &Options) -> Ran {
    let directory = tempfile::tempdir().unwrap();
    let (outcome, lines) = run_in(directory.path(), text, options, &StopFlag::new());
    Ran { directory, outcome: outcome.unwrap_or_else(|error| panic!("{error:?}")), lines }
}

pub(crate) fn run_in(
    directory: &Path,
    text: &str,
    options: &Options,
    stop: &StopFlag,
) -> (Result<Outcome, WorkloadError>, Vec<String>) {
    run_shown(directory, text, options, stop, &Silent)
}

pub(crate) fn run_shown(
    directory: &Path,
    text: &str,
    options: &Options,
    stop: &StopFlag,
    monitor: &dyn Monitor,
) -> (Result<Outcome, WorkloadError>, Vec<String>) {
    let script = Script::parse("test.f", text).unwrap_or_else(|error| panic!("{error}"));
    let dir = [("dir".to_owned(), directory.display().to_string())];
    let program = script.compile(&dir).unwrap_or_else(|error| panic!("{error}")).with_run();
    let lines = Arc::new(Lines::default());
    let console: Arc<dyn Console> = Arc::clone(&lines) as Arc<dyn Console>;
    let outcome =
        execute(&program, options, &console, monitor, (stop, &AtOnce), &|_| Err("none".to_owned()));
    let lines = lines.0.lock().unwrap().clone();
    (outcome, lines)
}

/// Returns a script with one thread that executes its flowops once and ends.
pub(crate) fn once(definitions: &str, flowops: &str) -> String {
    format!(
        "set mode quit firstdone\n{definitions}\n\
         define process name=p {{ thread name=t,memsize=2m {{\n{flowops}\nflowop finishoncount name=done,value=1 }} }}\nrun 20"
    )
}
