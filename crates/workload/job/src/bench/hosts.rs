//! Jobs that several hosts run together: the part of each host, and one result of all.
//!
//! The processes of all hosts are numbered through, in the order of the hosts. They write the parts
//! of one data set, as the processes of one host do, so hosts with the same run write what one host
//! with as many processes would write.

use super::resolve::{OfHosts, UnplacedJob};
use super::{BenchFile, JobInput, ResolveError, ResolvedJob, SCHEMA};
use crate::templates::{is_template, target_of};
use crate::{JobEnvironment, JobOptions};
use gemelo_load::{Contents, HostPart, Job, JobSpec, PartResult, RunResult, merge};
use gemelo_record::{Provenance, ResultFile};
use gemelo_target::TargetUri;
use serde::{Deserialize, Serialize};

/// The jobs of one of several hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostJobs {
    jobs: Vec<UnplacedJob>,
    index: u32,
    hosts: u32,
    /// `true` if the target is that of this host alone.
    own_target: bool,
}

/// The jobs of all hosts.
#[derive(Debug)]
pub struct FleetJobs {
    /// The jobs of each host, in their order.
    pub of_hosts: Vec<HostJobs>,
    /// The target of each job, as the user named it.
    targets: Vec<TargetUri>,
}

/// The result of one host.
pub type HostFile<'a> = gemelo_record::HostFile<'a, Vec<JobInput>, Vec<RunResult>>;

impl FleetJobs {
    /// Resolves the contents of the jobs, and the target of each host: `{host}` and `{index}` in it
    /// are replaced. Without them and `own_targets`, all hosts share one target.
    ///
    /// # Errors
    /// Fails if the options are invalid, or are for one program alone.
    pub fn new(
        jobs: Vec<JobOptions>,
        hosts: &[String],
        own_targets: bool,
        environment: &JobEnvironment<'_>,
    ) -> Result<Self, ResolveError> {
        let mut targets = Vec::new();
        for job in &jobs {
            let load = &job.load;
            for (is_given, option) in
                [(load.log.is_some(), "--log"), (load.access_log.is_some(), "--access-log")]
            {
                if is_given {
                    return Err(ResolveError::OnHosts { option });
                }
            }
            targets.push(load.target.clone().ok_or(ResolveError::NoTarget)?);
        }
        let own_target =
            own_targets || targets.iter().all(|target| is_template(&target.to_string()));
        let opened_once = |target: &&TargetUri| target.parts().0 == Some("pool");
        if let Some(target) = targets.iter().find(opened_once).filter(|_| !own_target) {
            return Err(ResolveError::OneOpener { target: target.clone() });
        }
        let jobs = super::unplaced(jobs, environment)?;
        let count = hosts.len() as u32;
        let of_host = |(index, host): (u32, &String)| HostJobs {
            jobs: jobs.iter().map(|job| on_host(job, host, index)).collect(),
            index,
            hosts: count,
            own_target,
        };
        Ok(Self { of_hosts: (0..).zip(hosts).map(of_host).collect(), targets })
    }

