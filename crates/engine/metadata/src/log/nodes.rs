//! The nodes of all maps, each with the number of maps and nodes that name it.
//!
//! Maps that were cloned share nodes. A node with several references is never changed: whoever
//! changes one of its LBNs copies it first. What the nodes mean is [`super::tree`]'s business, and
//! when they are written the [`Pager`]'s.

use super::pager::{PageKey, Pager, Saved, State};
use crate::PageWrites;
use crate::error::Result;
use gemelo_format::{
    INNER_POSITIONS, MAP_PAGE_ENTRIES, MapEntry, MapKind, MapRef, PAGE_BYTES, Page, Slot, WordForm,
    inner_page, sparse_page,
};
use std::num::NonZeroU32;

/// Nodes that are allocated at once, so that no change waits until all of them have been moved.
const CHUNK_NODES: usize = 1024;

/// The number of a node in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId(NonZeroU32);

impl NodeId {
    const fn place(self) -> (usize, usize) {
        let number = self.0.get() as usize - 1;
        (number / CHUNK_NODES, number % CHUNK_NODES)
    }
}

/// The words of 512 consecutive LBNs.
pub(super) type Words = [u64; MAP_PAGE_ENTRIES];
/// The child at each position. A child that takes several positions is at each of them.
pub(super) type Children = [Option<NodeId>; INNER_POSITIONS];

/// LBNs that are not unmapped, and those of them whose PBN is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) mapped: u64,
    pub(super) stored: u64,
}

impl Tally {
    pub(super) const fn of_word(word: u64) -> Self {
        match WordForm::Narrow.entry(word) {
            MapEntry::Unmapped => Self { mapped: 0, stored: 0 },
            MapEntry::Damaged => Self { mapped: 1, stored: 0 },
            MapEntry::Stored(..) => Self { mapped: 1, stored: 1 },
        }
    }

    pub(super) const fn add(&mut self, other: Self) {
        self.mapped += other.mapped;
        self.stored += other.stored;
    }

    pub(super) const fn subtract(&mut self, other: Self) {
        self.mapped -= other.mapped;
        self.stored -= other.stored;
    }
}

/// The LBNs below a node.
#[derive(Clone, Default)]
pub(super) enum Content {
    Inner(Box<Inner>),
    /// The words, and how many of them are not 0.
    Dense(Box<Words>, u16),
    /// The mapped LBNs in ascending order, each with its word.
    Sparse(Vec<(u64, u64)>),
    /// The page of the node was lost, so all of its LBNs are damaged.
    Lost,
    /// Nothing: the node does not exist any more, or its page is not read yet.
    #[default]
    Gone,
}

#[derive(Clone)]
pub(super) struct Inner {
    pub(super) children: Children,
    pub(super) tally: Tally,
}

impl Content {
    const fn memory_bytes(&self) -> usize {
        match self {
            Self::Inner(_) => size_of::<Inner>(),
            Self::Dense(..) => size_of::<Words>(),
            Self::Sparse(entries) => entries.capacity() * size_of::<(u64, u64)>(),
            Self::Lost | Self::Gone => 0,
        }
    }
}

/// A node as a checkpoint has it.
pub(super) struct Version {
    bits: u8,
    image: Image,
}

enum Image {
    Leaf(MapKind, Box<Page>),
    /// The page names the children by the places that they get in the same checkpoint.
    Inner(Box<Children>),
    Lost,
}

impl Version {
    fn of(bits: u8, content: &Content) -> Self {
        let image = match content {
            Content::Inner(inner) => Image::Inner(Box::new(inner.children)),
            Content::Dense(words, _) => Image::Leaf(MapKind::Dense, dense_page(words)),
            Content::Sparse(entries) => Image::Leaf(MapKind::Sparse, sparse_page(entries)),
            Content::Lost => Image::Lost,
            Content::Gone => unreachable!("a node that is gone is not written"),
        };
        Self { bits, image }
    }
}

fn dense_page(words: &Words) -> Box<Page> {
    let mut image = Box::new([0; PAGE_BYTES]);
    for (bytes, word) in image.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    image
}

pub(super) struct Node {
    /// Maps and nodes that name this node.
    pub(super) references: u32,
    /// The number of its LBNs, as a power of two.
    pub(super) bits: u8,
    pub(super) state: State,
    /// Its key is in the pager's list of changed pages.
    is_listed: bool,
    pub(super) content: Content,
    /// The version on disk, if there is one.
    pub(super) written: Option<MapRef>,
}

impl Node {
    /// Calls with each word of a leaf that has words.
    pub(super) fn each_word(&self, mut each: impl FnMut(u64)) {
        match &self.content {
            Content::Dense(words, _) => words.iter().for_each(|word| each(*word)),
            Content::Sparse(entries) => entries.iter().for_each(|(_, word)| each(*word)),
            Content::Inner(_) | Content::Lost | Content::Gone => {}
        }
    }
}

