//! Which devices are exported under which names.

use gemelo_device::{BlockDevice, Geometry};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::wire::{BlockSizes, ExportFlags, LONGEST_PAYLOAD_BYTES};

/// A device as clients see it.
#[derive(Clone)]
pub struct Export {
    /// Its own name, also if it was found as the default.
    pub name: String,
    /// What is read and written.
    pub device: Arc<dyn BlockDevice>,
    /// For people; may be empty.
    pub description: String,
    /// Refuses writes, even if the device would take them.
    pub read_only: bool,
    /// Whether the device makes zeroes faster than by writing them: whether FAST_ZERO may succeed.
    pub zeroes_are_fast: bool,
}

impl Export {
    /// An export that refuses what the device refuses.
    #[must_use]
    pub fn new(name: impl Into<String>, device: Arc<dyn BlockDevice>) -> Self {
        let name = name.into();
        Self { name, device, description: String::new(), read_only: false, zeroes_are_fast: true }
    }

    /// The device's sizes now.
    pub(crate) fn geometry(&self) -> Geometry {
        let geometry = self.device.geometry();
        Geometry { read_only: geometry.read_only || self.read_only, ..geometry }
    }
}

/// What clients are told of a device's sizes, made to follow the rules of the document ("Block size constraints"): powers
/// of two, at most 64 KiB at least, at least 512 bytes preferred.
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

/// What this server can do with a device.
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

/// Finds exports by name. Asked anew for every client, so exports can come and go while a server runs.
pub trait Exports: Send + Sync {
    /// The export of this name; the empty name is the default export.
    fn find(&self, name: &str) -> Option<Export>;

    /// The names to list.
    fn names(&self) -> Vec<String>;
}

/// Exports in a table that can be changed while they are served. If there is one only, it is the default as well.
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
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an export, in the place of another of that name.
    pub fn insert(&self, export: Export) {
        let mut table = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        table.exports.insert(export.name.clone(), export);
    }

    /// Takes an export out. Who is connected to it stays so until [`super::Server::disconnect`].
    pub fn remove(&self, name: &str) -> Option<Export> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner).exports.remove(name)
    }

    /// Sets the name that the empty name stands for.
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
