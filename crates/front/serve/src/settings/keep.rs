//! Which snapshots of a schedule are kept.
//!
//! The rule counts snapshots and not ages: of the snapshots in the order in which they were made,
//! newest first, the last one of each hour is kept until there are 24 of them, and so on. So a
//! clock that jumps ahead makes nothing old, and one that is set back only begins another hour.

use std::fmt;
use std::str::FromStr;

/// A span of time of which the last snapshot is kept: its letter, and the number of the span that a
/// second lies in.
type KeepPeriod = (char, fn(u64) -> u64);

const PERIODS: [KeepPeriod; 5] = [
    ('h', |utc_s| utc_s / HOUR_S),
    ('d', |utc_s| utc_s / DAY_S),
    // 1970 began on a Thursday, and weeks begin on Mondays.
    ('w', |utc_s| (utc_s / DAY_S + 3) / 7),
    ('m', |utc_s| month_of(utc_s / DAY_S)),
    ('y', |utc_s| month_of(utc_s / DAY_S) / 12),
];

const HOUR_S: u64 = 3600;
const DAY_S: u64 = 86_400;
/// More snapshots of a kind than any pool has.
const MOST: u64 = 100_000;

/// The snapshots that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeepRule {
    /// So many of the last ones.
    last: u64,
    /// So many of each period.
    counts: [u64; PERIODS.len()],
}

impl KeepRule {
    /// Returns for each snapshot whether it is kept. They are given by the times in their names, in
    /// seconds since 1970, in the order in which they were made, newest first.
    #[must_use]
    pub fn keeps(&self, made_utc_s: &[u64]) -> Vec<bool> {
        let mut kept = vec![false; made_utc_s.len()];
        let last = usize::try_from(self.last).unwrap_or(usize::MAX);
        kept.iter_mut().take(last).for_each(|is_kept| *is_kept = true);
        for ((_, number_of), count) in PERIODS.iter().zip(self.counts) {
            let (mut left, mut before) = (count, None);
            for (made_s, is_kept) in made_utc_s.iter().zip(&mut kept) {
                let number = Some(number_of(*made_s));
                if left == 0 || number == before {
                    continue;
                }
                (left, before) = (left - 1, number);
                *is_kept = true;
            }
        }
        kept
    }
}

/// Returns the number of the month since the year 0 of a day since 1970, by the civil calendar
/// (Howard Hinnant, `civil_from_days`).
const fn month_of(day: u64) -> u64 {
    let day = day.saturating_add(719_468);
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    // Months from March on.
    let month = (5 * of_year + 2) / 153;
    (era * 400 + year) * 12 + month + 2
}

impl FromStr for KeepRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is not a list of counts of h, d, w, m or y, such as '24h 7d 4w' or 10"
            )
        };
        let mut rule = Self::default();
        for part in text.split([' ', ',']).filter(|part| !part.is_empty()) {
            let unit = part.chars().last().filter(|letter| !letter.is_ascii_digit());
            let digits = unit.map_or(part, |letter| part.trim_end_matches(letter));
            let count = digits.parse::<u64>().ok().filter(|count| (1..=MOST).contains(count));
            let at = unit.map(|letter| PERIODS.iter().position(|(known, _)| *known == letter));
            let place = match at {
                None => Some(&mut rule.last),
                Some(at) => at.and_then(|at| rule.counts.get_mut(at)),
            };
            let place = place.filter(|place| **place == 0).ok_or_else(wrong)?;
            *place = count.ok_or_else(wrong)?;
        }
        if rule == Self::default() { Err(wrong()) } else { Ok(rule) }
    }
}

impl fmt::Display for KeepRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut texts = Vec::new();
        if self.last > 0 {
            texts.push(self.last.to_string());
        }
        for ((letter, _), count) in PERIODS.iter().zip(self.counts).filter(|(_, count)| *count > 0)
        {
            texts.push(format!("{count}{letter}"));
        }
        out.write_str(&texts.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> KeepRule {
        text.parse().unwrap()
    }

    /// The numbers of those of the snapshots that are kept.
    fn kept(text: &str, made_utc_s: &[u64]) -> Vec<usize> {
        let kept = rule(text).keeps(made_utc_s);
        (0..made_utc_s.len()).filter(|at| kept[*at]).collect()
    }

    #[test]
    fn the_last_of_each_period_is_kept() {
        // A snapshot each half hour, newest first, for ten days.
        let made: Vec<u64> = (0..480).map(|at| (20_000 * 24 + 240) * HOUR_S - at * 1800).collect();
        assert_eq!(kept("3", &made), [0, 1, 2]);
        assert_eq!(kept("3h", &made), [0, 1, 3]);
        assert_eq!(kept("2d", &made), [0, 1]);
        assert_eq!(kept("3d", &made), [0, 1, 49]);
        assert_eq!(kept("2h 2d", &made), [0, 1]);
        assert_eq!(kept("24h 7d 4w", &made).len(), 24 + 5 + 1);
        assert!(rule("1000h").keeps(&[]).is_empty());
    }

    #[test]
    fn a_clock_that_jumps_makes_nothing_old() {
        let hour = |number: u64| number * HOUR_S + 7;
        let usual: Vec<u64> = (0..24).rev().map(|at| hour(500_000 + at)).collect();
        let ahead = [&[hour(900_000)][..], &usual].concat();
        // The one that was too many anyway goes, and no other.
        assert_eq!(kept("24h", &ahead), (0..24).collect::<Vec<_>>());
        // Set back by 3 hours: the same hours come again, and the earlier ones stay.
        let again: Vec<u64> =
            [500_022, 500_021].map(hour).into_iter().chain(usual.iter().copied()).collect();
        assert_eq!(kept("26h", &again), (0..26).collect::<Vec<_>>());
    }

    #[test]
    fn months_and_years_are_those_of_the_calendar() {
        let day = |day: u64| month_of(day);
        // 1970-01-31 and -02-01, 2024-02-29 and -03-01, 1999-12-31 and 2000-01-01.
        assert_eq!(day(31) - day(30), 1);
        assert_eq!(day(19_783) - day(19_782), 1);
        assert_eq!(day(19_782), day(19_754));
        assert_eq!((day(10_957) / 12, day(10_956) / 12), (2000, 1999));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "h", "24x", "0h", "-1d", "1h 2h", "1.5d", "99999999999999999999h", "ä"] {
            assert!(text.parse::<KeepRule>().is_err(), "{text}");
        }
        assert_eq!(rule("4w 24h,7d 3").to_string(), "3 24h 7d 4w");
    }
}
