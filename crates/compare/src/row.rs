//! The comparison of one figure between two groups of runs.

use crate::group::sample_of;
use crate::{Place, Settings};
use gemelo_record::{Better, Figures};
use gemelo_stats::{
    Estimate, Interval, Sample, TestOutcome, Timeline, holm, mean_with_interval, ratio_over_time,
    repetitions_needed,
};
use serde::Serialize;

/// Half of the width of a ratio's interval from which a difference of a usual size could hide in
/// it. A comparison without a difference and with a wider interval says nothing.
pub const WIDE_SHARE: f64 = 0.1;

/// The most repetitions that are recommended.
const MOST_REPETITIONS: u32 = 1000;

/// Two groups of runs that are compared.
#[derive(Debug, Clone)]
pub struct Pair<'a> {
    /// Workload and target, for the reader.
    pub place: Place,
    /// The runs before the change, or of the baseline.
    pub before: Vec<&'a Figures>,
    /// The runs after the change, or of the other target.
    pub after: Vec<&'a Figures>,
}

/// One side of a row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// Number of repetitions that have the figure.
    pub repetitions: usize,
    /// Mean over the repetitions.
    pub mean: f64,
    /// Median over the repetitions.
    pub median: f64,
    /// Interval of the mean.
    pub interval: Option<Interval>,
}

/// The source of the interval of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The repetitions. The interval covers the noise between runs.
    Repetitions,
    /// The time series of single runs. The interval covers the noise within the two runs alone.
    TimeSeries,
    /// There is no interval.
    None,
}

/// The verdict on a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The figure improved beyond noise.
    Better,
    /// The figure became worse beyond noise.
    Worse,
    /// The figure is the same within noise, and the noise is small.
    Same,
    /// The repetitions are too few for the noise: one on a side, or an interval of the ratio that
    /// is wider than [`WIDE_SHARE`] to each side.
    TooFew,
    /// The figure is no merit, and is shown alone.
    NotJudged,
}

/// The comparison of one figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Workload and target.
    #[serde(flatten)]
    pub place: Place,
    /// Name of the figure.
    pub figure: String,
    /// The direction in which the figure improves.
    pub better: Better,
    /// The figure of the first result.
    pub before: Measured,
    /// The figure of the second result.
    pub after: Measured,
    /// The ratio of after to before. It is `None` if the figure was zero before.
    pub ratio: Option<Estimate>,
    /// Source of the interval of the ratio.
    pub basis: Basis,
    /// The test of a difference.
    pub test: Option<TestOutcome>,
    /// The p-value of the test, corrected for the number of comparisons by Holm's method.
    pub adjusted_p_value: Option<f64>,
    /// Hedges' g.
    pub hedges_g: Option<f64>,
    /// Cliff's delta.
    pub cliffs_delta: f64,
    /// The verdict, after the correction for many comparisons.
    pub verdict: Verdict,
    /// Repetitions on each side that would make the noise small enough, if they are too few.
    pub repetitions_needed: Option<u32>,
}

/// Compares all selected figures of all pairs. The correction for many comparisons covers all rows
/// of the call together, so a report makes one call.
#[must_use]
pub fn compare(pairs: &[Pair<'_>], settings: &Settings) -> Vec<Row> {
    let mut rows: Vec<Row> = pairs.iter().flat_map(|pair| rows_of(pair, settings)).collect();
    let tested = |row: &&mut Row| row.better != Better::Neither && row.test.is_some();
    let p_values: Vec<f64> = rows
        .iter_mut()
        .filter(tested)
        .filter_map(|row| row.test.map(|test| test.p_value))
        .collect();
    for (row, adjusted) in rows.iter_mut().filter(tested).zip(holm(&p_values)) {
        row.adjusted_p_value = Some(adjusted);
    }
    for row in &mut rows {
        row.verdict = verdict(row, settings);
        if row.verdict != Verdict::TooFew {
            row.repetitions_needed = None;
        }
    }
    rows
}

fn rows_of(pair: &Pair<'_>, settings: &Settings) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for run in &pair.before {
        for figure in &run.figures {
            let is_new = rows.iter().all(|row| row.figure != figure.name);
            if is_new && settings.selection.contains(&figure.name, run) {
                rows.extend(row_of(pair, &figure.name, figure.better, settings));
            }
        }
    }
    rows
}

