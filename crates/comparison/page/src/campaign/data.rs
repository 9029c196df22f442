//! A campaign and its runs, ordered for the report: which runs there are of a target and a
//! workload, which figures they have, and which figures rank the targets.

use gemelo_compare::Groups;
use gemelo_record::{Better, CampaignRecord, Outcome, RunRecord, TargetRecord, WorkloadRecord};
use std::collections::BTreeSet;

/// A campaign and its runs.
pub(crate) struct Data {
    /// The plan of the campaign, as its record has it.
    pub(crate) plan: CampaignRecord,
    /// Runs that have a record, in the order of the plan.
    pub(crate) runs: Vec<RunRecord>,
    /// The complete runs, by workload and target.
    pub(crate) groups: Groups,
}

/// A figure of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Value<'a> {
    pub(crate) run: &'a RunRecord,
    pub(crate) value: f64,
}

impl Data {
    /// Returns the targets with their numbers, which are those of their colours.
    pub(crate) fn targets(&self) -> impl Iterator<Item = (usize, &TargetRecord)> {
        self.plan.targets.iter().enumerate()
    }

    /// Returns the targets that have a complete run.
    pub(crate) fn measured_targets(&self) -> impl Iterator<Item = (usize, &TargetRecord)> {
        self.targets().filter(|(_, target)| self.complete().any(|run| run.target == target.name))
    }

    /// Returns the number and the record of the target that the others are compared with.
    pub(crate) fn baseline(&self) -> Option<(usize, &TargetRecord)> {
        let baseline = gemelo_compare::baseline(&self.plan, &self.groups)?;
        self.targets().find(|(_, target)| target.name == baseline.name)
    }

    /// Returns the runs that were complete.
    pub(crate) fn complete(&self) -> impl Iterator<Item = &RunRecord> {
        self.runs.iter().filter(|run| run.outcome == Outcome::Done)
    }

    /// Returns the complete runs of a workload.
    pub(crate) fn of_workload<'a>(
        &'a self,
        workload: &'a WorkloadRecord,
    ) -> impl Iterator<Item = &'a RunRecord> {
        self.complete().filter(|run| run.workload == workload.name)
    }

    /// Returns the complete runs of a workload on a target.
    pub(crate) fn of_pair<'a>(
        &'a self,
        workload: &'a WorkloadRecord,
        target: &'a TargetRecord,
    ) -> impl Iterator<Item = &'a RunRecord> {
        self.of_workload(workload).filter(|run| run.target == target.name)
    }

    /// Returns the values of a figure in the complete runs of a workload on a target.
    pub(crate) fn values<'a>(
        &'a self,
        workload: &'a WorkloadRecord,
        target: &'a TargetRecord,
        figure: &str,
    ) -> Vec<Value<'a>> {
        self.of_pair(workload, target)
            .filter_map(|run| Some(Value { run, value: value_of(run, figure)? }))
            .collect()
    }

    /// Returns the names of all figures of a workload, with the direction in which they improve.
    pub(crate) fn figure_names(&self, workload: &WorkloadRecord) -> Vec<(String, Better)> {
        let mut names: Vec<(String, Better)> = Vec::new();
        let mut known = BTreeSet::new();
        for run in self.of_workload(workload) {
            for figure in run.figures.figures.iter().chain(&run.monitor.figures) {
                if known.insert(figure.name.as_str()) {
                    names.push((figure.name.clone(), figure.better));
                }
            }
        }
        names
    }

    /// Returns the figures that rank the targets of a workload.
    pub(crate) fn main_figures(&self, workload: &WorkloadRecord) -> Vec<(String, Better)> {
        let figures = gemelo_compare::main_figures(workload, &self.groups);
        figures.into_iter().map(|figure| (figure.name, figure.better)).collect()
    }
}

/// Returns a figure of a run, of its load or of the monitor.
pub(crate) fn value_of(run: &RunRecord, figure: &str) -> Option<f64> {
    run.figures.value(figure).or_else(|| run.monitor.value(figure))
}

/// Returns the address of the raw result of a run, relative to the campaign's directory: its first
/// result file, or its record if the load has written none. Files of jobs are no results.
pub(crate) fn raw_file(run: &RunRecord) -> String {
    let first = || run.files.iter().map(String::as_str).find(|file| is_result(file));
    run_file(run, measured_file(run).or_else(first).unwrap_or(gemelo_record::RUN_FILE))
}

/// Returns the name of the result file of the measurement of a run.
pub(super) fn measured_file(run: &RunRecord) -> Option<&str> {
    let mut files = run.files.iter().map(String::as_str);
    files.find(|file| is_result(file) && file.starts_with(MEASURE))
}

fn is_result(file: &str) -> bool {
    file.ends_with(".json")
}

/// Start of the names of the files of a measurement.
const MEASURE: &str = "measure";

/// Returns the address of a file of a run, relative to the campaign's directory.
pub(crate) fn run_file(run: &RunRecord, file: &str) -> String {
    let path = format!("{}/{}/{file}", gemelo_record::RUNS_DIRECTORY, run.id);
    // The names of files may have letters that mean something in an address.
    path.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
