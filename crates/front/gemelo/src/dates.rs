//! Moments as text.

use std::time::{Duration, SystemTime};

/// First second that RFC 3339 cannot express: the year 10000.
const END_OF_DATES_S: u64 = 253_402_300_800;

/// Returns a moment in seconds since 1970 in UTC, as RFC 3339.
pub(crate) fn utc(seconds: Option<u64>) -> String {
    let date_of = |seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    let known = seconds.filter(|seconds| *seconds < END_OF_DATES_S);
    known.and_then(date_of).map_or_else(
        || "unknown".to_owned(),
        |date| humantime::format_rfc3339_seconds(date).to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_second_has_a_text() {
        assert_eq!(utc(Some(0)), "1970-01-01T00:00:00Z");
        assert_eq!(utc(Some(END_OF_DATES_S - 1)), "9999-12-31T23:59:59Z");
        for unknown in [None, Some(END_OF_DATES_S), Some(u64::MAX)] {
            assert_eq!(utc(unknown), "unknown");
        }
    }
}
