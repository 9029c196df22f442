//! The table of exports: names and their devices.

use crate::{BlockDevice, Geometry};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// A device under the name that clients select it by.
#[derive(Clone)]
pub struct Export {
    /// Name of the export, also if a client selected it as the default.
    pub name: String,
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
    /// Makes an export that refuses writes only if the device does.
    #[must_use]
    pub fn new(name: impl Into<String>, device: Arc<dyn BlockDevice>) -> Self {
        let name = name.into();
        Self { name, device, description: String::new(), read_only: false, zeroes_are_fast: true }
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
}

/// Exports in a table that can be changed while they are served. If it holds a single export, this
/// is also the default.
#[derive(Default)]
pub struct ExportTable {
    inner: RwLock<Table>,
}

#[derive(Default)]
struct Table {
    exports: BTreeMap<String, Export>,
    default: Option<String>,
}

impl ExportTable {
    /// Makes an empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an export, and replaces another export of its name.
    pub fn insert(&self, export: Export) {
        let mut table = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        table.exports.insert(export.name.clone(), export);
    }

    /// Removes an export. Its clients stay connected until [`crate::Listening::disconnect`].
    pub fn remove(&self, name: &str) -> Option<Export> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner).exports.remove(name)
    }

    /// Sets the export that the empty name stands for.
    pub fn set_default(&self, name: Option<&str>) {
        self.inner.write().unwrap_or_else(PoisonError::into_inner).default =
            name.map(str::to_owned);
    }
}

impl Exports for ExportTable {
    fn find(&self, name: &str) -> Option<Export> {
        let table = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(export) = table.exports.get(name) {
            return Some(export.clone());
        }
        match (&table.default, name) {
            (Some(default), "") => table.exports.get(default).cloned(),
            (None, "") if table.exports.len() == 1 => table.exports.values().next().cloned(),
            _ => None,
        }
    }

    fn names(&self) -> Vec<String> {
        let table = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        table.exports.keys().cloned().collect()
    }
}
