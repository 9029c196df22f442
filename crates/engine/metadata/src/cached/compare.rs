//! Compares the map of a volume with those of its neighbours, node by node. Nodes that the maps
//! share are not looked at.

use super::family::{Adjacent, Entries, Gains};
use super::layer::{LEAF_LBNS, Position};
use super::map::{MapNode, MapView, NodeKey};
use super::maps::Maps;
use crate::error::Result;
use crate::traits::{Differences, DifferingEntry};
use gemelo_format::{Lbn, MAP_PAGE_ENTRIES, Pbn, VolumeId, WordForm};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Nodes of a volume that leave their family in one change. Comparing them takes some 100 µs.
const LEAVING_NODES: u64 = 64;

/// The end of a volume's part in its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parting {
    /// Its LBNs are unmapped.
    Unmap,
    /// It leaves the family, so its neighbours become neighbours of each other.
    Leave,
}

/// The result of a comparison.
#[derive(Default)]
pub(super) struct Difference {
    pub(super) gains: Gains,
    /// LBNs of the volume that are mapped, and those that have a block. They are not counted where
    /// the volume leaves its family.
    pub(super) mapped: u64,
    pub(super) stored: u64,
}

/// A map and its node at some place. A map that does not reach up to there has its root instead.
#[derive(Clone, Copy, Default)]
struct Spot<'m> {
    view: Option<MapView<'m>>,
    node: Option<MapNode>,
}

impl<'m> Spot<'m> {
    /// The root of a volume's map.
    fn root(maps: &'m Maps, id: VolumeId) -> Result<Self> {
        let view = maps.view_of(id)?;
        Ok(Self { view: Some(view), node: view.root() })
    }

    fn key(&self) -> Option<NodeKey> {
        self.node.map(|node| node.key)
    }

    /// The nodes below, by their numbers.
    fn children(&self, at: Position, lbns: &Range<u64>) -> Result<BTreeMap<u64, MapNode>> {
        let (Some(view), Some(node)) = (self.view, self.node) else { return Ok(BTreeMap::new()) };
        if node.at.level < at.level {
            return Ok(BTreeMap::from([(0, node)]));
        }
        let children = view.children_with(&node, lbns)?;
        Ok(children.into_iter().map(|child| (child.at.number, child)).collect())
    }

    /// The node below that has this leaf.
    fn towards(self, at: Position, leaf: u64) -> Result<Self> {
        let (Some(view), Some(node)) = (self.view, self.node) else { return Ok(self) };
        let below = match node.at.level < at.level {
            true => Some(node).filter(|_| at.towards(leaf).number == 0),
            false => view.child_towards(&node, leaf)?,
        };
        Ok(Self { node: below, ..self })
    }

    /// The words of a leaf, those of LBNs without one included.
    fn words(&self) -> Result<[u64; MAP_PAGE_ENTRIES]> {
        match (self.view, self.node) {
            (Some(view), Some(leaf)) => view.all_words(&leaf),
            _ => Ok([0; MAP_PAGE_ENTRIES]),
        }
    }
}

/// The nodes of a volume and its neighbours at one place of their maps.
#[derive(Clone, Copy)]
struct Trio<'m> {
    at: Position,
    own: Spot<'m>,
    beside: [Spot<'m>; 2],
    form: WordForm,
}

