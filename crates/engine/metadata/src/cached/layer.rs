//! A layer: the changes of a map between two instants.
//!
//! A map is a tree of pages with layers over it, and the newest layer decides. The newest layer of
//! a volume is its own and changes; the older ones are sealed, and volumes may share them as they
//! share pages. A checkpoint turns layers into pages.

use super::array;
use super::layer_words::{Added, LayerWords};
use gemelo_format::{DIRECTORY_ENTRIES, MAP_PAGE_ENTRIES};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Children of a directory page.
pub(super) const FANOUT: u64 = DIRECTORY_ENTRIES as u64;
/// LBNs of a leaf of a map.
pub(super) const LEAF_LBNS: u64 = MAP_PAGE_ENTRIES as u64;

/// Numbers the layers of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LayerId(pub(super) u64);

/// The position of a node in an array: its level, 0 for leaves, and its number among the nodes of
/// the level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(super) level: u8,
    pub(super) number: u64,
}

impl Position {
    /// The leaf with an LBN.
    pub(super) const fn leaf_of(lbn: u64) -> Self {
        Self { level: 0, number: lbn / LEAF_LBNS }
    }

    /// The root of a map of this height.
    pub(super) const fn root(height: u8) -> Self {
        Self { level: height, number: 0 }
    }

    /// The node at the next higher level.
    pub(super) const fn above(self) -> Self {
        Self { level: self.level + 1, number: self.number / FANOUT }
    }

    /// The numbers of the leaves below the node.
    pub(super) const fn leaves(self) -> Range<u64> {
        let span = array::span(self.level);
        self.number.saturating_mul(span)..self.number.saturating_add(1).saturating_mul(span)
    }

    /// The LBNs below the node.
    pub(super) const fn lbns(self) -> Range<u64> {
        let leaves = self.leaves();
        leaves.start.saturating_mul(LEAF_LBNS)..leaves.end.saturating_mul(LEAF_LBNS)
    }

    /// The node at the next lower level that has this leaf below it.
    pub(super) const fn towards(self, leaf: u64) -> Self {
        let level = self.level - 1;
        Self { level, number: leaf / array::span(level) }
    }

    /// A child by its number among the children.
    pub(super) const fn child(self, number: u64) -> Self {
        Self { level: self.level - 1, number: self.number * FANOUT + number }
    }
}

/// The effect of a layer on the node that the map below it has at a position. Other maps have that
/// node as well, so its page stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// The layer has a copy of the node, which refers to the same children.
    Copied,
    /// The layer has given up the node with everything below it.
    Released,
}

/// Ranges of leaves, which do not touch each other: the end of each by its start.
#[derive(Debug, Default)]
pub(super) struct Cuts(BTreeMap<u64, u64>);

impl Cuts {
    fn add(&mut self, leaves: Range<u64>) {
        let Range { mut start, mut end } = leaves;
        while let Some((first, last)) = self.0.range(..=end).next_back() {
            let (first, last) = (*first, *last);
            if last < start {
                break;
            }
            self.0.remove(&first);
            start = start.min(first);
            end = end.max(last);
        }
        self.0.insert(start, end);
    }

    /// The end of the range that has this leaf.
    pub(super) fn end_at(&self, leaf: u64) -> Option<u64> {
        let (_, end) = self.0.range(..=leaf).next_back()?;
        (*end > leaf).then_some(*end)
    }

    /// The first leaf from this one on that is in a range.
    fn next(&self, leaf: u64) -> Option<u64> {
        match self.end_at(leaf) {
            Some(_) => Some(leaf),
            None => self.0.range(leaf..).next().map(|(start, _)| *start),
        }
    }

