//! The suite of the DEDISbench paper: `gemelo suite` with its options as keys.

use super::job_options::{self, JobOption, data_bytes, value_of};
use super::{Action, ActionResult, ActionSite, Measured};
use crate::error::StepError;
use crate::plan::Reading;
use crate::plan::keys::Keys;
use crate::result;
use crate::target::PlaceKind;
use gemelo_base::units::parse_duration;
use gemelo_job::JobOptions;
use std::time::Duration;

/// Options that the campaign or the suite sets.
const OWN: [&str; 6] = ["target", "force", "keep", "json", "operation", "pattern"];

/// Number of jobs of the suite.
const JOBS: u32 = 8;

#[derive(Debug)]
struct Suite {
    options: Vec<JobOption>,
    /// Words of the command line for a run on several hosts.
    hosts: Vec<String>,
}

pub(super) fn read(keys: &Keys<'_>, kind: &'static str, _reading: &Reading<'_>) -> ActionResult {
    let table = keys.required_table(kind)?;
    let hosts = job_options::host_words(&table)?;
    Ok(Box::new(Suite { options: job_options::read::<JobOptions>(&table, &OWN)?, hosts }))
}

impl Action for Suite {
    fn description(&self) -> String {
        let contents = value_of(&self.options, "distribution").unwrap_or("personal");
        format!("the eight loads of DEDISbench, contents {contents}")
    }

    fn accepts(&self, _place: PlaceKind) -> bool {
        true
    }

    fn expected_time(&self) -> Option<Duration> {
        Some(parse_duration(value_of(&self.options, "time")?).ok()? * JOBS)
    }

    fn data_bytes(&self) -> Option<u64> {
        data_bytes(&self.options)
    }

    fn main_figure(&self) -> Option<String> {
        // The load by which the paper tells systems apart (section 4.4).
        Some("nurand-write.write/operations_per_s".to_owned())
    }

    fn run(&self, stage: &mut ActionSite<'_, '_>) -> Result<Measured, StepError> {
        let mut command = stage.site.gemelo(&["suite", "--target"]);
        command.arg(stage.place.uri());
        command.args(self.options.iter().filter_map(JobOption::word));
        command.args(&self.hosts);
        command.args(job_options::seeds(&self.options, stage.site.seed));
        result::run(stage, command)
    }
}
