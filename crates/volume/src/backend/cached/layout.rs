//! What the backends `table` and `btree` differ in: how numbers and index entries lie in pages.

use super::pages::Pages;
use crate::error::{Result, VolumeError};
use gemelo_format::{NodeRef, Page, Part, Tree};
use std::marker::PhantomData;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// The index on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StoredIndex {
    pub(super) tree: Tree,
    /// Of a hash table.
    pub(super) buckets: u32,
    pub(super) entries: u64,
}

/// A leaf and the keys whose values are in it, or nowhere.
pub(crate) struct Leaf {
    pub(super) keys: Range<u64>,
    pub(super) page: Option<Arc<Page>>,
}

/// Values by key, fast where the keys are near each other: it holds on to the last leaf.
pub(super) struct Cursor<'c, L> {
    pages: &'c Pages,
    tree: Tree,
    part: Part,
    held: Option<Leaf>,
    layout: PhantomData<L>,
}

impl<'c, L: Layout> Cursor<'c, L> {
    pub(super) const fn new(pages: &'c Pages, tree: Tree, part: Part) -> Self {
        Self { pages, tree, part, held: None, layout: PhantomData }
    }

    pub(super) fn get(&mut self, key: u64) -> Result<u128> {
        let held = match self.held.take().filter(|held| held.keys.contains(&key)) {
            Some(held) => held,
            None => L::leaf(self.pages, &self.tree, self.part, key)?,
        };
        let value = held.page.as_deref().map_or(0, |page| L::value(page, self.part, key));
        self.held = Some(held);
        Ok(value)
    }
}

/// An index entry that comes (true) or goes.
pub(crate) type IndexEdit = (u64, bool);

/// Hears of what is in a tree, in order.
pub(crate) trait Visitor {
    /// A page; its own pages follow.
    fn node(&mut self, _at: NodeRef) -> Result<()> {
        Ok(())
    }

    /// Whether leaves are to be read.
    fn wants_values(&self) -> bool {
        true
    }

    /// A value that is not 0.
    fn value(&mut self, _key: u64, _value: u128) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// A page that cannot be read; these keys may be in it.
    fn lost(&mut self, _keys: Range<u64>, error: VolumeError) -> Result<()> {
        Err(error)
    }
}

/// Numbers by key, where 0 is the same as nothing; and index entries.
pub(crate) trait Layout: Send + Sync + 'static {
    /// The leaf of a key, if it is there, and the keys it is the leaf of.
    fn leaf(pages: &Pages, tree: &Tree, part: Part, key: u64) -> Result<Leaf>;

    /// The value of a key in its leaf.
    fn value(leaf: &Page, part: Part, key: u64) -> u128;

    /// Visits the tree from a key on.
    fn walk(
        pages: &Pages,
        tree: &Tree,
        part: Part,
        from: u64,
        visitor: &mut dyn Visitor,
    ) -> Result<()>;

    /// The tree with these values, in the order of their keys.
    fn merge(
        pages: &Pages,
        tree: &Tree,
        part: Part,
        edits: &mut dyn Iterator<Item = (u64, u128)>,
    ) -> Result<Tree>;

    /// Adds PBNs that the index has for a tag, at most [`MOST_CANDIDATES`].
    fn candidates(pages: &Pages, index: &StoredIndex, tag: u32, found: &mut Vec<u32>)
    -> Result<()>;

    /// The index after these edits, which are in no order.
    fn merge_index(
        pages: &Pages,
        index: &StoredIndex,
        edits: Vec<IndexEdit>,
    ) -> Result<StoredIndex>;
}

/// PBNs looked at for one fingerprint. By chance there are two of a tag in a pool of 2^32 blocks; a content has several if it
/// is stored more than once.
pub(super) const MOST_CANDIDATES: usize = 16;

/// The first key with a value.
struct First(Option<u64>);

impl Visitor for First {
    fn value(&mut self, key: u64, _value: u128) -> ControlFlow<()> {
        self.0 = Some(key);
        ControlFlow::Break(())
    }
}

/// The first key from here on that has a value.
pub(super) fn next<L: Layout>(
    pages: &Pages,
    tree: &Tree,
    part: Part,
    from: u64,
) -> Result<Option<u64>> {
    let mut first = First(None);
    L::walk(pages, tree, part, from, &mut first)?;
    Ok(first.0)
}

/// Calls with every value.
pub(super) struct Values<F>(pub(super) F);

impl<F: FnMut(u64, u128)> Visitor for Values<F> {
    fn value(&mut self, key: u64, value: u128) -> ControlFlow<()> {
        self.0(key, value);
        ControlFlow::Continue(())
    }
}

/// The pages of a tree are not needed any more.
pub(super) struct Retire<'p>(pub(super) &'p Pages);

impl Visitor for Retire<'_> {
    fn node(&mut self, at: NodeRef) -> Result<()> {
        self.0.retire(at.slot);
        Ok(())
    }

    fn wants_values(&self) -> bool {
        false
    }
}
