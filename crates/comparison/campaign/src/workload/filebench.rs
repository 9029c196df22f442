//! A script of Filebench's language: `gemelo filebench` with its options as keys.

use super::job_options::{self, JobOption, value_of};
use super::{Action, ActionResult, ActionSite, Measured};
use crate::error::StepError;
use crate::plan::Reading;
use crate::plan::keys::Keys;
use crate::result;
use crate::target::PlaceKind;
use gemelo_base::units::parse_duration;
use gemelo_base::{ShowPath as _, text_of_name};
use gemelo_job::Sweep;
use gemelo_job::filebench::FilebenchOptions;
use std::path::PathBuf;
use std::time::Duration;

/// Options that the campaign sets.
const OWN: [&str; 4] = ["dir", "force", "keep", "json"];

#[derive(Debug)]
struct Filebench {
    script: PathBuf,
    options: Vec<JobOption>,
    /// Words of the command line for a run on several hosts.
    hosts: Vec<String>,
}

pub(super) fn read(keys: &Keys<'_>, kind: &'static str, reading: &Reading<'_>) -> ActionResult {
    let table = keys.required_table(kind)?;
    let script = reading.path(&table.required_text("script")?);
    let hosts = job_options::host_words(&table)?;
    let options = job_options::read::<FilebenchOptions>(&table, &OWN)?;
    Ok(Box::new(Filebench { script, options, hosts }))
}

impl Filebench {
    /// Returns the number of values of the sweep, and the first one as a prefix of figures.
    fn sweep(&self) -> Option<(u32, String)> {
        let sweep: Sweep = value_of(&self.options, "sweep")?.parse().ok()?;
        let count = u32::try_from(sweep.values.len()).unwrap_or(u32::MAX);
        Some((count, format!("{}={}.", sweep.name, sweep.values.first()?)))
    }
}

impl Action for Filebench {
    fn description(&self) -> String {
        let script = text_of_name(self.script.file_name().unwrap_or_default());
        let words = self.options.iter().filter_map(JobOption::word).collect::<Vec<_>>().join(" ");
        format!("Filebench script {script} {words}").trim_end().to_owned()
    }

    fn missing(&self) -> Option<String> {
        (!self.script.is_file()).then(|| format!("the script {} is missing", self.script.shown()))
    }

    fn accepts(&self, place: PlaceKind) -> bool {
        place == PlaceKind::Directory
    }

    fn expected_time(&self) -> Option<Duration> {
        let once = parse_duration(value_of(&self.options, "time")?).ok()?;
        Some(once * self.sweep().map_or(1, |(count, _)| count))
    }

    fn main_figure(&self) -> Option<String> {
        let prefix = self.sweep().map(|(_, prefix)| prefix).unwrap_or_default();
        Some(format!("{prefix}filebench/operations_per_s"))
    }

    fn run(&self, stage: &mut ActionSite<'_, '_>) -> Result<Measured, StepError> {
        let mut command = stage.site.gemelo(&["filebench"]);
        command.arg(&self.script).arg("--dir").arg(stage.place.uri());
        command.args(self.options.iter().filter_map(JobOption::word));
        command.args(job_options::seeds(&self.options, stage.site.seed)).args(&self.hosts);
        result::run(stage, command)
    }
}
