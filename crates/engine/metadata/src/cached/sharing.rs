//! Maps that share nodes.
//!
//! A clone begins with the root of its source. A node that maps share is never changed: the first
//! change of a map below it makes a copy, whose children have one more parent from then on. A leaf
//! has one reference to each of its blocks, so the copy of a leaf adds one to the count of each. A
//! map that gives up a node with other parents drops no reference below it.
//!
//! All this happens in layers. The pages follow with the next checkpoint.

use super::layer::{LEAF_LBNS, Layer, LayerId, Mark, Position};
use super::layout::Layout;
use super::map::{MapNode, MapView, NodeKey};
use super::{CachedBackend, CachedVolume};
use crate::error::{MetadataError, Result};
use gemelo_format::{Lbn, MapEntry, Pbn, VolumeId, VolumeRecord};
use std::collections::BTreeMap;
use std::ops::Range;

/// A shared node that a map gets a copy of.
struct CopiedNode {
    key: NodeKey,
    at: Position,
    children: Vec<NodeKey>,
}

/// A block to which copies of leaves add references.
struct Added {
    /// The count that was read. A newer one is in the delta.
    count: u32,
    references: u32,
}

/// The copies that a map needs before a change.
#[derive(Default)]
pub(super) struct Copies {
    nodes: Vec<CopiedNode>,
    blocks: BTreeMap<u32, Added>,
}

/// The PBNs of words.
fn pbns_of(words: &[(u64, u64)]) -> Vec<u32> {
    words.iter().filter_map(|(_, word)| Some(MapEntry::from_word(*word).pbn()?.number())).collect()
}