/// Returns the row of a figure, without a verdict, or `None` if a side does not have it.
fn row_of(pair: &Pair<'_>, figure: &str, better: Better, settings: &Settings) -> Option<Row> {
    let before = sample_of(pair.before.iter().copied(), figure)?;
    let after = sample_of(pair.after.iter().copied(), figure)?;
    let comparison = gemelo_stats::compare(&before, &after, settings.confidence);
    let mut ratio = comparison.ratio;
    let mut basis = match ratio {
        Some(Estimate { interval: Some(_), .. }) => Basis::Repetitions,
        _ => Basis::None,
    };
    if basis == Basis::None
        && let Some(over_time) = within_runs(pair, figure, settings)
    {
        (ratio, basis) = (Some(over_time), Basis::TimeSeries);
    }
    let measured = |sample: &Sample| Measured {
        repetitions: sample.count(),
        mean: sample.mean(),
        median: sample.median(),
        interval: mean_with_interval(sample, settings.confidence).interval,
    };
    Some(Row {
        place: pair.place.clone(),
        figure: figure.to_owned(),
        better,
        before: measured(&before),
        after: measured(&after),
        ratio,
        basis,
        test: comparison.test,
        adjusted_p_value: None,
        hedges_g: comparison.hedges_g,
        cliffs_delta: comparison.cliffs_delta,
        verdict: Verdict::NotJudged,
        repetitions_needed: needed(&before, &after, settings),
    })
}

/// Returns the ratio of the means over time of two single runs, with an interval. The figures that
/// are means over time are rates and mean latencies.
fn within_runs(pair: &Pair<'_>, figure: &str, settings: &Settings) -> Option<Estimate> {
    if !(figure.ends_with("_per_s") || figure.ends_with("_mean_ns")) {
        return None;
    }
    let timeline = |runs: &[&Figures]| {
        let [run] = runs else { return None };
        let series = run.series.iter().find(|series| series.name == figure)?;
        Timeline::new(series.points.iter().map(|(_, value)| *value).collect()).ok()
    };
    let ratio =
        ratio_over_time(&timeline(&pair.before)?, &timeline(&pair.after)?, settings.confidence)?;
    ratio.interval.is_some().then_some(ratio)
}

/// Returns the repetitions a side that bring the interval of the ratio to [`WIDE_SHARE`]. The
/// errors of both sides add up in it, so each may have the share divided by the root of two.
fn needed(before: &Sample, after: &Sample, settings: &Settings) -> Option<u32> {
    let share = WIDE_SHARE / std::f64::consts::SQRT_2;
    let of = |sample| repetitions_needed(sample, share, settings.confidence, MOST_REPETITIONS);
    Some(of(before)?.max(of(after)?))
}

fn verdict(row: &Row, settings: &Settings) -> Verdict {
    if row.better == Better::Neither {
        return Verdict::NotJudged;
    }
    let Some(adjusted) = row.adjusted_p_value else { return Verdict::TooFew };
    if adjusted < settings.confidence.error_share() {
        let has_risen = if row.cliffs_delta == 0.0 {
            row.after.mean > row.before.mean
        } else {
            row.cliffs_delta > 0.0
        };
        let is_better = has_risen == (row.better == Better::Higher);
        return if is_better { Verdict::Better } else { Verdict::Worse };
    }
    let is_wide = |ratio: Estimate| match ratio.interval {
        Some(interval) => interval.half_width() > WIDE_SHARE,
        None => true,
    };
    if row.ratio.is_some_and(is_wide) { Verdict::TooFew } else { Verdict::Same }
}
