//! The arrays of a state of the metadata, and the look-up of their values.
//!
//! An array has a table of the leaves that were looked up, in the shape of its directories. While
//! the pages of the metadata fit the cache, the look-up of a value needs no hash, no lock and no
//! directory: it goes down the table and takes the value from its leaf. A larger array has no
//! table, and its leaves come through the cache.

use super::array;
use super::cache::Width;
use super::layer::FANOUT;
use super::pages::Pages;
use crate::error::Result;
use gemelo_format::{Page, Part, Tree, array_value};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A node of a table: a leaf, which the array may lack, or the nodes below it that are known.
enum Node {
    Leaf(Option<Arc<Page>>),
    Inner(Box<Inner>),
}

/// The nodes below a node of a table.
struct Inner {
    below: [OnceLock<Node>; FANOUT as usize],
    counted: Arc<AtomicU64>,
}

impl Inner {
    fn new(counted: &Arc<AtomicU64>) -> Box<Self> {
        counted.fetch_add(size_of::<Self>() as u64, Ordering::Relaxed);
        Box::new(Self {
            below: [const { OnceLock::new() }; FANOUT as usize],
            counted: Arc::clone(counted),
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.counted.fetch_sub(size_of::<Self>() as u64, Ordering::Relaxed);
    }
}

/// An array of a state, with a table of its leaves. Both never change.
#[derive(Clone, Default)]
pub(super) struct Array {
    tree: Tree,
    /// Leaves that it has room for.
    leaves: u64,
    table: Arc<OnceLock<Node>>,
}

impl From<Tree> for Array {
    fn from(tree: Tree) -> Self {
        let leaves = tree.root.map_or(0, |_| array::span(tree.height));
        Self { tree, leaves, table: Arc::default() }
    }
}

impl Deref for Array {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        &self.tree
    }
}

impl Array {
    /// The leaf of this number, if the table has it, or the array has no room for it.
    fn known(&self, number: u64) -> Option<Option<&Page>> {
        if number >= self.leaves {
            return Some(None);
        }
        let (mut node, mut level) = (self.table.get()?, self.tree.height);
        loop {
            node = match node {
                Node::Leaf(page) => return Some(page.as_deref()),
                Node::Inner(inner) => {
                    level -= 1;
                    inner.below.get(place(level, number))?.get()?
                }
            };
        }
    }

    /// Adds a leaf to the table, whose memory is counted.
    fn keep(&self, number: u64, leaf: Option<Arc<Page>>, counted: &Arc<AtomicU64>) {
        let mut at = &*self.table;
        for level in (0..self.tree.height).rev() {
            let Node::Inner(inner) = at.get_or_init(|| Node::Inner(Inner::new(counted))) else {
                return;
            };
            let Some(next) = inner.below.get(place(level, number)) else { return };
            at = next;
        }
        // Another thread may have been faster.
        let _ = at.set(Node::Leaf(leaf));
    }
}

/// The place of a node among the children of its parent, by the leaf's number and the node's level.
const fn place(level: u8, number: u64) -> usize {
    let node = if level == 0 { number } else { number / array::span(level) };
    (node % FANOUT) as usize
}

/// Looks up values of an array by key. It keeps the last leaf, so keys near each other are fast.
pub(super) struct Reader<'a> {
    pages: &'a Pages,
    array: &'a Array,
    part: Part,
    /// The number of the leaf that was read last, and its page.
    last: Option<(u64, Option<Arc<Page>>)>,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(pages: &'a Pages, array: &'a Array, part: Part) -> Self {
        Self { pages, array, part, last: None }
    }

    const fn leaf_of(&self, key: u64) -> u64 {
        key / self.part.array_entries() as u64
    }

    /// The value of a key in its leaf.
    fn value(&self, leaf: Option<&Page>, key: u64) -> u128 {
        leaf.map_or(0, |page| value(page, self.part, key))
    }

    /// The value of a key, if it is in memory in its leaf.
    #[inline]
    pub(super) fn known(&self, key: u64) -> Option<u128> {
        Some(self.value(self.known_leaf(self.leaf_of(key))?, key))
    }

    /// The leaf of this number, if it is in memory here.
    #[inline]
    pub(super) fn known_leaf(&self, number: u64) -> Option<Option<&Page>> {
        match &self.last {
            Some((last, page)) if *last == number => Some(page.as_deref()),
            _ => self.array.known(number),
        }
    }

    pub(super) fn get(&mut self, key: u64) -> Result<u128> {
        match self.known(key) {
            Some(value) => Ok(value),
            None => self.read(key),
        }
    }

    #[cold]
    fn read(&mut self, key: u64) -> Result<u128> {
        let number = self.leaf_of(key);
        let at = array::leaf_at(self.pages, self.array, number)?;
        let page = at.map(|at| self.pages.read(at, self.width())).transpose()?;
        Ok(self.hold(number, page, key))
    }

    const fn width(&self) -> Width {
        Width::of(0, self.part)
    }

    /// Keeps a leaf, and returns the value of a key in it.
    fn hold(&mut self, number: u64, page: Option<Arc<Page>>, key: u64) -> u128 {
        let value = self.value(page.as_deref(), key);
        if self.pages.fit() {
            self.array.keep(number, page.clone(), self.pages.table_bytes());
        }
        self.last = Some((number, page));
        value
    }

