//! Replays on several hosts: each host replays the whole trace, or a trace of its own, onto a
//! target of its own, and all begin at the same moment. Blocks with equal hashes are equal on all
//! hosts.

use super::{ReplayInput, ReplayJobError, ReplayJobOptions, SCHEMA};
use crate::fleet::{FleetJob, HostFile, Merged};
use crate::templates::{is_template, path_of, target_of};
use crate::{JobEnvironment, contents};
use gemelo_content::ContentSpec;
use gemelo_replay::{ReplayPart, ReplayResult, merge};
use serde::de::IgnoredAny;

/// The replays of all hosts.
#[derive(Debug)]
pub struct FleetReplay {
    job: ReplayJobOptions,
    of_hosts: Vec<ReplayJobOptions>,
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
            job.spec = Some(ContentSpec { run, ..content.clone() });
            job
        };
        Ok(Self { job: job.clone(), of_hosts: (0..).zip(hosts).map(of_host).collect() })
    }
}

impl FleetJob for FleetReplay {
    type Part = ReplayJobOptions;
    type Plan = IgnoredAny;
    type Input = ReplayInput;
    type Measured = ReplayResult;
    const SCHEMA: &'static str = SCHEMA;

    fn parts(&self) -> Vec<ReplayJobOptions> {
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