impl<'m> Trio<'m> {
    /// The roots of these maps.
    fn of(own: Spot<'m>, beside: [Spot<'m>; 2], form: WordForm) -> Self {
        let [before, after] = beside;
        let heights = [own, before, after].map(|spot| spot.node.map_or(0, |node| node.at.level));
        let at = Position::root(heights.into_iter().max().unwrap_or(0));
        Self { at, own, beside, form }
    }

    /// Returns whether the end of the volume's part can change a count below this place.
    fn matters(&self, parting: Parting) -> bool {
        match parting {
            // The neighbours do not need to be alike: the volume is in a run with one of them, and
            // the run goes on without it.
            Parting::Leave => self.beside.iter().all(|other| other.key() != self.own.key()),
            Parting::Unmap => self.own.node.is_some(),
        }
    }

    fn towards(self, leaf: u64) -> Result<Self> {
        let [before, after] = self.beside;
        Ok(Self {
            at: self.at.towards(leaf),
            own: self.own.towards(self.at, leaf)?,
            beside: [before.towards(self.at, leaf)?, after.towards(self.at, leaf)?],
            form: self.form,
        })
    }

    fn children(&self, lbns: &Range<u64>) -> Result<Vec<Self>> {
        let [before, after] = self.beside;
        let spots = [self.own, before, after];
        let [own, before, after] = spots.map(|spot| spot.children(self.at, lbns));
        let nodes = [own?, before?, after?];
        let numbers: BTreeSet<u64> = nodes.iter().flat_map(BTreeMap::keys).copied().collect();
        let child = |number: u64| {
            let mut below = spots;
            for (spot, nodes) in below.iter_mut().zip(&nodes) {
                spot.node = nodes.get(&number).copied();
            }
            let [own, before, after] = below;
            let at = Position { level: self.at.level - 1, number };
            Self { at, own, beside: [before, after], form: self.form }
        };
        Ok(numbers.into_iter().map(child).collect())
    }

    /// Calls `visit` with leaves, and with nodes after those below them, until it returns `false`.
    /// Returns the end of the LBNs that were visited then.
    fn walk(
        &self,
        lbns: &Range<u64>,
        parting: Parting,
        visit: &mut dyn FnMut(&Self) -> Result<bool>,
    ) -> Result<Option<u64>> {
        let own = self.at.lbns();
        if own.start >= lbns.end || own.end <= lbns.start || !self.matters(parting) {
            return Ok(None);
        }
        if self.at.level > 0 {
            for child in self.children(lbns)? {
                if let Some(end) = child.walk(lbns, parting, visit)? {
                    return Ok(Some(end));
                }
            }
        }
        Ok((!visit(self)?).then_some(own.end))
    }

    /// Adds what the end of the volume's part in these LBNs of a leaf changes.
    fn compare(&self, lbns: &Range<u64>, parting: Parting, all: &mut Difference) -> Result<()> {
        let own = self.own.words()?;
        let mut beside = [own; 2];
        for (words, other) in beside.iter_mut().zip(self.beside) {
            if other.key() != self.own.key() {
                *words = other.words()?;
            }
        }
        let [before, after] = beside;
        let words = own.into_iter().zip(before.into_iter().zip(after));
        let pbn = |word| self.form.pbn(word).map_or(0, Pbn::number);
        for (lbn, (word, (before, after))) in (self.at.lbns().start..).zip(words) {
            // An entry that leaves beside an equal one changes no count, and most are such.
            let is_beside_equal = word == before || word == after;
            if !lbns.contains(&lbn) || parting == Parting::Leave && is_beside_equal {
                continue;
            }
            let entries = Entries { own: pbn(word), beside: [pbn(before), pbn(after)] };
            all.mapped += u64::from(word != 0);
            if entries.own != 0 {
                all.stored += 1;
                all.gains.add(entries.own, entries.loss());
            }
            let [before, after] = entries.beside;
            if parting == Parting::Leave && before == after && before != 0 {
                all.gains.add(before, -1);
            }
        }
        Ok(())
    }
}

/// The end of the part of a volume in its family, before it comes.
pub(super) struct FamilyComparison<'m> {
    maps: &'m Maps,
    id: VolumeId,
    parting: Parting,
}

impl<'m> FamilyComparison<'m> {
    pub(super) const fn new(maps: &'m Maps, id: VolumeId, parting: Parting) -> Self {
        Self { maps, id, parting }
    }

