//! Pages that a thread holds, so that no lock of the state waits for the disk.
//!
//! A look at the state that misses a page does not read it: it notes the page and fails. The thread
//! lets the lock go, reads all pages that it has noted in one list, and looks again. It holds what
//! it has seen until the change that follows is made, because the pages of other threads may push
//! them out of the cache meanwhile. A look does not wait for an index in memory either: what it
//! wants to know of one that is being changed is looked up between the looks as well.

use super::pages::Pages;
use crate::error::{MetadataError, Result};
use gemelo_base::random::mix64;
use gemelo_format::{NodeRef, Page};
use hashbrown::HashTable;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

/// The most pages that a thread holds: 4 MiB. What it needs beyond them is read under the lock.
const MAX_HELD: usize = 1024;

#[derive(Default)]
struct Held {
    /// Pages by their checksums.
    pages: HashTable<(NodeRef, Arc<Page>)>,
    /// The places of leaves of arrays.
    leaves: HashTable<HeldLeaf>,
    holders: usize,
    /// `true` while pages that are missing are noted.
    is_noting: bool,
    missing: Vec<NodeRef>,
    /// What the next look waits for beside them.
    awaited: Vec<Awaited>,
    found: FoundCandidates,
}

/// The place of a leaf, by the root of its array and its number there.
struct HeldLeaf {
    root: NodeRef,
    number: u64,
    at: Option<NodeRef>,
}

impl HeldLeaf {
    const fn hash(root: NodeRef, number: u64) -> u64 {
        mix64(root.checksum ^ number)
    }
}

/// What a thread does between two looks.
type Awaited = Box<dyn FnOnce()>;

/// What an index in memory has for a list of hashes.
#[derive(Default)]
pub(super) struct FoundCandidates {
    /// The number of checkpoints that had ended before.
    pub(super) checkpoints: u64,
    pub(super) hashes: Vec<u64>,
    /// PBNs, each with the place of its hash in the list, in this order.
    pub(super) pbns: Vec<(usize, u64)>,
}

impl FoundCandidates {
    /// Adds what is known of hashes that are a part of the list, in its order. Returns `false` if
    /// they are not.
    fn add(&self, hashes: &[(usize, u64)], all: &mut Vec<(usize, u64)>) -> bool {
        let first = all.len();
        let (mut listed, mut pbns) = (self.hashes.iter().enumerate(), self.pbns.iter().peekable());
        for (place, hash) in hashes {
            let Some((at, _)) = listed.find(|(_, known)| *known == hash) else {
                all.truncate(first);
                return false;
            };
            while let Some((of, pbn)) = pbns.next_if(|(of, _)| *of <= at) {
                all.extend((*of == at).then_some((*place, *pbn)));
            }
        }
        true
    }
}

thread_local! {
    static HELD: RefCell<Held> = RefCell::default();
}

impl Held {
    fn forget_noted(&mut self) {
        self.missing.clear();
        self.awaited.clear();
    }
}

/// Has this thread hold the pages that it sees, until it is dropped. It may be nested.
#[derive(Debug)]
pub struct HeldPages {
    /// It belongs to its thread.
    of_thread: PhantomData<*const ()>,
}

/// Ends the noting of missing pages, after a panic as well.
struct Noting;

impl Drop for Noting {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|held| held.is_noting = false);
    }
}

impl HeldPages {
    /// Begins to hold pages.
    #[must_use]
    pub fn hold() -> Self {
        HELD.with_borrow_mut(|held| held.holders += 1);
        Self { of_thread: PhantomData }
    }

    /// Looks at the state without reading from its disk. Returns `None` if a page was missing;
    /// [`crate::Index::missing_pages`] has those that were noted.
    pub fn look<T>(&self, look: impl FnOnce() -> T) -> Option<T> {
        HELD.with_borrow_mut(|held| {
            held.forget_noted();
            held.is_noting = true;
        });
        let noting = Noting;
        let seen = look();
        drop(noting);
        let is_complete =
            HELD.with_borrow(|held| held.missing.is_empty() && held.awaited.is_empty());
        is_complete.then_some(seen)
    }
}

impl Drop for HeldPages {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|held| {
            held.holders -= 1;
            if held.holders == 0 {
                held.pages.clear();
                held.leaves.clear();
                held.found = FoundCandidates::default();
                held.forget_noted();
            }
        });
    }
}

/// Pages that a look has missed. They are read without a lock, by the thread that has looked.
pub struct MissingPages {
    pages: Arc<Pages>,
    missing: Vec<NodeRef>,
    awaited: Vec<Awaited>,
}

impl MissingPages {
    /// Takes what this thread has noted.
    pub(super) fn noted(pages: &Arc<Pages>) -> Option<Self> {
        let (missing, awaited) = HELD.with_borrow_mut(|held| {
            (std::mem::take(&mut held.missing), std::mem::take(&mut held.awaited))
        });
        let is_any = !missing.is_empty() || !awaited.is_empty();
        is_any.then(|| Self { pages: Arc::clone(pages), missing, awaited })
    }

    /// Reads the pages in one list. This thread holds them then, if it holds pages.
    pub fn read(self) {
        self.pages.fetch(self.missing);
        self.awaited.into_iter().for_each(|each| each());
    }

