//! The catalogue: the volumes of an open pool by name, and the hidden volumes.

use super::VolumeShared;
use super::health::Health;
use super::locks::{OrderedGuard, OrderedMutex, OrderedRwLock, Rank};
use crate::error::{Result, VolumeError};
use gemelo_format::{MAX_NAME_BYTES, VolumeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Names = BTreeMap<String, Arc<VolumeShared>>;

/// The volumes of an open pool.
pub(crate) struct Catalogue {
    /// Locked only for a single look-up or insertion, so that clients find their volumes at any
    /// time.
    names: OrderedRwLock<Names>,
    /// Names of volumes that are being made. Held while the list of volumes, or the size of the
    /// pool, changes: such changes come one after another.
    reserved: OrderedMutex<BTreeSet<String>>,
    /// Volumes that are half made or half removed, to be cleared.
    hidden: OrderedMutex<Vec<VolumeId>>,
}

impl Catalogue {
    pub(crate) fn new(volumes: Names, hidden: Vec<VolumeId>, health: &Arc<Health>) -> Self {
        Self {
            names: OrderedRwLock::new(Rank::Names, health, volumes),
            reserved: OrderedMutex::new(Rank::Catalogue, health, BTreeSet::new()),
            hidden: OrderedMutex::new(Rank::Hidden, health, hidden),
        }
    }

    pub(crate) fn find(&self, name: &str) -> Result<Arc<VolumeShared>> {
        let found = self.names.read().get(name).cloned();
        found.ok_or_else(|| VolumeError::NoSuchVolume { name: name.to_owned() })
    }

    /// All volumes, by name.
    pub(crate) fn all(&self) -> Names {
        self.names.read().clone()
    }

    /// Calls with each volume. The caller takes no lock meanwhile.
    pub(super) fn for_each(&self, mut each: impl FnMut(&VolumeShared)) {
        self.names.read().values().for_each(|volume| each(volume));
    }

    /// The number of volumes.
    pub(crate) fn len(&self) -> usize {
        self.names.read().len()
    }

    /// Waits for the right to change the list of volumes, which one thread has at a time.
    pub(crate) fn change(&self) -> CatalogueChange<'_> {
        CatalogueChange { catalogue: self, reserved: self.reserved.lock() }
    }

    /// Leaves a hidden volume to be cleared by the background, or after the next opening.
    pub(super) fn clear_later(&self, volume: VolumeId) {
        self.hidden.lock().push(volume);
    }

    /// Takes a hidden volume that is to be cleared.
    pub(super) fn next_hidden(&self) -> Option<VolumeId> {
        self.hidden.lock().pop()
    }
}

/// The right to change the list of volumes.
pub(crate) struct CatalogueChange<'c> {
    catalogue: &'c Catalogue,
    reserved: OrderedGuard<'c, BTreeSet<String>>,
}

impl CatalogueChange<'_> {
    /// Fails if a new volume cannot have this name.
    pub(super) fn check_free(&self, name: &str) -> Result<()> {
        check_name(name)?;
        if self.reserved.contains(name) || self.catalogue.names.read().contains_key(name) {
            return Err(VolumeError::VolumeExists { name: name.to_owned() });
        }
        Ok(())
    }

    /// Returns whether this volume has this name.
    pub(super) fn has(&self, name: &str, volume: &Arc<VolumeShared>) -> bool {
        self.catalogue.names.read().get(name).is_some_and(|there| Arc::ptr_eq(there, volume))
    }

    /// Keeps a name for a volume that is being made.
    pub(super) fn reserve(&mut self, name: &str) {
        self.reserved.insert(name.to_owned());
    }

    /// Ends [`Self::reserve`].
    pub(super) fn unreserve(&mut self, name: &str) {
        self.reserved.remove(name);
    }

    pub(super) fn insert(&mut self, name: &str, volume: Arc<VolumeShared>) {
        self.catalogue.names.write().insert(name.to_owned(), volume);
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.catalogue.names.write().remove(name);
    }

    pub(super) fn rename(&mut self, name: &str, new: &str, volume: Arc<VolumeShared>) {
        let mut names = self.catalogue.names.write();
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
