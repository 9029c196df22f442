//! The table of exports: names and their devices.

use gemelo_device::{BlockDevice, Geometry};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::wire::{BlockSizes, ExportFlags, LONGEST_PAYLOAD_BYTES};

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
    /// `true` if the device makes zeroes without writing them as data, so that FAST_ZERO may
    /// succeed.
    pub zeroes_are_fast: bool,
}

impl Export {
    /// Makes an export that refuses writes only if the device does.
    #[must_use]
    pub fn new(name: impl Into<String>, device: Arc<dyn BlockDevice>) -> Self {
        let name = name.into();
        Self { name, device, description: String::new(), read_only: false, zeroes_are_fast: true }
    }

    /// Returns the present size and limits of the device.
    pub(crate) fn geometry(&self) -> Geometry {
        let geometry = self.device.geometry();
        Geometry { read_only: geometry.read_only || self.read_only, ..geometry }
    }
}

/// Returns the block sizes that clients are told. They follow the rules of the protocol ("Block
/// size constraints"): the minimum is a power of two of at most 64 KiB, and the preferred size a
/// power of two of at least 512 bytes.
pub(crate) fn block_sizes(geometry: &Geometry) -> BlockSizes {
    const LARGEST_MINIMUM: u32 = 1 << 16;
    const SMALLEST_PREFERRED: u32 = 512;
    let minimum = geometry.minimum_block_bytes.clamp(1, LARGEST_MINIMUM).next_power_of_two();
    let smallest = SMALLEST_PREFERRED.max(minimum);
    let maximum =
        geometry.maximum_request_bytes.clamp(smallest, LONGEST_PAYLOAD_BYTES) / minimum * minimum;
    let preferred = 1 << geometry.preferred_block_bytes.clamp(smallest, maximum).ilog2();
    BlockSizes { minimum, preferred, maximum }
}

/// Returns the transmission flags of a device.
pub(crate) fn export_flags(geometry: &Geometry, structured_replies: bool) -> ExportFlags {
    let mut flags = ExportFlags::HAS_FLAGS
        | ExportFlags::SEND_FLUSH
        | ExportFlags::SEND_FUA
        | ExportFlags::CAN_MULTI_CONN
        | ExportFlags::SEND_CACHE;
    if structured_replies {
        flags |= ExportFlags::SEND_DF;
    }
    flags |= if geometry.read_only {
        ExportFlags::READ_ONLY
    } else {
        ExportFlags::SEND_TRIM | ExportFlags::SEND_WRITE_ZEROES | ExportFlags::SEND_FAST_ZERO
    };
    ExportFlags(flags)
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

    /// Removes an export. Its clients stay connected until [`super::Server::disconnect`].
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
