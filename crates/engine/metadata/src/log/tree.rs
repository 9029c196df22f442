//! A volume's map: a tree whose leaves have places for LBNs.
//!
//! A leaf with few mapped LBNs spans as many LBNs as it can, so that the memory goes by what is
//! mapped. When it is full, it is split in halves until there is room. Where most LBNs of 512 are
//! mapped the leaf has a word for each. Clones share nodes; [`Nodes::own`] makes those of a way to
//! an LBN the volume's own before anything is changed there.

use super::leaf::{is_empty, set_in_leaf, sparse_or_dense};
use super::nodes::{Content, Inner, Node, NodeId, Nodes, Tally};
use super::pager::Pager;
use super::walk::{first_of, position};
use gemelo_format::{DENSE_BITS, INNER_BITS, INNER_POSITIONS, MAX_MAP_BITS, SPARSE_ENTRIES};
use std::ops::Range;

/// Nodes on the way to an LBN.
const MAX_DEPTH: usize = 1 + ((MAX_MAP_BITS - DENSE_BITS) / INNER_BITS) as usize;

/// The map of a volume.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tree {
    pub(super) root: Option<NodeId>,
    pub(super) tally: Tally,
}

/// The inner nodes on the way to an LBN, from the root on.
#[derive(Default)]
struct Way {
    nodes: [Option<NodeId>; MAX_DEPTH],
    depth: usize,
}

impl Way {
    fn push(&mut self, id: NodeId) {
        self.nodes[self.depth] = Some(id);
        self.depth += 1;
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = NodeId> {
        self.nodes.iter().copied().flatten()
    }
}

impl Nodes {
    /// Makes the nodes on the way to an LBN the map's own. Returns the leaf if it was copied: it
    /// holds references of its own then.
    pub(super) fn own(&mut self, pager: &mut Pager, tree: &mut Tree, lbn: u64) -> Option<NodeId> {
        let mut at = tree.root.filter(|id| lbn >> self.get(*id).bits == 0)?;
        let mut copied = None;
        if self.is_shared(at) {
            at = self.copy(pager, at);
            (tree.root, copied) = (Some(at), Some(at));
        }
        loop {
            let node = self.get(at);
            let Content::Inner(inner) = &node.content else {
                return copied.filter(|leaf| *leaf == at);
            };
            let mut child = inner.children[position(node.bits, lbn)]?;
            if self.is_shared(child) {
                let shared = child;
                child = self.copy(pager, shared);
                self.touch(pager, at);
                let children = &mut self.children_mut(at).children;
                let same = children.iter_mut().filter(|place| **place == Some(shared));
                same.for_each(|place| *place = Some(child));
                copied = Some(child);
            }
            at = child;
        }
    }

    /// Sets the word of an LBN; the way to it is the map's own. Returns the word before.
    pub(super) fn set(&mut self, pager: &mut Pager, tree: &mut Tree, lbn: u64, word: u64) -> u64 {
        let mut way = Way::default();
        let Some(leaf) = self.leaf_to_change(pager, tree, lbn, word, &mut way) else { return 0 };
        self.touch(pager, leaf);
        let bits = self.get(leaf).bits;
        let before = self.change(leaf, |content| set_in_leaf(content, bits, lbn, word));
        let (plus, minus) = (Tally::of_word(word), Tally::of_word(before));
        for id in way.iter() {
            self.touch(pager, id);
            let tally = &mut self.children_mut(id).tally;
            tally.add(plus);
            tally.subtract(minus);
        }
        tree.tally.add(plus);
        tree.tally.subtract(minus);
        if word == 0 && is_empty(&self.get(leaf).content) {
            self.remove(pager, tree, &way, leaf);
            self.release(pager, leaf, &mut |_| {});
        }
        before
    }

