//! The creation time and the origin of a volume as text.

use gemelo_format::{Origin, VolumeRecord};
use std::time::{Duration, SystemTime};

/// First second that RFC 3339 cannot express: the year 10000.
const END_OF_DATES_S: u64 = 253_402_300_800;

/// Returns the time at which the volume was created, in UTC, as RFC 3339.
pub(super) fn created(record: &VolumeRecord) -> String {
    let date_of = |seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    let known = record.birth.created_s.filter(|seconds| *seconds < END_OF_DATES_S);
    known.and_then(date_of).map_or_else(
        || "unknown".to_owned(),
        |date| humantime::format_rfc3339_seconds(date).to_string(),
    )
}

/// Returns the source from which the volume was made.
pub(super) fn origin(record: &VolumeRecord) -> String {
    match &record.birth.origin {
        Origin::Unknown => "unknown".to_owned(),
        Origin::Empty => "empty".to_owned(),
        Origin::Imported => "import".to_owned(),
        Origin::Clone { name, .. } if record.read_only => format!("snapshot of {name}"),
        Origin::Clone { name, .. } => format!("clone of {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_format::{Birth, DedupMode, VolumeId};

    #[test]
    fn any_second_has_a_text() {
        let of = |created_s| {
            let birth = Birth { created_s, origin: Origin::Empty };
            created(&VolumeRecord {
                id: VolumeId(0),
                name: "a".to_owned(),
                size_bytes: 4096,
                mode: DedupMode::Inline,
                read_only: false,
                is_hidden: false,
                birth,
            })
        };
        assert_eq!(of(Some(0)), "1970-01-01T00:00:00Z");
        assert_eq!(of(Some(END_OF_DATES_S - 1)), "9999-12-31T23:59:59Z");
        for unknown in [None, Some(END_OF_DATES_S), Some(u64::MAX)] {
            assert_eq!(of(unknown), "unknown");
        }
    }
}
