//! Maps that share nodes.
//!
//! A clone begins with the root of its source. A node that maps share is never changed: the first
//! change of a map below it makes a copy, whose children have one more parent from then on. What
//! that does to the counts of blocks is up to the family of the volume ([`super::family`]).
//!
//! All this happens in layers. The pages follow with the next checkpoint.

use super::compare::Parting;
use super::family::NewCount;
use super::layer::{LEAF_LBNS, Layer, Mark, Position};
use super::layout::Layout;
use super::map::{MapNode, MapView, NodeKey};
use super::{CachedBackend, CachedVolume};
use crate::error::{MetadataError, Result};
use crate::{Index, Map, Volumes};
use gemelo_format::{Lbn, Pbn, VolumeId, VolumeRecord};
use std::ops::Range;

/// The counts that a change was found to give to blocks when it was checked. They hold until the
/// next change, which is the one that was checked or makes them void.
pub(super) struct CheckedLeave {
    id: VolumeId,
    /// The LBNs that leave their family.
    lbns: Range<u64>,
    counts: Vec<NewCount>,
}

impl CheckedLeave {
    fn is_of(&self, id: VolumeId, lbns: &Range<u64>) -> bool {
        self.id == id && self.lbns == *lbns
    }
}

/// A shared node that a map gets a copy of.
pub(super) struct CopiedNode {
    key: NodeKey,
    at: Position,
    children: Vec<NodeKey>,
}

impl CopiedNode {
    fn of(view: MapView<'_>, node: &MapNode) -> Result<Self> {
        let children = if node.at.level > 0 { view.children(node)? } else { Vec::new() };
        let children = children.iter().map(|child| child.key).collect();
        Ok(Self { key: node.key, at: node.at, children })
    }
}

