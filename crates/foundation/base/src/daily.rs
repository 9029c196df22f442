//! A window of the day, in which work may be done.

use crate::units::UnitError;
use std::fmt::{self, Display};
use std::str::FromStr;

/// A span of each day in local time, from a minute to another one, written as `01:00-05:00`. It may
/// go over midnight: `22:00-06:00`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DailyWindow {
    first_minute: u16,
    end_minute: u16,
}

const EXPECTED: &str = "a window of the day in local time with a beginning and another end, such as \
     01:00-05:00 or 22:00-06:00";
const MINUTES_OF_HOUR: u16 = 60;
const HOURS_OF_DAY: u16 = 24;

impl DailyWindow {
    /// Returns whether a minute of the day lies in the window. The end does not belong to it.
    #[must_use]
    pub const fn contains(self, minute: u16) -> bool {
        if self.first_minute < self.end_minute {
            self.first_minute <= minute && minute < self.end_minute
        } else {
            self.first_minute <= minute || minute < self.end_minute
        }
    }
}

/// Reads `05:30` as minutes since midnight. `24:00` is the end of the day.
fn minute_of(text: &str) -> Option<u16> {
    let (hours, minutes) = text.trim().split_once(':')?;
    let number = |digits: &str| {
        let is_plain = matches!(digits.len(), 1..=2) && digits.bytes().all(|b| b.is_ascii_digit());
        is_plain.then(|| digits.parse::<u16>().ok()).flatten()
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let minute = hours * MINUTES_OF_HOUR + minutes;
    let is_valid = minutes < MINUTES_OF_HOUR && minute <= HOURS_OF_DAY * MINUTES_OF_HOUR;
    is_valid.then_some(minute)
}

impl FromStr for DailyWindow {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let window = || {
            let (first, end) = text.split_once('-')?;
            let (first_minute, end_minute) = (minute_of(first)?, minute_of(end)?);
            let is_span = first_minute != end_minute && first_minute < HOURS_OF_DAY * 60;
            is_span.then_some(Self { first_minute, end_minute })
        };
        window().ok_or_else(|| UnitError { text: text.to_owned(), expected: EXPECTED })
    }
}

impl Display for DailyWindow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = |minute: u16| (minute / MINUTES_OF_HOUR, minute % MINUTES_OF_HOUR);
        let ((first_hour, first), (end_hour, end)) =
            (parts(self.first_minute), parts(self.end_minute));
        write!(formatter, "{first_hour:02}:{first:02}-{end_hour:02}:{end:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_its_minutes_also_over_midnight() {
        let night: DailyWindow = "01:00-05:00".parse().unwrap();
        for (minute, is_within) in [(59, false), (60, true), (299, true), (300, false)] {
            assert_eq!(night.contains(minute), is_within, "{minute}");
        }
        let over: DailyWindow = "22:30-6:00".parse().unwrap();
        for (minute, is_within) in
            [(1349, false), (1350, true), (0, true), (359, true), (360, false)]
        {
            assert_eq!(over.contains(minute), is_within, "{minute}");
        }
        assert_eq!(over.to_string(), "22:30-06:00");
        assert!("12:00-24:00".parse::<DailyWindow>().unwrap().contains(1439));
    }

    #[test]
    fn nonsense_is_no_window() {
        for text in [
            "",
            "1-5",
            "01:00",
            "05:00-05:00",
            "25:00-26:00",
            "1:60-2:00",
            "-1:00-2:00",
            "24:00-1:00",
        ] {
            let error = text.parse::<DailyWindow>().unwrap_err();
            assert!(error.to_string().contains("01:00-05:00"), "{error}");
        }
    }
}