    /// The roots of a volume's map and of those of its neighbours from an LBN on, and the LBN from
    /// which on it may have others.
    fn roots(&self, from: u64) -> Result<(Trio<'m>, u64)> {
        let Adjacent { volumes, end } = self.maps.neighbours(self.id, from)?;
        let own = Spot::root(self.maps, self.id)?;
        let mut beside = [Spot::default(); 2];
        for (spot, volume) in beside.iter_mut().zip(volumes) {
            if let Some(volume) = volume {
                *spot = Spot::root(self.maps, volume)?;
            }
        }
        Ok((Trio::of(own, beside, self.maps.form), end))
    }

    /// Visits the places in these LBNs, as [`Trio::walk`] does.
    fn walk(
        &self,
        lbns: Range<u64>,
        visit: &mut dyn FnMut(&Trio<'_>, &Range<u64>) -> Result<bool>,
    ) -> Result<Option<u64>> {
        let mut start = lbns.start;
        while start < lbns.end {
            let (roots, end) = self.roots(start)?;
            let some = start..end.min(lbns.end);
            let visited = roots.walk(&some, self.parting, &mut |trio| visit(trio, &some))?;
            if let Some(visited) = visited {
                return Ok(Some(visited.min(some.end)));
            }
            start = some.end;
        }
        Ok(None)
    }

    /// Reads the leaves that are compared in these LBNs in one list.
    fn fetch(&self, lbns: Range<u64>) -> Result<()> {
        let mut leaves = Vec::new();
        self.walk(lbns, &mut |trio, _| {
            if trio.at.level == 0 {
                let [before, after] = trio.beside;
                leaves.extend([trio.own, before, after].into_iter().filter_map(|spot| spot.node));
            }
            Ok(leaves.len() < self.maps.pages.max_fetched())
        })?;
        MapView::fetch(&self.maps.pages, &leaves);
        Ok(())
    }

    /// Computes what the end of a volume's part in these LBNs changes. It has not left there.
    pub(super) fn difference(&self, lbns: Range<u64>) -> Result<Difference> {
        self.fetch(lbns.clone())?;
        let mut all = Difference::default();
        self.walk(lbns, &mut |trio, lbns| {
            if trio.at.level == 0 {
                trio.compare(lbns, self.parting, &mut all)?;
            }
            Ok(true)
        })?;
        Ok(all)
    }

    /// The LBN after as many LBNs as may leave their family in one change: nodes of which some are
    /// compared, and `most` of whose counts change, about. `None` if there are fewer. Gives also
    /// the references that blocks get.
    pub(super) fn end_of_leave(&self, from: u64, most: u64) -> Result<(Option<u64>, Gains)> {
        let end = self.end_of_nodes(from, LEAVING_NODES)?;
        let lbns = from..end.unwrap_or(u64::MAX);
        self.fetch(lbns.clone())?;
        let mut all = Difference::default();
        let end_of_most = self.walk(lbns, &mut |trio, lbns| {
            if trio.at.level == 0 {
                trio.compare(lbns, self.parting, &mut all)?;
            }
            Ok(all.gains.len() < most)
        })?;
        Ok((end_of_most.or(end), all.gains))
    }

    /// The LBN after as many nodes as a change may compare; `None` if there are fewer.
    fn end_of_nodes(&self, from: u64, most: u64) -> Result<Option<u64>> {
        let mut left = most;
        // A walk lists the children of a node that are in its range, and most are not needed here.
        let (mut next, mut length) = (from, most.saturating_mul(LEAF_LBNS));
        while next < u64::MAX {
            let end = next.saturating_add(length);
            let end_of_all = self.walk(next..end, &mut |trio, _| {
                // A node counts where it ends.
                left = left.saturating_sub(u64::from(trio.at.lbns().end <= end));
                Ok(left > 0)
            })?;
            if end_of_all.is_some() {
                return Ok(end_of_all);
            }
            (next, length) = (end, length.saturating_mul(2));
        }
        Ok(None)
    }

    /// The end of the LBNs from `from` on below a node that is not compared.
    pub(super) fn end_of_untouched(&self, from: Lbn) -> Result<Option<Lbn>> {
        let (mut trio, end) = self.roots(from.0)?;
        let leaf = from.0 / LEAF_LBNS;
        if !trio.at.leaves().contains(&leaf) {
            return Ok(Some(Lbn(end)));
        }
        loop {
            if !trio.matters(self.parting) {
                return Ok(Some(Lbn(trio.at.lbns().end.min(end))));
            }
            if trio.at.level == 0 {
                return Ok(None);
            }
            trio = trio.towards(leaf)?;
        }
    }
}

/// The maps of a volume and of another one, or an empty one.
pub(super) struct PairComparison<'m> {
    maps: &'m Maps,
    roots: Trio<'m>,
}

