//! Fits a distribution to the summary figures that papers print.
//!
//! The figures give the number of contents with duplicates and the number of duplicates. The
//! duplicates are assumed to follow a [power law](super::power_law).

use super::power_law::power_law;
use super::{Distribution, DistributionError, DuplicateClass};

/// The most duplicates of a content if the figures do not give it: the order of magnitude in the
/// data sets of published studies.
const USUAL_MAX_DUPLICATES: u64 = 10_000;

/// The blocks of a fitted distribution if the figures do not give them: 64 GiB in blocks of 4 KiB.
pub const FITTED_BLOCKS: u64 = 1 << 24;

/// The most blocks of a fitted distribution: the same limit as for a scaled one.
const MAX_FITTED_BLOCKS: u64 = 1 << 43;

/// A figure as it was printed, with the rounding of its last digit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    value: f64,
    half_unit: f64,
}

impl Figure {
    /// Parses a decimal number and derives its rounding from its last digit: `2.76` means 2.755 to
    /// 2.765. Returns `None` for a text that contains anything but digits and at most one point.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || !text.chars().all(|letter| letter.is_ascii_digit() || letter == '.') {
            return None;
        }
        let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite())?;
        let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        Some(Self { value, half_unit: 0.5 * 0.1f64.powi(i32::try_from(decimals).ok()?) })
    }

    /// Parses a percentage from 0 to 100, with or without a percent sign, into a share from 0 to 1.
    #[must_use]
    pub fn parse_percent(text: &str) -> Option<Self> {
        let percent = Self::parse(text.trim_end_matches('%').trim_end())?;
        (percent.value <= 100.0)
            .then_some(Self { value: percent.value / 100.0, half_unit: percent.half_unit / 100.0 })
    }

    /// Returns the printed value.
    #[must_use]
    pub const fn value(&self) -> f64 {
        self.value
    }

    fn range(&self) -> Range {
        Range { low: self.value - self.half_unit, high: self.value + self.half_unit }
    }
}

/// Summary figures of a data set. Two of the first four determine the others. If more are given,
/// they must agree to the rounding of their last digits.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SummaryStats {
    /// The unique contents, as a share of all blocks.
    pub unique_share: Option<Figure>,
    /// The duplicates, as a share of all blocks.
    pub duplicate_share: Option<Figure>,
    /// The mean duplicates of the contents that have at least one.
    pub duplicates_per_content: Option<Figure>,
    /// The logical blocks divided by the physical blocks.
    pub dedup_ratio: Option<Figure>,
    /// The most duplicates of any content.
    pub max_duplicates: Option<u64>,
    /// The blocks of the data set; [`FITTED_BLOCKS`] if not given.
    pub blocks: Option<u64>,
}

#[derive(Clone, Copy)]
struct Range {
    low: f64,
    high: f64,
}

impl Range {
    fn and(self, other: Self) -> Option<Self> {
        let both = Self { low: self.low.max(other.low), high: self.high.min(other.high) };
        (both.low <= both.high).then_some(both)
    }

    /// Returns the value if it lies in the range, else the middle of the range.
    fn choose(self, value: f64) -> f64 {
        if (self.low..=self.high).contains(&value) {
            value
        } else {
            f64::midpoint(self.low, self.high)
        }
    }
}

fn unfit(reason: String) -> DistributionError {
    DistributionError::Unfit { reason }
}

/// The composition of a data set, as shares of its blocks.
struct Shares {
    duplicates: f64,
    distinct_with_duplicates: f64,
}

impl SummaryStats {
    /// Returns the range of duplicate shares, and the stated share, that the duplicate share and
    /// the dedup ratio allow.
    fn duplicate_range(&self) -> Result<Option<(Range, f64)>, DistributionError> {
        let ratio = match self.dedup_ratio {
            Some(ratio) if ratio.value < 1.0 => {
                return Err(unfit(format!(
                    "a dedup ratio must be at least 1, not {}",
                    ratio.value
                )));
            }
            Some(ratio) => {
                let share = |ratio: f64| 1.0 - 1.0 / ratio.max(1.0);
                let range = ratio.range();
                Some((Range { low: share(range.low), high: share(range.high) }, share(ratio.value)))
            }
            None => None,
        };
        let given = self.duplicate_share.map(|share| (share.range(), share.value));
        match (given, ratio) {
            (Some(given), Some(ratio)) => match given.0.and(ratio.0) {
                Some(both) => Ok(Some((both, both.choose(given.1)))),
                None => Err(unfit(format!(
                    "a dedup ratio of {} means {:.2} % duplicates, not {:.2} %",
                    self.dedup_ratio.map_or(1.0, |ratio| ratio.value),
                    percent(ratio.1),
                    percent(given.1)
                ))),
            },
            (one, other) => Ok(one.or(other)),
        }
    }

    fn shares(&self) -> Result<Shares, DistributionError> {
        let duplicates = self.duplicate_range()?;
        if let Some(mean) = self.duplicates_per_content
            && mean.value < 1.0
        {
            return Err(unfit(format!(
                "a content with duplicates has at least 1 of them, so the mean cannot be {}",
                mean.value
            )));
        }
        let mean = self.duplicates_per_content.map(|mean| mean.value);
        let unique = self.unique_share;
        let (duplicates, distinct_with_duplicates) = match (duplicates, unique, mean) {
            (Some((range, stated)), Some(unique), Some(mean)) => {
                let duplicates = agreed_duplicates(range, stated, unique, mean)?;
                (duplicates, duplicates / mean)
            }
            (Some((_, duplicates)), Some(unique), None) => {
                (duplicates, 1.0 - unique.value - duplicates)
            }
            (Some((_, duplicates)), None, Some(mean)) => (duplicates, duplicates / mean),
            (None, Some(unique), Some(mean)) => {
                let distinct = (1.0 - unique.value) / (1.0 + mean);
                (distinct * mean, distinct)
            }
            (Some((_, 0.0)), None, None) => (0.0, 0.0),
            (None, Some(unique), None) if unique.value >= 1.0 => (0.0, 0.0),
            _ => {
                return Err(unfit(
                    "give two of unique share, duplicate share (or dedup ratio) and duplicates per \
                     content"
                        .to_owned(),
                ));
            }
        };
        check_shares(duplicates, distinct_with_duplicates)?;
        Ok(Shares { duplicates, distinct_with_duplicates })
    }
}

