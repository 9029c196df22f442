//! Arrays of pages. Directory pages lead to leaves by their numbers; a leaf of zeros is not stored.

use super::cache::Width;
use super::held;
use super::layout::Visitor;
use super::pages::Pages;
use crate::error::{MetadataError, Result};
use gemelo_format::{
    DIRECTORY_ENTRIES, NODE_REF_BYTES, NodeRef, PAGE_BYTES, Page, Part, Tree, array_value,
    set_array_value,
};
use std::iter::Peekable;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

const FANOUT: u64 = DIRECTORY_ENTRIES as u64;

/// Leaves below one page of this level.
pub(super) const fn span(level: u8) -> u64 {
    FANOUT.saturating_pow(level as u32)
}

/// The page that a directory page names at this place.
pub(super) fn child(directory: &Page, at: u64) -> Option<NodeRef> {
    NodeRef::from_bits(array_value(directory, at as usize, NODE_REF_BYTES))
}

pub(super) fn set_child(directory: &mut Page, at: u64, child: Option<NodeRef>) {
    set_array_value(directory, at as usize, NODE_REF_BYTES, child.map_or(0, NodeRef::to_bits));
}

/// Returns the leaf of this number, if it is stored.
pub(super) fn leaf(pages: &Pages, tree: &Tree, number: u64) -> Result<Option<Arc<Page>>> {
    leaf_at(pages, tree, number)?.map(|at| pages.read(at, Width::Narrow)).transpose()
}

/// Returns the place of the leaf of this number, if it is stored.
pub(super) fn leaf_at(pages: &Pages, tree: &Tree, number: u64) -> Result<Option<NodeRef>> {
    if number >= span(tree.height) {
        return Ok(None);
    }
    let Some(root) = tree.root else { return Ok(None) };
    // A list of look-ups, and the changes after it, ask for each leaf several times. Below a single
    // directory page, its place there costs less than looking for the leaf among those held.
    let is_deep = tree.height > 1;
    if is_deep && let Some(known) = held::leaf(root, number) {
        return Ok(known);
    }
    let mut found = Some(root);
    for level in (0..tree.height).rev() {
        let Some(at) = found else { break };
        found = child(&*pages.read(at, Width::Wide)?, number / span(level) % FANOUT);
    }
    if is_deep {
        held::keep_leaf(root, number, found);
    }
    Ok(found)
}

/// Changes of leaves, in the order of their numbers.
pub(super) trait LeafEdits {
    /// The part whose leaves change.
    fn part(&self) -> Part;

    /// The number of the leaf that changes next.
    fn next(&mut self) -> Option<u64>;

    /// The numbers before `end` of the leaves that change next, which are read in one list. Empty
    /// if [`Self::change`] does not need them.
    fn upcoming(&self, end: u64) -> Vec<u64>;

    /// Returns the new content of this leaf, or `None` if it is empty. [`Self::next`] gives the
    /// following leaf from then on.
    fn change(&mut self, number: u64, before: Option<Arc<Page>>) -> Result<Option<Arc<Page>>>;
}

/// Returns the array after the changes. None of them may be of a leaf after `last`.
pub(super) fn update(
    pages: &Pages,
    tree: &Tree,
    last: u64,
    edits: &mut dyn LeafEdits,
) -> Result<Tree> {
    let mut tree = *tree;
    while span(tree.height) <= last {
        if let Some(root) = tree.root {
            let mut page = [0; PAGE_BYTES];
            set_child(&mut page, 0, Some(root));
            tree.root = Some(pages.write(Arc::new(page), Width::Wide)?);
        }
        tree.height += 1;
    }
    tree.root = update_node(pages, tree.root, tree.height, 0, edits)?;
    assert!(edits.next().is_none(), "no change is of a leaf after {last}");
    if tree.root.is_none() {
        tree.height = 0;
    }
    Ok(tree)
}

fn update_node(
    pages: &Pages,
    at: Option<NodeRef>,
    level: u8,
    first: u64,
    edits: &mut dyn LeafEdits,
) -> Result<Option<NodeRef>> {
    let width = Width::of(level, edits.part());
    let before = at.map(|at| pages.read(at, width)).transpose()?;
    let after = if level == 0 {
        edits.change(first, before)?
    } else {
        let mut after = pages.own_or_empty(before);
        let page = Arc::make_mut(&mut after);
        let each = span(level - 1);
        if level == 1 {
            let leaves = edits.upcoming(first + span(level)).into_iter();
            pages.fetch(leaves.filter_map(|leaf| child(page, leaf - first)).collect());
        }
        while let Some(number) = edits.next().filter(|number| *number < first + span(level)) {
            assert!(number >= first, "leaf {number} does not come before {first}");
            let place = (number - first) / each;
            let changed =
                update_node(pages, child(page, place), level - 1, first + place * each, edits)?;
            set_child(page, place, changed);
        }
        page.iter().any(|byte| *byte != 0).then_some(after)
    };
    if let Some(at) = at {
        pages.retire(at.slot);
    }
    after.map(|page| pages.write(page, width)).transpose()
}

/// New values, as changes of leaves.
struct ValueEdits<'e> {
    pages: &'e Pages,
    part: Part,
    edits: Peekable<std::slice::Iter<'e, (u64, u128)>>,
}

