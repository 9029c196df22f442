//! Groups of runs: the repetitions of one workload on one target.

use gemelo_record::{Outcome, RunRecord, Stats};
use gemelo_stats::{Pairs, Sample};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The workload and the target of a group. Single result files have neither.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
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

/// One repetition of a workload on a target.
#[derive(Debug, Clone, PartialEq)]
pub struct Repetition {
    /// Number of the repetition, from 1. Repetitions of a number were measured one after the
    /// other, in a round.
    pub number: u32,
    /// The figures of the run, and the averages of its monitor.
    pub figures: Stats,
    /// Length of the measurement, if a campaign has recorded it.
    pub measured_ns: Option<u64>,
}

/// Name of the phase in which a campaign measures.
const MEASURE: &str = "measure";

impl Repetition {
    /// Returns the repetition that a run of a campaign is.
    #[must_use]
    pub fn of_run(run: &RunRecord) -> Self {
        let mut figures = run.figures.clone();
        let own = |name: &str| run.figures.value(name).is_none();
        let monitored = run.monitor.figures.iter().filter(|figure| own(&figure.name));
        figures.figures.extend(monitored.cloned());
        let measured = run.phases.iter().find(|phase| phase.name == MEASURE);
        Self { number: run.repetition, figures, measured_ns: measured.map(|phase| phase.length_ns) }
    }
}

/// The complete runs of a campaign, by workload and target. Each run is one repetition.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Groups {
    groups: BTreeMap<Place, Vec<Repetition>>,
}

impl Groups {
    /// Groups the runs that are done.
    #[must_use]
    pub fn of_runs(runs: &[RunRecord]) -> Self {
        let mut groups = Self::default();
        for run in runs.iter().filter(|run| run.outcome == Outcome::Done) {
            groups.add(Place::new(&run.workload, &run.target), Repetition::of_run(run));
        }
        groups
    }

    /// Adds a repetition.
    pub fn add(&mut self, place: Place, repetition: Repetition) {
        self.groups.entry(place).or_default().push(repetition);
    }

    /// Returns the places that have a run, in order.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.groups.keys()
    }

    /// Returns the repetitions at a place, or none.
    #[must_use]
    pub fn runs(&self, place: &Place) -> &[Repetition] {
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
    runs: impl IntoIterator<Item = &'a Repetition>,
    figure: &str,
) -> Option<Sample> {
    Sample::new(runs.into_iter().filter_map(|run| run.figures.value(figure))).ok()
}

/// Returns the values of two figures in the rounds in which both were measured, or `None` if there
/// is no such round.
pub(crate) fn pairs_of(base: Values<'_>, changed: Values<'_>) -> Option<Pairs> {
    let round = |run: &Repetition| {
        let other = changed.runs.iter().find(|other| other.number == run.number)?;
        Some((run.figures.value(base.figure)?, other.figures.value(changed.figure)?))
    };
    let rounds: Vec<(f64, f64)> = base.runs.iter().filter_map(round).collect();
    Pairs::new(&rounds).ok()
}

/// The values of a figure in some repetitions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) runs: &'a [Repetition],
    pub(crate) figure: &'a str,
}