/// The nodes of all maps.
#[derive(Default)]
pub(super) struct Nodes {
    chunks: Vec<Box<[Node]>>,
    free: Vec<NodeId>,
    /// Numbers that were given so far.
    given: u32,
    /// References beyond the first one of each node.
    shared: u64,
    content_bytes: u64,
    /// Nodes that ceased to exist during a checkpoint, whose pages may name them.
    leaving: Vec<NodeId>,
}

impl Nodes {
    #[inline]
    pub(super) fn get(&self, id: NodeId) -> &Node {
        let (chunk, at) = id.place();
        &self.chunks[chunk][at]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: NodeId) -> &mut Node {
        let (chunk, at) = id.place();
        &mut self.chunks[chunk][at]
    }

    /// Adds a node that has one reference.
    pub(super) fn add(&mut self, pager: &mut Pager, bits: u8, content: Content) -> NodeId {
        let id = self.load(bits, content, None);
        self.list_dirty(pager, id);
        id
    }

    /// Adds a node that was read.
    pub(super) fn load(&mut self, bits: u8, content: Content, written: Option<MapRef>) -> NodeId {
        let id = self.free.pop().unwrap_or_else(|| self.next_id());
        self.content_bytes += content.memory_bytes() as u64;
        let node = self.get_mut(id);
        assert!(node.references == 0, "a free node has no references");
        let is_listed = node.is_listed;
        *node = Node { references: 1, bits, state: State::Clean, is_listed, content, written };
        id
    }

    /// Sets the content of a node that was read.
    pub(super) fn fill(&mut self, id: NodeId, content: Content) {
        self.content_bytes += content.memory_bytes() as u64;
        let node = self.get_mut(id);
        assert!(matches!(node.content, Content::Gone), "a node is read once");
        node.content = content;
    }

    fn next_id(&mut self) -> NodeId {
        self.given += 1;
        let id = NodeId(NonZeroU32::new(self.given).unwrap_or(NonZeroU32::MAX));
        if id.place().0 >= self.chunks.len() {
            let gone = || Node {
                references: 0,
                bits: 0,
                state: State::Clean,
                is_listed: false,
                content: Content::Gone,
                written: None,
            };
            self.chunks.push((0..CHUNK_NODES).map(|_| gone()).collect());
        }
        id
    }

    /// Records a coming change of a node, which the caller calls before every change.
    #[inline]
    pub(super) fn touch(&mut self, pager: &mut Pager, id: NodeId) {
        let node = self.get_mut(id);
        if node.state == State::Dirty {
            return;
        }
        let Node { bits, content, state, is_listed, .. } = node;
        if *state == State::Clean && *is_listed {
            *state = State::Dirty;
            return;
        }
        pager.touch(PageKey::Node(id), state, || Saved::Node(Version::of(*bits, content)));
        *is_listed = true;
    }

    fn list_dirty(&mut self, pager: &mut Pager, id: NodeId) {
        let node = self.get_mut(id);
        if node.is_listed {
            node.state = State::Dirty;
        } else {
            pager.touch_again(PageKey::Node(id), &mut node.state);
            node.is_listed = true;
        }
    }

    /// Marks a node as changed again, unless it does not exist any more.
    pub(super) fn touch_again(&mut self, pager: &mut Pager, id: NodeId) {
        if self.get(id).references > 0 {
            self.list_dirty(pager, id);
        }
    }

    /// Changes the content of a node that was touched.
    pub(super) fn change<T>(&mut self, id: NodeId, change: impl FnOnce(&mut Content) -> T) -> T {
        let node = self.get_mut(id);
        debug_assert!(node.state == State::Dirty, "a node is touched before it changes");
        let before = node.content.memory_bytes() as u64;
        let result = change(&mut node.content);
        let after = node.content.memory_bytes() as u64;
        self.content_bytes = self.content_bytes + after - before;
        result
    }

    pub(super) fn children_mut(&mut self, id: NodeId) -> &mut Inner {
        match &mut self.get_mut(id).content {
            Content::Inner(inner) => inner,
            _ => unreachable!("only an inner node has children"),
        }
    }

    /// The children of an inner node, each once; none of a leaf.
    pub(super) fn children(&self, id: NodeId) -> Vec<NodeId> {
        match &self.get(id).content {
            Content::Inner(inner) => distinct(&inner.children).map(|(_, child)| child).collect(),
            _ => Vec::new(),
        }
    }

    /// Adds a reference to a node.
    pub(super) fn share(&mut self, id: NodeId) {
        let node = self.get_mut(id);
        node.references = node
            .references
            .checked_add(1)
            .unwrap_or_else(|| unreachable!("there are fewer volumes and nodes than 2^32"));
        self.shared += 1;
    }

    #[inline]
    pub(super) fn is_shared(&self, id: NodeId) -> bool {
        self.get(id).references > 1
    }

    /// Returns whether any node has several references.
    pub(super) const fn has_shared(&self) -> bool {
        self.shared > 0
    }

