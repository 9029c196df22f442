//! The order in which volumes are copied, and the base of each: the copied volume that is most like
//! it.

use crate::traits::MetadataBackend;
use gemelo_format::{Origin, VolumeId, VolumeRecord};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The volumes that are copied, and those that come next.
#[derive(Default)]
pub(super) struct Copied {
    all: BTreeSet<VolumeId>,
    /// Those that clones can be made of.
    bases: BTreeSet<VolumeId>,
    /// The copied snapshots of a volume, which may have been removed, and the copied clones of a
    /// volume that was removed.
    siblings: HashMap<VolumeId, BTreeSet<VolumeId>>,
    origins: HashMap<VolumeId, VolumeId>,
    /// Volumes that were not copied when the list was made, the next one last.
    next: Vec<VolumeId>,
}

/// The volume that a volume was cloned from.
const fn origin_of(record: &VolumeRecord) -> Option<VolumeId> {
    match &record.birth.origin {
        Origin::Clone { volume, .. } => Some(*volume),
        Origin::Empty | Origin::Imported => None,
    }
}

impl Copied {
    pub(super) fn has(&self, volume: VolumeId) -> bool {
        self.all.contains(&volume)
    }

    pub(super) fn insert(&mut self, record: &VolumeRecord) {
        self.all.insert(record.id);
        if record.is_hidden {
            return;
        }
        self.bases.insert(record.id);
        if let Some(origin) = origin_of(record) {
            self.siblings.entry(origin).or_default().insert(record.id);
            self.origins.insert(record.id, origin);
        }
    }

    pub(super) fn remove(&mut self, volume: VolumeId) {
        self.all.remove(&volume);
        self.hide(volume);
    }

    /// Notes that a volume is about to be removed, so that it is no base any more.
    pub(super) fn hide(&mut self, volume: VolumeId) {
        self.bases.remove(&volume);
        let Some(origin) = self.origins.remove(&volume) else { return };
        if let Some(siblings) = self.siblings.get_mut(&origin) {
            siblings.remove(&volume);
            if siblings.is_empty() {
                self.siblings.remove(&origin);
            }
        }
    }

    /// The volume that comes next; `None` if all are copied, except hidden ones. A hidden volume is
    /// half made or half removed, and is waited for.
    pub(super) fn next(&mut self, backend: &dyn MetadataBackend) -> Option<VolumeRecord> {
        if self.next.is_empty() {
            let mut records = backend.volumes();
            records.retain(|record| !record.is_hidden);
            self.next = self.in_order(&records);
        }
        while let Some(volume) = self.next.pop() {
            let record = backend.description(volume).filter(|record| !record.is_hidden);
            if let Some(record) = record.filter(|record| !self.has(record.id)) {
                return Some(record);
            }
        }
        None
    }

    /// Volumes that are not copied, the next one last: each after the one that it was cloned from,
    /// and the newest clone first, whose base is the volume itself.
    fn in_order(&self, records: &[VolumeRecord]) -> Vec<VolumeId> {
        let origins: BTreeMap<VolumeId, Option<VolumeId>> =
            records.iter().map(|record| (record.id, origin_of(record))).collect();
        let depth = |id: &VolumeId| {
            // The id of an origin is lower, so the chain ends.
            let above = |id: &VolumeId| origins.get(id).copied().flatten().filter(|up| up < id);
            std::iter::successors(Some(*id), above).count()
        };
        let mut left: Vec<VolumeId> =
            origins.keys().filter(|id| !self.has(**id)).copied().collect();
        left.sort_by_cached_key(|id| Reverse((depth(id), Reverse(*id))));
        left
    }

    /// The volume whose map is most like that of this volume. A snapshot is like the next newer
    /// one, and a clone that is written like its origin.
    pub(super) fn base(&self, record: &VolumeRecord) -> Option<VolumeId> {
        let origin = origin_of(record)?;
        let siblings = self.siblings.get(&origin);
        let newer = || siblings?.range(record.id..).next().copied();
        let older = || siblings?.range(..record.id).next_back().copied();
        let own = Some(origin).filter(|origin| self.bases.contains(origin));
        match record.read_only {
            true => newer().or(own).or_else(older),
            false => own.or_else(newer).or_else(older),
        }
    }
}