impl LeafEdits for ValueEdits<'_> {
    fn part(&self) -> Part {
        self.part
    }

    fn next(&mut self) -> Option<u64> {
        let entries = self.part.array_entries() as u64;
        self.edits.peek().map(|(key, _)| key / entries)
    }

    fn upcoming(&self, end: u64) -> Vec<u64> {
        let entries = self.part.array_entries() as u64;
        let leaves = self.edits.clone().map(|(key, _)| key / entries);
        let mut leaves: Vec<u64> = leaves.take_while(|leaf| *leaf < end).collect();
        leaves.dedup();
        leaves
    }

    fn change(&mut self, number: u64, before: Option<Arc<Page>>) -> Result<Option<Arc<Page>>> {
        let entries = self.part.array_entries() as u64;
        let mut after = self.pages.own_or_empty(before);
        let page = Arc::make_mut(&mut after);
        while let Some((key, value)) = self.edits.next_if(|(key, _)| key / entries == number) {
            set_array_value(page, (key % entries) as usize, self.part.value_bytes(), *value);
        }
        Ok(page.iter().any(|byte| *byte != 0).then_some(after))
    }
}

/// Returns the array with these values, which are in the order of their keys.
pub(super) fn merge(
    pages: &Pages,
    tree: &Tree,
    part: Part,
    edits: &mut dyn Iterator<Item = (u64, u128)>,
) -> Result<Tree> {
    // A tree grows to hold its last key. That key is known only at the end, so an upper bound of
    // the remaining keys is used.
    let mut last = 0;
    let edits: Vec<(u64, u128)> = edits.inspect(|(key, _)| last = *key).collect();
    if edits.is_empty() {
        return Ok(*tree);
    }
    let mut values = ValueEdits { pages, part, edits: edits.iter().peekable() };
    update(pages, tree, last / part.array_entries() as u64, &mut values)
}

/// Reads a leaf whose first key is given and hands out its values. Returns `None` if the page is
/// malformed.
pub(super) type ReadLeaf<'f> =
    dyn FnMut(&Page, u64, &mut dyn Visitor) -> Option<ControlFlow<()>> + 'f;

/// The number of keys in each leaf, and the function that reads a leaf.
pub(super) struct LeafShape<'f> {
    pub(super) keys: u64,
    pub(super) read: &'f mut ReadLeaf<'f>,
}

/// Visits an array in the order of its keys, beginning with this key.
pub(super) fn walk(
    pages: &Pages,
    tree: &Tree,
    part: Part,
    from: u64,
    visitor: &mut dyn Visitor,
) -> Result<()> {
    let mut read = |page: &Page, first: u64, visitor: &mut dyn Visitor| {
        for key in from.max(first)..first + part.array_entries() as u64 {
            let value = array_value(page, (key - first) as usize, part.value_bytes());
            if value != 0 && visitor.value(key, value).is_break() {
                return Some(ControlFlow::Break(()));
            }
        }
        Some(ControlFlow::Continue(()))
    };
    let keys = part.array_entries() as u64;
    walk_leaves(pages, tree, from, &mut LeafShape { keys, read: &mut read }, visitor)
}

/// Visits the pages and leaves in order, beginning with the leaf that has this key.
pub(super) fn walk_leaves(
    pages: &Pages,
    tree: &Tree,
    from: u64,
    shape: &mut LeafShape<'_>,
    visitor: &mut dyn Visitor,
) -> Result<()> {
    if let Some(root) = tree.root {
        let root = (root, tree.height, 0);
        let _ = walk_node(pages, root, None, from / shape.keys, shape, visitor)?;
    }
    Ok(())
}

/// Visits a node, of which the page may have been read.
fn walk_node(
    pages: &Pages,
    (at, level, first): (NodeRef, u8, u64),
    ahead: Option<Arc<Page>>,
    from: u64,
    shape: &mut LeafShape<'_>,
    visitor: &mut dyn Visitor,
) -> Result<ControlFlow<()>> {
    if !visitor.node(at, keys(level, first, shape.keys))? {
        return Ok(ControlFlow::Continue(()));
    }
    if level == 0 && !visitor.wants_values() {
        return Ok(visitor.leaf(keys(level, first, shape.keys), at));
    }
    let page = match ahead.map_or_else(|| pages.read(at, Width::Narrow), Ok) {
        Ok(page) => page,
        Err(error @ MetadataError::Damaged { .. }) => {
            visitor.lost(keys(level, first, shape.keys), error)?;
            return Ok(ControlFlow::Continue(()));
        }
        Err(error) => return Err(error),
    };
    if level == 0 {
        return (shape.read)(&page, first * shape.keys, visitor).ok_or_else(|| pages.damaged(at));
    }
    let each = span(level - 1);
    let start = from.saturating_sub(first) / each;
    let children = || (start..FANOUT).filter_map(|at| Some((at, child(&page, at)?)));
    let mut read = Vec::new();
    if visitor.reads_ahead() {
        let wanted = children().map(|(_, below)| below).filter(|below| visitor.wants(*below));
        if level > 1 {
            pages.fetch(wanted.collect());
        } else if visitor.wants_values() {
            read = pages.read_ahead(&wanted.collect::<Vec<_>>());
        }
    }
    let mut read = read.into_iter();
    for (place, below) in children() {
        let at = (below, level - 1, first + place * each);
        let ahead = if visitor.wants(below) { read.next().flatten() } else { None };
        let flow = walk_node(pages, at, ahead, from, shape, visitor)?;
        if flow.is_break() {
            return Ok(flow);
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// The keys below a page.
fn keys(level: u8, first: u64, each: u64) -> Range<u64> {
    let start = first.saturating_mul(each);
    start..start.saturating_add(span(level).saturating_mul(each))
}
