//! The statistics of a campaign, by the crates `stats` and `compare`: means with intervals,
//! comparisons with the baseline, verdicts on claims.

use super::data::Data;
use gemelo_compare::{
    Basis, Doubt, Groups, Margin, Place, Row, SettingsError, Standards, Verdict, compare_targets,
};
use gemelo_stats::{Confidence, Directions, centre_with_interval};
use std::collections::BTreeMap;

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
    /// Interval over repetitions, at the level that all comparisons of the report share.
    pub(crate) interval: Option<(f64, f64)>,
    /// Corrected for all comparisons of the report.
    pub(crate) p_value: Option<f64>,
    pub(crate) verdict: Verdict,
    /// The reason, if the verdict is undecided.
    pub(crate) doubt: Option<Doubt>,
    /// The rounds in which the target was higher and lower.
    pub(crate) directions: Option<Directions>,
}

impl Versus {
    /// Returns `None` for a baseline of zero, to which there is no ratio.
    fn of(row: &Row) -> Option<Self> {
        let ratio = row.ratio?;
        // An interval within single runs says nothing about the noise between runs.
        let interval = ratio.interval.filter(|_| row.basis != Basis::TimeSeries);
        Some(Self {
            ratio: ratio.value,
            interval: interval.map(|interval| (interval.low(), interval.high())),
            p_value: row.adjusted_p_value,
            verdict: row.verdict,
            doubt: row.doubt,
            directions: row.directions,
        })
    }

    /// Returns whether the data carry a difference.
    pub(crate) fn is_significant(&self) -> bool {
        matches!(self.verdict, Verdict::Better | Verdict::Worse)
    }
}

/// The statistics of a campaign.
pub(crate) struct CampaignStatistics {
    groups: Groups,
    comparisons: BTreeMap<(Place, String), Versus>,
    /// Level of all intervals of the report together, if they are compared.
    confidence: Confidence,
    pub(crate) margin: Margin,
    /// Verdicts on claims, in the order of the plan.
    pub(crate) claims: Vec<gemelo_compare::Judgement>,
}

impl CampaignStatistics {
    pub(crate) fn new(data: &Data) -> Result<Self, SettingsError> {
        let standards = Standards::of(&data.plan)?;
        let groups = data.groups.clone();
        let rows = compare_targets(&data.plan, &groups, standards);
        let comparisons = rows
            .iter()
            .filter_map(|row| Some(((row.place.clone(), row.figure.clone()), Versus::of(row)?)))
            .collect();
        let judge = |claim| gemelo_compare::judge(claim, &data.plan, &groups, standards);
        let claims = data.plan.claims.iter().map(judge).collect();
        let confidence = Confidence::new(data.plan.confidence).map_err(SettingsError::from)?;
        Ok(Self { groups, comparisons, confidence, margin: standards.margin, claims })
    }

    pub(crate) fn estimate(&self, workload: &str, target: &str, figure: &str) -> Option<Estimate> {
        let sample = self.groups.sample(&Place::new(workload, target), figure)?;
        let mean = centre_with_interval(&sample, self.confidence);
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
