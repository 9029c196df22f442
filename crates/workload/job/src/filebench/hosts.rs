//! Scripts on several hosts: each host runs the whole script in a directory of its own, and each
//! run begins at the same moment everywhere.

use super::{
    FilebenchInput, FilebenchJobError, FilebenchOptions, Point, ResolvedScript, SCHEMA, resolve,
};
use crate::fleet::{FleetJob, HostFile, Merged};
use crate::templates::{is_template, path_of};
use gemelo_base::ShowPath as _;
use gemelo_base::random::fresh_word;
use gemelo_filebench::{WorkloadPart, WorkloadResult, merge};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The script of one of several hosts, with its text.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostScript {
    job: FilebenchOptions,
    text: String,
}

/// The scripts of all hosts.
#[derive(Debug)]
pub struct FleetScript {
    dir: Option<PathBuf>,
    of_hosts: Vec<HostScript>,
}

impl FleetScript {
    /// Makes the script of each host. `{host}` and `{index}` in the name of the directory are
    /// replaced.
    ///
    /// # Errors
    /// Fails if the script has a fault, or if all hosts would use one directory.
    pub fn new(
        job: &FilebenchOptions,
        text: &str,
        hosts: &[String],
        own_targets: bool,
    ) -> Result<Self, FilebenchJobError> {
        let is_own = |dir: &std::path::Path| is_template(&dir.shown().to_string());
        if !own_targets && !job.dir.as_deref().is_some_and(is_own) {
            return Err(FilebenchJobError::CommonDir);
        }
        // The unique contents of hosts differ.
        let run_id = job.run_id.unwrap_or_else(fresh_word);
        let of_host = |(index, host): (u32, &String)| {
            let mut job = job.clone();
            job.dir = job.dir.map(|dir| path_of(&dir, host, index));
            job.run_id = Some(run_id.wrapping_add(u64::from(index)));
            HostScript { job, text: text.to_owned() }
        };
        let scripts: Vec<HostScript> = (0..).zip(hosts).map(of_host).collect();
        // A fault is told before any host is reached.
        scripts.first().cloned().map(HostScript::resolve).transpose()?;
        Ok(Self { dir: job.dir.clone(), of_hosts: scripts })
    }
}

impl HostScript {
    /// Resolves the script on its host.
    ///
    /// # Errors
    /// Fails as [`resolve`] does.
    pub fn resolve(self) -> Result<ResolvedScript, FilebenchJobError> {
        resolve(&self.job, self.text)
    }
}

impl FleetJob for FleetScript {
    type Part = HostScript;
    type Plan = IgnoredAny;
    type Input = FilebenchInput;
    type Measured = Vec<Point>;
    const SCHEMA: &'static str = SCHEMA;

    fn parts(&self) -> Vec<HostScript> {
        self.of_hosts.clone()
    }

    fn target(&self) -> Option<String> {
        self.dir.as_ref().map(|dir| dir.shown().to_string())
    }

    fn merge(&self, files: &[HostFile<'_, Self>]) -> Option<Merged<Self>> {
        let first = files.first()?.file;
        let input = FilebenchInput { dir: self.target(), ..first.input.clone() };
        let result: Vec<Point> = (0..first.result.len()).map(|one| merged(files, one)).collect();
        let warnings = super::ended_early(&result);
        Some((input, result, warnings))
    }

    /// The operations a second at the ends of the runs, summed over all of them.
    fn rate(measured: &Vec<Point>) -> f64 {
        let runs = measured.iter().flat_map(|point| &point.runs);
        runs.filter_map(|run| run.intervals.last()).map(|last| last.operations_per_s).sum()
    }

    /// A run that a host did not complete is a failure of that host.
    fn is_success(_measured: &Vec<Point>) -> bool {
        true
    }
}

fn merged(files: &[HostFile<'_, FleetScript>], number: usize) -> Point {
    let points: Vec<(&str, &Point)> =
        files.iter().filter_map(|one| Some((one.host, one.file.result.get(number)?))).collect();
    let runs = points.iter().map(|(_, point)| point.runs.len()).max().unwrap_or(0);
    let run = |run: usize| {
        let part = |(host, point): &(&'_ str, &Point)| -> Option<(String, WorkloadResult)> {
            Some(((*host).to_owned(), point.runs.get(run)?.clone()))
        };
        let parts: Vec<(String, WorkloadResult)> = points.iter().filter_map(part).collect();
        let parts = parts.iter().map(|(host, result)| WorkloadPart { host, result });
        merge(&parts.collect::<Vec<_>>())
    };
    let first = points.first().map(|(_, point)| *point);
    Point {
        value: first.and_then(|point| point.value.clone()),
        variables: first.map(|point| point.variables.clone()).unwrap_or_default(),
        runs: (0..runs).map(run).collect(),
    }
}
