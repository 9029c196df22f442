//! Snapshots and clones of volumes, the way back to a snapshot, and holds, which keep one.
//!
//! A copy is one change of the journal, however large the volume is. So is a rollback: the volume
//! gets the map of the snapshot, and the map that it had goes to a hidden volume, which is cleared
//! as a removed one is. Copies of several volumes are made under one lock of the metadata, so no
//! change of any of them comes in between, and one commit has them all.

use super::VolumeShared;
use super::locks::OrderedRead;
use super::shared::VolumeSettings;
use super::volumes::{Volumes, check_there};
use crate::error::{Result, VolumeError};
use gemelo_format::{Change, Holds, Origin, VolumeId, VolumeRecord};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::slice;
use std::sync::Arc;

/// A copy of a volume that is to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewCopy {
    /// The name of the volume.
    pub source: String,
    /// The name of the copy.
    pub name: String,
}

impl Volumes {
    pub(crate) fn copy(&self, source: &str, name: &str, read_only: bool) -> Result<()> {
        let copy = NewCopy { source: source.to_owned(), name: name.to_owned() };
        self.copy_all(slice::from_ref(&copy), read_only)
    }

    /// Copies volumes, all at one moment. Either all copies are made or none.
    pub(crate) fn copy_all(&self, copies: &[NewCopy], read_only: bool) -> Result<()> {
        self.health.check_writable()?;
        self.log.make_room_for_clone()?;
        let found = |copy: &NewCopy| self.catalogue.find(&copy.source);
        let sources = copies.iter().map(found).collect::<Result<Vec<_>>>()?;
        let _kept = keep_all(&sources);
        let mut catalogue = self.catalogue.change();
        let mut names = BTreeSet::new();
        for (copy, source) in copies.iter().zip(&sources) {
            catalogue.check_free(&copy.name)?;
            check_there(!catalogue.has(&copy.source, source), &copy.source)?;
            if !names.insert(&copy.name) {
                return Err(VolumeError::VolumeExists { name: copy.name.clone() });
            }
        }
        let created_s = self.clock.utc_s();
        // The right to change the catalogue keeps these ids from others.
        let ids = self.next_ids(copies.len())?;
        let pairs = copies.iter().zip(&sources).zip(ids);
        let changes = pairs.map(|((copy, source), volume)| {
            let (source, name) = (source.id(), copy.name.clone());
            Change::Clone { source, volume, name, read_only, created_s }
        });
        let changes: Vec<Change> = changes.collect();
        // Requests under way may wait for a checkpoint. Each of their changes comes before the
        // copies or after them, as with a power cut at this instant.
        {
            let mut state = self.log.write();
            changes.iter().try_for_each(|change| self.log.apply(&mut state, change))?;
        }
        for ((copy, source), change) in copies.iter().zip(&sources).zip(&changes) {
            let Change::Clone { volume, .. } = change else { continue };
            let settings = source.settings_of_copy(read_only);
            let made = self.shared_with(*volume, source.size_bytes(), settings);
            catalogue.insert(&copy.name, made);
        }
        drop(catalogue);
        self.log.flush()
    }

    /// Returns as many ids as are asked for, or fails before any of them is used.
    fn next_ids(&self, count: usize) -> Result<impl Iterator<Item = VolumeId>> {
        let first = self.next_id().0;
        let end = u32::try_from(count).ok().and_then(|count| first.checked_add(count));
        let what = format!("no volume can have the id {}", u32::MAX);
        let none = || VolumeError::Damaged { what };
        Ok((first..end.ok_or_else(none)?).map(VolumeId))
    }

    /// Gives a volume the contents and the size of one of its snapshots. Handles to the volume from
    /// before find that it is gone, so none of their requests meets the other contents.
    pub(crate) fn roll_back(&self, name: &str, snapshot: &str) -> Result<()> {
        self.health.check_writable()?;
        self.log.make_room_for_clone()?;
        let (volume, source) = (self.catalogue.find(name)?, self.catalogue.find(snapshot)?);
        if volume.read_only() {
            return Err(VolumeError::SnapshotRollback { name: name.to_owned() });
        }
        self.check_snapshot_of((name, volume.id()), (snapshot, &source))?;
        // They are locked in the order of their ids.
        let keep = |is_first| ((source.id() < volume.id()) == is_first).then(|| source.keep());
        let _kept_first = keep(true);
        let _alone = volume.resize();
        let _kept_last = keep(false);
        // One that cannot be made durable is refused before anything is changed.
        self.log.flush()?;
        let id = volume.id();
        let left = {
            let mut catalogue = self.catalogue.change();
            check_there(!catalogue.has(name, &volume), name)?;
            check_there(!catalogue.has(snapshot, &source), snapshot)?;
            let left = self.next_id();
            self.change_closed(&volume, |state, removed| {
                let change = Change::Rollback { volume: id, source: source.id(), left };
                self.log.apply(state, &change)?;
                *removed = true;
                Ok(())
            })?;
            let rollbacks = volume.rollbacks().wrapping_add(1);
            let settings = VolumeSettings {
                rollbacks,
                limits: volume.limits().get(),
                ..volume.settings_of_copy(false)
            };
            let new = self.shared_with(id, source.size_bytes(), settings);
            catalogue.replace(name, new);
            left
        };
        let flushed = self.log.flush();
        self.clearer.clear_after(&flushed, left);
        self.catalogue.all().values().for_each(|other| other.marks().mark_all());
        flushed
    }

