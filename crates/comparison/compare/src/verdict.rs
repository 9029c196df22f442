//! The verdict on a figure, by the interval of its ratio.

use crate::{Basis, Margin};
use gemelo_record::Better;
use gemelo_stats::{Estimate, Interval, Sample};
use schemars::JsonSchema;
use serde::Serialize;

/// The verdict on a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The figure improved: the interval of the ratio leaves out 1 on the better side.
    Better,
    /// The figure became worse: the interval of the ratio leaves out 1 on the other side.
    Worse,
    /// The figure is the same: the interval of the ratio contains 1 and lies in the margin.
    Same,
    /// The measurements show neither a difference nor that there is none that matters.
    Undecided,
    /// The figure is no merit, and is shown alone.
    NotJudged,
}

/// The reason why a comparison is undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// A side has one repetition.
    OneRepetition,
    /// The repetitions do not differ at all, so their noise is unknown.
    NoSpread,
    /// A value is zero, so the ratio has no bound.
    Zero,
    /// The interval contains 1, and ratios outside of the margin too.
    Wide,
    /// Generating the load took most of the time of a side, so it was not the storage that was
    /// measured.
    Generator,
    /// One side read from memory, and the other from disks.
    Memory,
}

impl Doubt {
    /// Returns the reason as a sentence without a full stop.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::OneRepetition => "one repetition has no confidence interval",
            Self::NoSpread => "the repetitions do not differ at all, so their noise is unknown",
            Self::Zero => "a value is zero, so the ratio has no bound",
            Self::Wide => "the repetitions vary too much for a verdict",
            Self::Generator => "generating the load took most of the time, not the storage",
            Self::Memory => "one side read from memory, and the other from disks",
        }
    }
}

/// Returns the verdict on a figure, and the reason if it is undecided.
pub(crate) fn judged(
    better: Better,
    sides: &[&Sample; 2],
    ratio: Option<Estimate>,
    basis: Basis,
    margin: Margin,
) -> (Verdict, Option<Doubt>) {
    if better == Better::Neither {
        return (Verdict::NotJudged, None);
    }
    let is_between_runs = matches!(basis, Basis::Rounds | Basis::Repetitions | Basis::Exact);
    let interval = ratio.and_then(|ratio| ratio.interval).filter(|_| is_between_runs);
    match interval {
        Some(interval) => of_interval(better, interval, margin),
        // A counted figure that is zero on both sides has no ratio, and is the same.
        None if basis == Basis::Exact && sides.iter().all(|side| side.highest() == 0.0) => {
            (Verdict::Same, None)
        }
        None => (Verdict::Undecided, Some(without_interval(sides))),
    }
}

fn of_interval(better: Better, interval: Interval, margin: Margin) -> (Verdict, Option<Doubt>) {
    if !interval.contains(1.0) {
        let is_better = (interval.low() > 1.0) == (better == Better::Higher);
        return (if is_better { Verdict::Better } else { Verdict::Worse }, None);
    }
    if margin.contains(interval) {
        return (Verdict::Same, None);
    }
    (Verdict::Undecided, Some(Doubt::Wide))
}

fn without_interval(sides: &[&Sample; 2]) -> Doubt {
    if sides.iter().any(|side| side.count() < 2) {
        Doubt::OneRepetition
    } else if sides.iter().any(|side| side.lowest() <= 0.0) {
        Doubt::Zero
    } else {
        Doubt::NoSpread
    }
}
