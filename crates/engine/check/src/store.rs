//! The trees of a checkpoint, read page by page with code of its own.

use crate::CheckError;
use crate::bits::UsedPbns;
use crate::map::{Chunk, Leaf, REGION_LBNS, Region, WalkMap, places_of};
use crate::pages::Pages;
use crate::values::{Leaves, values_of};
use gemelo_format::{
    DIRECTORY_ENTRIES, NODE_REF_BYTES, Node, NodeRef, Page, Part, Slot, Tree, WordForm,
    array_value, bucket_of,
};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// The regions below a node of a map.
#[derive(Default)]
pub(crate) struct BelowMap {
    pub(crate) chunks: Vec<(u64, Arc<Chunk>)>,
    /// LBNs whose places are lost.
    pub(crate) lost: Vec<Range<u64>>,
}

/// A node of a map: its address, its level and its first LBN.
type Place = (NodeRef, u8, u64);

/// Gets each leaf, the first of its keys and its values.
type Visit<'v> = &'v mut dyn FnMut(NodeRef, u64, &[(u64, u128)]);

/// The nodes of maps that were read, by slot. Several maps may have a node at one place.
#[derive(Default)]
pub(crate) struct KnownNodes {
    inner: HashMap<Slot, (Place, Arc<BelowMap>)>,
    /// Leaves, and those that are lost.
    leaves: HashMap<Slot, (NodeRef, u64, Option<Leaf>)>,
}

/// Reads the trees of a checkpoint.
pub(crate) struct TreeReader<'r, 's> {
    /// `true` if the index is a B-tree. All else is in arrays.
    pub(crate) has_tree: bool,
    pub(crate) buckets: u32,
    /// The form of the words of maps.
    pub(crate) words: WordForm,
    pub(crate) pages: &'r mut Pages<'s>,
    /// The blocks that maps refer to.
    pub(crate) used: &'r mut UsedPbns,
}

/// The keys below a node of an array.
const fn span(part: Part, level: u8) -> u64 {
    let each = part.array_entries() as u64;
    each.saturating_mul((DIRECTORY_ENTRIES as u64).saturating_pow(level as u32))
}

impl TreeReader<'_, '_> {
    /// Returns whether a tree is an array.
    const fn is_array(&self, part: Part) -> bool {
        !(self.has_tree && matches!(part, Part::Index))
    }

    /// Reads a tree that is no map. Its values are read again when they are needed.
    pub(crate) fn read(&mut self, tree: Tree, part: Part) -> Result<Leaves, CheckError> {
        let mut leaves = Leaves::new(part, self.is_array(part));
        let mut add = |at: NodeRef, first: u64, _: &[(u64, u128)]| leaves.add(first, at);
        let lost = self.tree(tree, part, &mut add)?;
        leaves.lost = lost;
        Ok(leaves)
    }

    /// Reads a map. The nodes of arrays may be shared by maps, and are read once.
    pub(crate) fn map(
        &mut self,
        tree: Tree,
        known: &mut KnownNodes,
    ) -> Result<Arc<BelowMap>, CheckError> {
        match tree.root {
            Some(root) => self.map_node((root, tree.height, 0), known),
            None => Ok(Arc::default()),
        }
    }

    fn two_ways(&mut self, slot: Slot) {
        let what = format!("slot {} is used in two ways", slot.number());
        self.pages.report.add(true, what);
    }

    fn map_node(
        &mut self,
        place: Place,
        known: &mut KnownNodes,
    ) -> Result<Arc<BelowMap>, CheckError> {
        let (at, level, first) = place;
        if level == 0 {
            return Ok(Arc::new(self.map_leaves(&[(at, lbns_of(first, 0))], known)?));
        }
        let lost = || {
            let lost = vec![lbns_of(first, level)];
            Arc::new(BelowMap { chunks: Vec::new(), lost })
        };
        if let Some((same, below)) = known.inner.get(&at.slot) {
            if *same == place {
                return Ok(Arc::clone(below));
            }
            self.two_ways(at.slot);
            return Ok(lost());
        }
        let below = match self.pages.read(at)? {
            None => lost(),
            Some(page) => {
                let children = directory(&page, first, span(Part::Map, level - 1));
                Arc::new(match level {
                    1 => self.map_leaves(&children, known)?,
                    _ => self.map_children(&children, level - 1, known)?,
                })
            }
        };
        known.inner.insert(at.slot, (place, Arc::clone(&below)));
        Ok(below)
    }

    fn map_children(
        &mut self,
        children: &[(NodeRef, Range<u64>)],
        level: u8,
        known: &mut KnownNodes,
    ) -> Result<BelowMap, CheckError> {
        let mut all = BelowMap::default();
        for (child, lbns) in children {
            let below = self.map_node((*child, level, lbns.start), known)?;
            all.chunks.extend(below.chunks.iter().cloned());
            all.lost.extend(below.lost.iter().cloned());
        }
        Ok(all)
    }

