//! Changes of the records of volumes.

use super::edit::Edit;
use gemelo_format::{Holds, Origin, Receiving, SnapshotId, VolumeId, VolumeLimits, VolumeRecord};

/// The least rate of a volume, in requests or bytes a second.
const LEAST_RATE: u64 = 1 << 32;

/// Changes a field of a record from the 13th on.
pub(super) fn change_record(record: &mut VolumeRecord, edit: Edit) {
    let number = edit.new_value(u64::from(record.id.0));
    let identity =
        SnapshotId { pool: [edit.operation; 16], volume: VolumeId(number as u32), created_s: 1 };
    match edit.own_field() {
        13 => edit.change_u32(&mut record.padding_bytes),
        14 => edit.change_u32(&mut record.rollbacks),
        15 => change_limits(&mut record.limits, edit),
        16 => {
            let created_s = edit.new_value(record.birth.created_s.unwrap_or(0));
            record.birth.created_s = Some(created_s);
        }
        17 => {
            let volume = VolumeId(number as u32);
            record.birth.origin = match edit.value % 4 {
                0 => Origin::Empty,
                1 => Origin::Imported,
                2 => Origin::Clone { volume, name: "of".to_owned() },
                _ => Origin::Received { identity, source: Some(volume) },
            }
        }
        18 => {
            let received_bytes = edit.new_value(record.size_bytes);
            let base = edit.value.is_multiple_of(2).then_some(identity);
            record.receiving = Some(Receiving { base, received_bytes, seen_s: edit.value });
        }
        _ => {
            let tags = ["", "a", "b", "c", "d", "a tag\n"];
            record.holds = Holds::of(tags.into_iter().skip(edit.value as usize % 6));
        }
    }
}

/// Changes a limit. The rates stay so high that no run waits for them.
fn change_limits(limits: &mut VolumeLimits, edit: Edit) {
    let limit = match edit.value % 5 {
        0 => &mut limits.operations_per_s,
        1 => &mut limits.bytes_per_s,
        2 => &mut limits.burst_ms,
        3 => &mut limits.quota_bytes,
        _ => &mut limits.reserve_bytes,
    };
    let least = if edit.value % 5 < 2 { LEAST_RATE } else { 0 };
    *limit = Some(edit.new_value(limit.unwrap_or(1)).max(least));
}