impl<L: Layout> CachedBackend<L> {
    fn view_of(&self, id: VolumeId) -> Result<MapView<'_>> {
        Ok(self.view(&self.volume(id)?.map))
    }

    /// Returns whether the numbers of a volume's LBNs follow its map. Those of a volume that is
    /// being removed stay until its end, so that nodes which other maps have need not be read.
    pub(super) const fn is_counted(volume: &CachedVolume) -> bool {
        !volume.record.is_hidden
    }

    /// Returns whether a neighbour of the volume has the same entry of this LBN.
    pub(super) fn is_shared(&self, id: VolumeId, lbn: Lbn) -> Result<bool> {
        Ok(!self.is_alone(id)?
            && self.entries(id, lbn, self.pbn_of(self.word(id, lbn)?))?.is_shared())
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
    pub(super) fn copies_for(&self, id: VolumeId, lbn: Lbn) -> Result<Vec<CopiedNode>> {
        let mut copies = Vec::new();
        let leaf = Position::leaf_of(lbn.0);
        let is_own = |layer: &Layer| layer.has_words(leaf);
        if self.parents.is_empty() || self.volume(id)?.map.open.as_deref().is_some_and(is_own) {
            return Ok(copies);
        }
        let mut is_shared = false;
        self.visit_path(id, lbn, |view, node| {
            is_shared |= self.parents.is_shared(node.key);
            if is_shared {
                copies.push(CopiedNode::of(view, node)?);
            }
            Ok(true)
        })?;
        Ok(copies)
    }

    /// Makes the copies. Reads nothing, so that a change is made as a whole.
    pub(super) fn copy_nodes(&mut self, id: VolumeId, copies: Vec<CopiedNode>) -> Result<()> {
        if copies.is_empty() {
            return Ok(());
        }
        self.open_layer(id)?;
        for CopiedNode { key, at, children } in copies {
            assert!(self.parents.take(key), "a node that is copied has other parents");
            children.into_iter().for_each(|child| self.parents.add(child));
            self.mark(id, at, Mark::Copied)?;
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
        let Self { volumes, next_layer, .. } = self;
        let volume = volumes.get_mut(&id).ok_or_else(|| Self::unknown(id))?;
        Ok(volume.map.open_layer(next_layer))
    }

    /// Sets a word in the layer of a volume that changes. Its leaf is the volume's own.
    pub(super) fn put_in_layer(&mut self, id: VolumeId, lbn: Lbn, word: u64) -> Result<()> {
        let Self { volumes, next_layer, fresh, .. } = self;
        let volume = volumes.get_mut(&id).ok_or_else(|| Self::unknown(id))?;
        let layer = volume.map.open_layer(next_layer);
        let added = layer.set_word(lbn.0, word);
        let is_new_directory = added.leaf && layer.is_alone_in_directory(Position::leaf_of(lbn.0));
        fresh.directories += u64::from(is_new_directory);
        fresh.add(added, volume.place);
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
        if from.place.left > 0 {
            return Err(MetadataError::damaged("a volume that is being removed has no clones"));
        }
        from.map.seal();
        let (mapped, stored) = (from.mapped, from.stored);
        let map = from.map.share();
        if let Some(root) = self.view(&map).root() {
            self.parents.add(root.key);
        }
        self.fresh.shared_layers += u64::from(!map.sealed.is_empty());
        self.references += stored;
        let (id, new) = (record.id, CachedVolume::new(record, map));
        self.insert_volume(CachedVolume { mapped, stored, ..new })?;
        self.join_family(source, id)
    }

    /// Fails if a volume cannot get the map of another one, or the map that it has cannot go to
    /// this new volume.
    pub(super) fn check_rollback(
        &self,
        id: VolumeId,
        source: VolumeId,
        left: VolumeId,
    ) -> Result<()> {
        let (volume, source) = (self.volume(id)?, self.volume(source)?);
        let is_hidden = volume.record.is_hidden || source.record.is_hidden;
        if is_hidden || volume.record.id == source.record.id || left == id {
            return Err(MetadataError::damaged(format!("volume {id} cannot be rolled back")));
        }
        self.check_unused(left)
    }

    /// Gives a volume the map and the size of another one, and the map that it had to a new, hidden
    /// volume, which takes its place in the family.
    pub(super) fn roll_back(
        &mut self,
        id: VolumeId,
        source: VolumeId,
        left: VolumeId,
    ) -> Result<()> {
        self.check_rollback(id, source, left)?;
        let source_record = &self.volume(source)?.record;
        let size = (source_record.size_bytes, source_record.padding_bytes);
        let mut record = self.volume(id)?.record.clone();
        record.roll_back(size);
        let Some(mut old) = self.volumes.remove(&id) else { return Err(Self::unknown(id)) };
        (old.record.id, old.record.is_hidden) = (left, true);
        self.insert_volume(old)?;
        self.tell_neighbours(left)?;
        self.share_map(source, record)
    }

    /// Unmaps LBNs: whole nodes where the range has them.
    pub(super) fn cut(
        &mut self,
        id: VolumeId,
        lbns: Range<u64>,
        freed: &mut Vec<Pbn>,
    ) -> Result<()> {
        let lbns = self.with_edges(id, lbns)?;
        if lbns.start >= lbns.end {
            return Ok(());
        }
        if self.leaves_family(id, lbns.start)? {
            self.leave_family(id, lbns.end, freed)?;
        }
        match self.view_of(id)?.root() {
            Some(root) => self.cut_node(id, &root, &lbns, freed),
            None => Ok(()),
        }
    }

    /// Returns whether a volume leaves its family if its LBNs from this one on are unmapped. A
    /// volume that is being removed is unmapped from its start.
    fn leaves_family(&self, id: VolumeId, from: u64) -> Result<bool> {
        let volume = self.volume(id)?;
        let (is_hidden, left) = (volume.record.is_hidden, Lbn(volume.place.left));
        Ok(is_hidden && self.next_word(id, left, Lbn(from))?.is_none())
    }

    /// Has the LBNs of a volume before `end` leave its family, and changes the counts of blocks.
    fn leave_family(&mut self, id: VolumeId, end: u64, freed: &mut Vec<Pbn>) -> Result<()> {
        let left = self.volume(id)?.place.left;
        let checked = self.checked.get_mut().take();
        let counts = match checked.filter(|checked| checked.is_of(id, &(left..end))) {
            Some(checked) => checked.counts,
            None => self.counts_after_leave(id, left..end)?,
        };
        self.volume_mut(id)?.place.left = left.max(end);
        self.set_counts(counts, freed);
        Ok(())
    }

    /// The counts of blocks after LBNs of a volume have left its family.
    fn counts_after_leave(&self, id: VolumeId, lbns: Range<u64>) -> Result<Vec<NewCount>> {
        self.counts_after(&self.difference(id, lbns, Parting::Leave)?.gains)
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
        if self.parents.is_shared(node.key) {
            if self.next_word(id, next, Lbn(within.end))?.is_none() {
                return Ok(());
            }
            let copy = CopiedNode::of(self.view_of(id)?, node)?;
            self.copy_nodes(id, vec![copy])?;
        }
        let children = self.view_of(id)?.children_with(node, lbns)?;
        children.iter().try_for_each(|child| self.cut_node(id, child, lbns, freed))
    }

    /// Gives up a node and all that is below it. Each part is cut as soon as it is given up, so
    /// that an error leaves a part of the change that is whole.
    fn drop_node(&mut self, id: VolumeId, node: &MapNode, freed: &mut Vec<Pbn>) -> Result<()> {
        let is_shared = self.parents.is_shared(node.key);
        if !is_shared && node.at.level > 0 {
            let children = self.view_of(id)?.children(node)?;
            return children.iter().try_for_each(|child| self.drop_node(id, child, freed));
        }
        self.fresh.read_leaf(self.volume(id)?.place);
        let (volume, end) = (self.volume(id)?, node.at.lbns().end);
        // LBNs that have left their family have no references any more.
        let start = node.at.lbns().start.max(volume.place.left);
        if start < end {
            let is_counted = Self::is_counted(volume);
            let found = self.difference(id, start..end, Parting::Unmap)?;
            let counts = self.counts_after(&found.gains)?;
            self.set_counts(counts, freed);
            if is_counted {
                self.uncount(id, found.mapped, found.stored)?;
            }
        }
        if is_shared {
            self.parents.take(node.key);
            self.mark(id, node.at, Mark::Released)?;
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

    /// Reads everything that the unmapping of these LBNs needs.
    pub(super) fn read_ahead_of_cut(
        &self,
        id: VolumeId,
        lbns: Range<u64>,
        is_removed: bool,
    ) -> Result<()> {
        let lbns = self.with_edges(id, lbns)?;
        let left = self.volume(id)?.place.left;
        if is_removed || self.leaves_family(id, lbns.start)? {
            let lbns = left..lbns.end;
            let counts = self.counts_after_leave(id, lbns.clone())?;
            *self.checked.lock() = Some(CheckedLeave { id, lbns, counts });
            return Ok(());
        }
        let found = self.difference(id, lbns.start.max(left)..lbns.end, Parting::Unmap)?;
        self.counts_after(&found.gains).map(drop)
    }

    /// Reads what the change of LBNs from `from` on needs, and gives the first LBN that is left. It
    /// is above `most` LBNs where a change reads nothing.
    pub(super) fn warm_some(&self, id: VolumeId, from: Lbn, end: Lbn, most: u64) -> Result<Lbn> {
        let volume = self.volume(id)?;
        let (is_hidden, left) = (volume.record.is_hidden, volume.place.left);
        let next = Lbn(from.0.saturating_add(most).min(end.0));
        let parting = if is_hidden { Parting::Leave } else { Parting::Unmap };
        let untouched = match from.0 < left {
            true => Some(Lbn(left)),
            false => self.end_of_untouched(id, from, parting)?,
        };
        if let Some(after) = untouched {
            return Ok(after.min(end));
        }
        if is_hidden {
            // The end of the piece was found by reading it.
            return Ok(end);
        }
        let lbns: Vec<Lbn> = (from.0..next.0).map(Lbn).collect();
        let mut places = Vec::with_capacity(lbns.len());
        self.look_up(id, &lbns, &mut places)?;
        self.prefetch(id, &lbns, &places)?;
        Ok(next)
    }

    /// The end of a piece of a volume: whole leaves. Of a volume that is being removed, nodes that
    /// other maps have cost nothing.
    pub(super) fn end_of_piece(&self, id: VolumeId, from: Lbn, most: u64) -> Lbn {
        let plain = from.0.saturating_add(most);
        let whole = plain / LEAF_LBNS * LEAF_LBNS;
        let plain = Lbn(if whole > from.0 { whole } else { plain });
        let Ok(volume) = self.volume(id) else { return plain };
        if !volume.record.is_hidden {
            return plain;
        }
        match self.end_of_leave(id, from.0.max(volume.place.left), most) {
            Ok(Some(end)) => Lbn(end),
            Ok(None) => Lbn(u64::MAX),
            Err(_) => plain,
        }
    }

    /// The next piece of a volume that is unmapped; `None` if nothing is left. The last piece of a
    /// volume that is being removed is left to its removal.
    pub(super) fn next_piece_of(
        &self,
        id: VolumeId,
        from: Lbn,
        most: u64,
    ) -> Result<Option<Range<Lbn>>> {
        if self.volume(id)?.record.is_hidden {
            let end = self.end_of_piece(id, from, most);
            return Ok((end < Lbn(u64::MAX)).then_some(from..end));
        }
        let first = self.next_word(id, from, Lbn(u64::MAX))?;
        Ok(first.map(|first| first..self.end_of_piece(id, first, most)))
    }

    /// The most LBNs that the removal of a volume looks at: those that it maps, and those that both
    /// of its neighbours map.
    pub(super) fn blocks_of_removal(&self, id: VolumeId) -> u64 {
        let Some(volume) = self.volumes.get(&id) else { return 0 };
        let mapped = |id: Option<VolumeId>| id.map_or(0, |id| self.mapped_blocks(id));
        volume.mapped + mapped(volume.place.before).min(mapped(volume.place.after))
    }
}
