//! The comparison of two sides, and the limit at which it fails.

use crate::{CompareError, Pair, Row, Settings, Side, Verdict, compare};
use gemelo_base::{Classified, FailureKind};
use gemelo_figures::{Quantity, quantity};
use gemelo_record::Better;
use serde::Serialize;
use thiserror::Error;

/// Schema name of a comparison in a result file.
pub const SCHEMA: &str = "gemelo.compare/1";

/// The comparison of two sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The rows: places in order, and figures in the order of the results.
    pub rows: Vec<Row>,
    /// Number of figures that improved beyond noise.
    pub better: usize,
    /// Number of figures that became worse beyond noise.
    pub worse: usize,
    /// Number of figures that are the same within noise.
    pub same: usize,
    /// Number of figures whose repetitions are too few.
    pub too_few: usize,
    /// Figures that became slower by the limit or more; empty without a limit.
    pub slower: Vec<Slower>,
}

/// A figure that became slower by the limit or more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slower {
    /// Workload and target.
    #[serde(flatten)]
    pub place: crate::Place,
    /// Name of the figure.
    pub figure: String,
    /// The loss as a share: 0.05 for 95 % of the rate, or for 105 % of the time.
    pub loss_share: f64,
}

/// Compares two sides. The warnings name what only one side has.
///
/// # Errors
/// Fails if one side is a campaign and the other is not, or if they have no selected figure in
/// common.
pub fn compare_sides(
    before: &Side,
    after: &Side,
    settings: &Settings,
    limit: Option<Slowdown>,
) -> Result<(Summary, Vec<String>), CompareError> {
    if before.is_campaign != after.is_campaign {
        return Err(CompareError::Mixed);
    }
    let mut warnings = [before.warnings.as_slice(), after.warnings.as_slice()].concat();
    warnings.extend(missing(before, after, "second"));
    warnings.extend(missing(after, before, "first"));
    let pair = |place: &crate::Place| Pair {
        place: place.clone(),
        before: before.groups.runs(place).iter().collect(),
        after: after.groups.runs(place).iter().collect(),
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
        too_few: count(Verdict::TooFew),
        slower: limit.map_or_else(Vec::new, |limit| slower_rows(&rows, limit)),
        rows,
    };
    Ok((summary, warnings))
}

fn missing(side: &Side, other: &Side, name: &str) -> Vec<String> {
    let is_missing = |place: &&crate::Place| other.groups.runs(place).is_empty();
    let places = side.groups.places().filter(is_missing);
    places.map(|place| format!("the {name} side has no complete run of {place}")).collect()
}

/// The error for a limit that is not a share.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{share} is not a loss: give a share from 0 to 1, such as 0.05 for 5 %")]
pub struct SlowdownError {
    /// The number that was given.
    pub share: f64,
}

impl Classified for SlowdownError {
    fn kind(&self) -> FailureKind {
        FailureKind::BadInput
    }
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

/// Returns the rates that fell and the times that rose by the limit or more, beyond noise. Other
/// figures, such as the space used, have no speed.
#[must_use]
pub fn slower_rows(rows: &[Row], limit: Slowdown) -> Vec<Slower> {
    let slower = rows.iter().filter(|row| row.verdict == Verdict::Worse).filter_map(|row| {
        let loss_share = loss_of_speed(row)?;
        (loss_share >= limit.0).then(|| Slower {
            place: row.place.clone(),
            figure: row.figure.clone(),
            loss_share,
        })
    });
    slower.collect()
}

fn loss_of_speed(row: &Row) -> Option<f64> {
    let is_speed = matches!(
        quantity(&row.figure),
        Quantity::Nanoseconds | Quantity::PerSecond | Quantity::BytesPerSecond
    );
    let ratio = row.ratio.filter(|_| is_speed)?.value;
    match row.better {
        Better::Higher => Some(1.0 - ratio),
        Better::Lower => Some(ratio - 1.0),
        Better::Neither => None,
    }
}
