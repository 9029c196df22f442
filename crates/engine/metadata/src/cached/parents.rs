//! The nodes of maps that have several parents: other nodes, or volumes. The counts are not on
//! disk. An opening counts them while it looks at the pages.

use super::layer::{LayerId, Position};
use super::map::NodeKey;
use gemelo_format::Slot;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

/// The pages that a checkpoint has made of each layer.
pub(super) type Made = HashMap<LayerId, HashMap<Position, Slot>>;

/// The numbers of parents beyond the first one.
#[derive(Default)]
pub(super) struct Parents {
    pages: HashMap<Slot, u32>,
    layers: HashMap<(LayerId, Position), u32>,
}

fn take<K: Hash + Eq>(counts: &mut HashMap<K, u32>, key: K) -> bool {
    let Entry::Occupied(mut entry) = counts.entry(key) else { return false };
    if *entry.get() == 1 {
        entry.remove();
    } else {
        *entry.get_mut() -= 1;
    }
    true
}

impl Parents {
    /// Returns whether no node has several parents.
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.layers.is_empty()
    }

    pub(super) fn is_shared(&self, node: NodeKey) -> bool {
        self.beyond_one(node) > 0
    }

    /// The number of parents beyond the first one.
    pub(super) fn beyond_one(&self, node: NodeKey) -> u32 {
        let count = match node {
            NodeKey::Page(slot) => self.pages.get(&slot),
            NodeKey::Layer(id, at) => self.layers.get(&(id, at)),
        };
        count.copied().unwrap_or(0)
    }

    /// Adds a parent.
    pub(super) fn add(&mut self, node: NodeKey) {
        match node {
            NodeKey::Page(slot) => *self.pages.entry(slot).or_default() += 1,
            NodeKey::Layer(id, at) => *self.layers.entry((id, at)).or_default() += 1,
        }
    }

    /// Takes a parent away, if it is not the last.
    pub(super) fn take(&mut self, node: NodeKey) -> bool {
        match node {
            NodeKey::Page(slot) => take(&mut self.pages, slot),
            NodeKey::Layer(id, at) => take(&mut self.layers, (id, at)),
        }
    }

    /// Names nodes of layers by their pages, which a checkpoint has made. A node without any word
    /// has no page.
    pub(super) fn name_pages(&mut self, made: &Made) {
        let pages = &mut self.pages;
        self.layers.retain(|(id, at), count| {
            let Some(nodes) = made.get(id) else { return true };
            if let Some(slot) = nodes.get(at) {
                assert!(pages.insert(*slot, *count).is_none(), "a new page has no parents yet");
            }
            false
        });
    }

    pub(super) fn bytes(&self) -> u64 {
        let page = size_of::<(Slot, u32)>() + 1;
        let layer = size_of::<((LayerId, Position), u32)>() + 1;
        (self.pages.capacity() * page + self.layers.capacity() * layer) as u64
    }
}
