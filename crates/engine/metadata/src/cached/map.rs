//! The map of a volume: a tree of pages, and layers over it.

use super::array;
use super::cache::Width;
use super::image::{self, Moved};
use super::layer::{FANOUT, LEAF_LBNS, Layer, LayerId, Position};
use super::layout;
use super::moved::MovedBlocks;
use super::pages::Pages;
use super::stored::{Array, Reader};
use crate::error::Result;
use gemelo_format::{Lbn, MAP_PAGE_ENTRIES, NodeRef, Part, Slot, Tree, WordForm};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// A map.
#[derive(Default)]
pub(super) struct MapState {
    /// The pages below the layers.
    pub(super) base: Array,
    /// Layers that do not change any more, the oldest first. Other maps may have them too.
    pub(super) sealed: Vec<Arc<Layer>>,
    /// The layer of the changes that are being made.
    pub(super) open: Option<Box<Layer>>,
}

/// Names a node of a map: by its page, or by the layer that changed it last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum NodeKey {
    Page(Slot),
    Layer(LayerId, Position),
}

/// A node of a map that shares its nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct MapNode {
    pub(super) at: Position,
    pub(super) key: NodeKey,
    /// The page below the layers, unless a layer has cut it.
    page: Option<NodeRef>,
}

impl MapNode {
    /// The node of a page that no layer changes.
    const fn stored(at: Position, page: NodeRef) -> Self {
        Self { at, key: NodeKey::Page(page.slot), page: Some(page) }
    }
}

/// Some of the children of a node, by their numbers.
#[derive(Default)]
struct ChildSet([u64; FANOUT.div_ceil(u64::BITS as u64) as usize]);

impl ChildSet {
    const fn add(&mut self, number: u64) {
        self.0[(number / u64::BITS as u64) as usize] |= 1 << (number % u64::BITS as u64);
    }

    const fn has(&self, number: u64) -> bool {
        self.0[(number / u64::BITS as u64) as usize] & 1 << (number % u64::BITS as u64) != 0
    }
}

impl MapState {
    /// The map of these pages.
    pub(super) fn of(base: Tree) -> Self {
        Self { base: base.into(), ..Self::default() }
    }

    /// The layers, the newest first.
    fn layers(&self) -> impl Iterator<Item = &Layer> {
        let sealed = self.sealed.iter().rev().map(|layer| &**layer);
        self.open.as_deref().into_iter().chain(sealed)
    }

    /// The levels above the leaves.
    pub(super) fn height(&self) -> u8 {
        self.layers().next().map_or(self.base.height, |layer| layer.height)
    }

    /// The layer that changes. Made at the first change after it was sealed.
    pub(super) fn open_layer(&mut self, next: &mut LayerId) -> &mut Layer {
        let height = self.height();
        self.open.get_or_insert_with(|| {
            let id = *next;
            *next = LayerId(id.0 + 1);
            Box::new(Layer::new(id, height))
        })
    }

    /// Seals the layer that changes, if it has changes.
    pub(super) fn seal(&mut self) {
        if let Some(open) = self.open.take().filter(|layer| !layer.is_empty()) {
            self.sealed.push(Arc::from(open));
        }
    }

    /// Returns a map with the same pages and layers. All layers are sealed.
    pub(super) fn share(&self) -> Self {
        assert!(self.open.is_none(), "maps share sealed layers alone");
        Self { base: self.base.clone(), sealed: self.sealed.clone(), open: None }
    }

    /// Replaces layers by the pages that a checkpoint has made of them.
    pub(super) fn rebase(&mut self, merged: &HashMap<LayerId, Tree>) {
        let last = self.sealed.iter().rposition(|layer| merged.contains_key(&layer.id));
        let Some(last) = last else { return };
        if let Some(tree) = self.sealed.get(last).and_then(|layer| merged.get(&layer.id)) {
            self.base = (*tree).into();
        }
        self.sealed.drain(..=last);
    }

    /// Gives the map its new root, if its pages were written anew.
    pub(super) fn follow(&mut self, moved: &Moved) {
        if !moved.is_empty() {
            let mut tree = *self.base;
            image::follow(&mut tree, moved);
            self.base = tree.into();
        }
    }

    /// The word of an LBN, if a layer decides it.
    pub(super) fn recent(&self, lbn: u64) -> Option<u64> {
        self.layers().find_map(|layer| layer.word(lbn))
    }
}

/// A map with the pages that it needs to be read.
#[derive(Clone, Copy)]
pub(super) struct MapView<'m> {
    pub(super) pages: &'m Pages,
    pub(super) map: &'m MapState,
    pub(super) form: WordForm,
    pub(super) moved: &'m MovedBlocks,
}

impl<'m> MapView<'m> {
    /// The layers, the newest first, each with the height of the map below it.
    fn layers(self) -> impl Iterator<Item = (&'m Layer, u8)> {
        let heights = self.map.layers().skip(1).map(|layer| layer.height);
        self.map.layers().zip(heights.chain([self.map.base.height]))
    }

