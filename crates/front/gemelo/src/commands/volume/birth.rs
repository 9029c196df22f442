//! The creation time and the origin of a volume as text.

use crate::dates;
use gemelo_format::{Origin, VolumeRecord};

/// Returns the time at which the volume was created, in UTC, as RFC 3339.
pub(super) fn created(record: &VolumeRecord) -> String {
    dates::utc(record.birth.created_s)
}

/// Returns the source from which the volume was made.
pub(super) fn origin(record: &VolumeRecord) -> String {
    match &record.birth.origin {
        Origin::Empty => "empty".to_owned(),
        Origin::Imported => "import".to_owned(),
        Origin::Received { .. } => "received".to_owned(),
        Origin::Clone { name, .. } if record.read_only => format!("snapshot of {name}"),
        Origin::Clone { name, .. } => format!("clone of {name}"),
    }
}
