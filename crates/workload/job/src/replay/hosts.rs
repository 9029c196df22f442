//! Replays on several hosts: each host replays the whole trace, or a trace of its own, onto a
//! target of its own, and all begin at the same moment. Blocks with equal hashes are equal on all
//! hosts.

use super::{
    ReplayFile, ReplayInput, ReplayJobError, ReplayJobOptions, ResolvedReplay, SCHEMA, resolve_with,
};
use crate::templates::{is_template, path_of, target_of};
use crate::{JobEnvironment, contents};
use gemelo_content::ContentSpec;
use gemelo_record::{Provenance, ResultFile};
use gemelo_replay::{ReplayPart, ReplayResult, merge};
use serde::{Deserialize, Serialize};

/// The replay of one of several hosts. Its contents are resolved, so that the host needs none of
/// the files that their options name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostReplay {
    job: ReplayJobOptions,
    content: ContentSpec,
}

/// The result of one host.
pub type HostFile<'a> = gemelo_record::HostFile<'a, ReplayInput, ReplayResult>;

/// Returns the replay of each host. `{host}` and `{index}` in the names of the target and the
/// traces are replaced.
///
/// # Errors
/// Fails if the contents are invalid, or if all hosts would use one target.
pub fn host_replays(
    job: &ReplayJobOptions,
    hosts: &[String],
    own_targets: bool,
    environment: &JobEnvironment<'_>,
) -> Result<Vec<HostReplay>, ReplayJobError> {
    if !own_targets && !is_template(&job.target.to_string()) {
        return Err(ReplayJobError::CommonTarget { target: job.target.clone() });
    }
    let content = contents::resolve(&job.content, environment.monitor)?;
    let of_host = |(index, host): (u32, &String)| {
        let mut job = job.clone();
        job.target = target_of(&job.target, host, index);
        for trace in &mut job.trace.traces {
            *trace = path_of(trace, host, index);
        }
        // The unique contents of hosts differ.
        let run = content.run.wrapping_add(u64::from(index));
        HostReplay { job, content: ContentSpec { run, ..content.clone() } }
    };
    Ok((0..).zip(hosts).map(of_host).collect())
}

impl HostReplay {
    /// Resolves the replay on its host.
    ///
    /// # Errors
    /// Fails as [`super::resolve`] does.
    pub fn resolve(
        &self,
        environment: &JobEnvironment<'_>,
    ) -> Result<ResolvedReplay, ReplayJobError> {
        resolve_with(&self.job, &self.content, environment)
    }
}

/// Merges the results of the hosts that have one; [`None`] if none has.
#[must_use]
pub fn merge_files(
    job: &ReplayJobOptions,
    files: &[HostFile<'_>],
    mut provenance: Provenance,
) -> Option<ReplayFile> {
    let first = files.first()?.file;
    let parts: Vec<ReplayPart<'_>> =
        files.iter().map(|one| ReplayPart { host: one.host, result: &one.file.result }).collect();
    let result = merge(&parts);
    let mut input = first.input.clone();
    input.traces.clone_from(&job.trace.traces);
    provenance.target = Some(job.target.to_string());
    provenance.seed = first.provenance.seed;
    let warnings = super::advice(&result);
    Some(ResultFile { schema: SCHEMA.to_owned(), provenance, input, result, warnings })
}

/// The throughput of a host in bytes a second.
#[must_use]
pub fn bytes_per_s(result: &ReplayResult) -> f64 {
    let bytes = result.reads.data_bytes + result.writes.data_bytes;
    bytes as f64 / (result.duration_ns.max(1) as f64 / 1e9)
}
