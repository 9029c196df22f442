//! Sweeps of an option: each job runs once for each value.

use crate::job_file::{self, JobFileError};
use crate::{JobOptions, Sweep};
use gemelo_base::Classified;
use gemelo_target::Targets;
use thiserror::Error;

/// The reason why an option cannot be swept: that of a job file with a line for each value, without
/// the number of the line.
#[derive(Debug, Error, PartialEq, Eq, Classified)]
#[kind(BadInput)]
#[error("{0}")]
pub struct SweepError(String);

impl From<JobFileError> for SweepError {
    fn from(error: JobFileError) -> Self {
        let text = error.to_string();
        Self(text.strip_prefix("line 1: ").map_or_else(|| text.clone(), str::to_owned))
    }
}

/// Returns the jobs with each value of the swept option in turn. A value takes precedence over the
/// options of the job. The names of the jobs state the value.
///
/// # Errors
/// Fails if no option has the name, or if the option does not take one of the values.
pub fn swept(
    jobs: &[JobOptions],
    sweep: &Sweep,
    targets: &Targets,
) -> Result<Vec<JobOptions>, SweepError> {
    let mut all = Vec::with_capacity(jobs.len() * sweep.values.len());
    for value in &sweep.values {
        // The keys of job files are the options, so a line of a job file is one option.
        let text = toml::Value::String(value.clone());
        let options = job_file::parse(&format!("{} = {text}", sweep.name), targets)?;
        for job in jobs {
            for options in &options {
                let label = format!("{}={value}", sweep.name);
                let name = job.name.as_ref().map(|name| format!("{name} {label}"));
                let mut swept = options.clone().or(job.clone());
                swept.name = Some(name.unwrap_or(label));
                all.push(swept);
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_runs_with_each_value() {
        let jobs = job_file::parse(
            "processes = 1\n[[job]]\n[[job]]\nname = 'r'\noperation = 'read'\n",
            &Targets::new(),
        );
        let sweep = "processes=2,3".parse().unwrap();
        let all = swept(&jobs.unwrap(), &sweep, &Targets::new()).unwrap();
        let told: Vec<_> = all
            .iter()
            .map(|job| (job.name.as_deref().unwrap(), job.load.processes.unwrap()))
            .collect();
        assert_eq!(
            told,
            [("processes=2", 2), ("r processes=2", 2), ("processes=3", 3), ("r processes=3", 3)]
        );
        for (wrong, message) in [
            ("procesess=1,2", "there is no option 'procesess'; a similar option is 'processes'"),
            ("processes=1,many", "invalid value 'many' for '--processes <N>'"),
        ] {
            let error = swept(&[JobOptions::default()], &wrong.parse().unwrap(), &Targets::new());
            let error = error.unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
