//! Scripts on several hosts: each host runs the whole script in a directory of its own, and each
//! run begins at the same moment everywhere.

use super::{
    FilebenchFile, FilebenchInput, FilebenchJobError, FilebenchOptions, Point, ResolvedScript,
    SCHEMA, resolve,
};
use crate::templates::{is_template, path_of};
use gemelo_base::ShowPath as _;
use gemelo_base::random::fresh_word;
use gemelo_filebench::{WorkloadPart, WorkloadResult, merge};
use gemelo_record::{Provenance, ResultFile};
use serde::{Deserialize, Serialize};

/// The script of one of several hosts, with its text.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostScript {
    job: FilebenchOptions,
    text: String,
}

/// The result of one host.
pub type HostFile<'a> = gemelo_record::HostFile<'a, FilebenchInput, Vec<Point>>;

/// Returns the script of each host. `{host}` and `{index}` in the name of the directory are
/// replaced.
///
/// # Errors
/// Fails if the script has a fault, or if all hosts would use one directory.
pub fn host_scripts(
    job: &FilebenchOptions,
    text: &str,
    hosts: &[String],
    own_targets: bool,
) -> Result<Vec<HostScript>, FilebenchJobError> {
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
    Ok(scripts)
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

/// Merges the results of the hosts that have one; [`None`] if none has.
#[must_use]
pub fn merge_files(
    job: &FilebenchOptions,
    files: &[HostFile<'_>],
    mut provenance: Provenance,
) -> Option<FilebenchFile> {
    let first = files.first()?.file;
    let mut input = first.input.clone();
    input.dir = job.dir.as_ref().map(|dir| dir.shown().to_string());
    provenance.target.clone_from(&input.dir);
    provenance.seed = first.provenance.seed;
    let result: Vec<Point> = (0..first.result.len()).map(|point| merged(files, point)).collect();
    let runs = result.iter().flat_map(|point| &point.runs);
    let mut warnings: Vec<String> = runs.filter_map(|run| run.ended_early.clone()).collect();
    warnings.dedup();
    Some(ResultFile { schema: SCHEMA.to_owned(), provenance, input, result, warnings })
}

fn merged(files: &[HostFile<'_>], number: usize) -> Point {
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

/// The operations a second of a host at the ends of its runs, summed over all of them.
#[must_use]
pub fn operations_per_s(file: &FilebenchFile) -> f64 {
    let runs = file.result.iter().flat_map(|point| &point.runs);
    runs.filter_map(|run| run.intervals.last()).map(|last| last.operations_per_s).sum()
}