    /// Replaces one of several references to a node by one to a copy of the node.
    pub(super) fn copy(&mut self, pager: &mut Pager, id: NodeId) -> NodeId {
        let node = self.get_mut(id);
        assert!(node.references > 1, "a node with one reference is not copied");
        node.references -= 1;
        let (bits, content) = (node.bits, node.content.clone());
        self.shared -= 1;
        self.children(id).into_iter().for_each(|child| self.share(child));
        self.add(pager, bits, content)
    }

    /// Drops a reference to a node, and what only that had. Calls `drop_word` with the words of
    /// the leaves that are gone.
    pub(super) fn release(
        &mut self,
        pager: &mut Pager,
        id: NodeId,
        drop_word: &mut dyn FnMut(u64),
    ) {
        let node = self.get_mut(id);
        assert!(node.references > 0, "a node has a reference to drop");
        node.references -= 1;
        if node.references > 0 {
            self.shared -= 1;
            return;
        }
        node.each_word(&mut *drop_word);
        for child in self.children(id) {
            self.release(pager, child, drop_word);
        }
        self.leave(pager, id);
    }

    /// Ends a node without references. While a checkpoint is under way its pages may name the node.
    fn leave(&mut self, pager: &mut Pager, id: NodeId) {
        if pager.is_frozen() {
            if self.get(id).state != State::Frozen {
                self.empty(id);
            }
            self.leaving.push(id);
        } else {
            self.empty(id);
            self.recycle(pager, id);
        }
    }

    fn empty(&mut self, id: NodeId) {
        let node = self.get_mut(id);
        let bytes = node.content.memory_bytes() as u64;
        (node.content, node.state) = (Content::Gone, State::Clean);
        self.content_bytes -= bytes;
    }

    fn recycle(&mut self, pager: &mut Pager, id: NodeId) {
        if let Some(slot) = self.get_mut(id).written.take().and_then(slot_of) {
            pager.retire(slot);
        }
        self.free.push(id);
    }

    /// Ends a checkpoint, whose pages do not matter any more.
    pub(super) fn end_checkpoint(&mut self, pager: &mut Pager) {
        for id in std::mem::take(&mut self.leaving) {
            self.empty(id);
            self.recycle(pager, id);
        }
    }

    /// Freezes a changed node. Returns its bits if it is to be written, and whether it is a leaf.
    pub(super) fn freeze(&mut self, id: NodeId) -> Option<(u8, bool)> {
        let node = self.get_mut(id);
        node.is_listed = false;
        if node.state != State::Dirty {
            return None;
        }
        node.state = State::Frozen;
        Some((node.bits, !matches!(node.content, Content::Inner(_))))
    }

    /// Gives the frozen version of a node a fresh slot.
    pub(super) fn gather(
        &mut self,
        pager: &mut Pager,
        id: NodeId,
        saved: Option<Version>,
        writes: &mut PageWrites,
    ) -> Result<()> {
        let node = self.get_mut(id);
        let Version { bits, image } = saved.unwrap_or_else(|| {
            assert!(node.state == State::Frozen, "node {id:?} is gathered once");
            node.state = State::Clean;
            Version::of(node.bits, &node.content)
        });
        let before = node.written.take();
        let page = match image {
            Image::Leaf(kind, image) => Some((kind, image)),
            Image::Inner(children) => Some((MapKind::Inner, self.inner_image(&children))),
            Image::Lost => None,
        };
        pager.replace(before.and_then(slot_of));
        let page = match page {
            Some((kind, image)) => Some((kind, pager.gather(image, writes)?)),
            None => None,
        };
        self.get_mut(id).written = Some(MapRef { bits, page });
        Ok(())
    }

    /// The page of an inner node whose children were gathered.
    fn inner_image(&self, children: &Children) -> Box<Page> {
        inner_page(distinct(children).map(|(position, child)| {
            let written = self.get(child).written;
            assert!(written.is_some(), "a node is written after the nodes below it");
            (position, written.unwrap_or(MapRef { bits: 0, page: None }))
        }))
    }

    /// All nodes that exist.
    pub(super) fn all(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        let ids = (1..=self.given).filter_map(|number| NonZeroU32::new(number).map(NodeId));
        ids.map(|id| (id, self.get(id))).filter(|(_, node)| node.references > 0)
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.content_bytes + (self.chunks.len() * CHUNK_NODES * size_of::<Node>()) as u64
    }

    /// References beyond the first one of each node.
    pub(super) const fn shared(&self) -> u64 {
        self.shared
    }
}

fn slot_of(written: MapRef) -> Option<Slot> {
    written.page.map(|(_, at)| at.slot)
}

/// The children, each once, with the positions at which they begin.
pub(super) fn distinct(children: &Children) -> impl Iterator<Item = (usize, NodeId)> {
    let mut last = None;
    children.iter().enumerate().filter_map(move |(position, child)| {
        let is_new = *child != last;
        last = *child;
        child.filter(|_| is_new).map(|child| (position, child))
    })
}
