//! Tests of `gemelo campaign` from outside: plans, failing runs, kills, cleaning and resuming.

mod killed;
mod kinds;
mod plans;
mod runs;
mod simulated;

use crate::common::{Ran, gemelo};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A directory for the plan and the campaign of a test.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    /// A place with this plan.
    fn with(plan: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("campaign-").tempdir().unwrap();
        let place = Self { directory };
        fs::write(place.plan(), plan).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn plan(&self) -> PathBuf {
        self.directory.path().join("plan.toml")
    }

    /// The campaign's directory.
    fn out(&self) -> PathBuf {
        self.path("out")
    }

    fn run(&self, more: &[&str]) -> Ran {
        run(self.plan().to_str().unwrap(), &self.out(), more)
    }

    fn records(&self) -> Vec<Value> {
        records(&self.out())
    }
}

fn run(plan: &str, out: &Path, more: &[&str]) -> Ran {
    gemelo(&[&["campaign", "run", plan, "--out", out.to_str().unwrap()], more].concat())
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The records of all runs that have one, in the order of the plan.
fn records(out: &Path) -> Vec<Value> {
    let campaign = json(&out.join("campaign.json"));
    let runs = campaign["runs"].as_array().unwrap().iter();
    let paths = runs.map(|run| out.join("runs").join(run["id"].as_str().unwrap()).join("run.json"));
    paths.filter(|path| path.exists()).map(|path| json(&path)).collect()
}

/// The value of a figure of a run, by its name.
fn figure(record: &Value, name: &str) -> Option<f64> {
    let figures = record["figures"]["figures"].as_array().unwrap();
    figures
        .iter()
        .find(|figure| figure["name"] == name)
        .map(|figure| figure["value"].as_f64().unwrap())
}

/// Everything outside of its results that a campaign in a directory has left.
fn leftovers(place: &Place) -> Vec<String> {
    let work = place.out().join("work");
    let work = work.exists().then(|| work.display().to_string());
    gemelo_tools::uses_of(&place.path("")).into_iter().chain(work).collect()
}

/// Returns whether the test may use loop devices and mounts. Prints what is missing.
fn can_mount() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let can = is_root && Path::new("/dev/loop-control").exists();
    if !can {
        gemelo_tools::missing("root or /dev/loop-control");
    }
    can
}