    /// The node at a position, for which the pages have this page.
    fn node(self, at: Position, page: Option<NodeRef>) -> Option<MapNode> {
        for (layer, height_below) in self.layers() {
            if layer.covers(at) && !layer.has_words(at) {
                return None;
            }
            // A map that grows gets nodes above its old root.
            let is_grown = at.number == 0 && (height_below + 1..=layer.height).contains(&at.level);
            if is_grown || layer.touches(at) {
                let is_cut = self.map.layers().any(|layer| layer.covers(at));
                let key = NodeKey::Layer(layer.id, at);
                return Some(MapNode { at, key, page: page.filter(|_| !is_cut) });
            }
        }
        page.map(|page| MapNode::stored(at, page))
    }

    pub(super) fn root(self) -> Option<MapNode> {
        let Tree { root, height } = *self.map.base;
        let at = Position::root(self.map.height());
        self.node(at, root.filter(|_| height == at.level))
    }

    /// The page that a node above the base's root, or one with a page, has for a child.
    fn page_of_child(self, node: &MapNode, number: u64) -> Result<Option<NodeRef>> {
        if let Some(page) = node.page {
            return Ok(array::child(&*self.pages.read(page, Width::Wide)?, number));
        }
        let Tree { root, height } = *self.map.base;
        Ok(root.filter(|_| node.at.child(number) == Position::root(height)))
    }

    /// The child of an inner node that has this leaf below it.
    pub(super) fn child_towards(self, node: &MapNode, leaf: u64) -> Result<Option<MapNode>> {
        let at = node.at.towards(leaf);
        let page = self.page_of_child(node, at.number % FANOUT)?;
        Ok(self.node(at, page))
    }

    /// The children of an inner node, in order.
    pub(super) fn children(self, node: &MapNode) -> Result<Vec<MapNode>> {
        self.children_with(node, &node.at.lbns())
    }

    /// The children of an inner node that have some of these LBNs below them, in order.
    pub(super) fn children_with(self, node: &MapNode, lbns: &Range<u64>) -> Result<Vec<MapNode>> {
        let own = node.at.lbns();
        let lbns = own.start.max(lbns.start)..own.end.min(lbns.end);
        if lbns.is_empty() {
            return Ok(Vec::new());
        }
        let number = |lbn: u64| node.at.towards(lbn / LEAF_LBNS).number % FANOUT;
        let within = number(lbns.start)..=number(lbns.end - 1);
        let page = node.page.map(|page| self.pages.read(page, Width::Wide)).transpose()?;
        let mut touched = ChildSet::default();
        for (layer, _) in self.layers() {
            add_touched(layer, node.at, lbns.clone(), &mut touched);
        }
        if page.is_none() && self.is_above_base(node.at) && *within.start() == 0 {
            touched.add(0);
        }
        let mut children = Vec::with_capacity(within.clone().count());
        for number in within {
            let stored = page.as_deref().and_then(|page| array::child(page, number));
            let at = node.at.child(number);
            // The layers may have words of a child that were not asked for.
            let is_whole = lbns.start <= at.lbns().start && at.lbns().end <= lbns.end;
            match stored {
                None if !touched.has(number) => {}
                Some(stored)
                    if is_whole && !touched.has(number) && self.has_no_whole_change(at) =>
                {
                    children.push(MapNode::stored(at, stored));
                }
                _ => {
                    let below = match page {
                        Some(_) => stored,
                        None => self.page_of_child(node, number)?,
                    };
                    children.extend(self.node(at, below));
                }
            }
        }
        Ok(children)
    }

    /// Returns whether no layer copies or cuts this node.
    fn has_no_whole_change(self, at: Position) -> bool {
        !self.map.layers().any(|layer| layer.touches_whole(at))
    }

    /// Reads the pages of nodes in one list.
    pub(super) fn fetch(pages: &Pages, nodes: &[MapNode]) {
        pages.fetch(nodes.iter().filter_map(|node| node.page).collect());
    }

    fn is_above_base(self, at: Position) -> bool {
        let Tree { root, height } = *self.map.base;
        root.is_some() && at.number == 0 && at.level > height
    }

    /// The mapped LBNs of a leaf with their words.
    pub(super) fn words(self, leaf: &MapNode) -> Result<Vec<(u64, u64)>> {
        let all = (leaf.at.lbns().start..).zip(self.all_words(leaf)?);
        Ok(all.filter(|(_, word)| *word != 0).collect())
    }

