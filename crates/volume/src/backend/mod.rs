//! The engine's map, index, reference counts and records, behind one trait.
//!
//! The journal is the engine's: it hands every [`Change`] to the backend after it was appended, and again when it is
//! replayed after a crash. A backend keeps the state and, at a checkpoint, says which pages to write where. [`log`] does no
//! input or output while it serves; the backends of `cached` read pages that are not in their cache.

pub(crate) mod cached;
pub mod log;
mod slots;
#[cfg(test)]
mod tests;

use crate::error::Result;
use cached::{BTreeLayout, Overlay, TableLayout};
use gemelo_format::{
    BackendKind, Change, DedupMode, Fingerprint, Identity, Lbn, Link, Page, Pbn, Place, PoolDisks,
    PoolSeed, Root, Slot, Superblock, VolumeId,
};
use log::LogBackend;
use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

/// A volume as the metadata have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeInfo {
    /// Its id.
    pub id: VolumeId,
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Whether it looks for duplicates.
    pub mode: DedupMode,
    /// Whether it takes no writes.
    pub read_only: bool,
    /// Whether it is being made or removed, and nobody sees it.
    pub is_hidden: bool,
    /// LBNs that have a PBN.
    pub mapped_blocks: u64,
}

/// What is known of a PBN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The fingerprint of its content, if it may be shared.
    pub fingerprint: Fingerprint,
    /// References to it: more than none if an LBN refers to it, and at most as many as LBNs do. A backend whose volumes
    /// share parts of their maps counts such a part once.
    pub references: u32,
    /// Whether the block was found damaged: nothing may share it before its content is written anew.
    pub is_suspect: bool,
}

impl Record {
    /// Of a PBN of which nothing is known.
    pub const NONE: Self =
        Self { fingerprint: Fingerprint::NONE, references: 0, is_suspect: false };

    /// Of a PBN with this identity and this number of references.
    #[must_use]
    pub const fn new(identity: Identity, references: u32) -> Self {
        Self { fingerprint: identity.fingerprint(), references, is_suspect: identity.is_suspect() }
    }
}

/// Sums over the whole pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// LBNs that have a PBN: logical blocks.
    pub references: u64,
    /// PBNs that have a reference: physical blocks.
    pub physical: u64,
    /// Size of the data store in blocks, block 0 included.
    pub data_blocks: u64,
    /// The id of the next volume.
    pub next_volume: u32,
    /// Fingerprints in the index.
    pub index_entries: u64,
    /// Memory of map, records and index in bytes.
    pub memory_bytes: u64,
    /// Pages on the metadata disk.
    pub pages: u64,
    /// Look-ups of pages in the cache, of backends that have one.
    pub cache: CacheFigures,
}

/// Look-ups of pages in a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct CacheFigures {
    /// Pages that were there.
    pub hits: u64,
    /// Pages that had to be read.
    pub misses: u64,
}

/// What a checkpoint was found to lack.
#[derive(Debug, Default)]
pub struct Damage {
    /// What can be served all the same: copies that are gone, fingerprints that are not known.
    pub harmless: Vec<String>,
    /// What cannot: maps, whose LBNs give an error, and what the free blocks are known from.
    pub lost: Vec<String>,
}

/// The backend of an empty pool, whose superblock need not be written yet.
pub(crate) fn empty(
    disks: &PoolDisks,
    superblock: &Superblock,
    data_blocks: u64,
) -> Box<dyn MetadataBackend> {
    let disk = Arc::clone(&disks.metadata);
    let image = superblock.backend == BackendKind::Ram;
    match superblock.backend {
        BackendKind::Log | BackendKind::Ram => {
            let seed = PoolSeed::of(superblock);
            Box::new(LogBackend::new(superblock.block_bytes, data_blocks, seed, image))
        }
        BackendKind::Table => {
            Box::new(Overlay::<TableLayout>::new(disk, superblock, data_blocks, 0))
        }
        BackendKind::BTree => {
            Box::new(Overlay::<BTreeLayout>::new(disk, superblock, data_blocks, 0))
        }
    }
}

/// Reads the checkpoint of a root. [`MetadataBackend::settle`] has to follow, after the journal was replayed. To salvage
/// is to read all that can be read, so that the next checkpoint writes it anew.
pub(crate) fn load(
    disks: &PoolDisks,
    superblock: &Superblock,
    root: &Root,
    options: LoadOptions,
    damage: &mut Damage,
) -> Result<Box<dyn MetadataBackend>> {
    let seed = PoolSeed::of(superblock);
    let disk = Arc::clone(&disks.metadata);
    let options = (options.cache_bytes, options.salvages);
    Ok(match superblock.backend {
        BackendKind::Log | BackendKind::Ram => {
            Box::new(LogBackend::load(&*disk, superblock, root, seed, damage)?)
        }
        BackendKind::Table => {
            Box::new(Overlay::<TableLayout>::load(disk, superblock, root, options, damage)?)
        }
        BackendKind::BTree => {
            Box::new(Overlay::<BTreeLayout>::load(disk, superblock, root, options, damage)?)
        }
    })
}

/// How a checkpoint is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadOptions {
    /// As [`crate::Tuning::cache_bytes`].
    pub(crate) cache_bytes: u64,
    /// Whatever can be read is wanted.
    pub(crate) salvages: bool,
}

/// How much a backend needs a checkpoint, to stay within its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Not at all.
    Low,
    /// Soon.
    High,
    /// Before anything else is changed.
    Full,
}

