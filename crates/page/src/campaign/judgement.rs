//! The statistics of a campaign, by the crates `stats` and `compare`: means with intervals,
//! comparisons with the baseline, verdicts on claims.

use super::data::Data;
use gemelo_compare::{Basis, Groups, Pair, Place, Row, Selection, Settings, Verdict};
use gemelo_record::Figures;
use gemelo_stats::{Confidence, mean_with_interval};
use std::collections::{BTreeMap, BTreeSet};

/// A mean over repetitions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) interval: Option<(f64, f64)>,
    /// Number of repetitions.
    pub(crate) count: usize,
}

/// A comparison of a target with the baseline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Versus {
    /// Target's value divided by the baseline's.
    pub(crate) ratio: f64,
    /// Interval over repetitions.
    pub(crate) interval: Option<(f64, f64)>,
    /// Corrected for all comparisons of the report.
    pub(crate) p_value: Option<f64>,
    pub(crate) verdict: Verdict,
}

impl Versus {
    /// Returns `None` for a baseline of zero, to which there is no ratio.
    fn of(row: &Row) -> Option<Self> {
        let ratio = row.ratio?;
        // An interval within single runs says nothing about the noise between runs.
        let interval = ratio.interval.filter(|_| row.basis == Basis::Repetitions);
        Some(Self {
            ratio: ratio.value,
            interval: interval.map(|interval| (interval.low(), interval.high())),
            p_value: row.adjusted_p_value,
            verdict: row.verdict,
        })
    }

    /// Returns whether the data carry a difference.
    pub(crate) fn is_significant(&self) -> bool {
        matches!(self.verdict, Verdict::Better | Verdict::Worse)
    }
}

/// The statistics of a campaign.
pub(crate) struct Judgement {
    groups: Groups,
    comparisons: BTreeMap<(Place, String), Versus>,
    confidence: Confidence,
    /// Verdicts on claims, in the order of the plan.
    pub(crate) claims: Vec<gemelo_compare::Judgement>,
}

impl Judgement {
    pub(crate) fn new(data: &Data) -> Self {
        let confidence = Confidence::new(data.plan.confidence).unwrap_or(Confidence::USUAL);
        let groups = Groups::of_runs(&data.runs);
        let rows = rows(data, &groups, confidence);
        let comparisons = rows
            .iter()
            .filter_map(|row| Some(((row.place.clone(), row.figure.clone()), Versus::of(row)?)))
            .collect();
        let judge = |claim| gemelo_compare::judge(claim, &data.plan, &groups);
        let claims = data.plan.claims.iter().map(judge).collect();
        Self { groups, comparisons, confidence, claims }
    }

    pub(crate) fn estimate(&self, workload: &str, target: &str, figure: &str) -> Option<Estimate> {
        let sample = self.groups.sample(&Place::new(workload, target), figure)?;
        let mean = mean_with_interval(&sample, self.confidence);
        Some(Estimate {
            value: mean.value,
            interval: mean.interval.map(|interval| (interval.low(), interval.high())),
            count: sample.count(),
        })
    }

    /// Returns the comparison of a target with the baseline, for figures that rank targets.
    pub(crate) fn versus(&self, workload: &str, target: &str, figure: &str) -> Option<Versus> {
        self.comparisons.get(&(Place::new(workload, target), figure.to_owned())).copied()
    }

    /// Returns the confidence level of intervals as `95 %`, with a space that does not break.
    pub(crate) fn level(&self) -> String {
        let percent = (1000.0 * self.confidence.level()).round() / 10.0;
        format!("{percent}\u{a0}%")
    }
}

/// Compares each target with the baseline, on the figures that rank targets. One call compares all,
/// because the correction for many comparisons has to cover the whole report.
fn rows(data: &Data, groups: &Groups, confidence: Confidence) -> Vec<Row> {
    let Some((_, baseline)) = data.baseline() else { return Vec::new() };
    let mut pairs = Vec::new();
    let mut figures = BTreeSet::new();
    for workload in &data.plan.workloads {
        figures.extend(data.main_figures(workload).into_iter().map(|(name, _)| name));
        let runs = |target: &str| -> Vec<&Figures> {
            groups.runs(&Place::new(&workload.name, target)).iter().collect()
        };
        for (_, target) in data.targets().filter(|(_, target)| target.name != baseline.name) {
            pairs.push(Pair {
                place: Place::new(&workload.name, &target.name),
                before: runs(&baseline.name),
                after: runs(&target.name),
            });
        }
    }
    let selection = Selection::Named(figures.into_iter().collect());
    gemelo_compare::compare(&pairs, &Settings { confidence, selection })
}
