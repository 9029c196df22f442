//! Changes of the commits of the journal.

use super::edit::Edit;
use gemelo_format::{Change, Checksum, CommitOrder, Lbn, Pbn, Receiving, SnapshotId, VolumeId};

/// Changes a field of one of the changes of a commit, leaves it out, or makes it twice.
pub(super) fn change_payload(order: CommitOrder, payload: &mut Vec<u8>, edit: Edit) {
    let freed = match (order, payload.last_chunk::<4>()) {
        (CommitOrder::BesideContents, Some(count)) => {
            (u32::from_le_bytes(*count) as usize).saturating_mul(5).saturating_add(4)
        }
        _ => 0,
    };
    let tail = payload.split_off(payload.len().saturating_sub(freed));
    let Ok(mut changes) = Change::decode_all(payload, Pbn::new) else {
        return payload.extend_from_slice(&tail);
    };
    let at = edit.field / 16 % changes.len().max(1);
    match edit.operation / 6 % 8 {
        0 => changes.extend(changes.get(at).cloned()),
        1 if !changes.is_empty() => drop(changes.remove(at)),
        2 if !changes.is_empty() => changes.swap(at, 0),
        3 => changes.push(new_change(edit)),
        _ => changes.get_mut(at).into_iter().for_each(|change| change_change(change, edit)),
    }
    payload.clear();
    changes.iter().for_each(|change| change.encode(payload));
    payload.extend_from_slice(&tail);
}

/// A change that the commit did not have.
fn new_change(edit: Edit) -> Change {
    let (volume, number) = (VolumeId(1 + edit.value as u32 % 8), edit.value / 8 % 2048);
    let (first, count) = (Lbn(number), edit.new_value(3));
    let pbn = Pbn::new(number + 1).unwrap_or(Pbn::FIRST);
    match edit.value >> 32 & 15 {
        0 => Change::Unmap { volume, first, count },
        1 => Change::Lose { volume, first, count },
        2 => Change::Remove { volume },
        3 => Change::Hide { volume },
        4 => Change::Resize { volume, size_bytes: edit.new_value(1 << 20), padding_bytes: 1 },
        5 => Change::Shrink { volume, size_bytes: edit.new_value(1 << 20), padding_bytes: 0 },
        6 => Change::Grow { data_blocks: edit.new_value(2000) },
        7 => Change::Suspect { pbn, is_suspect: number.is_multiple_of(2) },
        8 => Change::Clone {
            source: volume,
            volume: VolumeId(edit.new_value(9) as u32),
            name: "a clone".to_owned(),
            read_only: false,
            created_s: None,
        },
        9 => Change::Rename { volume, name: "one".to_owned() },
        11 => Change::Receive {
            volume,
            name: "a copy".to_owned(),
            identity: SnapshotId { pool: [1; 16], volume, created_s: 1 },
            source: None,
            created_s: None,
            receiving: number.is_multiple_of(2).then(Receiving::default),
        },
        12 => {
            let (source, left) =
                (VolumeId(1 + number as u32 % 8), VolumeId(edit.new_value(9) as u32));
            Change::Rollback { volume, source, left }
        }
        13 => Change::Hold { volume, tag: "a hold".to_owned(), is_held: true },
        10 => Change::JournalData { pbn, content: vec![1; edit.new_value(512) as usize % 2000] },
        14 => {
            let to = Pbn::new(edit.new_value(number + 2)).unwrap_or(Pbn::FIRST);
            Change::Move { from: pbn, to, checksum: Checksum(1) }
        }
        15 if number.is_multiple_of(2) => Change::Cut { data_blocks: edit.new_value(2000) },
        _ => Change::Share { volume, lbn: first, pbn, checksum: Checksum(1) },
    }
}

/// Changes a number of a change.
fn change_change(change: &mut Change, edit: Edit) {
    let block = |pbn: &mut Pbn| *pbn = Pbn::new(edit.new_value(pbn.number())).unwrap_or(*pbn);
    let is_first = edit.value.is_multiple_of(3);
    match change {
        Change::Store { volume, lbn, pbn, .. } | Change::Share { volume, lbn, pbn, .. } => {
            match edit.value % 3 {
                0 => edit.change_u32(&mut volume.0),
                1 => edit.change(&mut lbn.0),
                _ => block(pbn),
            }
        }
        Change::Unmap { volume, first, count } | Change::Lose { volume, first, count } => {
            match edit.value % 3 {
                0 => edit.change_u32(&mut volume.0),
                1 => edit.change(&mut first.0),
                _ => edit.change(count),
            }
        }
        Change::Create(record) if is_first => edit.change_u32(&mut record.id.0),
        Change::Create(record) => edit.change(&mut record.size_bytes),
        Change::Resize { size_bytes, .. } | Change::Shrink { size_bytes, .. } if !is_first => {
            edit.change(size_bytes);
        }
        Change::Clone { source, .. } | Change::Rollback { source, .. } if is_first => {
            edit.change_u32(&mut source.0);
        }
        Change::Remove { volume }
        | Change::Rename { volume, .. }
        | Change::Resize { volume, .. }
        | Change::Shrink { volume, .. }
        | Change::Clone { volume, .. }
        | Change::SetMode { volume, .. }
        | Change::SetCompression { volume, .. }
        | Change::SetLimits { volume, .. }
        | Change::Hold { volume, .. }
        | Change::Rollback { volume, .. }
        | Change::Receive { volume, .. }
        | Change::Hide { volume } => edit.change_u32(&mut volume.0),
        Change::Grow { data_blocks } | Change::Cut { data_blocks } => edit.change(data_blocks),
        Change::Move { from, to, .. } => block(if is_first { from } else { to }),
        Change::Identify { pbn, .. } | Change::Suspect { pbn, .. } => block(pbn),
        Change::JournalData { pbn, .. } if is_first => block(pbn),
        Change::JournalData { content, .. } => {
            let at = edit.field % content.len().max(1);
            content.get_mut(at).into_iter().for_each(|byte| edit.change_u8(byte));
        }
    }
}
