//! The comparison of one figure between two groups of runs.

use crate::group::{Values, pairs_of, sample_of};
use crate::validity::invalid;
use crate::verdict::{Doubt, Verdict, judged};
use crate::{Place, Repetition, Selection, Settings};
use gemelo_figures::is_counted;
use gemelo_record::Better;
use gemelo_stats::{
    Comparison, Confidence, Directions, Estimate, Interval, Pairs, RatioNoise, Sample, TestOutcome,
    Timeline, centre_with_interval, ratio_over_time,
};
use schemars::JsonSchema;
use serde::Serialize;

/// The most repetitions that are recommended.
const MAX_REPETITIONS: u32 = 1000;

/// The fewest repetitions without any spread that make a counted figure exact. Two equal values
/// can come by chance: a figure with two values that are equally likely gives four pairs, of which
/// two have no spread. With three repetitions a side, both sides are constant and differ by chance
/// in at most 2 · 2⁻⁶ = 3 % of cases.
pub(crate) const FEWEST_EXACT: usize = 3;

/// Two groups of runs that are compared.
#[derive(Debug, Clone)]
pub struct Pair<'a> {
    /// Workload and target, for the reader.
    pub place: Place,
    /// The runs before the change, or of the baseline.
    pub before: &'a [Repetition],
    /// The runs after the change, or of the other target.
    pub after: &'a [Repetition],
    /// `true` if repetitions of one number were measured in one round, so that a drift of the
    /// machine is in both.
    pub is_paired: bool,
}

/// One side of a row.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct Measured {
    /// Number of repetitions that have the figure.
    pub repetitions: usize,
    /// Geometric mean over the repetitions; the arithmetic mean if a value is not positive.
    pub mean: f64,
    /// Median over the repetitions.
    pub median: f64,
    /// Interval of the mean, at the level of a single interval.
    pub interval: Option<Interval>,
}

/// The source of the interval of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The repetitions in the rounds in which both sides were measured.
    Rounds,
    /// The repetitions of each side alone. The interval covers the noise between runs.
    Repetitions,
    /// A counted figure that is the same in all repetitions of each side: the ratio is exact.
    Exact,
    /// The time series of single runs. The interval covers the noise within the two runs alone.
    TimeSeries,
    /// There is no interval.
    None,
}

/// The comparison of one figure.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
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
    /// The ratio of after to before, with an interval at the level that all comparisons share. It
    /// is `None` if the figure was zero before.
    pub ratio: Option<Estimate>,
    /// Source of the interval of the ratio.
    pub basis: Basis,
    /// The rounds in which the figure was higher and lower, if the sides were measured in rounds.
    pub directions: Option<Directions>,
    /// The test of a difference.
    pub test: Option<TestOutcome>,
    /// The p-value of the test, multiplied by the number of comparisons.
    pub adjusted_p_value: Option<f64>,
    /// Hedges' g.
    pub hedges_g: Option<f64>,
    /// Cliff's delta.
    pub cliffs_delta: f64,
    /// The verdict, by the interval of the ratio.
    pub verdict: Verdict,
    /// The reason, if the verdict is undecided.
    pub doubt: Option<Doubt>,
    /// Repetitions on each side that would decide, if the noise stays as it is.
    pub repetitions_needed: Option<u32>,
}