impl<'m> PairComparison<'m> {
    pub(super) fn new(maps: &'m Maps, id: VolumeId, other: Option<VolumeId>) -> Result<Self> {
        let other = other.map_or_else(|| Ok(Spot::default()), |other| Spot::root(maps, other))?;
        Ok(Self { maps, roots: Trio::of(Spot::root(maps, id)?, [other; 2], maps.form) })
    }

    /// Calls `visit` with the blocks of a volume's entries that another volume does not have at the
    /// same LBN.
    pub(super) fn differing(&self, lbns: Range<u64>, visit: &mut dyn FnMut(u64)) -> Result<()> {
        self.roots.walk(&lbns, Parting::Leave, &mut |trio| {
            if trio.at.level == 0 {
                let [other, _] = trio.beside;
                let words =
                    (trio.at.lbns().start..).zip(trio.own.words()?.into_iter().zip(other.words()?));
                for (_, (own, other)) in words.filter(|(lbn, _)| lbns.contains(lbn)) {
                    let [own, other] = [own, other].map(|word| self.maps.pbn_of(word));
                    if own != 0 && own != other {
                        visit(own);
                    }
                }
            }
            Ok(true)
        })?;
        Ok(())
    }

    /// Does the work of [`crate::Map::differences`]. The leaves are read in one list.
    pub(super) fn differences(&self, lbns: Range<u64>, most: usize) -> Result<Differences> {
        let mut leaves = Vec::new();
        let end = self.roots.walk(&lbns, Parting::Leave, &mut |trio| {
            if trio.at.level == 0 {
                leaves.push(*trio);
            }
            Ok(leaves.len() < most)
        })?;
        let nodes = leaves.iter().flat_map(|trio| [trio.own.node, trio.beside[0].node]);
        let nodes: Vec<MapNode> = nodes.flatten().collect();
        MapView::fetch(&self.maps.pages, &nodes);
        let mut entries = Vec::new();
        for leaf in &leaves {
            let words = leaf.own.words()?.into_iter().zip(leaf.beside[0].words()?);
            let differing = (leaf.at.lbns().start..)
                .zip(words)
                .filter(|(lbn, (own, other))| own != other && lbns.contains(lbn));
            entries.extend(differing.map(|(lbn, (own, other))| DifferingEntry {
                lbn: Lbn(lbn),
                other: self.maps.form.entry(other),
                own: self.maps.form.entry(own),
            }));
        }
        Ok(Differences { entries, end: Lbn(end.map_or(lbns.end, |end| end.min(lbns.end))) })
    }

    /// The end of the LBNs from `from` on below a node that both volumes have.
    pub(super) fn end_of_shared(&self, from: Lbn) -> Result<Option<Lbn>> {
        let mut trio = self.roots;
        let leaf = from.0 / LEAF_LBNS;
        if !trio.at.leaves().contains(&leaf) {
            return Ok(Some(Lbn(u64::MAX)));
        }
        while trio.matters(Parting::Leave) {
            if trio.at.level == 0 {
                return Ok(None);
            }
            trio = trio.towards(leaf)?;
        }
        Ok(Some(Lbn(trio.at.lbns().end)))
    }
}
