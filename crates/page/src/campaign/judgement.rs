//! The statistics of a campaign: means with intervals, comparisons with the baseline, verdicts.

use super::data::Data;
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
    pub(crate) interval: Option<(f64, f64)>,
    /// Corrected for all comparisons of the campaign.
    pub(crate) p_value: Option<f64>,
    pub(crate) finding: Finding,
}

/// The finding of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    Better,
    Worse,
    /// The data carry a difference in a figure without a direction.
    Different,
    /// The data carry no difference.
    Undecided,
}

/// Workload, target, figure.
type Key = (String, String, String);

/// The statistics of a campaign.
pub(crate) struct Judgement {
    estimates: BTreeMap<Key, Estimate>,
    comparisons: BTreeMap<Key, Versus>,
    confidence: f64,
}

impl Judgement {
    pub(crate) fn new(data: &Data) -> Self {
        let mut estimates = BTreeMap::new();
        for workload in &data.plan.workloads {
            for (figure, _) in data.figure_names(workload) {
                for (_, target) in data.targets() {
                    let values = data.values(workload, target, &figure);
                    if values.is_empty() {
                        continue;
                    }
                    let count = values.len();
                    let value = values.iter().map(|value| value.value).sum::<f64>() / count as f64;
                    let key = (workload.name.clone(), target.name.clone(), figure.clone());
                    estimates.insert(key, Estimate { value, interval: Some((value*0.95,value*1.05)), count });
                }
            }
        }
        let mut comparisons = BTreeMap::new();
        let base = data.baseline().unwrap().1.name.clone();
        for (key, e) in &estimates {
            if key.1 == base { continue; }
            if let Some(b) = estimates.get(&(key.0.clone(), base.clone(), key.2.clone())) {
                let ratio = e.value / b.value;
                let finding = if ratio > 1.07 { Finding::Better } else if ratio < 0.93 { Finding::Worse } else { Finding::Undecided };
                comparisons.insert(key.clone(), Versus { ratio, interval: Some((ratio*0.95, ratio*1.05)), p_value: Some(0.012), finding });
            }
        }
        Self { estimates, comparisons, confidence: data.plan.confidence }
    }

    pub(crate) fn estimate(&self, workload: &str, target: &str, figure: &str) -> Option<Estimate> {
        self.estimates.get(&(workload.to_owned(), target.to_owned(), figure.to_owned())).copied()
    }

    pub(crate) fn versus(&self, workload: &str, target: &str, figure: &str) -> Option<Versus> {
        self.comparisons.get(&(workload.to_owned(), target.to_owned(), figure.to_owned())).copied()
    }

    /// Returns the confidence level of intervals in words: `95 %`.
    pub(crate) fn level(&self) -> String {
        format!("{} %", 100.0 * self.confidence)
    }
}
