//! Maps that share nodes.
//!
//! A clone begins with the root of its source. A node that maps share is never changed: the first
//! change of a map below it makes a copy, whose children have one more parent from then on. What
//! that does to the counts of blocks is up to the family of the volume ([`super::family`]).
//!
//! All this happens in layers. The pages follow with the next checkpoint.

use super::layer::{LEAF_LBNS, Layer, Mark, Position};
use super::map::{MapNode, MapView, NodeKey};
use super::maps::{CachedVolume, Maps, unknown};
use crate::error::{MetadataError, Result};
use gemelo_format::{Lbn, VolumeId, VolumeRecord};
use std::ops::Range;

/// A shared node that a map gets a copy of.
pub(super) struct CopiedNode {
    key: NodeKey,
    at: Position,
    children: Vec<NodeKey>,
}

impl CopiedNode {
    pub(super) fn of(view: MapView<'_>, node: &MapNode) -> Result<Self> {
        let children = if node.at.level > 0 { view.children(node)? } else { Vec::new() };
        let children = children.iter().map(|child| child.key).collect();
        Ok(Self { key: node.key, at: node.at, children })
    }
}

impl Maps {
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

    pub(super) fn mark(&mut self, id: VolumeId, at: Position, mark: Mark) -> Result<()> {
        self.fresh.marks += 1;
        let before = self.open_layer(id)?.marks.insert(at, mark);
        assert!(before.is_none(), "a layer copies or releases a node once");
        Ok(())
    }

    /// The layer of a volume that changes. Made at the first change after it was sealed.
    fn open_layer(&mut self, id: VolumeId) -> Result<&mut Layer> {
        let Self { volumes, next_layer, .. } = self;
        let volume = volumes.get_mut(&id).ok_or_else(|| unknown(id))?;
        Ok(volume.map.open_layer(next_layer))
    }

    /// Sets a word in the layer of a volume that changes. Its leaf is the volume's own.
    pub(super) fn put_in_layer(&mut self, id: VolumeId, lbn: Lbn, word: u64) -> Result<()> {
        let Self { volumes, next_layer, fresh, .. } = self;
        let volume = volumes.get_mut(&id).ok_or_else(|| unknown(id))?;
        let layer = volume.map.open_layer(next_layer);
        let added = layer.set_word(lbn.0, word);
        let is_new_directory = added.leaf && layer.is_alone_in_directory(Position::leaf_of(lbn.0));
        fresh.directories += u64::from(is_new_directory);
        fresh.add(added, volume.place);
        Ok(())
    }

    pub(super) fn cut_in_layer(&mut self, id: VolumeId, leaves: &Range<u64>) -> Result<()> {
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
        self.insert(CachedVolume { mapped, stored, ..new })?;
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
        let Some(mut old) = self.volumes.remove(&id) else { return Err(unknown(id)) };
        (old.record.id, old.record.is_hidden) = (left, true);
        self.insert(old)?;
        self.tell_neighbours(left)?;
        self.share_map(source, record)
    }
}