impl<L: Layout> CachedBackend<L> {
    fn view_of(&self, id: VolumeId) -> Result<MapView<'_>> {
        Ok(self.view(&self.volume(id)?.map))
    }

    /// Returns whether the numbers of a volume's LBNs follow its map. Those of a volume that is
    /// being removed stay until its end, so that nodes which other maps have need not be read.
    pub(super) const fn is_counted(volume: &CachedVolume) -> bool {
        !L::SHARES_MAPS || !volume.record.is_hidden
    }

    /// Returns whether other maps have the leaf with this LBN.
    pub(super) fn is_shared(&self, id: VolumeId, lbn: Lbn) -> Result<bool> {
        if self.parents.is_empty() {
            return Ok(false);
        }
        let mut is_shared = false;
        self.visit_path(id, lbn, |_, node| {
            is_shared |= self.parents.is_shared(node.key);
            Ok(!is_shared)
        })?;
        Ok(is_shared)
    }

    /// Calls `visit` with the nodes from the root to the leaf with this LBN, as long as it returns
    /// `true`.
    fn visit_path(
        &self,
        id: VolumeId,
        lbn: Lbn,
        mut visit: impl FnMut(MapView<'_>, &MapNode) -> Result<bool>,
    ) -> Result<()> {
        let view = self.view_of(id)?;
        let leaf = lbn.0 / LEAF_LBNS;
        let mut next = view.root().filter(|root| root.at.leaves().contains(&leaf));
        while let Some(node) = next {
            if !visit(view, &node)? || node.at.level == 0 {
                break;
            }
            next = view.child_towards(&node, leaf)?;
        }
        Ok(())
    }

    /// Reads what the map needs before a change of this LBN: copies of the shared nodes on the path
    /// to its leaf. Usually there are none.
    pub(super) fn copies_for(&self, id: VolumeId, lbn: Lbn) -> Result<Copies> {
        let mut copies = Copies::default();
        let leaf = Position::leaf_of(lbn.0);
        let is_own = |layer: &Layer| layer.has_words(leaf);
        if self.parents.is_empty() || self.volume(id)?.map.open.as_deref().is_some_and(is_own) {
            return Ok(copies);
        }
        let mut is_shared = false;
        self.visit_path(id, lbn, |view, node| {
            is_shared |= self.parents.is_shared(node.key);
            if is_shared {
                self.add_copy(view, node, &mut copies)?;
            }
            Ok(true)
        })?;
        Ok(copies)
    }

    fn add_copy(&self, view: MapView<'_>, node: &MapNode, copies: &mut Copies) -> Result<()> {
        let mut children = Vec::new();
        if node.at.level > 0 {
            children.extend(view.children(node)?.iter().map(|child| child.key));
        } else {
            let pbns = pbns_of(&view.words(node)?);
            for (pbn, count) in pbns.iter().zip(self.counts_of(&pbns)?) {
                let added = Added { count, references: 0 };
                let references = &mut copies.blocks.entry(*pbn).or_insert(added).references;
                *references += 1;
                if count == 0 || count.checked_add(*references).is_none() {
                    return Err(Self::no_count(*pbn, count));
                }
            }
        }
        copies.nodes.push(CopiedNode { key: node.key, at: node.at, children });
        Ok(())
    }

    fn no_count(pbn: u32, count: u32) -> MetadataError {
        match count {
            0 => MetadataError::damaged(format!("a map refers to block {pbn}, whose count is 0")),
            _ => MetadataError::TooManyReferences,
        }
    }

    /// Makes the copies. Reads nothing, so that a change is made as a whole.
    pub(super) fn copy_nodes(&mut self, id: VolumeId, copies: Copies) -> Result<()> {
        if copies.nodes.is_empty() {
            return Ok(());
        }
        self.open_layer(id)?;
        for CopiedNode { key, at, children } in copies.nodes {
            assert!(self.parents.take(key), "a node that is copied has other parents");
            children.into_iter().for_each(|child| self.parents.add(child));
            self.mark(id, at, Mark::Copied)?;
        }
        for (pbn, Added { count, references }) in copies.blocks {
            let count = self.active.counts.get(&pbn).copied().unwrap_or(count);
            let more = count.checked_add(references).ok_or(MetadataError::TooManyReferences)?;
            self.active.counts.insert(pbn, more);
        }
        Ok(())
    }

    fn mark(&mut self, id: VolumeId, at: Position, mark: Mark) -> Result<()> {
        self.fresh.marks += 1;
        let before = self.open_layer(id)?.marks.insert(at, mark);
        assert!(before.is_none(), "a layer copies or releases a node once");
        Ok(())
    }

    /// The layer of a volume that changes. Made at the first change after it was sealed.
    pub(super) fn open_layer(&mut self, id: VolumeId) -> Result<&mut Layer> {
        let LayerId(number) = self.next_layer;
        let volume = self.volume_mut(id)?;
        let height = volume.map.height();
        let is_new = volume.map.open.is_none();
        if is_new {
            self.next_layer = LayerId(number + 1);
        }
        let volume = self.volume_mut(id)?;
        let new = || Box::new(Layer::new(LayerId(number), height));
        Ok(volume.map.open.get_or_insert_with(new))
    }

    /// Sets a word in the layer of a volume that changes. Its leaf is the volume's own.
    pub(super) fn put_in_layer(&mut self, id: VolumeId, lbn: Lbn, word: u64) -> Result<()> {
        let leaf = Position::leaf_of(lbn.0);
        let layer = self.open_layer(id)?;
        while !Position::root(layer.height).leaves().contains(&leaf.number) {
            layer.height += 1;
        }
        let is_new_leaf = !layer.has_words(leaf);
        let is_new = layer.words.insert(lbn.0, word).is_none();
        self.fresh.leaves += u64::from(is_new_leaf);
        self.fresh.words += u64::from(is_new);
        Ok(())
    }

    fn cut_in_layer(&mut self, id: VolumeId, leaves: &Range<u64>) -> Result<()> {
        let layer = self.open_layer(id)?;
        let before = layer.cuts.len();
        let forgotten = layer.cut(leaves) as u64;
        let after = layer.cuts.len();
        self.fresh.words = self.fresh.words.saturating_sub(forgotten);
        self.fresh.cuts = (self.fresh.cuts + after as u64).saturating_sub(before as u64);
        Ok(())
    }

    /// Adds a volume with the map of another one.
    pub(super) fn share_map(&mut self, source: VolumeId, record: VolumeRecord) -> Result<()> {
        self.check_unused(record.id)?;
        let from = self.volume_mut(source)?;
        from.map.seal();
        let (mapped, stored) = (from.mapped, from.stored);
        let map = from.map.share();
        if let Some(root) = self.view(&map).root() {
            self.parents.add(root.key);
        }
        self.fresh.shared_layers += u64::from(!map.sealed.is_empty());
        self.references += stored;
        self.insert_volume(CachedVolume { record, mapped, stored, map })
    }

    /// Unmaps LBNs: whole nodes where the range has them.
    pub(super) fn cut(
        &mut self,
        id: VolumeId,
        lbns: Range<u64>,
        freed: &mut Vec<Pbn>,
    ) -> Result<()> {
        let lbns = self.with_edges(id, lbns)?;
        match self.view_of(id)?.root() {
            Some(root) if lbns.start < lbns.end => self.cut_node(id, &root, &lbns, freed),
            _ => Ok(()),
        }
    }

    /// Extends a range to whole leaves where nothing else of these leaves is mapped.
    pub(super) fn with_edges(&self, id: VolumeId, lbns: Range<u64>) -> Result<Range<u64>> {
        let Range { mut start, mut end } = lbns;
        let first = start / LEAF_LBNS * LEAF_LBNS;
        if self.next_word(id, Lbn(first), Lbn(start))?.is_none() {
            start = first;
        }
        let last = end.checked_next_multiple_of(LEAF_LBNS).unwrap_or(end);
        if start < end && self.next_word(id, Lbn(end), Lbn(last))?.is_none() {
            end = last;
        }
        Ok(start..end)
    }

    fn cut_node(
        &mut self,
        id: VolumeId,
        node: &MapNode,
        lbns: &Range<u64>,
        freed: &mut Vec<Pbn>,
    ) -> Result<()> {
        let own = node.at.lbns();
        let within = own.start.max(lbns.start)..own.end.min(lbns.end);
        if within.is_empty() {
            return Ok(());
        }
        if within == own {
            self.drop_node(id, node, freed)?;
            return self.cut_in_layer(id, &node.at.leaves());
        }
        let mut next = Lbn(within.start);
        if node.at.level == 0 {
            while let Some(lbn) = self.next_word(id, next, Lbn(within.end))? {
                self.set_word((id, lbn), 0, freed)?;
                next = Lbn(lbn.0 + 1);
            }
            return Ok(());
        }
        if self.next_word(id, next, Lbn(within.end))?.is_none() {
            return Ok(());
        }
        if self.parents.is_shared(node.key) {
            let children = self.view_of(id)?.children(node)?;
            let keys = children.iter().map(|child| child.key).collect();
            let copy = CopiedNode { key: node.key, at: node.at, children: keys };
            self.copy_nodes(id, Copies { nodes: vec![copy], ..Copies::default() })?;
        }
        let children = self.view_of(id)?.children_with(node, lbns)?;
        children.iter().try_for_each(|child| self.cut_node(id, child, lbns, freed))
    }

    /// Gives up a node and all that is below it. Each part is cut as soon as it is given up, so
    /// that an error leaves a part of the change that is whole.
    fn drop_node(&mut self, id: VolumeId, node: &MapNode, freed: &mut Vec<Pbn>) -> Result<()> {
        if self.parents.is_shared(node.key) {
            if Self::is_counted(self.volume(id)?) {
                let (mapped, stored) = self.view_of(id)?.tally(node)?;
                self.uncount(id, mapped, stored)?;
            }
            self.parents.take(node.key);
            self.mark(id, node.at, Mark::Released)?;
            return self.cut_in_layer(id, &node.at.leaves());
        }
        if node.at.level > 0 {
            let children = self.view_of(id)?.children(node)?;
            return children.iter().try_for_each(|child| self.drop_node(id, child, freed));
        }
        let words = self.view_of(id)?.words(node)?;
        let pbns = pbns_of(&words);
        let counts = self.counts_of(&pbns)?;
        let stored = counts.len() as u64;
        for (pbn, count) in pbns.into_iter().zip(counts) {
            self.drop_reference(pbn, count, freed)?;
        }
        if Self::is_counted(self.volume(id)?) {
            self.uncount(id, words.len() as u64, stored)?;
        }
        self.cut_in_layer(id, &node.at.leaves())
    }

    fn uncount(&mut self, id: VolumeId, mapped: u64, stored: u64) -> Result<()> {
        let volume = self.volume_mut(id)?;
        volume.mapped = volume.mapped.saturating_sub(mapped);
        volume.stored = volume.stored.saturating_sub(stored);
        self.references = self.references.saturating_sub(stored);
        Ok(())
    }

    /// Reads everything that the unmapping of these LBNs needs. If the volume is removed, nothing
    /// is counted below the nodes that other maps have.
    pub(super) fn read_ahead_of_cut(
        &self,
        id: VolumeId,
        lbns: Range<u64>,
        is_removed: bool,
    ) -> Result<()> {
        let lbns = self.with_edges(id, lbns)?;
        let counts_all = !is_removed && Self::is_counted(self.volume(id)?);
        let view = self.view_of(id)?;
        match view.root() {
            Some(root) => self.read_node(view, &root, (false, counts_all), &lbns),
            None => Ok(()),
        }
    }

    fn read_node(
        &self,
        view: MapView<'_>,
        node: &MapNode,
        (is_below_shared, counts_all): (bool, bool),
        lbns: &Range<u64>,
    ) -> Result<()> {
        let own = node.at.lbns();
        let within = own.start.max(lbns.start)..own.end.min(lbns.end);
        if within.is_empty() {
            return Ok(());
        }
        let is_shared = is_below_shared || self.parents.is_shared(node.key);
        let is_released = is_shared && within == own;
        if is_released && !counts_all {
            return Ok(());
        }
        if node.at.level > 0 {
            let below = (is_shared, counts_all);
            let mut children = view.children_with(node, lbns)?.into_iter();
            return children.try_for_each(|child| self.read_node(view, &child, below, lbns));
        }
        let mut words = view.words(node)?;
        // A copy of a shared leaf changes the counts of all its blocks.
        words.retain(|(lbn, _)| !is_released && (is_shared || within.contains(lbn)));
        let pbns = pbns_of(&words);
        let counts = self.counts_of(&pbns)?;
        match pbns.into_iter().zip(counts).find(|(_, count)| *count == 0) {
            Some((pbn, _)) => Err(Self::no_count(pbn, 0)),
            None => Ok(()),
        }
    }

    /// Reads the counts that copies of shared leaves with these LBNs need.
    pub(super) fn prefetch_shared(&self, id: VolumeId, lbns: &[Lbn]) -> Result<()> {
        let mut last = None;
        for lbn in lbns.iter().filter(|_| !self.parents.is_empty()) {
            let leaf = lbn.0 / LEAF_LBNS;
            if last.replace(leaf) != Some(leaf) {
                self.copies_for(id, *lbn)?;
            }
        }
        Ok(())
    }

    /// The end of the LBNs from `from` on that are below one node of which a change reads nothing:
    /// nothing is mapped there, or the node is given up as a whole.
    pub(super) fn end_of_untouched(
        &self,
        id: VolumeId,
        from: Lbn,
        end: Lbn,
    ) -> Result<Option<Lbn>> {
        if !L::SHARES_MAPS {
            return Ok(None);
        }
        let is_hidden = self.volume(id)?.record.is_hidden;
        let mut above = None;
        let mut untouched = None;
        self.visit_path(id, from, |_, node| {
            above = Some(node.at);
            if is_hidden && self.parents.is_shared(node.key) {
                untouched = Some(node.at.lbns().end);
            }
            Ok(untouched.is_none())
        })?;
        let after = match (untouched, above) {
            (Some(after), _) => after,
            (None, Some(Position { level: 0, .. })) => return Ok(None),
            (None, Some(parent)) => parent.towards(from.0 / LEAF_LBNS).lbns().end,
            (None, None) => end.0,
        };
        Ok(Some(Lbn(after.min(end.0))))
    }

    /// The end of a piece of a volume: whole leaves. Of a volume that is being removed, nodes that
    /// other maps have cost nothing.
    pub(super) fn end_of_piece(&self, id: VolumeId, from: Lbn, most: u64) -> Lbn {
        let plain = from.0.saturating_add(most);
        let whole = plain / LEAF_LBNS * LEAF_LBNS;
        let plain = Lbn(if L::SHARES_MAPS && whole > from.0 { whole } else { plain });
        let Ok(volume) = self.volume(id) else { return plain };
        if !L::SHARES_MAPS || !volume.record.is_hidden {
            return plain;
        }
        let view = self.view(&volume.map);
        let mut left = (most / LEAF_LBNS).max(1);
        match view.root().map(|root| self.end_of_own(view, &root, from.0 / LEAF_LBNS, &mut left)) {
            Some(Ok(Some(leaf))) => Lbn(leaf.saturating_mul(LEAF_LBNS)),
            Some(Ok(None)) | None => Lbn(u64::MAX),
            Some(Err(_)) => plain,
        }
    }

    /// The leaf after so many nodes from a leaf on that only this map has; `None` if there are
    /// fewer.
    fn end_of_own(
        &self,
        view: MapView<'_>,
        node: &MapNode,
        from: u64,
        left: &mut u64,
    ) -> Result<Option<u64>> {
        let leaves = node.at.leaves();
        if leaves.end <= from || self.parents.is_shared(node.key) {
            return Ok(None);
        }
        if node.at.level == 0 {
            *left = left.saturating_sub(1);
            return Ok((*left == 0).then_some(leaves.end));
        }
        let after = from.saturating_mul(LEAF_LBNS)..u64::MAX;
        for child in view.children_with(node, &after)? {
            if let Some(end) = self.end_of_own(view, &child, from, left)? {
                return Ok(Some(end));
            }
        }
        // An inner node costs a read as well.
        *left = left.saturating_sub(1);
        Ok((*left == 0).then_some(leaves.end))
    }
}
