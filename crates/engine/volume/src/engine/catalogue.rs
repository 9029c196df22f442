//! The catalogue: the volumes of an open pool by name, and the hidden volumes.

use super::VolumeShared;
use super::health::Health;
use super::locks::{OrderedGuard, OrderedMutex, OrderedRwLock, Rank};
use crate::counters::VolumeStat;
use crate::error::{Result, VolumeError};
use crate::load::{LoadStat, Traffic};
use gemelo_format::{MAX_NAME_BYTES, VolumeId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type Names = BTreeMap<String, Arc<VolumeShared>>;

/// The activity of all volumes of a pool together since it was opened. Volumes that were removed
/// count as well.
#[derive(Debug, Clone, Default)]
pub struct VolumesActivity {
    /// The sums of the counts of the volumes.
    pub stat: VolumeStat,
    /// The sums of the figures of their load.
    pub load: LoadStat,
}

impl VolumesActivity {
    fn add(&mut self, volume: &VolumeShared) {
        self.stat.add(&volume.counters().read());
        self.load.add(&volume.load().read());
    }
}

/// The list of volumes, and what those did that are not in it any more.
struct Listed {
    names: Names,
    /// Volumes that are being received, which no client finds.
    receiving: Vec<Arc<VolumeShared>>,
    /// Activity of the volumes that were removed. It changes with the list, so the sum over all
    /// volumes never falls.
    removed: VolumesActivity,
}

/// The volumes of an open pool.
pub(crate) struct Catalogue {
    /// Locked only for a single look-up or insertion, so that clients find their volumes at any
    /// time.
    listed: OrderedRwLock<Listed>,
    /// Held while the list of volumes, or the size of the pool, changes: such changes come one
    /// after another.
    changing: OrderedMutex<()>,
    /// Volumes that are half made or half removed, to be cleared.
    hidden: OrderedMutex<Vec<VolumeId>>,
    has_new_hidden: AtomicBool,
    /// `true` if a volume has a reservation, so that writes have to look at them.
    has_reservations: AtomicBool,
}

impl Catalogue {
    pub(crate) fn new(volumes: Names, hidden: Vec<VolumeId>, health: &Arc<Health>) -> Self {
        let is_reserving = volumes.values().any(|volume| volume.reserve_blocks() > 0);
        Self {
            listed: OrderedRwLock::new(
                Rank::Names,
                health,
                Listed {
                    names: volumes,
                    receiving: Vec::new(),
                    removed: VolumesActivity::default(),
                },
            ),
            changing: OrderedMutex::new(Rank::Catalogue, health, ()),
            hidden: OrderedMutex::new(Rank::Hidden, health, hidden),
            has_new_hidden: AtomicBool::new(false),
            has_reservations: AtomicBool::new(is_reserving),
        }
    }

    pub(crate) fn find(&self, name: &str) -> Result<Arc<VolumeShared>> {
        let found = self.listed.read().names.get(name).cloned();
        found.ok_or_else(|| VolumeError::NoSuchVolume { name: name.to_owned() })
    }

    /// All volumes, by name.
    pub(crate) fn all(&self) -> Names {
        self.listed.read().names.clone()
    }

    /// The volumes that may be written, those that are being received included.
    pub(crate) fn written(&self) -> Vec<Arc<VolumeShared>> {
        let listed = self.listed.read();
        listed.names.values().chain(&listed.receiving).cloned().collect()
    }

    /// Returns whether somebody fills this volume.
    pub(super) fn is_receiving(&self, volume: VolumeId) -> bool {
        self.listed.read().receiving.iter().any(|other| other.id() == volume)
    }

    /// Time that requests of all volumes took since the pool was opened.
    pub(super) fn busy_ns(&self) -> u64 {
        let listed = self.listed.read();
        let busy = listed.names.values().map(|volume| volume.load().busy_ns());
        busy.fold(0, u64::saturating_add)
    }

    /// Returns whether requests are under way.
    pub(super) fn has_requests(&self) -> bool {
        self.traffic().in_flight > 0
    }

    /// The requests of all volumes.
    pub(crate) fn traffic(&self) -> Traffic {
        let mut traffic = Traffic::default();
        for volume in self.listed.read().names.values() {
            traffic.in_flight += volume.load().in_flight();
            traffic.ended += volume.load().requests();
        }
        traffic
    }

    /// The activity of all volumes since the pool was opened, with those that were removed.
    pub(crate) fn activity(&self) -> VolumesActivity {
        let listed = self.listed.read();
        let mut activity = listed.removed.clone();
        listed.names.values().for_each(|volume| activity.add(volume));
        activity
    }

    /// The volumes that have a reservation.
    pub(super) fn reserving(&self) -> Vec<Arc<VolumeShared>> {
        if !self.has_reservations.load(Ordering::Acquire) {
            return Vec::new();
        }
        let volumes = self.all().into_values();
        volumes.filter(|volume| volume.reserve_blocks() > 0).collect()
    }

    /// The number of volumes.
    pub(crate) fn len(&self) -> usize {
        self.listed.read().names.len()
    }

    /// Waits for the right to change the list of volumes, which one thread has at a time.
    pub(crate) fn change(&self) -> CatalogueChange<'_> {
        CatalogueChange { catalogue: self, _alone: self.changing.lock() }
    }

    /// Leaves a hidden volume to be cleared by the background, or after the next opening.
    pub(super) fn clear_later(&self, volume: VolumeId) {
        self.hidden.lock().push(volume);
    }

    /// Leaves a hidden volume to be cleared by the background at once.
    pub(super) fn clear_soon(&self, volume: VolumeId) {
        self.clear_later(volume);
        self.has_new_hidden.store(true, Ordering::Release);
    }

    /// Returns whether a volume was hidden since the last call.
    pub(super) fn take_new_hidden(&self) -> bool {
        self.has_new_hidden.swap(false, Ordering::AcqRel)
    }

    /// Takes a hidden volume that is to be cleared.
    pub(super) fn next_hidden(&self) -> Option<VolumeId> {
        self.hidden.lock().pop()
    }
}

