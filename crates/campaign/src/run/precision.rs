//! Deciding about further repetitions by the confidence intervals of main figures.

use crate::plan::Settings;
use gemelo_record::{CampaignRecord, PlannedRun, RunRecord};
use gemelo_stats::{Confidence, Sample, mean_with_interval};
use std::collections::BTreeMap;

/// Names of a workload and a target.
type Names = (String, String);

/// The main figures of all complete runs so far.
#[derive(Debug, Default)]
pub(super) struct MainFigures {
    values: BTreeMap<Names, Vec<f64>>,
}

impl MainFigures {
    /// Adds the main figure of a run, if the run has it.
    pub(super) fn add(&mut self, campaign: &CampaignRecord, run: &RunRecord) {
        let workload = campaign.workloads.iter().find(|workload| workload.name == run.workload);
        let name = workload.and_then(|workload| workload.main_figure.as_deref());
        if let Some(value) = name.and_then(|name| run.figures.value(name)) {
            let names = (run.workload.clone(), run.target.clone());
            self.values.entry(names).or_default().push(value);
        }
    }

    /// Returns the pairs of a workload and a target that need one more repetition: their interval
    /// is too wide, and they have fewer than the most repetitions.
    pub(super) fn wanting(&self, settings: &Settings, runs: &[PlannedRun]) -> Vec<Names> {
        let Ok(confidence) = Confidence::new(settings.confidence) else { return Vec::new() };
        let planned = |names: &Names| {
            runs.iter().filter(|run| (&run.workload, &run.target) == (&names.0, &names.1)).count()
        };
        let is_wide = |values: &[f64]| {
            let Ok(sample) = Sample::new(values.iter().copied()) else { return false };
            let share = mean_with_interval(&sample, confidence).precision_share();
            share.is_some_and(|share| share > settings.precision_share)
        };
        let wanting = self.values.iter().filter(|(names, values)| {
            planned(names) < settings.most_repetitions as usize && is_wide(values)
        });
        wanting.map(|(names, _)| names.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    fn settings(most: u32) -> Settings {
        let text = format!(
            "[campaign]\nname = 'x'\nrepetitions = 2\nmost-repetitions = {most}\nprecision = 5\n\
             [[target]]\nname = 't'\ndirectory = {{}}\n[[workload]]\nname = 'w'\ncommand = 'true'\n"
        );
        Plan::read(&text, std::path::Path::new("."), &[]).unwrap().settings
    }

    #[test]
    fn wide_intervals_want_another_repetition_until_the_limit() {
        let mut figures = MainFigures::default();
        let names = |target: &str| ("w".to_owned(), target.to_owned());
        figures.values.insert(names("steady"), vec![100.0, 100.1, 99.9]);
        figures.values.insert(names("noisy"), vec![100.0, 150.0, 50.0]);
        figures.values.insert(names("single"), vec![100.0]);
        let run = |repetition| PlannedRun {
            id: String::new(),
            target: "noisy".to_owned(),
            workload: "w".to_owned(),
            repetition,
        };
        let runs: Vec<_> = (1..=3).map(run).collect();
        assert_eq!(figures.wanting(&settings(4), &runs), [names("noisy")]);
        assert_eq!(figures.wanting(&settings(3), &runs), []);
    }
}
