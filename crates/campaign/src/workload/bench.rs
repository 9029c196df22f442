//! Jobs of `gemelo bench`, from the keys of the plan or from a job file.
//!
//! The jobs run in a process of their own. A crash or an end by force then loses one run, the
//! monitor sees the processor time and memory of the load apart from the campaign's own, and the
//! result file is the one that a user gets from the same command.

use super::job_options::{self, JobOption, value_of};
use super::{Action, Measured, Stage};
use crate::error::StepError;
use crate::plan::keys::Keys;
use crate::plan::{PlanError, Reading};
use crate::result;
use crate::target::PlaceKind;
use gemelo_base::units::parse_duration;
use gemelo_job::JobOptions;
use std::time::Duration;

/// Options that the campaign sets: each run has a target of its own, and makes it anew.
const OWN: [&str; 4] = ["target", "force", "keep", "json"];

/// Most jobs of one action, as in a job file.
const MOST_JOBS: usize = 1000;

#[derive(Debug)]
struct Bench {
    /// Options of all jobs.
    common: Vec<JobOption>,
    /// Options of each job; one job without a name if empty.
    jobs: Vec<Vec<JobOption>>,
}

pub(super) fn read(
    keys: &Keys<'_>,
    kind: &'static str,
    _reading: &Reading<'_>,
) -> Result<Box<dyn Action>, PlanError> {
    let Some(table) = keys.table(kind)? else { return Err(keys.wrong(kind, "must be a table")) };
    let tables = table.tables("job", "job = [{ ... }]")?;
    if tables.len() > MOST_JOBS {
        return Err(PlanError::TooMany { most: MOST_JOBS, what: "jobs in one action" });
    }
    let options = |keys: &Keys<'_>| job_options::read::<JobOptions>(keys, &OWN);
    let jobs = tables.iter().map(options).collect::<Result<_, _>>()?;
    Ok(Box::new(Bench { common: options(&table)?, jobs }))
}

impl Bench {
    /// Returns the options of each job.
    fn all_jobs(&self) -> Vec<Vec<JobOption>> {
        if self.jobs.is_empty() {
            return vec![self.common.clone()];
        }
        let with_common = |job: &Vec<JobOption>| [self.common.as_slice(), job].concat();
        self.jobs.iter().map(with_common).collect()
    }

    /// Returns the jobs as a job file. Places and contents follow from the seed of the repetition,
    /// so all targets get the same load.
    fn job_file(&self, seed: u64) -> String {
        let mut text = String::new();
        for name in ["seed", "run-id"] {
            if value_of(&self.common, name).is_none() {
                text += &format!("{name} = \"{seed}\"\n");
            }
        }
        text.extend(self.common.iter().map(JobOption::line));
        for job in &self.jobs {
            text += "\n[[job]]\n";
            text.extend(job.iter().map(JobOption::line));
        }
        text
    }
}

impl Action for Bench {
    fn description(&self) -> String {
        let of_job = |job: Vec<JobOption>| {
            let said = |name, usual| value_of(&job, name).unwrap_or(usual).to_owned();
            let operation = said("operation", "write");
            let contents = said("distribution", "personal");
            format!("{} {operation}, contents {contents}", said("pattern", "sequential"))
        };
        self.all_jobs().into_iter().map(of_job).collect::<Vec<_>>().join("; ")
    }

    fn accepts(&self, _place: PlaceKind) -> bool {
        true
    }

    fn expected_time(&self) -> Option<Duration> {
        let of_job = |job: &Vec<JobOption>| {
            // With a limit of bytes as well, the run may end earlier.
            parse_duration(value_of(job, "time")?).ok()
        };
        self.all_jobs().iter().map(of_job).sum()
    }

    fn main_figure(&self) -> Option<String> {
        let jobs = self.all_jobs();
        let last = jobs.last()?;
        let kind = match value_of(last, "operation").unwrap_or("write") {
            "mixed" => "all",
            other => other,
        };
        let figure = format!("{kind}/operations_per_s");
        match (value_of(last, "name"), jobs.len()) {
            (Some(name), 2..) => Some(format!("{name}.{figure}")),
            (None, 2..) => None,
            _ => Some(figure),
        }
    }

    fn run(&self, stage: &mut Stage<'_, '_>) -> Result<Measured, StepError> {
        let file = format!("{}.toml", stage.name);
        let path = stage.site.results.join(&file);
        std::fs::write(&path, self.job_file(stage.site.seed))
            .map_err(StepError::io("write", &path))?;
        let mut command = stage.site.gemelo(&["bench"]);
        command.arg(&path).arg("--target").arg(stage.place.uri());
        let mut measured = result::run(stage, command)?;
        measured.files.insert(0, file);
        Ok(measured)
    }
}