/// The right to change the list of volumes.
pub(crate) struct CatalogueChange<'c> {
    catalogue: &'c Catalogue,
    _alone: OrderedGuard<'c, ()>,
}

impl CatalogueChange<'_> {
    /// Notes that a volume has other limits.
    pub(super) fn note_reservations(&mut self) {
        let listed = self.catalogue.listed.read();
        let is_reserving = listed.names.values().any(|volume| volume.reserve_blocks() > 0);
        self.catalogue.has_reservations.store(is_reserving, Ordering::Release);
    }

    /// Fails if a new volume cannot have this name.
    pub(super) fn check_free(&self, name: &str) -> Result<()> {
        check_name(name)?;
        if self.catalogue.listed.read().names.contains_key(name) {
            return Err(VolumeError::VolumeExists { name: name.to_owned() });
        }
        Ok(())
    }

    /// Returns whether this volume has this name.
    pub(super) fn has(&self, name: &str, volume: &Arc<VolumeShared>) -> bool {
        self.catalogue.listed.read().names.get(name).is_some_and(|there| Arc::ptr_eq(there, volume))
    }

    pub(super) fn insert(&mut self, name: &str, volume: Arc<VolumeShared>) {
        self.catalogue.listed.write().names.insert(name.to_owned(), volume);
    }

    /// Adds a volume that is being received.
    pub(super) fn add_receiving(&mut self, volume: Arc<VolumeShared>) {
        self.catalogue.listed.write().receiving.push(volume);
    }

    /// Takes out a volume that was being received.
    pub(super) fn end_receiving(&mut self, volume: &Arc<VolumeShared>) {
        let mut listed = self.catalogue.listed.write();
        listed.receiving.retain(|other| !Arc::ptr_eq(other, volume));
        listed.removed.add(volume);
    }

    pub(super) fn remove(&mut self, name: &str) {
        let mut listed = self.catalogue.listed.write();
        if let Some(volume) = listed.names.remove(name) {
            listed.removed.add(&volume);
        }
    }

    /// Puts another volume in the place of one.
    pub(super) fn replace(&mut self, name: &str, volume: Arc<VolumeShared>) {
        let mut listed = self.catalogue.listed.write();
        if let Some(before) = listed.names.insert(name.to_owned(), volume) {
            listed.removed.add(&before);
        }
    }

    pub(super) fn rename(&mut self, name: &str, new: &str, volume: Arc<VolumeShared>) {
        let names = &mut self.catalogue.listed.write().names;
        names.remove(name);
        names.insert(new.to_owned(), volume);
    }
}

fn check_name(name: &str) -> Result<()> {
    let is_plain = |c: char| !c.is_control() && c != '/';
    // In POOL/NAME these would mean a directory.
    if matches!(name, "." | "..") {
        return Err(VolumeError::BadOption {
            what: format!("volume name '{name}'"),
            rule: "it would mean a directory".to_owned(),
        });
    }
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(is_plain) {
        return Err(VolumeError::BadOption {
            what: format!("volume name '{}'", name.escape_debug()),
            rule: format!("give 1 to {MAX_NAME_BYTES} bytes without '/' and control characters"),
        });
    }
    Ok(())
}
