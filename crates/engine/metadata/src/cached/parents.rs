//! The nodes of maps that have several parents: other nodes, or volumes. The counts are not on
//! disk. An opening counts them while it looks at the pages.

use super::image::Moved;
use super::layer::{LayerId, Position};
use super::map::NodeKey;
use super::parted::PartedTable;
use gemelo_base::random::mix64;
use gemelo_format::Slot;
use std::collections::HashMap;

/// The pages that a checkpoint has made of each layer.
pub(super) type Made = HashMap<LayerId, HashMap<Position, Slot>>;

/// The numbers of parents beyond the first one.
#[derive(Default)]
pub(super) struct Parents {
    pages: Counts<Slot>,
    layers: Counts<(LayerId, Position)>,
}

/// The name of a node.
trait Name: Copy + Eq {
    fn hash(&self) -> u64;
}

impl Name for Slot {
    fn hash(&self) -> u64 {
        mix64(u64::from(self.number()))
    }
}

impl Name for (LayerId, Position) {
    fn hash(&self) -> u64 {
        let (LayerId(layer), Position { level, number }) = *self;
        mix64(mix64(layer << u8::BITS | u64::from(level)) ^ number)
    }
}

/// Numbers that are not 0, by the names of nodes.
struct Counts<N>(PartedTable<(N, u32)>);

impl<N> Default for Counts<N> {
    fn default() -> Self {
        Self(PartedTable::default())
    }
}

impl<N: Name> Counts<N> {
    fn get(&self, name: N) -> u32 {
        self.0.find(name.hash(), |(of, _)| *of == name).map_or(0, |(_, count)| *count)
    }

    fn add(&mut self, name: N, more: u32) {
        match self.0.find_mut(name.hash(), |(of, _)| *of == name) {
            Some((_, count)) => *count += more,
            None => self.0.add(name.hash(), (name, more), |(of, _)| of.hash()),
        }
    }

    /// Takes one away, if there is one.
    fn take(&mut self, name: N) -> bool {
        match self.0.find_mut(name.hash(), |(of, _)| *of == name) {
            None => return false,
            Some((_, 1)) => self.0.remove(name.hash(), |(of, _)| *of == name),
            Some((_, count)) => *count -= 1,
        }
        true
    }
}

impl Parents {
    /// Returns whether no node has several parents.
    pub(super) const fn is_empty(&self) -> bool {
        self.pages.0.len() == 0 && self.layers.0.len() == 0
    }

    pub(super) fn is_shared(&self, node: NodeKey) -> bool {
        self.beyond_one(node) > 0
    }

    /// The number of parents beyond the first one.
    pub(super) fn beyond_one(&self, node: NodeKey) -> u32 {
        match node {
            NodeKey::Page(slot) => self.pages.get(slot),
            NodeKey::Layer(id, at) => self.layers.get((id, at)),
        }
    }

    /// Adds a parent.
    pub(super) fn add(&mut self, node: NodeKey) {
        match node {
            NodeKey::Page(slot) => self.pages.add(slot, 1),
            NodeKey::Layer(id, at) => self.layers.add((id, at), 1),
        }
    }

    /// Takes a parent away, if it is not the last.
    pub(super) fn take(&mut self, node: NodeKey) -> bool {
        match node {
            NodeKey::Page(slot) => self.pages.take(slot),
            NodeKey::Layer(id, at) => self.layers.take((id, at)),
        }
    }

    /// Names nodes of layers by their pages, which a checkpoint has made. A node without any word
    /// has no page.
    pub(super) fn name_pages(&mut self, made: &Made) {
        let pages = &mut self.pages;
        self.layers.0.retain(|((id, at), count)| {
            let Some(nodes) = made.get(id) else { return true };
            if let Some(slot) = nodes.get(at) {
                assert!(pages.get(*slot) == 0, "a new page has no parents yet");
                pages.add(*slot, *count);
            }
            false
        });
    }

    /// Renames pages that were written anew.
    pub(super) fn follow(&mut self, moved: &Moved) {
        if moved.is_empty() {
            return;
        }
        let new = |(slot, count): &(Slot, u32)| Some((moved.get(slot)?.slot, *count));
        let renamed: Vec<(Slot, u32)> = self.pages.0.iter().filter_map(new).collect();
        self.pages.0.retain(|(slot, _)| !moved.contains_key(slot));
        for (slot, count) in renamed {
            assert!(self.pages.get(slot) == 0, "a new page has no parents yet");
            self.pages.add(slot, count);
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        let bytes = self.pages.0.allocated_bytes() + self.layers.0.allocated_bytes();
        bytes as u64
    }
}