    /// The words of a leaf, those of LBNs without one included.
    pub(super) fn all_words(self, leaf: &MapNode) -> Result<[u64; MAP_PAGE_ENTRIES]> {
        assert!(leaf.at.level == 0, "only a leaf has words");
        let mut words = [0; MAP_PAGE_ENTRIES];
        if let Some(page) = leaf.page {
            let page = self.pages.read(page, Width::Narrow)?;
            for (word, bytes) in words.iter_mut().zip(page.as_chunks::<8>().0) {
                *word = u64::from_le_bytes(*bytes);
            }
        }
        let layers: Vec<&Layer> = self.map.layers().collect();
        for layer in layers.into_iter().rev() {
            if layer.covers(leaf.at) {
                words.fill(0);
            }
            layer.words.of_leaf(leaf.at.number).for_each(|(place, word)| words[place] = word);
        }
        if !self.moved.is_empty() {
            let mapped = words.iter_mut().filter(|word| **word != 0);
            mapped.for_each(|word| *word = self.moved.follow(self.form, *word));
        }
        Ok(words)
    }
}

/// Adds the numbers of the children of a node that have words in a layer for some of these LBNs.
fn add_touched(layer: &Layer, at: Position, lbns: Range<u64>, touched: &mut ChildSet) {
    let mut next = lbns.start;
    while let Some((lbn, _)) = layer.words.next(next..lbns.end.max(next)) {
        let child = at.towards(lbn / LEAF_LBNS);
        touched.add(child.number % FANOUT);
        next = child.lbns().end;
    }
}

/// Returns the first mapped LBN of a map from `from` on, but before `end`.
pub(super) fn next_mapped(view: MapView<'_>, from: u64, end: u64) -> Result<Option<u64>> {
    let layers: Vec<&Layer> = view.map.layers().collect();
    next_below(view, &layers, from, end)
}

/// The same in a map with these layers, the newest first.
fn next_below(view: MapView<'_>, layers: &[&Layer], from: u64, end: u64) -> Result<Option<u64>> {
    if from >= end {
        return Ok(None);
    }
    let Some((layer, older)) = layers.split_first() else {
        let found = layout::next(view.pages, &view.map.base, Part::Map, from)?;
        return Ok(found.filter(|lbn| *lbn < end));
    };
    let (mut next, mut below) = (from, None);
    loop {
        let under = match below {
            Some(known) if known >= next => known,
            _ => next_uncut(view, layer, older, next, end)?.unwrap_or(end),
        };
        below = Some(under);
        match layer.words.next(next..end) {
            Some((lbn, word)) if lbn <= under => {
                if word != 0 {
                    return Ok(Some(lbn));
                }
                next = lbn + 1;
                if next >= end {
                    return Ok(None);
                }
            }
            _ => return Ok((under < end).then_some(under)),
        }
    }
}

/// The first mapped LBN of the older layers and pages that this layer has not cut.
fn next_uncut(
    view: MapView<'_>,
    layer: &Layer,
    older: &[&Layer],
    from: u64,
    end: u64,
) -> Result<Option<u64>> {
    let mut from = from;
    loop {
        if let Some(after) = layer.cuts.end_at(from / LEAF_LBNS) {
            from = after.saturating_mul(LEAF_LBNS);
        }
        match next_below(view, older, from, end)? {
            Some(lbn) if layer.cuts.end_at(lbn / LEAF_LBNS).is_some() => from = lbn,
            found => return Ok(found),
        }
    }
}

/// Looks up words of a map, and keeps the last leaf.
pub(super) struct Words<'m> {
    map: &'m MapState,
    stored: Reader<'m>,
    form: WordForm,
    moved: &'m MovedBlocks,
}

impl<'m> Words<'m> {
    pub(super) const fn new(view: MapView<'m>) -> Self {
        let stored = Reader::new(view.pages, &view.map.base, Part::Map);
        Self { map: view.map, stored, form: view.form, moved: view.moved }
    }

    /// The words of LBNs, in their order.
    pub(super) fn get_all(&mut self, lbns: &[Lbn]) -> Vec<Result<u64>> {
        let mut words = Vec::with_capacity(lbns.len());
        let (mut places, mut keys) = (Vec::new(), Vec::new());
        for (place, Lbn(lbn)) in lbns.iter().enumerate() {
            let known = self.known(*lbn);
            if known.is_none() {
                places.push(place);
                keys.push(*lbn);
            }
            words.push(Ok(known.unwrap_or_default()));
        }
        for (place, word) in places.into_iter().zip(self.stored.get_all(&keys)) {
            words[place] = word.map(|word| self.moved.follow(self.form, word as u64));
        }
        words
    }

    /// The word of an LBN, if it is in a layer, or in memory in its leaf.
    pub(super) fn known(&self, lbn: u64) -> Option<u64> {
        let word = self.map.recent(lbn).or_else(|| self.stored.known(lbn).map(|word| word as u64));
        word.map(|word| self.moved.follow(self.form, word))
    }

    pub(super) fn get(&mut self, lbn: u64) -> Result<u64> {
        let word = match self.map.recent(lbn) {
            Some(word) => word,
            None => self.stored.get(lbn)? as u64,
        };
        Ok(self.moved.follow(self.form, word))
    }
}
