//! Unmaps LBNs: whole nodes of a map where it has them, and changes the counts of their blocks.
//!
//! A volume that is being removed leaves its family first, from its start on; then its nodes have
//! no references any more.

use super::apply::Changer;
use super::compare::{FamilyComparison, Parting};
use super::family::NewCount;
use super::layer::Mark;
use super::map::MapNode;
use super::maps::Maps;
use super::records::Records;
use super::sharing::CopiedNode;
use crate::error::Result;
use gemelo_format::{Lbn, VolumeId};
use std::ops::Range;

/// The counts that a change was found to give to blocks when it was checked. They hold until the
/// next change, which is the one that was checked or makes them void.
pub(super) struct CheckedLeave {
    pub(super) id: VolumeId,
    /// The LBNs that leave their family.
    pub(super) lbns: Range<u64>,
    pub(super) counts: Vec<NewCount>,
}

impl CheckedLeave {
    fn is_of(&self, id: VolumeId, lbns: &Range<u64>) -> bool {
        self.id == id && self.lbns == *lbns
    }
}

/// The counts of blocks after LBNs of a volume have left its family.
pub(super) fn counts_after_leave(
    maps: &Maps,
    records: &Records,
    id: VolumeId,
    lbns: Range<u64>,
) -> Result<Vec<NewCount>> {
    let left = FamilyComparison::new(maps, id, Parting::Leave).difference(lbns)?;
    records.counts_after(&left.gains)
}

impl Changer<'_> {
    /// Unmaps LBNs: whole nodes where the range has them.
    pub(super) fn cut(&mut self, id: VolumeId, lbns: Range<u64>) -> Result<()> {
        let lbns = self.maps.with_edges(id, lbns)?;
        if lbns.start >= lbns.end {
            return Ok(());
        }
        if self.maps.leaves_family(id, lbns.start)? {
            self.leave_family(id, lbns.end)?;
        }
        match self.maps.view_of(id)?.root() {
            Some(root) => self.cut_node(id, &root, &lbns),
            None => Ok(()),
        }
    }

    /// Has the LBNs of a volume before `end` leave its family, and changes the counts of blocks.
    fn leave_family(&mut self, id: VolumeId, end: u64) -> Result<()> {
        let left = self.maps.volume(id)?.place.left;
        let checked = self.checked.take();
        let counts = match checked.filter(|checked| checked.is_of(id, &(left..end))) {
            Some(checked) => checked.counts,
            None => counts_after_leave(self.maps, self.records, id, left..end)?,
        };
        self.maps.volume_mut(id)?.place.left = left.max(end);
        self.set_counts(counts);
        Ok(())
    }

    fn cut_node(&mut self, id: VolumeId, node: &MapNode, lbns: &Range<u64>) -> Result<()> {
        let own = node.at.lbns();
        let within = own.start.max(lbns.start)..own.end.min(lbns.end);
        if within.is_empty() {
            return Ok(());
        }
        if within == own {
            self.drop_node(id, node)?;
            return self.maps.cut_in_layer(id, &node.at.leaves());
        }
        let mut next = Lbn(within.start);
        if node.at.level == 0 {
            while let Some(lbn) = self.maps.next_word(id, next, Lbn(within.end))? {
                self.set_word((id, lbn), 0)?;
                next = Lbn(lbn.0 + 1);
            }
            return Ok(());
        }
        if self.maps.parents.is_shared(node.key) {
            if self.maps.next_word(id, next, Lbn(within.end))?.is_none() {
                return Ok(());
            }
            let copy = CopiedNode::of(self.maps.view_of(id)?, node)?;
            self.maps.copy_nodes(id, vec![copy])?;
        }
        let children = self.maps.view_of(id)?.children_with(node, lbns)?;
        children.iter().try_for_each(|child| self.cut_node(id, child, lbns))
    }

    /// Gives up a node and all that is below it. Each part is cut as soon as it is given up, so
    /// that an error leaves a part of the change that is whole.
    fn drop_node(&mut self, id: VolumeId, node: &MapNode) -> Result<()> {
        let is_shared = self.maps.parents.is_shared(node.key);
        if !is_shared && node.at.level > 0 {
            let children = self.maps.view_of(id)?.children(node)?;
            return children.iter().try_for_each(|child| self.drop_node(id, child));
        }
        self.maps.fresh.read_leaf(self.maps.volume(id)?.place);
        let (volume, end) = (self.maps.volume(id)?, node.at.lbns().end);
        // LBNs that have left their family have no references any more.
        let start = node.at.lbns().start.max(volume.place.left);
        if start < end {
            let is_counted = volume.is_counted();
            let found =
                FamilyComparison::new(self.maps, id, Parting::Unmap).difference(start..end)?;
            let counts = self.records.counts_after(&found.gains)?;
            self.set_counts(counts);
            if is_counted {
                self.uncount(id, found.mapped, found.stored)?;
            }
        }
        if is_shared {
            self.maps.parents.take(node.key);
            self.maps.mark(id, node.at, Mark::Released)?;
        }
        self.maps.cut_in_layer(id, &node.at.leaves())
    }

    fn uncount(&mut self, id: VolumeId, mapped: u64, stored: u64) -> Result<()> {
        let volume = self.maps.volume_mut(id)?;
        volume.mapped = volume.mapped.saturating_sub(mapped);
        volume.stored = volume.stored.saturating_sub(stored);
        self.maps.references = self.maps.references.saturating_sub(stored);
        Ok(())
    }
}