    /// Has the disk begin to read the pages, and does not wait for it.
    pub fn start(self) {
        self.pages.start(&self.missing);
    }
}

/// Holds a page, if this thread holds pages.
pub(super) fn keep(at: NodeRef, page: &Arc<Page>) {
    HELD.with_borrow_mut(|held| {
        if held.holders > 0 && held.pages.len() < MAX_HELD {
            let is_it = |(of, _): &(NodeRef, Arc<Page>)| *of == at;
            let entry = held.pages.entry(at.checksum, is_it, |(of, _)| of.checksum);
            entry.or_insert_with(|| (at, Arc::clone(page)));
        }
    });
}

/// Holds the place of a leaf, if this thread holds pages.
pub(super) fn keep_leaf(root: NodeRef, number: u64, at: Option<NodeRef>) {
    HELD.with_borrow_mut(|held| {
        if held.holders > 0 && held.leaves.len() < MAX_HELD {
            let hash_of = |leaf: &HeldLeaf| HeldLeaf::hash(leaf.root, leaf.number);
            let hash = HeldLeaf::hash(root, number);
            held.leaves.insert_unique(hash, HeldLeaf { root, number, at }, hash_of);
        }
    });
}

/// The place of a leaf that this thread holds: there may be none in its array.
pub(super) fn leaf(root: NodeRef, number: u64) -> Option<Option<NodeRef>> {
    HELD.with_borrow(|held| {
        let is_it = |leaf: &HeldLeaf| leaf.root == root && leaf.number == number;
        held.leaves.find(HeldLeaf::hash(root, number), is_it).map(|leaf| leaf.at)
    })
}

/// The pages that this thread may hold beside those that it holds; none if it holds none at all.
pub(super) fn room() -> usize {
    HELD.with_borrow(|held| if held.holders > 0 { MAX_HELD - held.pages.len() } else { 0 })
}

/// A page that this thread holds, or that is in a cache. The thread holds it then, if it holds
/// pages.
pub(super) fn get_or_keep(
    at: NodeRef,
    cached: impl FnOnce() -> Option<Arc<Page>>,
) -> Option<Arc<Page>> {
    HELD.with_borrow_mut(|held| {
        let is_it = |(of, _): &(NodeRef, Arc<Page>)| *of == at;
        if held.holders == 0 {
            return cached();
        }
        if let Some((_, page)) = held.pages.find(at.checksum, is_it) {
            return Some(Arc::clone(page));
        }
        let page = cached()?;
        if held.pages.len() < MAX_HELD {
            let new = (at, Arc::clone(&page));
            held.pages.insert_unique(at.checksum, new, |(of, _)| of.checksum);
        }
        Some(page)
    })
}

/// Returns whether this thread holds a page.
pub(super) fn has(at: NodeRef) -> bool {
    HELD.with_borrow(|held| held.pages.find(at.checksum, |(of, _)| *of == at).is_some())
}

/// Returns whether this thread notes pages that are missing.
pub(super) fn is_noting() -> bool {
    HELD.with_borrow(|held| held.is_noting)
}

/// Notes pages that are missing.
pub(super) fn note(pages: impl IntoIterator<Item = NodeRef>) {
    HELD.with_borrow_mut(|held| held.missing.extend(pages));
}

/// Has something done before the next look.
pub(super) fn wait_for(what: Awaited) {
    HELD.with_borrow_mut(|held| held.awaited.push(what));
}

/// Keeps what an index has for hashes, if this thread holds pages.
pub(super) fn keep_found(found: FoundCandidates) {
    HELD.with_borrow_mut(|held| {
        if held.holders > 0 {
            held.found = found;
        }
    });
}

/// Adds what an index had for these hashes. Returns `false` if it is not known, or was looked up
/// before the last of these checkpoints ended: what that had frozen may be in the index alone.
pub(super) fn add_found(
    checkpoints: u64,
    hashes: &[(usize, u64)],
    all: &mut Vec<(usize, u64)>,
) -> bool {
    HELD.with_borrow(|held| held.found.checkpoints == checkpoints && held.found.add(hashes, all))
}

/// Notes a page that is missing, if this thread does so, and fails then.
pub(super) fn refuse(at: NodeRef) -> Result<()> {
    if is_noting() {
        note([at]);
        return Err(MetadataError::Missing);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_format::Slot;

    #[test]
    fn the_place_of_a_leaf_is_of_its_array_and_goes_with_its_holder() {
        // Their hashes are the same.
        let root = |slot| NodeRef { slot: Slot::new(slot).unwrap(), checksum: 7 };
        keep_leaf(root(1), 5, None);
        assert_eq!(leaf(root(1), 5), None, "nobody holds anything");
        let held = HeldPages::hold();
        keep_leaf(root(1), 5, Some(root(9)));
        keep_leaf(root(1), 6, None);
        assert_eq!(
            [5, 6, 7].map(|number| leaf(root(1), number)),
            [Some(Some(root(9))), Some(None), None]
        );
        assert_eq!(leaf(root(2), 5), None, "another array has other leaves");
        drop(held);
        assert_eq!([5, 6].map(|number| leaf(root(1), number)), [None, None]);
    }
}
