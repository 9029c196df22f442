//! The table of policies: how each is described to people, and how its metadata are made.

use super::cache_size::CacheSize;
use super::cached;
use super::found_damage::FoundDamage;
use super::sampling::IndexSampling;
use super::stats::Damage;
use super::traits::MetadataBackend;
use crate::error::{MetadataError, Result};
use gemelo_disk::Disk;
use gemelo_format::{Policy, Root, Superblock};
use std::sync::Arc;

/// The disk and the parameters of the pool whose metadata a backend keeps.
pub struct BackendContext<'h> {
    /// The metadata disk of the pool.
    pub disk: Arc<dyn Disk>,
    /// The parameters of the pool.
    pub superblock: &'h Superblock,
    /// The contents that an index in memory has.
    pub sampling: IndexSampling,
    /// Where backends note damage that they find.
    pub damage: FoundDamage,
}

impl<'h> BackendContext<'h> {
    /// Returns the context of a backend whose index has every content.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, superblock: &'h Superblock) -> Self {
        let damage = FoundDamage::default();
        Self { disk, superblock, sampling: IndexSampling::ALL, damage }
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
    /// The size of the cache.
    pub cache: CacheSize,
}

/// Options for reading a checkpoint.
#[derive(Debug, Clone, Copy)]
pub struct LoadOptions {
    /// The size of the cache.
    pub cache: CacheSize,
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

/// Returns the entry of a policy. One without an entry does not compile.
const fn registration(kind: Policy) -> &'static Registration {
    match kind {
        Policy::InRam => &cached::INRAM,
        Policy::Dtb => &cached::DTB,
        Policy::Cbt => &cached::CBT,
        Policy::Compact => &cached::COMPACT,
    }
}

/// Describes a policy in one line, for the help of a command.
#[must_use]
pub const fn about_policy(kind: Policy) -> &'static str {
    registration(kind).about
}

/// Makes the backend of an empty pool.
pub fn empty(
    kind: Policy,
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
    if !root.policy.has_words(home.superblock.words) {
        return Err(MetadataError::damaged(format!(
            "a pool of 2^32 blocks or more cannot have the policy '{}'",
            root.policy.name()
        )));
    }
    (registration(root.policy).load)(home, root, options, damage)
}