/// The part of a checkpoint that needs no lock; gives the pages it wrote.
pub type Merge = Box<dyn FnOnce() -> Result<u64> + Send>;

/// Slots of the metadata disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlotNeed {
    /// Slots in use.
    pub in_use: u64,
    /// Slots that the next checkpoint takes, before it gives back others: an upper bound.
    pub next: u64,
}

/// Memory whose owner is done with it.
pub type Garbage = Option<Box<dyn Any + Send>>;

/// Pages to be written, each to its slot.
pub type PageWrites = Vec<(Slot, Box<Page>)>;

/// Where the engine keeps its metadata. Look-ups run at the same time as each other; changes run alone.
///
/// Every method that returns a [`Result`] fails if what it needs is damaged or cannot be read.
pub trait MetadataBackend: Send + Sync {
    /// All volumes, by id.
    fn volumes(&self) -> Vec<VolumeInfo>;

    /// LBNs of a volume that are not unmapped; none of one that is not there.
    fn mapped_blocks(&self, volume: VolumeId) -> u64;

    /// Adds the place of every LBN to `places`.
    #[expect(clippy::missing_errors_doc, reason = "said of the trait")]
    fn look_up(&self, volume: VolumeId, lbns: &[Lbn], places: &mut Vec<Place>) -> Result<()>;

    /// The first LBN from `from` on, but before `end`, that is not unmapped.
    #[expect(clippy::missing_errors_doc, reason = "said of the trait")]
    fn next_mapped(&self, volume: VolumeId, from: Lbn, end: Lbn) -> Result<Option<Lbn>>;

    /// Adds to `found`, for every fingerprint, a PBN that has the content, if the index knows one.
    #[expect(clippy::missing_errors_doc, reason = "said of the trait")]
    fn find(&self, fingerprints: &[Fingerprint], found: &mut Vec<Option<Pbn>>) -> Result<()>;

    /// Adds the record of every PBN to `records`.
    #[expect(clippy::missing_errors_doc, reason = "said of the trait")]
    fn records(&self, pbns: &[Pbn], records: &mut Vec<Record>) -> Result<()>;

    /// Brings into memory, or into the processor's caches, what changes of these places will need, so that they wait for
    /// neither. An error if it cannot be read, or anything else could not be since the pool was opened.
    #[expect(clippy::missing_errors_doc, reason = "said of the trait")]
    fn warm(&self, _places: &[Place]) -> Result<()> {
        Ok(())
    }

    /// Calls `visit` with every PBN that has a reference.
    #[expect(clippy::missing_errors_doc, reason = "said of the trait")]
    fn visit_used(&self, visit: &mut dyn FnMut(Pbn)) -> Result<()>;

    /// Makes the changes, in order, and adds PBNs that lost their last reference to `freed`.
    #[expect(clippy::missing_errors_doc, reason = "said of the trait")]
    fn apply(&mut self, changes: &[Change], freed: &mut Vec<Pbn>) -> Result<()>;

    /// After the last replayed change: computes what is not stored, and sees to it that the next checkpoint writes anew
    /// what was damaged.
    #[expect(clippy::missing_errors_doc, reason = "said of the trait")]
    fn settle(&mut self) -> Result<()>;

    /// Whether the fingerprint of a PBN was lost with its page.
    fn is_record_lost(&self, pbn: Pbn) -> bool;

    /// Sets fingerprints that were computed anew, and marks the LBNs of lost contents as damaged.
    #[expect(clippy::missing_errors_doc, reason = "said of the trait")]
    fn restore(&mut self, computed: &[(Pbn, Fingerprint)], lost: &HashSet<Place>) -> Result<()>;

    /// Counts the references to every PBN again, and looks whether counts, totals and index are what they should be:
    /// the differences in words, at most `most` of them.
    #[expect(clippy::missing_errors_doc, reason = "said of the trait")]
    fn prove(&self, most: usize) -> Result<Vec<String>>;

    /// Sums over the whole pool.
    fn totals(&self) -> Totals;

    /// How much it needs a checkpoint.
    fn pressure(&self) -> Pressure {
        Pressure::Low
    }

    /// LBNs that are unmapped or copied in one change at most; `None` if it does not matter.
    fn piece_blocks(&self) -> Option<u64> {
        None
    }

    /// Slots in use, and those that the next checkpoint may take.
    fn slots(&self) -> SlotNeed;

    /// Begins a checkpoint of the state as it is now; changes may follow at once. Volumes are not created, removed or
    /// cloned until it ends.
    fn freeze(&mut self);

    /// What is to be done of the checkpoint before anything is gathered, without the state's lock.
    fn merge(&self) -> Option<Merge> {
        None
    }

    /// Adds at most `most` frozen pages to `writes`; whether there are more.
    #[expect(clippy::missing_errors_doc, reason = "said of the trait")]
    fn gather(&mut self, most: usize, writes: &mut PageWrites) -> Result<bool>;

    /// After the last frozen page: adds the pages of the table. Gives its first page's place and its length in bytes.
    #[expect(clippy::missing_errors_doc, reason = "said of the trait")]
    fn seal(&mut self, writes: &mut PageWrites) -> Result<(Link, u64)>;

    /// The checkpoint's root is durable: what only the one before needed may be used again. Gives memory that is not
    /// needed any more, to be freed without the state's lock: that of a large delta takes long.
    fn finish(&mut self) -> Garbage;

    /// The checkpoint failed: what was frozen is to be written another time.
    fn abandon(&mut self);
}
