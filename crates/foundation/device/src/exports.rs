//! The table of exports: names and their devices.

use crate::{BlockDevice, Geometry};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// A device under the name that clients select it by.
#[derive(Clone)]
pub struct Export {
    /// Name of the export, also if a client selected it as the default.
    pub name: String,
    /// Tells this export from all others of this host. A name can be given to another one; an
    /// identity is never used again.
    pub identity: String,
    /// The device that is read and written.
    pub device: Arc<dyn BlockDevice>,
    /// A description for people; may be empty.
    pub description: String,
    /// `true` if the export refuses writes, even if its device allows them.
    pub read_only: bool,
    /// `true` if the device makes zeroes without writing them as data (NBD's FAST_ZERO).
    pub zeroes_are_fast: bool,
}

impl Export {
    /// Makes an export that refuses writes only if the device does. Its name is its identity.
    #[must_use]
    pub fn new(name: impl Into<String>, device: Arc<dyn BlockDevice>) -> Self {
        let name = name.into();
        let (identity, description) = (name.clone(), String::new());
        Self { name, identity, device, description, read_only: false, zeroes_are_fast: true }
    }

    /// Returns the present size and limits of the device. They include that the export refuses
    /// writes.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        let geometry = self.device.geometry();
        Geometry { read_only: geometry.read_only || self.read_only, ..geometry }
    }
}

/// Finds exports by name. Every client causes a new look-up, so exports can be added and removed
/// while a server runs.
pub trait Exports: Send + Sync {
    /// Returns the export of this name. The empty name means the default export.
    fn find(&self, name: &str) -> Option<Export>;

    /// Returns the names to list.
    fn names(&self) -> Vec<String>;

    /// Returns the export of this name with a device that tells what differs from a snapshot
    /// ([`BlockDevice::changed_extents`]); [`None`] if there is no such snapshot.
    fn since(&self, name: &str, snapshot: &str) -> Option<Export> {
        let _ = (name, snapshot);
        None
    }

    /// Returns the names of the snapshots that [`Self::since`] knows.
    fn snapshots(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Exports in a table that can be changed while they are served. If it holds a single export, this
/// is also the default.
#[derive(Default)]
pub struct ExportTable {
    exports: RwLock<BTreeMap<String, Export>>,
}

impl ExportTable {
    /// Makes an empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an export, and replaces another export of its name.
    pub fn insert(&self, export: Export) {
        let mut exports = self.exports.write().unwrap_or_else(PoisonError::into_inner);
        exports.insert(export.name.clone(), export);
    }

    /// Removes an export. Its clients stay connected until [`crate::Listening::disconnect`].
    pub fn remove(&self, name: &str) -> Option<Export> {
        self.exports.write().unwrap_or_else(PoisonError::into_inner).remove(name)
    }
}

impl Exports for ExportTable {
    fn find(&self, name: &str) -> Option<Export> {
        let exports = self.exports.read().unwrap_or_else(PoisonError::into_inner);
        match exports.get(name) {
            None if name.is_empty() && exports.len() == 1 => exports.values().next().cloned(),
            export => export.cloned(),
        }
    }

    fn names(&self) -> Vec<String> {
        let exports = self.exports.read().unwrap_or_else(PoisonError::into_inner);
        exports.keys().cloned().collect()
    }
}
