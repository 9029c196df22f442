//! The main figures of repetitions: their median, mean and interval.

use crate::Selection;
use gemelo_figures::{FigureSummary, RepeatedRun};
use gemelo_stats::{Confidence, Sample, centre_with_interval};

/// Returns the main figures over the complete repetitions.
#[must_use]
pub fn summarize(runs: &[RepeatedRun]) -> Vec<FigureSummary> {
    let complete = || runs.iter().filter(|run| run.is_complete);
    let Some(first) = complete().next() else { return Vec::new() };
    let names = first.figures.figures.iter();
    let main = names.filter(|figure| Selection::Main.contains(&figure.name, &first.figures));
    main.filter_map(|figure| {
        let values = complete().filter_map(|run| run.figures.value(&figure.name));
        let sample = Sample::new(values).ok()?;
        let centre = centre_with_interval(&sample, Confidence::USUAL);
        Some(FigureSummary {
            name: figure.name.clone(),
            better: figure.better,
            median: sample.median(),
            mean: centre.value,
            interval: centre.interval.map(|interval| [interval.low(), interval.high()]),
            lowest: sample.lowest(),
            highest: sample.highest(),
        })
    })
    .collect()
}
