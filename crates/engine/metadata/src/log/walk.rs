//! Look-ups in maps, which change nothing.

use super::nodes::{Content, Node, NodeId, Nodes, distinct};
use gemelo_format::{INNER_BITS, INNER_POSITIONS, Lbn, MAX_MAP_BITS, MapEntry, WordForm};
use std::ops::Range;

/// The position of an LBN in an inner node.
#[inline]
pub(super) const fn position(bits: u8, lbn: u64) -> usize {
    (lbn >> (bits - INNER_BITS)) as usize % INNER_POSITIONS
}

/// The first LBN of the node that has this LBN.
pub(super) const fn first_of(bits: u8, lbn: u64) -> u64 {
    lbn >> bits << bits
}

impl Nodes {
    /// The leaf that has an LBN, if there is one.
    #[inline]
    fn leaf(&self, root: Option<NodeId>, lbn: u64) -> Option<&Node> {
        let mut node = self.get(root?);
        if lbn >> node.bits != 0 {
            return None;
        }
        while let Content::Inner(inner) = &node.content {
            node = self.get(inner.children[position(node.bits, lbn)]?);
        }
        Some(node)
    }

    /// Adds the places of these LBNs.
    pub(super) fn look_up(&self, root: Option<NodeId>, lbns: &[Lbn], places: &mut Vec<MapEntry>) {
        let mut last: Option<(u64, &Node)> = None;
        places.extend(lbns.iter().map(|lbn| {
            let near = last.filter(|(of, node)| of >> node.bits == lbn.0 >> node.bits);
            let leaf = near.map(|(_, node)| node).or_else(|| self.leaf(root, lbn.0));
            last = leaf.map(|node| (lbn.0, node));
            leaf.map_or(MapEntry::Unmapped, |node| WordForm::Narrow.entry(node.word(lbn.0)))
        }));
    }

    /// Returns whether other maps have the node of this LBN as well.
    pub(super) fn is_in_shared(&self, root: Option<NodeId>, lbn: Lbn) -> bool {
        let mut next = root.filter(|id| lbn.0 >> self.get(*id).bits == 0);
        while let Some(id) = next {
            if self.is_shared(id) {
                return true;
            }
            let node = self.get(id);
            next = match &node.content {
                Content::Inner(inner) => inner.children[position(node.bits, lbn.0)],
                _ => None,
            };
        }
        false
    }

    /// The end of the LBNs of the highest node above an LBN that two maps share.
    pub(super) fn end_of_common(
        &self,
        own: Option<NodeId>,
        other: Option<NodeId>,
        lbn: u64,
    ) -> Option<u64> {
        let above = |root: Option<NodeId>| {
            let mut next = root.filter(|id| lbn >> self.get(*id).bits == 0);
            std::iter::from_fn(move || {
                let id = next?;
                let node = self.get(id);
                next = match &node.content {
                    Content::Inner(inner) => inner.children[position(node.bits, lbn)],
                    _ => None,
                };
                Some(id)
            })
        };
        let common = above(own).find(|id| above(other).any(|found| found == *id))?;
        let bits = self.get(common).bits;
        Some(first_of(bits, lbn) + (1 << bits))
    }

    /// The first mapped LBN of a range.
    pub(super) fn next_mapped(&self, root: Option<NodeId>, range: &Range<u64>) -> Option<u64> {
        let node = self.get(root?);
        let start = range.start;
        if start >= range.end || start >> node.bits != 0 {
            return None;
        }
        self.next_below(node, 0, start).filter(|lbn| *lbn < range.end)
    }

    /// The first mapped LBN from `from` on of a node with the LBNs from `first` on.
    fn next_below(&self, node: &Node, first: u64, from: u64) -> Option<u64> {
        match &node.content {
            Content::Inner(inner) => {
                let start = if from > first { position(node.bits, from) } else { 0 };
                let mut last = None;
                for (place, child) in inner.children.iter().enumerate().skip(start) {
                    let Some(child) = child.filter(|_| *child != last) else { continue };
                    last = Some(child);
                    let child = self.get(child);
                    let at = first + ((place as u64) << (node.bits - INNER_BITS));
                    let found = self.next_below(child, first_of(child.bits, at), from);
                    if found.is_some() {
                        return found;
                    }
                }
                None
            }
            Content::Dense(words, _) => {
                let skip = from.saturating_sub(first) as usize;
                let ahead = words.iter().skip(skip).position(|word| *word != 0)?;
                Some(first + (skip + ahead) as u64)
            }
            Content::Sparse(entries) => {
                entries.get(entries.partition_point(|(lbn, _)| *lbn < from)).map(|(lbn, _)| *lbn)
            }
            Content::Lost => Some(from.max(first)),
            Content::Gone => None,
        }
    }

    /// The end of the LBNs from `from` on that can be unmapped with at most `most` leaves given
    /// up, where a shared node counts as one leaf.
    pub(super) fn end_of_leaves(&self, root: Option<NodeId>, from: u64, most: u64) -> u64 {
        let end = 1 << MAX_MAP_BITS;
        let Some(root) = root else { return end };
        let mut left = most;
        self.count_leaves(root, 0, from, &mut left).unwrap_or(end)
    }

    /// The LBN at which the count of leaves comes to its end, if it does so below this node.
    fn count_leaves(&self, id: NodeId, first: u64, from: u64, left: &mut u64) -> Option<u64> {
        let node = self.get(id);
        if first + (1 << node.bits) <= from {
            return None;
        }
        let is_whole = first >= from && self.is_shared(id);
        if let (Content::Inner(inner), false) = (&node.content, is_whole) {
            return distinct(&inner.children).find_map(|(place, child)| {
                let at = first + ((place as u64) << (node.bits - INNER_BITS));
                self.count_leaves(child, at, from, left)
            });
        }
        if *left == 0 {
            return Some(first.max(from));
        }
        *left -= 1;
        None
    }
}