    /// The leaf in which a word can be set, which is made if there is none, or split if it is
    /// full. `None` if there is none and the word is 0.
    fn leaf_to_change(
        &mut self,
        pager: &mut Pager,
        tree: &mut Tree,
        lbn: u64,
        word: u64,
        way: &mut Way,
    ) -> Option<NodeId> {
        if word != 0 {
            self.reach(pager, tree, lbn);
        }
        let mut at = tree.root.filter(|id| lbn >> self.get(*id).bits == 0)?;
        if self.must_split(at, lbn, word) {
            at = self.split_to_inner(pager, at);
            tree.root = Some(at);
        }
        loop {
            let node = self.get(at);
            let Content::Inner(inner) = &node.content else { return Some(at) };
            let (below, place) = (node.bits - INNER_BITS, position(node.bits, lbn));
            match inner.children[place] {
                None if word == 0 => return None,
                None => {
                    let span = free_span(&inner.children, place);
                    let leaf = self.add(pager, below + span, Content::Sparse(Vec::new()));
                    self.put_child(pager, at, place, Some(leaf), span);
                }
                Some(child) if self.must_split(child, lbn, word) => {
                    let span = self.get(child).bits - below;
                    self.split(pager, at, place, child, span);
                }
                Some(child) => {
                    way.push(at);
                    at = child;
                }
            }
        }
    }

    /// Makes the root's LBNs include this one.
    fn reach(&mut self, pager: &mut Pager, tree: &mut Tree, lbn: u64) {
        let mut root = tree.root.unwrap_or_else(|| {
            self.add(pager, DENSE_BITS + INNER_BITS, Content::Sparse(Vec::new()))
        });
        while lbn >> self.get(root).bits != 0 {
            let node = self.get(root);
            let bits = node.bits + INNER_BITS;
            assert!(bits <= MAX_MAP_BITS, "a volume has no block {lbn}");
            if matches!(node.content, Content::Sparse(_)) && !self.is_shared(root) {
                self.touch(pager, root);
                self.get_mut(root).bits = bits;
            } else {
                let tally = node.tally();
                let mut inner = Box::new(Inner { children: [None; INNER_POSITIONS], tally });
                inner.children[0] = Some(root);
                root = self.add(pager, bits, Content::Inner(inner));
            }
        }
        tree.root = Some(root);
    }

    fn must_split(&self, id: NodeId, lbn: u64, word: u64) -> bool {
        let node = self.get(id);
        match &node.content {
            Content::Sparse(entries) => {
                entries.len() >= SPARSE_ENTRIES && word != 0 && node.word(lbn) == 0
            }
            Content::Lost => node.bits > DENSE_BITS,
            _ => false,
        }
    }

    /// Replaces a child of an inner node by its halves, or by an inner node with them.
    fn split(&mut self, pager: &mut Pager, parent: NodeId, place: usize, child: NodeId, span: u8) {
        if span == 0 {
            let inner = self.split_to_inner(pager, child);
            self.put_child(pager, parent, place, Some(inner), 0);
            return;
        }
        let halves = self.halve(pager, child);
        let first = place >> span << span;
        for (half, first) in halves.into_iter().zip([first, first + (1 << (span - 1))]) {
            self.put_child(pager, parent, first, half, span - 1);
        }
    }

    /// Replaces a leaf by an inner node with the same LBNs.
    fn split_to_inner(&mut self, pager: &mut Pager, leaf: NodeId) -> NodeId {
        let (bits, tally) = (self.get(leaf).bits, self.get(leaf).tally());
        let mut inner = Box::new(Inner { children: [None; INNER_POSITIONS], tally });
        let halves = self.halve(pager, leaf);
        let (low, high) = inner.children.split_at_mut(INNER_POSITIONS / 2);
        low.fill(halves[0]);
        high.fill(halves[1]);
        self.add(pager, bits, Content::Inner(inner))
    }

    /// Splits a leaf, which has one reference, into leaves for the halves of its LBNs. A half
    /// without mapped LBNs needs none.
    fn halve(&mut self, pager: &mut Pager, leaf: NodeId) -> [Option<NodeId>; 2] {
        self.touch(pager, leaf);
        let bits = self.get(leaf).bits - 1;
        let halves = match self.change(leaf, std::mem::take) {
            Content::Sparse(mut low) => {
                let high = low.split_off(low.partition_point(|(lbn, _)| lbn >> bits & 1 == 0));
                [low, high].map(|half| (!half.is_empty()).then(|| sparse_or_dense(half, bits)))
            }
            Content::Lost => [Some(Content::Lost), Some(Content::Lost)],
            _ => unreachable!("only such a leaf is split"),
        };
        self.release(pager, leaf, &mut |_| {});
        halves.map(|half| half.map(|content| self.add(pager, bits, content)))
    }

