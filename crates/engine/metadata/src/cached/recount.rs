//! Counts the references and the mapped LBNs again.

use super::compare::PairComparison;
use super::map::{MapNode, MapView, NodeKey};
use super::maps::Maps;
use super::records::Records;
use crate::error::Result;
use gemelo_base::SparseBits;
use gemelo_format::{Pbn, VolumeId};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// PBNs whose counts are read in lists.
const PBNS_AT_ONCE: usize = 1024;

/// The references to the PBNs of a window.
struct Tally {
    first: u64,
    small: Vec<u8>,
    /// What does not fit there.
    large: BTreeMap<u64, u64>,
}

impl Tally {
    fn new(window: Range<u64>) -> Self {
        let small = vec![0; (window.end - window.start) as usize];
        Self { first: window.start, small, large: BTreeMap::new() }
    }

    fn add(&mut self, pbn: u64) {
        let Some(at) = pbn.checked_sub(self.first) else { return };
        match self.small.get_mut(at as usize) {
            Some(count) if *count < u8::MAX => *count += 1,
            Some(_) => *self.large.entry(pbn).or_default() += 1,
            None => {}
        }
    }

    fn get(&self, pbn: u64) -> u64 {
        let small = pbn.checked_sub(self.first).and_then(|at| self.small.get(at as usize));
        u64::from(small.copied().unwrap_or(0)) + self.large.get(&pbn).copied().unwrap_or(0)
    }
}

/// Gets PBNs and the references to each.
type VisitCounts<'v> = dyn FnMut(&[(u64, u64)]) -> Result<()> + 'v;

/// The first number of a range that is in one of two sets.
fn first_of((one, other): (&SparseBits, &SparseBits), range: Range<u64>) -> Option<u64> {
    let mut next = range.start;
    while next < range.end {
        next = one.skip_empty_piece(next).min(other.skip_empty_piece(next));
        let ahead = (one.word(next) | other.word(next)) >> (next % WORD_BITS);
        if ahead != 0 {
            let found = next + u64::from(ahead.trailing_zeros());
            return Some(found).filter(|found| *found < range.end);
        }
        next = (next / WORD_BITS + 1) * WORD_BITS;
    }
    None
}

const WORD_BITS: u64 = u64::BITS as u64;

/// Blocks that were counted again.
pub(super) struct Recount {
    /// Blocks with a reference.
    pub(super) used: u64,
    /// Blocks that had a count before.
    pub(super) counted: u64,
    /// A block outside of the data store that a map refers to.
    pub(super) outside: Option<u64>,
}

impl Recount {
    /// Counts the references to each block again, for this many PBNs at once. Calls `visit` with
    /// the PBNs that have a reference or a count, in their order, and the references to each.
    pub(super) fn count(
        maps: &Maps,
        records: &Records,
        window_pbns: u64,
        visit: &mut VisitCounts<'_>,
    ) -> Result<Self> {
        let (mut counted, mut used) = (SparseBits::default(), SparseBits::default());
        records.visit_used(Pbn::FIRST, &mut |pbn| {
            counted.insert(pbn.number());
        })?;
        let (end, mut outside) = (records.pbn_end(), None);
        each_reference(maps, &mut |pbn| match pbn < end {
            true => drop(used.insert(pbn)),
            false => outside = Some(pbn),
        })?;
        let both = (&used, &counted);
        let mut next = first_of(both, 0..end);
        while let Some(first) = next {
            let window = first..first.saturating_add(window_pbns).min(end);
            next = first_of(both, window.end..end);
            let mut references = Tally::new(window.clone());
            each_reference(maps, &mut |pbn| references.add(pbn))?;
            let after = |pbn: &u64| first_of(both, *pbn + 1..window.end);
            let mut pbns = std::iter::successors(Some(first), after).peekable();
            while pbns.peek().is_some() {
                let some = pbns.by_ref().take(PBNS_AT_ONCE);
                visit(&some.map(|pbn| (pbn, references.get(pbn))).collect::<Vec<_>>())?;
            }
        }
        Ok(Self { used: used.ones(), counted: counted.ones(), outside })
    }
}

/// Calls `visit` with the block of each reference.
fn each_reference(maps: &Maps, visit: &mut dyn FnMut(u64)) -> Result<()> {
    for id in maps.volumes.keys() {
        each_beside(maps, *id, visit)?;
    }
    Ok(())
}

/// Calls `visit` with the blocks of a volume that differ from those of the volume before it.
fn each_beside(maps: &Maps, id: VolumeId, visit: &mut dyn FnMut(u64)) -> Result<()> {
    let mut next = maps.volume(id)?.place.left;
    while next < u64::MAX {
        let neighbours = maps.neighbours(id, next)?;
        let [before, _] = neighbours.volumes;
        PairComparison::new(maps, id, before)?.differing(next..neighbours.end, visit)?;
        next = neighbours.end;
    }
    Ok(())
}

/// Counts the LBNs of a volume that are mapped, and those that have a block. Remembers the
/// nodes that `keeps` names.
pub(super) fn count_lbns_of(
    maps: &Maps,
    id: VolumeId,
    known: &mut HashMap<NodeKey, KnownNode>,
    keeps: &dyn Fn(NodeKey) -> bool,
) -> Result<(u64, u64)> {
    let view = maps.view_of(id)?;
    let tally = view.root().map(|root| count_node(view, &root, known, keeps));
    Ok(tally.transpose()?.unwrap_or_default())
}

/// A node that was looked at.
pub(super) struct KnownNode {
    pub(super) parents: u32,
    /// Mapped LBNs below the node, and those that have a block.
    tally: (u64, u64),
}

/// Counts the mapped LBNs below a node, and those that have a block.
fn count_node(
    view: MapView<'_>,
    node: &MapNode,
    known: &mut HashMap<NodeKey, KnownNode>,
    keeps: &dyn Fn(NodeKey) -> bool,
) -> Result<(u64, u64)> {
    if let Some(node) = known.get_mut(&node.key) {
        node.parents += 1;
        return Ok(node.tally);
    }
    let mut tally = (0, 0);
    if node.at.level > 0 {
        let children = view.children(node)?;
        MapView::fetch(view.pages, &children);
        for child in children {
            let (mapped, stored) = count_node(view, &child, known, keeps)?;
            tally = (tally.0 + mapped, tally.1 + stored);
        }
    } else {
        for (_, word) in view.words(node)? {
            tally.0 += 1;
            tally.1 += u64::from(view.form.pbn(word).is_some());
        }
    }
    if keeps(node.key) {
        known.insert(node.key, KnownNode { parents: 1, tally });
    }
    Ok(tally)
}
