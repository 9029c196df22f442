//! A campaign and its runs, ordered for the report: which runs there are of a target and a
//! workload, which figures they have, and which figures rank the targets.

use crate::quantity::{bare_name, figure_name};
use gemelo_record::{Better, CampaignRecord, Outcome, RunRecord, TargetRecord, WorkloadRecord};
use std::collections::{BTreeMap, BTreeSet};

/// Figure of reads and writes together.
const ALL_OPERATIONS: &str = "all/operations_per_s";
/// Figures that rank targets if the plan names none, the first one that a workload has.
const MAIN_FIGURES: [&str; 7] = [
    ALL_OPERATIONS,
    "write/operations_per_s",
    "read/operations_per_s",
    "filebench/operations_per_s",
    "write/bytes_per_s",
    "read/bytes_per_s",
    "run/elapsed_ns",
];
/// Figures that rank the targets of one workload at most: the jobs of a long suite or sweep. The
/// others are in the table of all figures.
const MOST_MAIN_FIGURES: usize = 24;

/// A campaign and its runs.
pub(crate) struct Data {
    /// The plan of the campaign, as its record has it.
    pub(crate) plan: CampaignRecord,
    /// Runs that have a record, in the order of the plan.
    pub(crate) runs: Vec<RunRecord>,
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

    /// Returns the number and the record of the target that the others are compared with: the one
    /// that the plan names, or the first one that has a complete run.
    pub(crate) fn baseline(&self) -> Option<(usize, &TargetRecord)> {
        let named = self.targets().find(|(_, target)| target.is_baseline);
        let is_run = |target: &TargetRecord| self.complete().any(|run| run.target == target.name);
        named.or_else(|| self.targets().find(|(_, target)| is_run(target)))
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

    /// Returns the figures that rank the targets of a workload: the one of the plan, or the most
    /// telling one of each job.
    pub(crate) fn main_figures(&self, workload: &WorkloadRecord) -> Vec<(String, Better)> {
        let names = self.figure_names(workload);
        if let Some(main) = &workload.main_figure {
            return names.into_iter().filter(|(name, _)| name == main).collect();
        }
        let mut best: BTreeMap<Option<String>, (usize, usize)> = BTreeMap::new();
        for (place, (name, _)) in names.iter().enumerate() {
            let job = figure_name(name).job;
            let bare = bare_name(name);
            let Some(rank) = MAIN_FIGURES.iter().position(|main| *main == bare) else { continue };
            // The figure of all operations says less than that of the only kind of operations.
            if bare == ALL_OPERATIONS && !is_mixed(&names, job.as_deref()) {
                continue;
            }
            let entry = best.entry(job).or_insert((rank, place));
            if rank < entry.0 {
                *entry = (rank, place);
            }
        }
        // A figure of the whole workload says more than the one of each job, if there is one that
        // counts operations and not only the time.
        let whole = best.get(&None).is_some_and(|(rank, _)| rank + 1 < MAIN_FIGURES.len());
        if whole || best.len() > 1 {
            best.retain(|job, _| job.is_none() == whole);
        }
        let mut places: Vec<usize> = best.into_values().map(|(_, place)| place).collect();
        places.sort_unstable();
        places.truncate(MOST_MAIN_FIGURES);
        places.into_iter().filter_map(|place| names.get(place).cloned()).collect()
    }
}

/// Returns whether a job both reads and writes.
fn is_mixed(names: &[(String, Better)], job: Option<&str>) -> bool {
    let has = |bare: &str| {
        names
            .iter()
            .any(|(name, _)| bare_name(name) == bare && figure_name(name).job.as_deref() == job)
    };
    has("write/operations_per_s") && has("read/operations_per_s")
}

/// Returns a figure of a run, of its load or of the monitor.
pub(crate) fn value_of(run: &RunRecord, figure: &str) -> Option<f64> {
    run.figures.value(figure).or_else(|| run.monitor.value(figure))
}

/// Returns the address of the raw result of a run, relative to the campaign's directory.
pub(crate) fn raw_file(run: &RunRecord) -> String {
    let file = run.files.first().map_or(gemelo_record::RUN_FILE, String::as_str);
    run_file(run, file)
}

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
