//! Replays on several hosts: each host replays the whole trace, or a trace of its own, onto a
//! target of its own, and all begin at the same moment. Blocks with equal hashes are equal on all
//! hosts.

use super::{ReplayInput, ReplayJobError, ReplayJobOptions, ResolvedReplay, SCHEMA, resolve_with};
use crate::fleet::{FleetJob, HostFile, Merged};
use crate::templates::{is_template, path_of, target_of};
use crate::{JobEnvironment, contents};
use gemelo_content::ContentSpec;
use gemelo_replay::{ReplayPart, ReplayResult, merge};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// The replay of one of several hosts. Its contents are resolved, so that the host needs none of
/// the files that their options name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostReplay {
    job: ReplayJobOptions,
    content: ContentSpec,
}

/// The replays of all hosts.
#[derive(Debug)]
pub struct FleetReplay {
    job: ReplayJobOptions,
    of_hosts: Vec<HostReplay>,
}

impl FleetReplay {
    /// Makes the replay of each host. `{host}` and `{index}` in the names of the target and the
    /// traces are replaced.
    ///
    /// # Errors
    /// Fails if the contents are invalid, or if all hosts would use one target.
    pub fn new(
        job: &ReplayJobOptions,
        hosts: &[String],
        own_targets: bool,
        environment: &JobEnvironment<'_>,
    ) -> Result<Self, ReplayJobError> {
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
        Ok(Self { job: job.clone(), of_hosts: (0..).zip(hosts).map(of_host).collect() })
    }
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

impl FleetJob for FleetReplay {
    type Part = HostReplay;
    type Plan = IgnoredAny;
    type Input = ReplayInput;
    type Measured = ReplayResult;
    const SCHEMA: &'static str = SCHEMA;

    fn parts(&self) -> Vec<HostReplay> {
        self.of_hosts.clone()
    }

    fn target(&self) -> Option<String> {
        Some(self.job.target.to_string())
    }

    fn merge(&self, files: &[HostFile<'_, Self>]) -> Option<Merged<Self>> {
        let parts: Vec<ReplayPart<'_>> = files
            .iter()
            .map(|one| ReplayPart { host: one.host, result: &one.file.result })
            .collect();
        let result = merge(&parts);
        let mut input = files.first()?.file.input.clone();
        input.traces.clone_from(&self.job.trace.traces);
        let warnings = super::advice(&result);
        Some((input, result, warnings))
    }

    /// The throughput in bytes a second.
    fn rate(measured: &ReplayResult) -> f64 {
        let bytes = measured.reads.data_bytes + measured.writes.data_bytes;
        bytes as f64 / (measured.duration_ns.max(1) as f64 / 1e9)
    }

    fn is_success(measured: &ReplayResult) -> bool {
        measured.is_complete && measured.verification.wrong == 0
    }
}