    /// Fails if a volume is no snapshot of another one. The snapshot of which a clone was made
    /// counts, and so does a snapshot of a snapshot.
    fn check_snapshot_of(
        &self,
        (name, volume): (&str, VolumeId),
        (snapshot, source): (&str, &VolumeShared),
    ) -> Result<()> {
        if !source.read_only() {
            return Err(VolumeError::NotASnapshot { name: snapshot.to_owned() });
        }
        let records = self.log.read().backend().volumes();
        let origin = |id: VolumeId| {
            let record = records.iter().find(|record| record.id == id)?;
            match record.birth.origin {
                Origin::Clone { volume, .. } => Some(volume),
                _ => None,
            }
        };
        let origins = std::iter::successors(origin(source.id()), |id| origin(*id));
        // Ids grow from a source to its copy, so there is no circle; a forged pool may have one.
        let is_of_volume = origins.take(records.len()).any(|id| id == volume);
        if is_of_volume || origin(volume) == Some(source.id()) {
            return Ok(());
        }
        let (name, snapshot) = (name.to_owned(), snapshot.to_owned());
        Err(VolumeError::SnapshotOfAnother { name, snapshot })
    }

    fn record_of(&self, name: &str, id: VolumeId) -> Result<VolumeRecord> {
        let record = self.log.read().backend().description(id);
        record.ok_or_else(|| VolumeError::NoSuchVolume { name: name.to_owned() })
    }

    /// Fails if somebody holds the snapshot.
    pub(super) fn check_unheld(&self, name: &str, id: VolumeId) -> Result<()> {
        let holds = self.record_of(name, id)?.holds;
        if holds.is_empty() {
            return Ok(());
        }
        let tags = holds.tags().collect::<Vec<_>>().join(", ");
        Err(VolumeError::Held { name: name.to_owned(), tags })
    }

    /// Adds a hold to a snapshot, or takes one away.
    pub(crate) fn hold(&self, name: &str, tag: &str, is_held: bool) -> Result<()> {
        self.health.check_writable()?;
        self.log.bound_open_commit()?;
        let catalogue = self.catalogue.change();
        let volume = self.catalogue.find(name)?;
        if !volume.read_only() {
            return Err(VolumeError::NotASnapshot { name: name.to_owned() });
        }
        let holds = self.record_of(name, volume.id())?.holds;
        if !is_held && !holds.has(tag) {
            let (name, tag) = (name.to_owned(), tag.to_owned());
            return Err(VolumeError::NoSuchHold { name, tag });
        }
        if is_held && !Holds::is_tag(tag) {
            return Err(VolumeError::BadOption {
                what: format!("tag '{}'", tag.escape_debug()),
                rule: format!(
                    "give 1 to {} bytes without control characters",
                    Holds::MAX_TAG_BYTES
                ),
            });
        }
        if is_held && !holds.has(tag) && !holds.has_room() {
            return Err(VolumeError::BadOption {
                what: format!("hold '{tag}'"),
                rule: format!("a snapshot has at most {} holds: release one first", Holds::MOST),
            });
        }
        let tag = tag.to_owned();
        self.log.change(&Change::Hold { volume: volume.id(), tag, is_held })?;
        drop(catalogue);
        self.log.flush()
    }
}

/// Keeps volumes from being removed and resized. They are locked in the order of their ids, each
/// once.
fn keep_all(volumes: &[Arc<VolumeShared>]) -> Vec<OrderedRead<'_, ()>> {
    let by_id: BTreeMap<VolumeId, _> = volumes.iter().map(|volume| (volume.id(), volume)).collect();
    by_id.values().map(|volume| volume.keep()).collect()
}
