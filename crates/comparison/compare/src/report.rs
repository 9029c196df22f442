//! The comparison of two sides, and the limit at which it fails.

use crate::{CompareError, Doubt, Pair, Row, Settings, Side, Verdict, compare};
use gemelo_base::Classified;
use gemelo_figures::Unit;
use gemelo_record::Better;
use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

/// Schema name of a comparison in a result file.
pub const SCHEMA: &str = "gemelo.compare/1";

/// The comparison of two sides.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct Summary {
    /// The rows: places in order, and figures in the order of the results.
    pub rows: Vec<Row>,
    /// Number of figures that improved beyond noise.
    pub better: usize,
    /// Number of figures that became worse beyond noise.
    pub worse: usize,
    /// Number of figures that are the same within noise.
    pub same: usize,
    /// Number of undecided figures.
    pub undecided: usize,
    /// The answer to the limit of the user, if there is one.
    pub limit: Option<Limited>,
}

/// The answer to the question whether anything became slower by a limit or more.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct Limited {
    /// Number of rates and times that were compared. Without any, nothing can be answered.
    pub speeds: usize,
    /// Figures that became slower beyond noise, by the limit or more.
    pub slower: Vec<Slower>,
    /// Figures that may have become slower by the limit or more: the measurements do not tell.
    pub undecided: Vec<PerhapsSlower>,
}

impl Limited {
    /// Returns whether the measurements answer the question.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        !self.slower.is_empty() || (self.speeds > 0 && self.undecided.is_empty())
    }
}

/// A figure that may have become slower by the limit or more.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct PerhapsSlower {
    /// Workload and target.
    #[serde(flatten)]
    pub place: crate::Place,
    /// Name of the figure.
    pub figure: String,
    /// The largest loss within the interval, as a share; `None` if there is no interval.
    pub max_loss_share: Option<f64>,
}

/// A figure that became slower by the limit or more.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct Slower {
    /// Workload and target.
    #[serde(flatten)]
    pub place: crate::Place,
    /// Name of the figure.
    pub figure: String,
    /// The loss as a share: 0.05 for 95 % of the rate, or for 105 % of the time.
    pub loss_share: f64,
}

/// The question that a comparison of two sides answers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Request {
    /// Level, margin and figures.
    pub settings: Settings,
    /// `true` if the repetitions of one number were measured in one round on both sides.
    pub in_rounds: bool,
    /// The loss of speed that is not permitted.
    pub limit: Option<Slowdown>,
}

/// Compares two sides. The warnings name what only one side has.
///
/// # Errors
/// Fails if one side is a campaign and the other is not, if they have no selected figure in
/// common, or if sides that were measured in rounds have other numbers of repetitions.
pub fn compare_sides(
    before: &Side,
    after: &Side,
    request: &Request,
) -> Result<(Summary, Vec<String>), CompareError> {
    if before.is_campaign != after.is_campaign {
        return Err(CompareError::Mixed);
    }
    let Request { settings, in_rounds, limit } = request;
    let in_rounds = *in_rounds;
    if in_rounds {
        same_rounds(before, after)?;
    }
    let mut warnings = [before.warnings.as_slice(), after.warnings.as_slice()].concat();
    warnings.extend(missing(before, after, "second"));
    warnings.extend(missing(after, before, "first"));
    let pair = |place: &crate::Place| Pair {
        place: place.clone(),
        before: before.groups.runs(place),
        after: after.groups.runs(place),
        is_paired: in_rounds,
    };
    let pairs: Vec<Pair<'_>> = before.groups.places().map(pair).collect();
    let rows = compare(&pairs, settings);
    if rows.is_empty() {
        return Err(CompareError::NothingInCommon);
    }
    if !before.hosts.is_empty() && !after.hosts.is_empty() && before.hosts != after.hosts {
        let names = |side: &Side| side.hosts.iter().cloned().collect::<Vec<_>>().join(", ");
        warnings.push(format!(
            "the first side was measured on {}, and the second on {}",
            names(before),
            names(after)
        ));
    }
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let summary = Summary {
        better: count(Verdict::Better),
        worse: count(Verdict::Worse),
        same: count(Verdict::Same),
        undecided: count(Verdict::Undecided),
        limit: limit.map(|limit| limited(&rows, limit)),
        rows,
    };
    Ok((summary, warnings))
}

