//! The figures that rank the targets of a campaign, and the comparison of its targets by them.

use crate::row::compare_selected;
use crate::{Groups, Margin, MarginError, Pair, Place, Row, Selection, Settings};
use gemelo_base::Classified;
use gemelo_figures::name_parts;
use gemelo_record::{Better, CampaignRecord, TargetRecord, WorkloadRecord};
use gemelo_stats::{Confidence, ConfidenceError, PlannedLooks};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

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
/// Figures that rank the targets of one workload at most: the jobs of a long suite or sweep.
const MAX_MAIN_FIGURES: usize = 24;

/// A figure by which targets are ranked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MainFigure {
    /// Name of the figure.
    pub name: String,
    /// The direction in which the figure improves.
    pub better: Better,
}

/// The error for the record of a campaign with an invalid setting.
#[derive(Debug, Clone, PartialEq, Error, Classified)]
#[kind(BadInput)]
pub enum SettingsError {
    /// The level of confidence is invalid.
    #[error("the record of the campaign is invalid: {0}")]
    Confidence(#[from] ConfidenceError),
    /// The equivalence margin is invalid.
    #[error("the record of the campaign is invalid: {0}")]
    Margin(#[from] MarginError),
}

/// The level and the margin by which a campaign is judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standards {
    /// The level of each interval before it is shared by many comparisons: each look at the data of
    /// a campaign that may add repetitions takes its part.
    pub confidence: Confidence,
    /// The ratios that count as the same.
    pub margin: Margin,
}

impl Standards {
    /// Returns the standards of a campaign.
    ///
    /// # Errors
    /// Fails if the record has an invalid level or margin.
    pub fn of(campaign: &CampaignRecord) -> Result<Self, SettingsError> {
        let looks = PlannedLooks::new(campaign.repetitions, campaign.max_repetitions);
        Ok(Self {
            confidence: looks.share(Confidence::new(campaign.confidence)?),
            margin: Margin::new(campaign.margin_share)?,
        })
    }
}

/// Returns the target that the others are compared with: the one that the plan names, or the first
/// one that has a complete run.
#[must_use]
pub fn baseline<'a>(campaign: &'a CampaignRecord, groups: &Groups) -> Option<&'a TargetRecord> {
    let named = campaign.targets.iter().find(|target| target.is_baseline);
    let is_run = |target: &&TargetRecord| {
        groups.places().any(|place| place.target.as_deref() == Some(target.name.as_str()))
    };
    named.or_else(|| campaign.targets.iter().find(is_run))
}

/// Returns the figures that rank the targets of a workload: the one of the plan, or the most
/// telling one of each job.
#[must_use]
pub fn main_figures(workload: &WorkloadRecord, groups: &Groups) -> Vec<MainFigure> {
    let names = figure_names(workload, groups);
    if let Some(main) = &workload.main_figure {
        return names.into_iter().filter(|figure| figure.name == *main).collect();
    }
    let mut best: BTreeMap<Option<&str>, (usize, usize)> = BTreeMap::new();
    for (place, figure) in names.iter().enumerate() {
        let parts = name_parts(&figure.name);
        let Some(rank) = MAIN_FIGURES.iter().position(|main| *main == parts.bare) else { continue };
        // The figure of all operations says less than that of the only kind of operations.
        if parts.bare == ALL_OPERATIONS && !is_mixed(&names, parts.job) {
            continue;
        }
        let entry = best.entry(parts.job).or_insert((rank, place));
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
    places.truncate(MAX_MAIN_FIGURES);
    places.into_iter().filter_map(|place| names.get(place).cloned()).collect()
}

/// Returns the names of all figures of a workload in the order of its runs.
fn figure_names(workload: &WorkloadRecord, groups: &Groups) -> Vec<MainFigure> {
    let mut names = Vec::new();
    let mut known = BTreeSet::new();
    let of_workload =
        groups.places().filter(|place| place.workload.as_deref() == Some(workload.name.as_str()));
    for run in of_workload.flat_map(|place| groups.runs(place)) {
        for figure in &run.figures.figures {
            if known.insert(figure.name.as_str()) {
                names.push(MainFigure { name: figure.name.clone(), better: figure.better });
            }
        }
    }
    names
}

/// Returns whether a job both reads and writes.
fn is_mixed(names: &[MainFigure], job: Option<&str>) -> bool {
    let has = |bare: &str| {
        names
            .iter()
            .map(|figure| name_parts(&figure.name))
            .any(|parts| parts.bare == bare && parts.job == job)
    };
    has("write/operations_per_s") && has("read/operations_per_s")
}

/// Compares each target of a campaign with the baseline, in the rounds in which both were measured,
/// by the figures that rank targets on its workload. All of these comparisons share the level, and
/// no others.
#[must_use]
pub fn compare_targets(
    campaign: &CampaignRecord,
    groups: &Groups,
    standards: Standards,
) -> Vec<Row> {
    let Some(baseline) = baseline(campaign, groups) else { return Vec::new() };
    let mut pairs = Vec::new();
    for workload in &campaign.workloads {
        let figures = main_figures(workload, groups).into_iter().map(|figure| figure.name);
        let selection = Selection::Exactly(figures.collect());
        let runs = |target: &TargetRecord| groups.runs(&Place::new(&workload.name, &target.name));
        for target in campaign.targets.iter().filter(|target| target.name != baseline.name) {
            let pair = Pair {
                place: Place::new(&workload.name, &target.name),
                before: runs(baseline),
                after: runs(target),
                is_paired: true,
            };
            pairs.push((pair, selection.clone()));
        }
    }
    let Standards { confidence, margin } = standards;
    let selected: Vec<_> = pairs.iter().map(|(pair, selection)| (pair, selection)).collect();
    compare_selected(&selected, &Settings { confidence, margin, selection: Selection::Main })
}