fn percent(share: f64) -> f64 {
    share * 100.0
}

/// Returns the share of duplicates that agrees with a unique share and a mean, each to its
/// rounding.
fn agreed_duplicates(
    duplicates: Range,
    stated: f64,
    unique: Figure,
    mean: f64,
) -> Result<f64, DistributionError> {
    // The blocks that are not unique are the duplicates, plus one first copy for each `mean` of
    // them.
    let of = |unique_share: f64| (1.0 - unique_share) / (1.0 + 1.0 / mean);
    let allowed = Range { low: of(unique.range().high), high: of(unique.range().low) };
    match duplicates.and(allowed) {
        Some(both) => Ok(f64::midpoint(both.low, both.high)),
        None => Err(unfit(format!(
            "{:.2} % unique and {:.2} % duplicates leave {:.2} % for the contents that have \
             duplicates, so these have {:.2} duplicates on average, not {mean}",
            percent(unique.value),
            percent(stated),
            percent(1.0 - unique.value - stated),
            stated / (1.0 - unique.value - stated),
        ))),
    }
}

/// The rounding error that the arithmetic of doubles may add to shares.
const SLACK: f64 = 1e-9;

fn check_shares(duplicates: f64, distinct_with_duplicates: f64) -> Result<(), DistributionError> {
    let unique = 1.0 - duplicates - distinct_with_duplicates;
    if distinct_with_duplicates < -SLACK || unique < -SLACK {
        return Err(unfit(format!(
            "{:.2} % duplicates, {:.2} % contents with duplicates and {:.2} % unique: \
             none can be below 0 %",
            percent(duplicates),
            percent(distinct_with_duplicates),
            percent(unique)
        )));
    }
    if duplicates + SLACK < distinct_with_duplicates {
        return Err(unfit(format!(
            "{:.2} % duplicates are too few for {:.2} % contents that have at least one \
             duplicate each",
            percent(duplicates),
            percent(distinct_with_duplicates)
        )));
    }
    if duplicates > SLACK && distinct_with_duplicates <= 0.0 {
        return Err(unfit(format!(
            "no content is left to have the {:.2} % duplicates",
            percent(duplicates)
        )));
    }
    Ok(())
}

impl Distribution {
    /// Fits a distribution to summary figures. The module's documentation states the assumptions.
    ///
    /// # Errors
    /// Fails with [`DistributionError::Unfit`] if the figures contradict each other or are too few,
    /// and with [`DistributionError::Limit`] above 2^43 blocks.
    pub fn fit(figures: &SummaryStats) -> Result<Self, DistributionError> {
        let shares = figures.shares()?;
        let blocks = figures.blocks.unwrap_or(FITTED_BLOCKS);
        if blocks > MAX_FITTED_BLOCKS {
            return Err(DistributionError::Limit {
                what: "the number of blocks",
                found: blocks,
                most: MAX_FITTED_BLOCKS,
            });
        }
        let duplicates = (shares.duplicates * blocks as f64).round() as u64;
        let contents =
            ((shares.distinct_with_duplicates * blocks as f64).round() as u64).min(duplicates);
        if shares.duplicates > SLACK && contents == 0 {
            return Err(unfit(format!(
                "{blocks} blocks are too few to hold a content with duplicates: ask for more blocks"
            )));
        }
        let unique = blocks.saturating_sub(duplicates).saturating_sub(contents);
        let mut classes = share_out(contents, duplicates, figures.max_duplicates)?;
        classes.push(DuplicateClass { duplicates: 0, contents: unique });
        Self::new(classes)
    }
}

/// Distributes `duplicates` over `contents`. If `most` is given, one content has exactly `most`
/// duplicates and no content has more.
fn share_out(
    contents: u64,
    duplicates: u64,
    most: Option<u64>,
) -> Result<Vec<DuplicateClass>, DistributionError> {
    if contents == 0 {
        return match most {
            None | Some(0) => Ok(Vec::new()),
            Some(most) => {
                Err(unfit(format!("without duplicates no content can have {most} of them")))
            }
        };
    }
    let Some(most) = most else {
        let usual = USUAL_MAX_DUPLICATES.max(duplicates / contents * 100);
        return Ok(power_law(contents, duplicates, usual.min(duplicates - (contents - 1))));
    };
    if u128::from(most) * u128::from(contents) < u128::from(duplicates) {
        return Err(unfit(format!(
            "{contents} contents of at most {most} duplicates have fewer than the \
             {duplicates} duplicates that the figures give"
        )));
    }
    let (others, left) = (contents - 1, duplicates.saturating_sub(most));
    // With one content no duplicates are left here.
    if most > duplicates || left < others {
        return Err(unfit(format!(
            "one content with {most} duplicates leaves {left} of {duplicates} for the other \
             {others} contents, which have at least one each: ask for more blocks or fewer most \
             duplicates"
        )));
    }
    let mut classes = power_law(others, left, most);
    classes.push(DuplicateClass { duplicates: most, contents: 1 });
    Ok(classes)
}

#[cfg(test)]
#[path = "fit_tests.rs"]
mod tests;
