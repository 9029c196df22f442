//! The layout `btree`: arrays, and a copy-on-write B-tree for the index. A checkpoint writes each
//! changed node once, with all changes to it.

use super::cache::Width;
use super::layout::{IndexEdit, Layout, MAX_CANDIDATES, StoredIndex, Visitor, each_candidate, tag};
use super::pages::Pages;
use crate::error::{MetadataError, Result};
use gemelo_format::{MAX_LEVELS, Node, NodeRef, Page, Part, Tree, index_entry};
use std::iter::Peekable;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The layout of arrays and a B-tree.
pub(crate) struct BTreeLayout;

/// A key with its value, or the first key below a child node with the child's address.
type Entry = (u64, u128);
type Edits<'e> = Peekable<&'e mut dyn Iterator<Item = Entry>>;

/// The keys that may be below a node.
#[derive(Debug, Clone, Copy)]
struct Keys {
    first: u64,
    /// The first key after them; `None` at the right edge of the tree.
    end: Option<u64>,
}

impl Keys {
    fn contains(self, key: u64) -> bool {
        key >= self.first && self.end.is_none_or(|end| key < end)
    }
}

fn node_ref(pages: &Pages, at: NodeRef, bits: u128) -> Result<NodeRef> {
    NodeRef::from_bits(bits).ok_or_else(|| pages.damaged(at))
}

/// Merges sorted edits into a tree.
struct EditsMerge<'p> {
    pages: &'p Pages,
}

impl EditsMerge<'_> {
    /// Consumes the edits of keys before `end` and returns the node's entries with those edits
    /// made. The node's old page is retired.
    fn updated(
        &self,
        at: NodeRef,
        level: u8,
        keys: Keys,
        edits: &mut Edits<'_>,
    ) -> Result<Vec<Entry>> {
        let end = keys.end;
        let before = self.entries(at, level, keys)?;
        self.pages.retire(at.slot);
        if level == 0 {
            return Ok(merged(before, end, edits));
        }
        let mut after = Vec::with_capacity(before.len());
        let mut pending = Vec::new();
        let ends = before.iter().skip(1).map(|(key, _)| Some(*key)).chain([end]);
        for (number, ((key, bits), child_end)) in before.iter().zip(ends).enumerate() {
            let is_first = number == 0;
            let is_touched =
                edits.peek().is_some_and(|(key, _)| child_end.is_none_or(|end| *key < end));
            if !is_touched && pending.is_empty() {
                after.push((*key, *bits));
                continue;
            }
            let child = node_ref(self.pages, at, *bits)?;
            // The first child also has the keys before its own.
            let first = if is_first { keys.first } else { *key };
            let below = Keys { first, end: child_end };
            pending.extend(self.updated(child, level - 1, below, edits)?);
            // A node less than half full is merged with its right neighbour.
            if pending.len() >= Node::capacity(Part::Index, level - 1) / 2 {
                self.write(level - 1, child_end.is_none(), &mut pending, &mut after)?;
            }
        }
        self.write(level - 1, end.is_none(), &mut pending, &mut after)?;
        Ok(after)
    }

    /// Returns the entries of a node, whose keys go up and are in the node's range.
    fn entries(&self, at: NodeRef, level: u8, keys: Keys) -> Result<Vec<Entry>> {
        let page = self.pages.read(at, Width::of(level, Part::Index))?;
        let node = Node::of(&page, Part::Index, level).ok_or_else(|| self.pages.damaged(at))?;
        let entries: Vec<Entry> = node.entries().collect();
        let is_within = |entry: &Entry| keys.contains(entry.0);
        if entries.is_sorted_by(|a, b| a.0 < b.0) && entries.iter().all(is_within) {
            Ok(entries)
        } else {
            Err(self.pages.damaged(at))
        }
    }

    /// Writes entries as nodes, and adds those to `above`. Nodes at the right edge are filled,
    /// because keys are added there in order; elsewhere the entries are shared out evenly.
    fn write(
        &self,
        level: u8,
        is_last: bool,
        entries: &mut Vec<Entry>,
        above: &mut Vec<Entry>,
    ) -> Result<()> {
        let most = Node::capacity(Part::Index, level);
        let nodes = entries.len().div_ceil(most).max(1);
        let each = if is_last { most } else { entries.len().div_ceil(nodes).max(1) };
        for some in entries.chunks(each) {
            let Some((first, _)) = some.first() else { continue };
            let at = self.pages.write(
                Node::page(Part::Index, level, some).into(),
                Width::of(level, Part::Index),
            )?;
            above.push((*first, at.to_bits()));
        }
        entries.clear();
        Ok(())
    }

    fn tree(&self, tree: &Tree, edits: &mut Edits<'_>) -> Result<Tree> {
        let mut level = tree.height;
        let mut entries = match tree.root {
            Some(root) => self.updated(root, level, Keys { first: 0, end: None }, edits)?,
            None => merged(Vec::new(), None, edits),
        };
        assert!(edits.peek().is_none(), "every change has its place in the tree");
        while entries.len() > Node::capacity(Part::Index, level) {
            let mut above = Vec::new();
            self.write(level, true, &mut entries, &mut above)?;
            (entries, level) = (above, level + 1);
        }
        match entries.first() {
            None => Ok(Tree::default()),
            Some((_, bits)) if level > 0 && entries.len() == 1 => {
                let root = NodeRef::from_bits(*bits);
                Ok(Tree { root, height: level - 1 })
            }
            Some(_) if level <= MAX_LEVELS => {
                let width = Width::of(level, Part::Index);
                let root =
                    Some(self.pages.write(Node::page(Part::Index, level, &entries).into(), width)?);
                Ok(Tree { root, height: level })
            }
            Some(_) => {
                Err(MetadataError::damaged("a metadata tree has more levels than any pool needs"))
            }
        }
    }
}