/// Refuses sides in rounds if one has more repetitions than the other.
fn same_rounds(before: &Side, after: &Side) -> Result<(), CompareError> {
    for place in before.groups.places() {
        let count = |side: &Side| side.groups.runs(place).len();
        let (before, after) = (count(before), count(after));
        if before != after {
            return Err(CompareError::OtherRounds { before, after });
        }
    }
    Ok(())
}

fn missing(side: &Side, other: &Side, name: &str) -> Vec<String> {
    let is_missing = |place: &&crate::Place| other.groups.runs(place).is_empty();
    let places = side.groups.places().filter(is_missing);
    places.map(|place| format!("the {name} side has no complete run of {place}")).collect()
}

/// The error for a limit that is not a share.
#[derive(Debug, Clone, PartialEq, Error, Classified)]
#[kind(BadInput)]
#[error("{share} is not a loss: give a share from 0 to 1, such as 0.05 for 5 %")]
pub struct SlowdownError {
    /// The number that was given.
    pub share: f64,
}

/// The loss of speed from which a comparison fails, as a share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slowdown(f64);

impl Slowdown {
    /// Creates a limit.
    ///
    /// # Errors
    /// Fails if the share is not from 0 to 1.
    pub fn new(share: f64) -> Result<Self, SlowdownError> {
        if (0.0..=1.0).contains(&share) { Ok(Self(share)) } else { Err(SlowdownError { share }) }
    }
}

/// Answers whether a rate fell or a time rose by the limit or more. Other figures, such as the
/// space used, have no speed.
///
/// A figure is slower if its verdict is worse and its loss reaches the limit. It is permitted if
/// its whole interval loses less. Anything else is undecided: one repetition, and an interval that
/// reaches from a gain to a loss beyond the limit, say nothing about the limit.
#[must_use]
pub fn limited(rows: &[Row], limit: Slowdown) -> Limited {
    let mut answer = Limited { speeds: 0, slower: Vec::new(), undecided: Vec::new() };
    for (row, loss) in rows.iter().filter_map(|row| Some((row, loss_of_speed(row)?))) {
        answer.speeds += 1;
        let (place, figure) = (row.place.clone(), row.figure.clone());
        let is_sure =
            row.verdict != Verdict::NotJudged && row.doubt.is_none_or(|doubt| doubt == Doubt::Wide);
        let max_loss_share = loss.most.filter(|_| is_sure);
        if row.verdict == Verdict::Worse
            && let Some(loss_share) = loss.share.filter(|share| *share >= limit.0)
        {
            answer.slower.push(Slower { place, figure, loss_share });
        } else if row.verdict != Verdict::Better
            && max_loss_share.is_none_or(|most| most >= limit.0)
        {
            answer.undecided.push(PerhapsSlower { place, figure, max_loss_share });
        }
    }
    answer
}

/// The loss of speed of a row, as a share.
struct Loss {
    share: Option<f64>,
    /// The largest loss in the interval.
    most: Option<f64>,
}

/// Returns the loss of a figure that has a speed.
fn loss_of_speed(row: &Row) -> Option<Loss> {
    let is_speed = Unit::of_figure(&row.figure).is_speed();
    let interval = row.ratio.and_then(|ratio| ratio.interval);
    let ratio = row.ratio.map(|ratio| ratio.value);
    match row.better {
        _ if !is_speed => None,
        Better::Higher => Some(Loss {
            share: ratio.map(|ratio| 1.0 - ratio),
            most: interval.map(|interval| 1.0 - interval.low()),
        }),
        Better::Lower => Some(Loss {
            share: ratio.map(|ratio| ratio - 1.0),
            most: interval.map(|interval| interval.high() - 1.0),
        }),
        Better::Neither => None,
    }
}
