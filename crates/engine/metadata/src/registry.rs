//! The table of backends: how each is described to people and how it is made.

use super::found_damage::FoundDamage;
use super::sampling::IndexSampling;
use super::slots::SlotSpace;
use super::stats::Damage;
use super::traits::MetadataBackend;
use super::{cached, log};
use crate::error::{MetadataError, Result};
use gemelo_disk::Disk;
use gemelo_format::{BackendKind, Root, Superblock};
use std::sync::Arc;

/// The disk and the parameters of the pool whose metadata a backend keeps.
pub struct BackendContext<'h> {
    /// The metadata disk of the pool.
    pub disk: Arc<dyn Disk>,
    /// The parameters of the pool.
    pub superblock: &'h Superblock,
    /// The slots that backends have on the disk.
    pub slots: SlotSpace,
    /// The contents that an index in memory has, with the backend `compact`.
    pub sampling: IndexSampling,
    /// Where backends note damage that they find.
    pub damage: FoundDamage,
}

impl<'h> BackendContext<'h> {
    /// Returns the context of the first backend that is made for a disk, whose index has every
    /// content.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, superblock: &'h Superblock) -> Self {
        let (slots, sampling) = (SlotSpace::default(), IndexSampling::ALL);
        Self { disk, superblock, slots, sampling, damage: FoundDamage::default() }
    }

    /// Returns the context with this sample of contents in the index.
    #[must_use]
    pub fn with_sampling(self, sampling: IndexSampling) -> Self {
        Self { sampling, ..self }
    }

    /// Returns the context whose backends note damage here.
    #[must_use]
    pub fn with_damage(self, damage: FoundDamage) -> Self {
        Self { damage, ..self }
    }
}

/// The metadata of a pool without volumes.
#[derive(Debug, Clone, Copy)]
pub struct NewMetadata {
    /// Blocks of the data store.
    pub data_blocks: u64,
    /// The id that the first volume gets.
    pub next_volume: u32,
    /// The same as [`LoadOptions::cache_bytes`].
    pub cache_bytes: u64,
}

/// Options for reading a checkpoint.
#[derive(Debug, Clone, Copy)]
pub struct LoadOptions {
    /// The same as [`LoadOptions::cache_bytes`].
    pub cache_bytes: u64,
    /// If `true`, all pages that can be read are read, so that the next checkpoint writes the whole
    /// state anew.
    pub salvages: bool,
}

/// Makes the backend of an empty pool. The superblock need not be on disk yet.
type Empty = fn(&BackendContext<'_>, NewMetadata) -> Box<dyn MetadataBackend>;
/// Reads the checkpoint of a root.
type Load =
    fn(&BackendContext<'_>, &Root, LoadOptions, &mut Damage) -> Result<Box<dyn MetadataBackend>>;

/// An entry of the table.
pub(crate) struct Registration {
    /// One line for the help of the command line.
    pub(crate) about: &'static str,
    pub(crate) empty: Empty,
    pub(crate) load: Load,
}

/// Returns the entry of a backend. A kind without an entry does not compile.
const fn registration(kind: BackendKind) -> &'static Registration {
    match kind {
        BackendKind::Log => &log::LOG,
        BackendKind::Ram => &log::RAM,
        BackendKind::Table => &cached::TABLE,
        BackendKind::BTree => &cached::BTREE,
        BackendKind::Compact => &cached::COMPACT,
    }
}

/// Describes a backend in one line, for the help of a command.
#[must_use]
pub const fn about_backend(kind: BackendKind) -> &'static str {
    registration(kind).about
}

/// Makes the backend of an empty pool.
pub fn empty(
    kind: BackendKind,
    home: &BackendContext<'_>,
    new: NewMetadata,
) -> Box<dyn MetadataBackend> {
    let words = home.superblock.words;
    assert!(kind.has_words(words), "{kind:?} cannot have words of the form {words:?}");
    (registration(kind).empty)(home, new)
}

/// Reads the checkpoint of a root. [`MetadataBackend::settle`] has to follow after the journal was
/// replayed.
pub fn load(
    home: &BackendContext<'_>,
    root: &Root,
    options: LoadOptions,
    damage: &mut Damage,
) -> Result<Box<dyn MetadataBackend>> {
    if !root.backend.has_words(home.superblock.words) {
        return Err(MetadataError::damaged(format!(
            "a pool of 2^32 blocks or more cannot have the backend '{}'",
            root.backend.name()
        )));
    }
    (registration(root.backend).load)(home, root, options, damage)
}