/// Consumes the edits of keys before `end` and returns a leaf's entries with those edits made. A
/// value of 0 removes the key. Index entries have no value: 1 adds one.
fn merged(before: Vec<Entry>, end: Option<u64>, edits: &mut Edits<'_>) -> Vec<Entry> {
    let mut after = Vec::with_capacity(before.len());
    let mut before = before.into_iter().peekable();
    while let Some((key, value)) = edits.next_if(|(key, _)| end.is_none_or(|end| *key < end)) {
        while let Some(entry) = before.next_if(|entry| entry.0 < key) {
            after.push(entry);
        }
        let _ = before.next_if(|entry| entry.0 == key);
        if value != 0 {
            after.push((key, 0));
        }
    }
    after.extend(before);
    after
}

/// The position of a walk in the tree.
struct Walk<'w> {
    pages: &'w Pages,
    from: u64,
    visitor: &'w mut dyn Visitor,
}

impl Walk<'_> {
    fn tree(&mut self, tree: &Tree) -> Result<()> {
        if let Some(root) = tree.root {
            let _ = self.node(root, tree.height, (0, u64::MAX))?;
        }
        Ok(())
    }

    fn node(&mut self, at: NodeRef, level: u8, keys: (u64, u64)) -> Result<ControlFlow<()>> {
        if !self.visitor.node(at, keys.0..keys.1)? {
            return Ok(ControlFlow::Continue(()));
        }
        if level == 0 && !self.visitor.wants_values() {
            return Ok(ControlFlow::Continue(()));
        }
        let read = self.pages.read(at, Width::Narrow);
        let page = match read.and_then(|page| check(self.pages, page, at, level)) {
            Ok(page) => page,
            Err(error @ MetadataError::Damaged { .. }) => {
                self.visitor.lost(keys.0..keys.1, error)?;
                return Ok(ControlFlow::Continue(()));
            }
            Err(error) => return Err(error),
        };
        let Some(node) = Node::of(&page, Part::Index, level) else {
            return Ok(ControlFlow::Continue(()));
        };
        let first = match level {
            0 => node.keys_below(self.from),
            _ => node.keys_below(self.from.saturating_add(1)).saturating_sub(1),
        };
        for place in first..node.len() {
            let flow = if level > 0 {
                // Keys before the first entry belong to the first child.
                let start = if place == 0 { keys.0 } else { node.key(place) };
                let end = if place + 1 < node.len() { node.key(place + 1) } else { keys.1 };
                self.node(node_ref(self.pages, at, node.value(place))?, level - 1, (start, end))?
            } else {
                self.visitor.value(node.key(place), 1)
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn check(pages: &Pages, page: Arc<Page>, at: NodeRef, level: u8) -> Result<Arc<Page>> {
    if Node::of(&page, Part::Index, level).is_some() { Ok(page) } else { Err(pages.damaged(at)) }
}

impl Layout for BTreeLayout {
    type Index = StoredIndex;

    fn walk_index(pages: &Pages, index: &StoredIndex, visitor: &mut dyn Visitor) -> Result<()> {
        Walk { pages, from: 0, visitor }.tree(&index.tree)
    }

    fn candidates(
        pages: &Pages,
        index: &StoredIndex,
        hashes: &[(usize, u64)],
        found: &mut Vec<(usize, u64)>,
    ) -> Result<()> {
        each_candidate(hashes, found, |hash, pbns| candidates_of(pages, index, hash, pbns))
    }

    fn merge_index(
        pages: &Pages,
        index: &StoredIndex,
        edits: Vec<IndexEdit>,
    ) -> Result<StoredIndex> {
        let edits = edits.into_iter().map(|edit| (edit.entry(), edit.comes));
        let mut edits: Vec<(u64, bool)> = edits.collect();
        edits.sort_unstable();
        let come = edits.iter().filter(|(_, comes)| *comes).count() as u64;
        let entries = index.entries.saturating_add(come).saturating_sub(edits.len() as u64 - come);
        if edits.is_empty() {
            return Ok(*index);
        }
        let mut values = edits.iter().map(|(entry, comes)| (*entry, u128::from(*comes)));
        let values: &mut dyn Iterator<Item = Entry> = &mut values;
        let tree = EditsMerge { pages }.tree(&index.tree, &mut values.peekable())?;
        Ok(StoredIndex { tree, buckets: 0, entries })
    }
}

/// Adds the PBNs that the index has for a hash.
fn candidates_of(
    pages: &Pages,
    index: &StoredIndex,
    hash: u64,
    found: &mut Vec<u64>,
) -> Result<()> {
    struct OfTag<'f>(u32, &'f mut Vec<u64>);
    impl Visitor for OfTag<'_> {
        fn value(&mut self, key: u64, _value: u128) -> ControlFlow<()> {
            if (key >> 32) as u32 != self.0 || self.1.len() >= MAX_CANDIDATES {
                return ControlFlow::Break(());
            }
            self.1.push(u64::from(key as u32));
            ControlFlow::Continue(())
        }
    }
    let tag = tag(hash);
    Walk { pages, from: index_entry(tag, 0), visitor: &mut OfTag(tag, found) }.tree(&index.tree)
}
