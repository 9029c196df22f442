//! The replay of traces: `gemelo replay` with its options as keys.

use super::job_options::{self, JobOption};
use super::{Action, ActionResult, ActionSite, Measured};
use crate::error::StepError;
use crate::plan::Reading;
use crate::plan::keys::Keys;
use crate::result;
use crate::target::{LoadPlace, PlaceKind};
use gemelo_base::{ShowPath as _, text_of_name};
use gemelo_job::replay::ReplayJobOptions;
use std::path::PathBuf;

/// Options that the campaign sets.
const OWN: [&str; 4] = ["target", "force", "keep", "json"];

#[derive(Debug)]
struct Replay {
    traces: Vec<PathBuf>,
    options: Vec<JobOption>,
    /// Words of the command line for a run on several hosts.
    hosts: Vec<String>,
}

pub(super) fn read(keys: &Keys<'_>, kind: &'static str, reading: &Reading<'_>) -> ActionResult {
    let table = keys.required_table(kind)?;
    let traces: Vec<_> = table.texts("traces")?.iter().map(|path| reading.path(path)).collect();
    if traces.is_empty() {
        return Err(table.wrong("traces", "is missing: name one trace or a list"));
    }
    let hosts = job_options::host_words(&table)?;
    let options = job_options::read::<ReplayJobOptions>(&table, &OWN)?;
    Ok(Box::new(Replay { traces, options, hosts }))
}

impl Action for Replay {
    fn description(&self) -> String {
        let names = self.traces.iter().filter_map(|path| path.file_name());
        let names: Vec<_> = names.map(text_of_name).collect();
        let speed = job_options::value_of(&self.options, "speed").unwrap_or("1");
        format!("replay of {} at speed {speed}", names.join(", "))
    }

    fn missing(&self) -> Option<String> {
        let missing = self.traces.iter().find(|path| !path.is_file())?;
        Some(format!("the trace {} is missing", missing.shown()))
    }

    fn accepts(&self, _place: PlaceKind) -> bool {
        true
    }

    fn main_figure(&self) -> Option<String> {
        let is_max = job_options::value_of(&self.options, "speed") == Some("max");
        let figure = if is_max { "all/operations_per_s" } else { "write/latency_mean_ns" };
        Some(figure.to_owned())
    }

    fn run(&self, stage: &mut ActionSite<'_, '_>) -> Result<Measured, StepError> {
        let target = match &stage.place {
            LoadPlace::Directory(path) => path.join("replay.data").into(),
            other => other.uri(),
        };
        let mut command = stage.site.gemelo(&["replay"]);
        command.args(&self.traces).arg("--target").arg(target);
        command.args(self.options.iter().filter_map(JobOption::word));
        command.args(job_options::seeds(&self.options, stage.site.seed)).args(&self.hosts);
        result::run(stage, command)
    }
}