    /// Puts a child at the positions that begin with those of `place` as `span` aligns it.
    fn put_child(
        &mut self,
        pager: &mut Pager,
        parent: NodeId,
        place: usize,
        child: Option<NodeId>,
        span: u8,
    ) {
        self.touch(pager, parent);
        let first = place >> span << span;
        self.children_mut(parent).children[first..first + (1 << span)].fill(child);
    }

    /// Removes a node below the end of a way, and the nodes that are empty without it. The node
    /// keeps its reference, which the caller drops.
    fn remove(&mut self, pager: &mut Pager, tree: &mut Tree, way: &Way, id: NodeId) {
        let mut gone = id;
        for parent in way.iter().rev() {
            self.touch(pager, parent);
            let inner = self.children_mut(parent);
            let same = inner.children.iter_mut().filter(|place| **place == Some(gone));
            same.for_each(|place| *place = None);
            let is_left = inner.children.iter().any(Option::is_some);
            if gone != id {
                self.release(pager, gone, &mut |_| {});
            }
            if is_left {
                return;
            }
            gone = parent;
        }
        tree.root = None;
        if gone != id {
            self.release(pager, gone, &mut |_| {});
        }
    }

    /// Takes the largest node that has this LBN and no LBN outside of the range out of the map.
    /// Returns it with the LBN after it; the caller drops its reference.
    pub(super) fn take(
        &mut self,
        pager: &mut Pager,
        tree: &mut Tree,
        lbn: u64,
        range: &Range<u64>,
    ) -> Option<(NodeId, u64)> {
        let mut at = tree.root.filter(|id| lbn >> self.get(*id).bits == 0)?;
        let is_within = |node: &Node| {
            let first = first_of(node.bits, lbn);
            range.start <= first && first + (1 << node.bits) <= range.end
        };
        let mut depth = 0;
        while !is_within(self.get(at)) {
            let node = self.get(at);
            let Content::Inner(inner) = &node.content else { return None };
            at = inner.children[position(node.bits, lbn)]?;
            depth += 1;
        }
        let way = self.own_way(pager, tree, lbn, depth);
        let (tally, bits) = (self.get(at).tally(), self.get(at).bits);
        for id in way.iter() {
            self.touch(pager, id);
            self.children_mut(id).tally.subtract(tally);
        }
        tree.tally.subtract(tally);
        self.remove(pager, tree, &way, at);
        Some((at, first_of(bits, lbn) + (1 << bits)))
    }

    /// Makes the first `depth` nodes on the way to an LBN the map's own.
    fn own_way(&mut self, pager: &mut Pager, tree: &mut Tree, lbn: u64, depth: usize) -> Way {
        let mut way = Way::default();
        let mut next = tree.root;
        for _ in 0..depth {
            let Some(mut at) = next else { break };
            if self.is_shared(at) {
                let shared = at;
                at = self.copy(pager, shared);
                match way.iter().next_back() {
                    None => tree.root = Some(at),
                    Some(parent) => {
                        self.touch(pager, parent);
                        let children = &mut self.children_mut(parent).children;
                        let same = children.iter_mut().filter(|place| **place == Some(shared));
                        same.for_each(|place| *place = Some(at));
                    }
                }
            }
            way.push(at);
            let bits = self.get(at).bits;
            next = self.children_mut(at).children[position(bits, lbn)];
        }
        way
    }
}

/// The span, as a power of two, of the largest child that has room at a position and is aligned.
fn free_span(children: &[Option<NodeId>], place: usize) -> u8 {
    let is_free = |span: &u8| {
        let first = place >> *span << *span;
        children[first..first + (1 << *span)].iter().all(Option::is_none)
    };
    (1..INNER_BITS).take_while(is_free).last().unwrap_or(0)
}
