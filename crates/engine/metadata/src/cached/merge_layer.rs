//! Makes pages of a layer of a map.

use super::array::{child, set_child};
use super::cache::Width;
use super::layer::{Layer, Mark, Position};
use super::pages::Pages;
use crate::error::Result;
use gemelo_format::{
    MAP_PAGE_ENTRIES, NodeRef, PAGE_BYTES, Page, Part, Slot, Tree, set_array_value,
};
use std::collections::HashMap;
use std::sync::Arc;

/// A layer that is merged into pages.
struct MergeLayer<'m> {
    pages: &'m Pages,
    layer: &'m Layer,
    /// The slots of the nodes that were written.
    made: &'m mut HashMap<Position, Slot>,
    /// Leaves that were read for the changes to come.
    ahead: HashMap<NodeRef, Arc<Page>>,
}

/// Returns the map after the changes of a layer. Pages that no map needs any more are retired.
pub(super) fn merge_layer(
    pages: &Pages,
    tree: &Tree,
    layer: &Layer,
    made: &mut HashMap<Position, Slot>,
) -> Result<Tree> {
    assert!(tree.height <= layer.height, "a map does not become lower");
    let mut merge = MergeLayer { pages, layer, made, ahead: HashMap::new() };
    let mut tree = *tree;
    while tree.height < layer.height {
        tree.height += 1;
        if let Some(root) = tree.root {
            let mut page = [0; PAGE_BYTES];
            set_child(&mut page, 0, Some(root));
            tree.root = Some(merge.write(Position::root(tree.height), Arc::new(page))?);
        }
    }
    tree.root = merge.node(tree.root, Position::root(tree.height))?;
    if tree.root.is_none() {
        tree.height = 0;
    }
    Ok(tree)
}

impl MergeLayer<'_> {
    fn write(&mut self, at: Position, page: Arc<Page>) -> Result<NodeRef> {
        let written = self.pages.write(page, Width::of(at.level, Part::Map))?;
        self.made.insert(at, written.slot);
        Ok(written)
    }

    fn read(&mut self, at: NodeRef, width: Width) -> Result<Arc<Page>> {
        self.ahead.remove(&at).map_or_else(|| self.pages.read(at, width), Ok)
    }

    /// Returns the node at a position after the changes.
    fn node(&mut self, before: Option<NodeRef>, at: Position) -> Result<Option<NodeRef>> {
        if !self.layer.touches(at) {
            return Ok(before);
        }
        let is_cut = self.layer.covers(at);
        if is_cut {
            self.retire(before, at)?;
            if !self.layer.has_words(at) {
                return Ok(None);
            }
        }
        let below = before.filter(|_| !is_cut);
        let width = Width::of(at.level, Part::Map);
        let page = below.map(|below| self.read(below, width)).transpose()?;
        let mut after = self.pages.own_or_empty(page);
        let page = Arc::make_mut(&mut after);
        if at.level == 0 {
            for (place, word) in self.layer.words.of_leaf(at.number) {
                set_array_value(page, place, PAGE_BYTES / MAP_PAGE_ENTRIES, u128::from(word));
            }
        } else {
            self.children(page, at)?;
        }
        if let Some(below) = below
            && !self.layer.marks.contains_key(&at)
        {
            self.pages.retire(below.slot);
        }
        // A page that was made while the map grew is not the one at this position any more.
        self.made.remove(&at);
        let is_empty = page.iter().all(|byte| *byte == 0);
        if is_empty { Ok(None) } else { self.write(at, after).map(Some) }
    }

    /// Changes the children of an inner node.
    fn children(&mut self, page: &mut Page, at: Position) -> Result<()> {
        let leaves = at.leaves();
        if at.level == 1 {
            self.ahead = self.leaves(page, at);
        }
        let mut next = leaves.start;
        while let Some(leaf) = self.layer.next_touched(next, leaves.end) {
            let below = at.towards(leaf);
            let number = below.number - at.child(0).number;
            let changed = self.node(child(page, number), below)?;
            set_child(page, number, changed);
            next = below.leaves().end;
        }
        Ok(())
    }

    /// Reads the leaves of a node that change. The cache need not have them: they are given up.
    fn leaves(&self, page: &Page, at: Position) -> HashMap<NodeRef, Arc<Page>> {
        let (mut next, end) = (at.leaves().start, at.leaves().end);
        let mut wanted = Vec::new();
        while let Some(leaf) = self.layer.next_touched(next, end) {
            if !self.layer.covers(at.towards(leaf)) {
                wanted.extend(child(page, leaf - at.leaves().start));
            }
            next = leaf + 1;
        }
        self.pages.read_once(wanted)
    }

    /// Retires the pages of a node that the layer has cut, except those that other maps have.
    fn retire(&self, node: Option<NodeRef>, at: Position) -> Result<()> {
        let Some(node) = node else { return Ok(()) };
        let mark = self.layer.marks.get(&at);
        if mark.is_none() {
            self.pages.retire(node.slot);
        }
        if at.level == 0 || mark == Some(&Mark::Released) {
            return Ok(());
        }
        let page = self.pages.read(node, Width::Wide)?;
        for number in 0..super::layer::FANOUT {
            self.retire(child(&page, number), at.child(number))?;
        }
        Ok(())
    }
}
