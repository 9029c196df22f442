//! The differences between the backends of this module: the place of the index, and its layout in
//! pages.

use super::array;
use super::compact::{Loading, MemoryIndex};
use super::pages::Pages;
use crate::IndexSampling;
use crate::error::{MetadataError, Result};
use gemelo_format::{NodeRef, Part, Tree, index_entry};
use std::ops::{ControlFlow, Range};

/// The index as a checkpoint stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StoredIndex {
    pub(super) tree: Tree,
    /// The number of buckets. Only the hash table uses it.
    pub(super) buckets: u32,
    pub(super) entries: u64,
}

/// The index of a state of the metadata, as each state has it.
pub(crate) trait IndexState: Clone + Send + Sync {
    /// Makes the index of an empty pool whose PBNs are below this one. An index on disk has every
    /// content, whatever the sampling is.
    fn empty(pbn_end: u64, sampling: IndexSampling) -> Self;

    /// Returns the index that the table of a checkpoint names.
    fn load(stored: StoredIndex, pbn_end: u64, sampling: IndexSampling) -> Result<Self>;

    /// Begins to read an index in memory that a clean stop has left in this tree, and marks the
    /// tree's pages as used. `None` if there is none that can be read.
    fn begin_loading(&mut self, _pages: &Pages, _tree: Tree) -> Option<Loading> {
        None
    }

    /// Writes an index in memory for the next opening.
    fn save(&self, _pages: &Pages) -> Result<Self> {
        Ok(self.clone())
    }

    /// Returns the index as the table of a checkpoint names it.
    fn stored(&self) -> StoredIndex;

    /// The number of entries.
    fn entries(&self) -> u64;

    /// Bytes of memory beside the cache.
    fn bytes(&self) -> u64;

    /// The index, if it is in memory. After an opening it is computed from the records.
    fn in_memory(&self) -> Option<&MemoryIndex>;
}

impl IndexState for StoredIndex {
    fn empty(_pbn_end: u64, _sampling: IndexSampling) -> Self {
        Self::default()
    }

    fn load(stored: StoredIndex, _pbn_end: u64, _sampling: IndexSampling) -> Result<Self> {
        Ok(stored)
    }

    fn stored(&self) -> StoredIndex {
        *self
    }

    fn entries(&self) -> u64 {
        self.entries
    }

    fn bytes(&self) -> u64 {
        0
    }

    fn in_memory(&self) -> Option<&MemoryIndex> {
        None
    }
}

/// An index entry that is added or removed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexEdit {
    /// The lower half of the fingerprint.
    pub(super) hash: u64,
    pub(super) pbn: u64,
    /// `true` if the entry is added.
    pub(super) comes: bool,
}

impl IndexEdit {
    /// The entry of an index on disk.
    pub(super) const fn entry(&self) -> u64 {
        index_entry(tag(self.hash), self.pbn)
    }
}

/// Receives the contents of a tree in order.
pub(crate) trait Visitor {
    /// Receives a page, and the keys that may be in it, before the pages below it. Returns whether
    /// the walk goes on below it.
    fn node(&mut self, _at: NodeRef, _keys: Range<u64>) -> Result<bool> {
        Ok(true)
    }

    /// Returns whether the walk has to read leaves.
    fn wants_values(&self) -> bool {
        true
    }

    /// Returns whether the walk reads pages in lists, and leaves past the cache. It is for a walk
    /// over a large part of a tree.
    fn reads_ahead(&self) -> bool {
        false
    }

    /// Returns whether a walk that reads ahead will go on below a page, as far as is known.
    fn wants(&self, _at: NodeRef) -> bool {
        true
    }

    /// Receives the keys and the place of a leaf of an array, if the walk does not read leaves.
    fn leaf(&mut self, _keys: Range<u64>, _at: NodeRef) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Receives a key whose value is not 0.
    fn value(&mut self, _key: u64, _value: u128) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Receives the error of a page that cannot be read, and the keys that may be in it.
    fn lost(&mut self, _keys: Range<u64>, error: MetadataError) -> Result<()> {
        Err(error)
    }
}

/// A layout of the index. Maps, counts and fingerprints are arrays in all of them.
pub(crate) trait Layout: Send + Sync + 'static {
    /// The index of a state of the metadata.
    type Index: IndexState;

    /// Visits the pages of an index, and the entries of one on disk.
    fn walk_index(pages: &Pages, index: &Self::Index, visitor: &mut dyn Visitor) -> Result<()>;

    /// Adds the PBNs that the index has for the lower halves of fingerprints, at most
    /// [`MAX_CANDIDATES`] for each, with the places of the hashes. Their records decide. After an
    /// error the others are looked up as well, so that a look that reads nothing misses all pages
    /// at once.
    fn candidates(
        pages: &Pages,
        index: &Self::Index,
        hashes: &[(usize, u64)],
        found: &mut Vec<(usize, u64)>,
    ) -> Result<()>;

    /// Returns the index after these edits, which may be in any order.
    fn merge_index(
        pages: &Pages,
        index: &Self::Index,
        edits: Vec<IndexEdit>,
    ) -> Result<Self::Index>;
}

/// PBNs that are looked at for one fingerprint. A pool of 2^32 blocks has by chance two with the
/// same tag; a content has several if it is stored more than once.
pub(super) const MAX_CANDIDATES: usize = 16;

/// Looks up hashes one by one, for [`Layout::candidates`].
pub(super) fn each_candidate(
    hashes: &[(usize, u64)],
    found: &mut Vec<(usize, u64)>,
    of_hash: impl Fn(u64, &mut Vec<u64>) -> Result<()>,
) -> Result<()> {
    let (mut pbns, mut all) = (Vec::new(), Ok(()));
    for (place, hash) in hashes {
        all = all.and(of_hash(*hash, &mut pbns));
        found.extend(pbns.drain(..).map(|pbn| (*place, pbn)));
    }
    all
}

/// Finds the first key with a value.
struct First(Option<u64>);

impl Visitor for First {
    fn value(&mut self, key: u64, _value: u128) -> ControlFlow<()> {
        self.0 = Some(key);
        ControlFlow::Break(())
    }
}

/// Returns the first key at or after `from` that has a value.
pub(super) fn next(pages: &Pages, tree: &Tree, part: Part, from: u64) -> Result<Option<u64>> {
    let mut first = First(None);
    array::walk(pages, tree, part, from, &mut first)?;
    Ok(first.0)
}

/// Calls a function with every value, and reads ahead.
pub(super) struct Values<F>(pub(super) F);

impl<F: FnMut(u64, u128)> Visitor for Values<F> {
    fn reads_ahead(&self) -> bool {
        true
    }

    fn value(&mut self, key: u64, value: u128) -> ControlFlow<()> {
        self.0(key, value);
        ControlFlow::Continue(())
    }
}

/// Retires every page of a tree that is no longer needed.
pub(super) struct Retire<'p>(pub(super) &'p Pages);

impl Visitor for Retire<'_> {
    fn node(&mut self, at: NodeRef, _keys: Range<u64>) -> Result<bool> {
        self.0.retire(at.slot);
        Ok(true)
    }

    fn wants_values(&self) -> bool {
        false
    }
}

/// The upper half of the lower half of a fingerprint, which the index on disk has.
pub(super) const fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}
