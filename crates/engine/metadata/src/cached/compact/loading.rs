//! Reads the index that a clean stop has left ([`super::saved`]), part by part, after an opening.
//!
//! Until it is complete, look-ups ask what has changed since the opening alone. The same changes
//! are kept in a list, which the saved index takes before it becomes the one that is asked. Its
//! pages stay in use until then, and until the index has changed: a checkpoint that changes nothing
//! of it names them again.

use super::saved::{SavedFor, SavedReader, Writer, pages_of};
use super::table::Table;
use super::{EDITS_AT_ONCE, MemoryIndex};
use crate::cached::array::{self, child};
use crate::cached::layer::FANOUT;
use crate::cached::layout::{IndexEdit, Retire};
use crate::cached::pages::Pages;
use crate::error::Result;
use gemelo_format::{NodeRef, Part, Slot, Tree};
use std::mem;

/// The pages of an index that a clean stop has left.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Saved {
    pub(super) tree: Tree,
    /// The pages have every entry, and a checkpoint names them.
    is_current: bool,
}

impl Saved {
    /// The pages that a checkpoint names.
    pub(super) fn named(self) -> Tree {
        if self.is_current { self.tree } else { Tree::default() }
    }
}

/// The reading of a saved index.
#[derive(Default)]
pub(super) enum Progress {
    /// It has ended, or there was none.
    #[default]
    Ended,
    /// It goes on. These edits were made meanwhile.
    Loading(Vec<IndexEdit>),
    /// The pages have no index for this store.
    Unfit,
}

/// Leaves of a saved index that were not read yet.
pub(crate) struct Loading {
    /// The places of the leaves, in order.
    leaves: Vec<NodeRef>,
    /// The leaf that is read next, and the end of those of which the reading was started.
    next: usize,
    started: usize,
    reader: SavedReader,
}

/// Leaves in a part, which takes a millisecond or so.
const PART_LEAVES: usize = 32;
/// Leaves of which the reading is started at once: 2 MiB.
const AHEAD_LEAVES: usize = 512;

impl Loading {
    /// Finds the leaves of a saved index and marks its pages as used. `None`, and nothing is
    /// marked, if its directories cannot be read.
    fn find(pages: &Pages, tree: &Tree, made_for: SavedFor) -> Option<Self> {
        let (mut leaves, mut claimed) = (Vec::new(), Vec::new());
        let found = find_below(pages, &[tree.root?], tree.height, (&mut leaves, &mut claimed));
        if found.is_none() {
            claimed.into_iter().for_each(|slot| pages.unclaim(slot));
            return None;
        }
        Some(Self { leaves, next: 0, started: 0, reader: SavedReader::new(made_for) })
    }

    /// Reads the next leaves. Returns whether there are more, and `None` if the index is no good.
    pub(in crate::cached) fn go_on(&mut self, pages: &Pages) -> Option<bool> {
        let upcoming = |from: usize, most| {
            let end = self.leaves.len().min(from + most);
            &self.leaves[from.min(end)..end]
        };
        if self.next >= self.started {
            // The disk reads them while those before them are looked at.
            pages.start(upcoming(self.started, AHEAD_LEAVES));
            self.started += AHEAD_LEAVES;
        }
        for page in pages.read_spare(upcoming(self.next, PART_LEAVES)) {
            self.reader.push(&*page?)?;
            self.next += 1;
        }
        Some(self.next < self.leaves.len())
    }

    fn finish(&mut self) -> Option<Table> {
        self.reader.finish()
    }
}

/// Finds the leaves below some nodes. `None` if a page cannot be read, is missing, or has a slot
/// that is in use.
fn find_below(
    pages: &Pages,
    nodes: &[NodeRef],
    level: u8,
    (leaves, claimed): (&mut Vec<NodeRef>, &mut Vec<Slot>),
) -> Option<()> {
    for at in nodes {
        pages.claim(at.slot).then_some(())?;
        claimed.push(at.slot);
    }
    if level == 0 {
        leaves.extend_from_slice(nodes);
        return Some(());
    }
    for page in pages.read_spare(nodes) {
        let page = page?;
        let below: Vec<NodeRef> = (0..FANOUT).filter_map(|place| child(&page, place)).collect();
        let has_no_gap = child(&page, below.len() as u64 % FANOUT).is_none();
        (below.len() as u64 == FANOUT || has_no_gap).then_some(())?;
        find_below(pages, &below, level - 1, (&mut *leaves, &mut *claimed))?;
    }
    Some(())
}

impl MemoryIndex {
    /// Begins to read the index that a checkpoint names.
    pub(super) fn begin(&mut self, pages: &Pages, tree: Tree) -> Option<Loading> {
        let loading = Loading::find(pages, &tree, self.made_for)?;
        self.saved = Saved { tree, is_current: true };
        *self.progress.lock() = Progress::Loading(Vec::new());
        Some(loading)
    }

    /// Takes the index that was read. Returns `false` if it was not one.
    pub(in crate::cached) fn end(&self, loading: &mut Loading) -> bool {
        let Some(mut loaded) = loading.finish() else {
            *self.progress.lock() = Progress::Unfit;
            return false;
        };
        loop {
            let edits = match &mut *self.progress.lock() {
                Progress::Loading(edits) => mem::take(edits),
                Progress::Ended | Progress::Unfit => Vec::new(),
            };
            let is_last = edits.len() < EDITS_AT_ONCE;
            edits.iter().for_each(|edit| loaded.edit(edit));
            if is_last {
                let mut table = self.table.write();
                if let Progress::Loading(edits) = mem::take(&mut *self.progress.lock()) {
                    edits.iter().for_each(|edit| loaded.edit(edit));
                }
                *table = loaded;
                self.figures.note(&table);
                return true;
            }
        }
    }

    /// Notes edits that a saved index has to take.
    pub(super) fn note_meanwhile(&self, edits: impl Iterator<Item = IndexEdit>) {
        if let Progress::Loading(meanwhile) = &mut *self.progress.lock() {
            meanwhile.extend(edits);
        }
    }

    /// Gives up the pages of a saved index when nobody reads them and no checkpoint will name them.
    pub(super) fn without_old(mut self, pages: &Pages, is_changed: bool) -> Result<Self> {
        let progress = self.progress.lock();
        let is_unfit = matches!(*progress, Progress::Unfit);
        let is_read = matches!(*progress, Progress::Loading(_));
        drop(progress);
        self.saved.is_current &= !is_changed && !is_unfit;
        if !self.saved.is_current && !is_read {
            let tree = mem::take(&mut self.saved).tree;
            array::walk(pages, &tree, Part::Saved, 0, &mut Retire(pages))?;
        }
        Ok(self)
    }

    /// Returns whether the pages of a saved index have every entry.
    pub(in crate::cached) fn is_saved(&self) -> bool {
        self.saved.is_current && !matches!(*self.progress.lock(), Progress::Unfit)
    }

    /// Pages that the index would take.
    pub(in crate::cached) fn pages_to_save(&self) -> u64 {
        pages_of(self.table.read().bytes())
    }

    /// Writes the index, unless it is there. Whoever asks has read all of it.
    pub(super) fn save_in(&self, pages: &Pages) -> Result<Self> {
        let table = self.table.read();
        if self.saved.is_current || table.entries() == 0 {
            return Ok(self.clone());
        }
        let mut leaves = Writer::new(&table, self.made_for);
        let last = leaves.last();
        let tree = array::update(pages, &Tree::default(), last, &mut leaves)?;
        Ok(Self { saved: Saved { tree, is_current: true }, ..self.clone() })
    }
}