    /// Merges the results of the hosts that have one. Jobs without any result are left out.
    #[must_use]
    pub fn merge(&self, files: &[HostFile<'_>], provenance: Provenance) -> BenchFile {
        let hosts = self.of_hosts.len() as u32;
        let mut merged = ResultFile {
            schema: SCHEMA.to_owned(),
            provenance,
            input: Vec::new(),
            result: Vec::new(),
            warnings: Vec::new(),
        };
        for (number, target) in self.targets.iter().enumerate() {
            let parts: Vec<_> =
                files.iter().filter_map(|one| Some((one, one.file.result.get(number)?))).collect();
            let input = parts.first().and_then(|(one, _)| one.file.input.get(number));
            let both = input.and_then(|input| merged_job(input, target, hosts, &parts));
            if let Some((input, result)) = both {
                merged.warnings.extend(result.warnings.clone());
                merged.input.push(input);
                merged.result.push(result);
            }
        }
        merged.warnings.extend(warnings(files));
        merged.provenance.target = merged.input.first().map(|input| input.target.to_string());
        merged.provenance.seed = merged.input.first().map(|input| input.job.seed);
        merged
    }
}

/// Returns the warnings of the hosts that are not about their figures, because the merged result
/// has its own of these: one that all hosts give once, and others with their host.
fn warnings(files: &[HostFile<'_>]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for one in files {
        let of_figures =
            |text: &&String| one.file.result.iter().any(|result| result.warnings.contains(text));
        for text in one.file.warnings.iter().filter(|text| !of_figures(text)) {
            let is_common = files.iter().all(|other| other.file.warnings.contains(text));
            let told = if is_common { text.clone() } else { format!("host {}: {text}", one.host) };
            if !all.contains(&told) {
                all.push(told);
            }
        }
    }
    all
}

/// Returns a job of all hosts, and its result. The job was valid for the hosts, so it is valid.
fn merged_job(
    input: &JobInput,
    target: &TargetUri,
    hosts: u32,
    parts: &[(&HostFile<'_>, &RunResult)],
) -> Option<(JobInput, RunResult)> {
    let spec = of_all(&input.job, hosts);
    let job = Job::new(spec.clone()).ok()?;
    let contents = Contents::new(&input.content, &job).ok()?;
    let parts: Vec<PartResult<'_>> = parts
        .iter()
        .map(|(one, result)| PartResult { host: one.host, index: one.index, result })
        .collect();
    let result = merge(&job, &contents, &parts);
    Some((JobInput { target: target.clone(), job: spec, ..input.clone() }, result))
}

/// Returns the load of all hosts together.
fn of_all(part: &JobSpec, hosts: u32) -> JobSpec {
    JobSpec { processes: part.processes * hosts, hosts, part: None, ..part.clone() }
}

fn on_host(job: &UnplacedJob, host: &str, index: u32) -> UnplacedJob {
    let mut job = job.clone();
    job.load.target = job.load.target.map(|target| target_of(&target, host, index));
    job
}

impl HostJobs {
    /// Resolves the jobs of this host.
    ///
    /// # Errors
    /// Fails as [`super::resolve_all`] does.
    pub fn resolve(
        self,
        environment: &JobEnvironment<'_>,
    ) -> Result<Vec<ResolvedJob>, ResolveError> {
        let part = HostPart { index: self.index, shares_target: !self.own_target };
        let of = OfHosts { hosts: self.hosts, part: Some(part) };
        super::place_all(self.jobs, of, environment)
    }
}

/// Has the jobs overwrite what is on their targets. All hosts have checked theirs, and the first
/// one to write would otherwise be in the way of the others on a common device.
pub fn take_for_checked(jobs: &mut [ResolvedJob]) {
    jobs.iter_mut().for_each(|job| job.force = true);
}

/// Compares what the hosts make of their jobs: they must be parts of the same data set.
///
/// # Errors
/// Names the first difference.
pub fn agree(hosts: &[String], plans: &[Vec<JobInput>]) -> Result<(), String> {
    let Some((first, others)) = plans.split_first() else { return Ok(()) };
    for (host, plan) in hosts.iter().skip(1).zip(others) {
        for (one, other) in first.iter().zip(plan) {
            if one.job.file_bytes != other.job.file_bytes {
                return Err(format!(
                    "host {host} has room for files of {} bytes, and host {} for {}: give \
                     --file-size",
                    other.job.file_bytes,
                    hosts.first().map_or("", String::as_str),
                    one.job.file_bytes
                ));
            }
            let comparable = |input: &JobInput| JobSpec { part: None, ..input.job.clone() };
            if comparable(one) != comparable(other) || one.content != other.content {
                return Err(format!(
                    "host {host} would run another load of job {}, because its target is of \
                     another kind: give --engine and --queue-depth",
                    one.name
                ));
            }
        }
    }
    Ok(())
}

impl ResolvedJob {
    /// Returns the jobs as a plan, which hosts compare.
    #[must_use]
    pub fn inputs(jobs: &[Self]) -> Vec<JobInput> {
        jobs.iter().map(|job| job.input.clone()).collect()
    }
}

/// The throughput of a host in one job, in bytes a second.
#[must_use]
pub fn bytes_per_s(result: &RunResult) -> f64 {
    let sides = [&result.total.reads, &result.total.writes];
    sides.into_iter().flatten().map(|side| side.bytes_per_s).sum()
}

/// Returns the throughput of a host over all jobs, in bytes a second.
#[must_use]
pub fn rate(file: &BenchFile) -> f64 {
    file.result.iter().map(bytes_per_s).sum()
}