    /// Looks up the values of keys, in their order. The leaves that are not in the cache are read
    /// in one list.
    pub(super) fn get_all(&mut self, keys: &[u64]) -> Vec<Result<u128>> {
        let mut values = Vec::with_capacity(keys.len());
        let (mut left, mut missing) = (Vec::new(), Vec::new());
        // The last leaf that is missing.
        let mut awaited = None;
        for (place, key) in keys.iter().enumerate() {
            if let Some(value) = self.known(*key) {
                values.push(Ok(value));
                continue;
            }
            let number = self.leaf_of(*key);
            if awaited != Some(number) {
                let value = match array::leaf_at(self.pages, self.array, number) {
                    Ok(Some(at)) => match self.pages.in_memory(at, self.width()) {
                        Some(page) => Ok(self.hold(number, Some(page), *key)),
                        None => {
                            missing.push(at);
                            awaited = Some(number);
                            Ok(0)
                        }
                    },
                    Ok(None) => Ok(self.hold(number, None, *key)),
                    Err(error) => Err(error),
                };
                values.push(value);
            } else {
                values.push(Ok(0));
            }
            if awaited == Some(number) {
                left.push(place);
            }
        }
        if left.is_empty() {
            return values;
        }
        self.pages.fetch(missing);
        for place in left {
            values[place] = self.get(keys[place]);
        }
        values
    }
}

/// The value of a key in its leaf.
pub(super) fn value(leaf: &Page, part: Part, key: u64) -> u128 {
    array_value(leaf, (key % part.array_entries() as u64) as usize, part.value_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BackendContext;
    use crate::tests::superblock;
    use gemelo_disk::Disk;
    use gemelo_disk::testing::MemoryDisk;
    use gemelo_format::PoolSeed;

    const KEYS_OF_LEAF: u64 = Part::Map.array_entries() as u64;

    /// Leaves of arrays of each height, far apart, with one value each.
    const LEAVES: [&[u64]; 4] =
        [&[0], &[0, 1, 5], &[2, FANOUT, 3 * FANOUT + 7], &[1, FANOUT - 1, FANOUT * FANOUT + 9]];

    const fn key_of(leaf: u64) -> u64 {
        leaf * KEYS_OF_LEAF + leaf % KEYS_OF_LEAF
    }

    /// The nodes of a table that are no leaves.
    fn inner_nodes(node: &Node) -> u64 {
        match node {
            Node::Leaf(_) => 0,
            Node::Inner(inner) => {
                let below = inner.below.iter().filter_map(OnceLock::get);
                1 + below.map(inner_nodes).sum::<u64>()
            }
        }
    }

    fn look_up_all(pages: &Pages, array: &Array, leaves: &[u64]) {
        let beside = leaves.iter().flat_map(|leaf| [*leaf, leaf + 1, leaf + FANOUT]);
        let beyond = array::span(array.height) + 3;
        let all: Vec<u64> = beside.chain([beyond]).collect();
        let right = |leaf: &u64| if leaves.contains(leaf) { u128::from(leaf + 1) } else { 0 };
        let mut reader = Reader::new(pages, array, Part::Map);
        for leaf in &all {
            assert_eq!(reader.get(key_of(*leaf)).unwrap(), right(leaf), "leaf {leaf}");
            assert_eq!(reader.get(key_of(*leaf) ^ 1).unwrap(), 0, "beside the value of {leaf}");
        }
        let keys: Vec<u64> = all.iter().map(|leaf| key_of(*leaf)).collect();
        let values = Reader::new(pages, array, Part::Map).get_all(&keys).into_iter();
        assert!(values.map(Result::unwrap).eq(all.iter().map(right)));
    }

    #[test]
    fn values_come_from_the_table_while_the_pages_fit_the_cache() {
        for (cache_bytes, fit) in [(1 << 20, true), (0, false)] {
            let (disk, superblock) = (Arc::new(MemoryDisk::default()), superblock());
            disk.set_len(64 << 20).unwrap();
            let home = BackendContext::new(disk, &superblock);
            let pages = Pages::new(&home, PoolSeed::of(&superblock), cache_bytes);
            for (height, leaves) in LEAVES.into_iter().enumerate() {
                let mut values = leaves.iter().map(|leaf| (key_of(*leaf), u128::from(leaf + 1)));
                let tree = array::merge(&pages, &Tree::default(), Part::Map, &mut values);
                let array = Array::from(tree.unwrap());
                assert_eq!(usize::from(array.height), height);
                pages.flush().unwrap();
                pages.note_fit();
                // An array of one leaf fits even a cache of two pages.
                let fit = fit || height == 0;
                assert_eq!(pages.fit(), fit);
                let looked_at = || {
                    let (hits, misses) = pages.cache().look_ups();
                    hits + misses
                };
                look_up_all(&pages, &array, leaves);
                let before = looked_at();
                look_up_all(&pages, &array, leaves);
                assert_eq!(looked_at() == before, fit, "height {height}");
                assert_eq!(array.known(leaves[0]).is_some(), fit);
                // Another state with the same pages has a table of its own.
                assert!(Array::from(*array).known(leaves[0]).is_none());
                let bytes = || pages.table_bytes().load(Ordering::Relaxed);
                let inner = array.table.get().map_or(0, inner_nodes);
                assert_eq!(bytes(), inner * size_of::<Inner>() as u64);
                assert_eq!(inner > 0, fit && height > 0);
                drop(array);
                assert_eq!(bytes(), 0, "an array that goes takes its table along");
            }
        }
    }
}
