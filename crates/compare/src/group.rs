//! Groups of runs: the repetitions of one workload on one target.

use gemelo_record::{Figures, Outcome, RunRecord};
use gemelo_stats::Sample;
use serde::Serialize;
use std::collections::BTreeMap;

/// The workload and the target of a group. Single result files have neither.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// Name of the workload.
    pub workload: Option<String>,
    /// Name of the target.
    pub target: Option<String>,
}

impl Place {
    /// Returns the place of a workload on a target.
    #[must_use]
    pub fn new(workload: &str, target: &str) -> Self {
        Self { workload: Some(workload.to_owned()), target: Some(target.to_owned()) }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.workload, &self.target) {
            (Some(workload), Some(target)) => write!(formatter, "{workload} on {target}"),
            _ => write!(formatter, "the results"),
        }
    }
}

/// The complete runs of a campaign, by workload and target. Each run is one repetition.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Groups {
    groups: BTreeMap<Place, Vec<Figures>>,
}

impl Groups {
    /// Groups the runs that are done. A run has the figures of its workload and the averages of
    /// its monitor.
    #[must_use]
    pub fn of_runs(runs: &[RunRecord]) -> Self {
        let mut groups = Self::default();
        for run in runs.iter().filter(|run| run.outcome == Outcome::Done) {
            let mut figures = run.figures.clone();
            let own = |name: &str| run.figures.value(name).is_none();
            figures
                .figures
                .extend(run.monitor.figures.iter().filter(|figure| own(&figure.name)).cloned());
            groups.add(Place::new(&run.workload, &run.target), figures);
        }
        groups
    }

    /// Adds a repetition.
    pub fn add(&mut self, place: Place, figures: Figures) {
        self.groups.entry(place).or_default().push(figures);
    }

    /// Returns the places that have a run, in order.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.groups.keys()
    }

    /// Returns the repetitions at a place, or none.
    #[must_use]
    pub fn runs(&self, place: &Place) -> &[Figures] {
        self.groups.get(place).map_or(&[], Vec::as_slice)
    }

    /// Returns the values of a figure at a place, or `None` if no run has it.
    #[must_use]
    pub fn sample(&self, place: &Place, figure: &str) -> Option<Sample> {
        sample_of(self.runs(place), figure)
    }
}

/// Returns the values of a figure in these runs, or `None` if no run has it.
pub(crate) fn sample_of<'a>(
    runs: impl IntoIterator<Item = &'a Figures>,
    figure: &str,
) -> Option<Sample> {
    Sample::new(runs.into_iter().filter_map(|run| run.value(figure))).ok()
}
