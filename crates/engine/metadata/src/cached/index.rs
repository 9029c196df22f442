//! The index of contents, and what it has not been told of yet.

use super::catch_up::Unread;
use super::layout::{IndexState, Layout, StoredIndex};
use super::neighbours::Neighbours;
use super::pages::Pages;
use super::records::Records;
use crate::IndexSampling;
use crate::error::Result;
use gemelo_base::locks::Mutex;
use gemelo_format::StoreTable;
use std::sync::Arc;

/// The index in the layout `L`.
pub(super) struct ContentIndex<L: Layout> {
    pub(super) pages: Arc<Pages>,
    /// The index of the last checkpoint.
    pub(super) state: L::Index,
    /// The contents that the index has. Those beside them are in `neighbours`.
    pub(super) sampling: IndexSampling,
    pub(super) neighbours: Mutex<Neighbours>,
    /// The records that the index in memory has not been told of.
    pub(super) unread: Mutex<Unread>,
    /// The next checkpoint writes the index for the next opening.
    pub(super) is_kept: bool,
    /// The checkpoint under way does so.
    pub(super) is_saving: bool,
}

impl<L: Layout> ContentIndex<L> {
    /// The index of a pool without contents.
    pub(super) fn new(
        pages: &Arc<Pages>,
        pbn_end: u64,
        sampling: IndexSampling,
        neighbours: Neighbours,
    ) -> Self {
        Self {
            pages: Arc::clone(pages),
            state: L::Index::empty(pbn_end, sampling),
            sampling,
            neighbours: Mutex::new(neighbours),
            unread: Mutex::new(Unread::Nothing),
            is_kept: false,
            is_saving: false,
        }
    }

    /// The index that a table names.
    pub(super) fn named_by(&self, table: &StoreTable, pbn_end: u64) -> Result<L::Index> {
        let stored =
            StoredIndex { tree: table.index, buckets: table.buckets, entries: table.index_entries };
        L::Index::load(stored, pbn_end, self.sampling)
    }

    /// Takes the index of a checkpoint.
    pub(super) fn take(&mut self, state: L::Index) {
        self.state = state;
        if self.state.in_memory().is_some() {
            *self.unread.get_mut() = Unread::ALL;
        }
    }

    /// Has the next checkpoint keep an index in memory, or not.
    pub(super) fn keep(&mut self, keeps: bool, records: &Records) -> Result<()> {
        let index = self.state.in_memory().filter(|_| keeps);
        let is_there = index.is_none_or(|index| index.is_saved() && records.active.entries() == 0);
        // What has changed while it was read makes it worth reading to its end.
        while !is_there && matches!(*self.unread.lock(), Unread::Saved(_)) {
            self.catch_up(records)?;
        }
        self.is_kept = !is_there && matches!(*self.unread.lock(), Unread::Nothing);
        Ok(())
    }

    /// Begins a checkpoint.
    pub(super) fn freeze(&mut self) {
        self.is_saving = std::mem::take(&mut self.is_kept);
    }

    /// Ends a checkpoint that is durable.
    pub(super) fn finish(&mut self, state: L::Index) {
        self.state = state;
        if let Some(index) = self.state.in_memory() {
            index.finish();
        }
    }

    /// Gives up a checkpoint.
    pub(super) fn abandon(&self) {
        if let Some(index) = self.state.in_memory() {
            index.abandon();
        }
    }
}