    /// Reads leaves of a map in a list.
    fn map_leaves(
        &mut self,
        leaves: &[(NodeRef, Range<u64>)],
        known: &mut KnownNodes,
    ) -> Result<BelowMap, CheckError> {
        let is_new = |(at, _): &&(NodeRef, Range<u64>)| !known.leaves.contains_key(&at.slot);
        let fresh: Vec<&(NodeRef, Range<u64>)> = leaves.iter().filter(is_new).collect();
        let pages = self.pages.read_all(&fresh.iter().map(|(at, _)| *at).collect::<Vec<_>>())?;
        for ((at, lbns), page) in fresh.into_iter().zip(pages) {
            let leaf = page.map(|page| {
                let places: Vec<_> = places_of(&page, lbns.start, self.words).collect();
                self.used.note(&places);
                Leaf::new(*at, &places)
            });
            // A slot that a list has twice is known after its first place.
            known.leaves.entry(at.slot).or_insert((*at, lbns.start, leaf));
        }
        let (mut regions, mut lost) = (Vec::with_capacity(leaves.len()), Vec::new());
        for (at, lbns) in leaves {
            match known.leaves.get(&at.slot) {
                Some((same, first, leaf)) if (same, *first) == (at, lbns.start) => match leaf {
                    Some(leaf) => regions.push((lbns.start / REGION_LBNS, Region::Page(*leaf))),
                    None => lost.push(lbns.clone()),
                },
                _ => {
                    self.two_ways(at.slot);
                    lost.push(lbns.clone());
                }
            }
        }
        Ok(BelowMap { chunks: WalkMap::cut(regions), lost })
    }

    /// Calls `visit` with each leaf of a tree, the first of its keys and its values. Returns the
    /// keys that are lost.
    fn tree(
        &mut self,
        tree: Tree,
        part: Part,
        visit: Visit<'_>,
    ) -> Result<Vec<Range<u64>>, CheckError> {
        let mut lost = Vec::new();
        if let Some(root) = tree.root {
            let keys = 0..if self.is_array(part) { span(part, tree.height) } else { u64::MAX };
            self.nodes(&[(root, keys)], tree.height, part, (visit, &mut lost))?;
        }
        Ok(lost)
    }

    /// Reads nodes with the ranges of keys below them.
    fn nodes(
        &mut self,
        nodes: &[(NodeRef, Range<u64>)],
        level: u8,
        part: Part,
        (visit, lost): (Visit<'_>, &mut Vec<Range<u64>>),
    ) -> Result<(), CheckError> {
        let pages = self.pages.read_all(&nodes.iter().map(|(at, _)| *at).collect::<Vec<_>>())?;
        for ((at, keys), page) in nodes.iter().zip(pages) {
            let below = match page {
                None => None,
                Some(page) if level > 0 => self.children(&page, part, level, keys).map(Ok),
                Some(page) => self.leaf(&page, part, keys).map(Err),
            };
            match below {
                None => lost.push(keys.clone()),
                Some(Err(values)) => visit(*at, keys.start, &values),
                Some(Ok(children)) => {
                    self.nodes(&children, level - 1, part, (&mut *visit, &mut *lost))?;
                }
            }
        }
        Ok(())
    }

    /// The values of a leaf, if they are in order and in their place.
    fn leaf(&self, page: &Page, part: Part, keys: &Range<u64>) -> Option<Vec<(u64, u128)>> {
        let is_array = self.is_array(part);
        if !is_array {
            is_node(page, part, 0, keys).then_some(())?;
        }
        let values = values_of(page, part, is_array, keys.start)?;
        let bucket = keys.start / part.array_entries() as u64 / 2;
        let belongs =
            |entry: &u64| u64::from(bucket_of((entry >> 32) as u32, self.buckets)) == bucket;
        let is_index = is_array && part == Part::Index;
        (!is_index || values.iter().all(|(entry, _)| belongs(entry))).then_some(values)
    }

    fn children(
        &self,
        page: &Page,
        part: Part,
        level: u8,
        keys: &Range<u64>,
    ) -> Option<Vec<(NodeRef, Range<u64>)>> {
        if self.is_array(part) {
            return Some(directory(page, keys.start, span(part, level - 1)));
        }
        is_node(page, part, level, keys).then_some(())?;
        let entries: Vec<(u64, u128)> = Node::of(page, part, level)?.entries().collect();
        let inner = || entries.iter().skip(1).map(|(key, _)| *key);
        let (starts, ends) = ([keys.start].into_iter().chain(inner()), inner().chain([keys.end]));
        let children = entries.iter().zip(starts.zip(ends));
        let child = |((_, bits), (start, end)): (&(u64, u128), (u64, u64))| {
            Some((NodeRef::from_bits(*bits)?, start..end))
        };
        children.map(child).collect()
    }
}

const fn lbns_of(first: u64, level: u8) -> Range<u64> {
    first..first.saturating_add(span(Part::Map, level))
}

fn directory(page: &Page, first: u64, each: u64) -> Vec<(NodeRef, Range<u64>)> {
    let child = |at: usize| {
        let start = first.saturating_add(at as u64 * each);
        let child = NodeRef::from_bits(array_value(page, at, NODE_REF_BYTES))?;
        Some((child, start..start.saturating_add(each)))
    };
    (0..DIRECTORY_ENTRIES).filter_map(child).collect()
}

/// Returns whether a page is a node whose entries are in order and within its range of keys.
fn is_node(page: &Page, part: Part, level: u8, keys: &Range<u64>) -> bool {
    let Some(node) = Node::of(page, part, level) else { return false };
    let mut entries = node.entries().map(|(key, _)| key);
    !node.is_empty()
        && entries.by_ref().all(|key| keys.contains(&key))
        && node.entries().is_sorted_by(|a, b| a.0 < b.0)
}