    fn cover(&self, leaves: &Range<u64>) -> bool {
        self.end_at(leaves.start).is_some_and(|end| end >= leaves.end)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The changes of a map.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(super) id: LayerId,
    /// The height of the map with this layer.
    pub(super) height: u8,
    /// New words by LBN; 0 unmaps.
    pub(super) words: LayerWords,
    /// Leaves of which nothing below this layer counts.
    pub(super) cuts: Cuts,
    pub(super) marks: HashMap<Position, Mark>,
}

impl Layer {
    pub(super) fn new(id: LayerId, height: u8) -> Self {
        Self {
            id,
            height,
            words: LayerWords::default(),
            cuts: Cuts::default(),
            marks: HashMap::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.cuts.len() == 0 && self.marks.is_empty()
    }

    /// The word of an LBN, if this layer decides it.
    pub(super) fn word(&self, lbn: u64) -> Option<u64> {
        let cut = || match self.cuts.len() {
            0 => None,
            _ => self.cuts.end_at(lbn / LEAF_LBNS).map(|_| 0),
        };
        self.words.get(lbn).or_else(cut)
    }

    /// Sets the word of an LBN. The map grows to have it.
    pub(super) fn set_word(&mut self, lbn: u64, word: u64) -> Added {
        while lbn / LEAF_LBNS >= array::span(self.height) {
            self.height += 1;
        }
        self.words.set(lbn, word)
    }

    /// Cuts leaves, and forgets their words. Returns the number of these words.
    pub(super) fn cut(&mut self, leaves: &Range<u64>) -> usize {
        self.cuts.add(leaves.clone());
        self.words.forget(leaves.clone())
    }

    /// Returns whether the layer has a word below this node.
    pub(super) fn has_words(&self, at: Position) -> bool {
        match at.level {
            0 => self.words.has_leaf(at.number),
            _ => self.words.next_leaf(at.leaves()).is_some(),
        }
    }

    /// Returns whether no other leaf of a leaf's directory has words.
    pub(super) fn is_alone_in_directory(&self, leaf: Position) -> bool {
        let Range { start, end } = leaf.above().leaves();
        let others = [start..leaf.number, leaf.number + 1..end];
        others.into_iter().all(|leaves| self.words.next_leaf(leaves).is_none())
    }

    /// Returns whether nothing below this layer counts at this node.
    pub(super) fn covers(&self, at: Position) -> bool {
        self.cuts.cover(&at.leaves())
    }

    /// Returns whether this layer gives the map another node here than the map below has.
    pub(super) fn touches(&self, at: Position) -> bool {
        self.has_words(at) || self.touches_whole(at)
    }

    /// The same, whatever words the layer has below the node.
    pub(super) fn touches_whole(&self, at: Position) -> bool {
        let leaves = at.leaves();
        self.marks.get(&at) == Some(&Mark::Copied)
            || self.cuts.next(leaves.start).is_some_and(|leaf| leaf < leaves.end)
    }

    /// The first leaf from this one on, but before `end`, that the layer changes.
    pub(super) fn next_touched(&self, leaf: u64, end: u64) -> Option<u64> {
        let cut = self.cuts.next(leaf).filter(|next| *next < end);
        self.words.next_leaf(leaf..cut.unwrap_or(end)).or(cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::Random;

    #[test]
    fn cuts_are_those_of_a_set() {
        let mut random = Random::new(5);
        for _ in 0..200 {
            let (mut cuts, mut set) = (Cuts::default(), vec![false; 120]);
            for _ in 0..12 {
                let start = random.below(100);
                let end = start + 1 + random.below(12);
                cuts.add(start..end);
                (start..end).for_each(|leaf| set[leaf as usize] = true);
                for leaf in 0..119u64 {
                    let is_cut = set[leaf as usize];
                    assert_eq!(cuts.end_at(leaf).is_some(), is_cut);
                    let next = (leaf..120).find(|leaf| set[*leaf as usize]);
                    assert_eq!(cuts.next(leaf), next);
                    let all = (leaf..leaf + 3).all(|leaf| set.get(leaf as usize) == Some(&true));
                    assert_eq!(cuts.cover(&(leaf..leaf + 3)), all);
                }
                let runs = set.split(|is_cut| !is_cut).filter(|run| !run.is_empty()).count();
                assert_eq!(cuts.len(), runs, "ranges that touch are one");
            }
        }
    }
}