/// Compares all selected figures of all pairs. All rows of the call share the level of confidence,
/// so a report makes one call.
#[must_use]
pub fn compare(pairs: &[Pair<'_>], settings: &Settings) -> Vec<Row> {
    let selected: Vec<_> = pairs.iter().map(|pair| (pair, &settings.selection)).collect();
    compare_selected(&selected, settings)
}

/// Compares each pair by figures of its own choice, which replaces that of the settings.
pub(crate) fn compare_selected(pairs: &[(&Pair<'_>, &Selection)], settings: &Settings) -> Vec<Row> {
    let figures: Vec<Compared<'_>> =
        pairs.iter().flat_map(|(pair, selection)| figures_of(pair, selection)).collect();
    let judged = figures.iter().filter(|compared| compared.better != Better::Neither).count();
    let family = Family { comparisons: judged, level: settings.confidence.shared_by(judged) };
    figures.iter().map(|compared| compared.row(settings, family)).collect()
}

/// The comparisons that share a level of confidence.
#[derive(Debug, Clone, Copy)]
struct Family {
    comparisons: usize,
    /// Level of each interval.
    level: Confidence,
}

/// A figure that both sides of a pair have.
struct Compared<'a> {
    pair: &'a Pair<'a>,
    figure: &'a str,
    better: Better,
    before: Sample,
    after: Sample,
}

fn figures_of<'a>(pair: &'a Pair<'a>, selection: &Selection) -> Vec<Compared<'a>> {
    let mut found: Vec<Compared<'a>> = Vec::new();
    for run in pair.before {
        for figure in &run.figures.figures {
            let is_new = found.iter().all(|other| other.figure != figure.name);
            if !is_new || !selection.contains(&figure.name, &run.figures) {
                continue;
            }
            let samples =
                sample_of(pair.before, &figure.name).zip(sample_of(pair.after, &figure.name));
            found.extend(samples.map(|(before, after)| Compared {
                pair,
                figure: &figure.name,
                better: figure.better,
                before,
                after,
            }));
        }
    }
    found
}

impl Compared<'_> {
    fn row(&self, settings: &Settings, family: Family) -> Row {
        let pairs = self.pairs();
        let comparison = match &pairs {
            Some(pairs) => gemelo_stats::compare_pairs(pairs, family.level),
            None => gemelo_stats::compare(&self.before, &self.after, family.level),
        };
        let (ratio, basis) = self.ratio(&comparison, pairs.is_some(), family.level);
        let (verdict, doubt) = match invalid(self.figure, [self.pair.before, self.pair.after]) {
            Some(doubt) if self.better != Better::Neither => (Verdict::Undecided, Some(doubt)),
            _ => judged(self.better, &[&self.before, &self.after], ratio, basis, settings.margin),
        };
        let needed = match doubt {
            Some(Doubt::Wide) => self.needed(pairs.as_ref(), settings, family.level),
            _ => None,
        };
        let adjusted = |test: TestOutcome| (test.p_value * family.comparisons as f64).min(1.0);
        Row {
            place: self.pair.place.clone(),
            figure: self.figure.to_owned(),
            better: self.better,
            before: measured(&self.before, settings.confidence),
            after: measured(&self.after, settings.confidence),
            ratio,
            basis,
            directions: pairs.as_ref().map(Pairs::directions),
            test: comparison.test,
            adjusted_p_value: comparison
                .test
                .filter(|_| self.better != Better::Neither)
                .map(adjusted),
            hedges_g: comparison.hedges_g,
            cliffs_delta: comparison.cliffs_delta,
            verdict,
            doubt,
            repetitions_needed: needed,
        }
    }

    /// Returns the values of the rounds, if the sides were measured in rounds, and have at least
    /// two in common.
    fn pairs(&self) -> Option<Pairs> {
        let values = |runs| Values { runs, figure: self.figure };
        let pairs = pairs_of(values(self.pair.before), values(self.pair.after));
        pairs.filter(|pairs| self.pair.is_paired && pairs.count() > 1)
    }

    fn ratio(
        &self,
        comparison: &Comparison,
        is_paired: bool,
        level: Confidence,
    ) -> (Option<Estimate>, Basis) {
        let is_exact = is_counted(self.figure) && is_exact(&[&self.before, &self.after]);
        match comparison.ratio {
            Some(Estimate { interval: Some(_), .. }) if is_paired => {
                (comparison.ratio, Basis::Rounds)
            }
            Some(Estimate { interval: Some(_), .. }) => (comparison.ratio, Basis::Repetitions),
            ratio if is_exact => (ratio.map(|ratio| exactly(ratio.value)), Basis::Exact),
            ratio => match self.within_runs(level) {
                Some(over_time) => (Some(over_time), Basis::TimeSeries),
                None => (ratio, Basis::None),
            },
        }
    }

    /// Returns the ratio of the means over time of two single runs, with an interval. The figures
    /// that are means over time are rates and mean latencies.
    fn within_runs(&self, level: Confidence) -> Option<Estimate> {
        if !(self.figure.ends_with("_per_s") || self.figure.ends_with("_mean_ns")) {
            return None;
        }
        let timeline = |runs: &[Repetition]| {
            let [run] = runs else { return None };
            let mut series = run.figures.series.iter();
            let series = series.find(|series| series.name == self.figure)?;
            Timeline::new(series.points.iter().map(|(_, value)| *value).collect()).ok()
        };
        let (before, after) = (timeline(self.pair.before)?, timeline(self.pair.after)?);
        ratio_over_time(&before, &after, level).filter(|ratio| ratio.interval.is_some())
    }

    /// Returns the repetitions a side after which the comparison is decided whatever the ratio is.
    fn needed(&self, pairs: Option<&Pairs>, settings: &Settings, level: Confidence) -> Option<u32> {
        let deviation = match pairs {
            Some(pairs) => pairs.logarithms()?.deviation()?,
            None => {
                let variance = |sample: &Sample| sample.logarithms()?.variance();
                (variance(&self.before)? + variance(&self.after)?).sqrt()
            }
        };
        let noise = RatioNoise { deviation, is_paired: pairs.is_some() };
        let needed = noise.repetitions_needed(settings.margin.reach(), level, MAX_REPETITIONS)?;
        let fewest = self.before.count().min(self.after.count());
        // An estimate below what there is already says that one more may do.
        Some(needed.max(u32::try_from(fewest).unwrap_or(u32::MAX).saturating_add(1)))
    }
}

/// Returns whether all repetitions of each side are the same, and enough of them.
pub(crate) fn is_exact(sides: &[&Sample]) -> bool {
    sides.iter().all(|side| side.is_constant() && side.count() >= FEWEST_EXACT)
}

/// Returns an estimate whose interval is the value itself.
pub(crate) fn exactly(value: f64) -> Estimate {
    Estimate { value, interval: Interval::new(value, value) }
}

fn measured(sample: &Sample, confidence: Confidence) -> Measured {
    let centre = centre_with_interval(sample, confidence);
    Measured {
        repetitions: sample.count(),
        mean: centre.value,
        median: sample.median(),
        interval: centre.interval,
    }
}
