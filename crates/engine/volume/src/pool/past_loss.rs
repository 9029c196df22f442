//! Replays commits that follow a lost one: their changes are made where they fit the present state.
//!
//! Blocks need no care here. Every map entry has the checksum of its content, and a repair judges
//! all entries and fingerprints by the contents. Volumes need care: a change of a volume that only
//! the lost commit made is left out, and two volumes never get one name.

use crate::error::Result;
use gemelo_format::{Change, MAX_NAME_BYTES, ReplayedCommit, VolumeId, VolumeRecord};
use gemelo_metadata::{MetadataBackend, MetadataError};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::slice;

/// A volume that got another name, because its own was given to another volume.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct RenamedVolume {
    /// The name that it had.
    pub before: String,
    /// The name that it has after the repair.
    pub after: String,
}

/// The losses of a replay that goes on after a lost commit.
#[derive(Debug, Default)]
pub(crate) struct PastLoss {
    /// Changes that were left out.
    pub(crate) left_out: u64,
    /// Blocks of each volume that changes replace which were left out.
    pub(crate) undone: BTreeMap<VolumeId, u64>,
    pub(crate) renamed: Vec<RenamedVolume>,
}

impl PastLoss {
    /// Makes the changes of a commit.
    pub(crate) fn apply(
        &mut self,
        backend: &mut dyn MetadataBackend,
        commit: &ReplayedCommit,
    ) -> Result<()> {
        for change in &commit.changes {
            // What was received may be in the lost commit, so the copy does not become a snapshot.
            if matches!(change, Change::Receive { receiving: None, .. }) {
                self.leave_out(change);
                continue;
            }
            self.make_room_for_name(backend, change, commit.number)?;
            let mut make = || {
                backend.check_change(change)?;
                backend.apply(slice::from_ref(change), &mut Vec::new())
            };
            match make() {
                Ok(()) => {}
                Err(MetadataError::Damaged { .. }) => self.leave_out(change),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn leave_out(&mut self, change: &Change) {
        self.left_out += 1;
        if let Some((volume, blocks)) = change.changed_blocks() {
            let sum = self.undone.entry(volume).or_default();
            *sum = sum.saturating_add(blocks);
        }
    }

    /// Renames a volume whose name the change gives to another one: the lost commit has removed or
    /// renamed it, and its blocks are kept.
    fn make_room_for_name(
        &mut self,
        backend: &mut dyn MetadataBackend,
        change: &Change,
        number: u64,
    ) -> Result<()> {
        if !names_volume(change) {
            return Ok(());
        }
        let volumes = backend.volumes();
        let Some((id, name)) = named(change, &volumes) else { return Ok(()) };
        let has_name = |volume: &&VolumeRecord| {
            volume.id != id && volume.name == name && !volume.is_hidden && !volume.is_unfinished()
        };
        let Some(holder) = volumes.iter().find(has_name) else { return Ok(()) };
        let after = free_name(&name, number, &volumes);
        let rename = Change::Rename { volume: holder.id, name: after.clone() };
        backend.apply(slice::from_ref(&rename), &mut Vec::new())?;
        self.renamed.push(RenamedVolume { before: name, after });
        Ok(())
    }
}

/// Returns whether a change may make a volume visible under another name.
const fn names_volume(change: &Change) -> bool {
    matches!(change, Change::Create(_) | Change::Clone { .. } | Change::Rename { .. })
}

/// Returns the volume that a change makes visible under a name, and the name. Returns `None` if the
/// change rests on a volume that does not exist.
fn named(change: &Change, volumes: &[VolumeRecord]) -> Option<(VolumeId, String)> {
    let find = |id: &VolumeId| volumes.iter().find(|info| info.id == *id);
    match change {
        Change::Create(record) if record.is_hidden || record.is_unfinished() => None,
        Change::Create(record) => Some((record.id, record.name.clone())),
        Change::Clone { source, volume, name, .. } => find(source).map(|_| (*volume, name.clone())),
        Change::Rename { volume, name } => find(volume).map(|_| (*volume, name.clone())),
        _ => None,
    }
}

/// Returns a name that no other volume has, for a volume that had `name` before a commit.
fn free_name(name: &str, commit: u64, volumes: &[VolumeRecord]) -> String {
    let candidates = (0u64..).map(|number| {
        let suffix = match number {
            0 => format!(".before-commit-{commit}"),
            _ => format!(".before-commit-{commit}-{number}"),
        };
        let mut end = name.len().min(MAX_NAME_BYTES.saturating_sub(suffix.len()));
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        format!("{}{suffix}", name.get(..end).unwrap_or_default())
    });
    let is_free = |candidate: &String| volumes.iter().all(|volume| volume.name != *candidate);
    let name = candidates.into_iter().find(is_free).unwrap_or_default();
    assert!(!name.is_empty() && name.len() <= MAX_NAME_BYTES, "some number gives a free name");
    name
}
