//! Pages that a thread holds, so that no lock of the state waits for the disk.
//!
//! A look at the state that misses a page does not read it: it notes the page and fails. The thread
//! lets the lock go, reads all pages that it has noted in one list, and looks again. It holds what
//! it has seen until the change that follows is made, because the pages of other threads may push
//! them out of the cache meanwhile.

use super::pages::Pages;
use crate::error::{MetadataError, Result};
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
    holders: usize,
    /// `true` while pages that are missing are noted.
    is_noting: bool,
    missing: Vec<NodeRef>,
}

thread_local! {
    static HELD: RefCell<Held> = RefCell::default();
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
            held.missing.clear();
            held.is_noting = true;
        });
        let noting = Noting;
        let seen = look();
        drop(noting);
        HELD.with_borrow(|held| held.missing.is_empty()).then_some(seen)
    }
}

impl Drop for HeldPages {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|held| {
            held.holders -= 1;
            if held.holders == 0 {
                held.pages.clear();
                held.missing.clear();
            }
        });
    }
}

/// Pages that a look has missed. They are read without a lock, by the thread that has looked.
pub struct MissingPages {
    pages: Arc<Pages>,
    missing: Vec<NodeRef>,
}

impl MissingPages {
    /// Takes what this thread has noted.
    pub(super) fn noted(pages: &Arc<Pages>) -> Option<Self> {
        let missing = HELD.with_borrow_mut(|held| std::mem::take(&mut held.missing));
        (!missing.is_empty()).then(|| Self { pages: Arc::clone(pages), missing })
    }

    /// Reads the pages in one list. This thread holds them then, if it holds pages.
    pub fn read(self) {
        self.pages.fetch(self.missing);
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

/// The pages that this thread may hold beside those that it holds; none if it holds none at all.
pub(super) fn room() -> usize {
    HELD.with_borrow(|held| if held.holders > 0 { MAX_HELD - held.pages.len() } else { 0 })
}

/// A page that this thread holds.
pub(super) fn get(at: NodeRef) -> Option<Arc<Page>> {
    HELD.with_borrow(|held| {
        let found = held.pages.find(at.checksum, |(of, _)| *of == at);
        found.map(|(_, page)| Arc::clone(page))
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

/// Notes a page that is missing, if this thread does so, and fails then.
pub(super) fn refuse(at: NodeRef) -> Result<()> {
    if is_noting() {
        note([at]);
        return Err(MetadataError::Missing);
    }
    Ok(())
}
