//! Completes an index in memory after an opening, part by part: reads what a clean stop has left of
//! it, or computes it from the records of the checkpoint.
//!
//! A part is read under the state's lock, so the checkpoint's pages stay, and writers wait for a
//! millisecond or so. The index of a block that a merge changes is changed by the merge: before
//! the part is read, after it, or at the same time.

use super::compact::Loading;
use super::index::ContentIndex;
use super::layout::{IndexEdit, IndexState, Layout};
use super::record_pages::RecordPages;
use super::records::Records;
use crate::error::Result;
use gemelo_format::Fingerprint;
use std::ops::Range;

/// Pages of records in a part, which takes a millisecond or so.
const PART_PAGES: usize = 8;
/// Pages of records of which the reading is started at once: 2 MiB. The next ones are started when
/// the first of these are looked at.
const AHEAD_PAGES: usize = 512;

/// The records that an index in memory has not been told of.
pub(super) enum Unread {
    /// All, but a clean stop has left the index.
    Saved(Loading),
    /// Those of this PBN and after, and the PBNs at which the pages begin and end that were started
    /// last.
    From(u64, Range<u64>),
    Nothing,
}

impl Unread {
    /// Those of all PBNs.
    pub(super) const ALL: Self = Self::From(0, 0..0);
}

impl<L: Layout> ContentIndex<L> {
    /// Adds the entries of the next records to the index. Returns whether there are more.
    pub(super) fn catch_up(&self, records: &Records) -> Result<bool> {
        let Some(index) = self.state.in_memory() else { return Ok(false) };
        let mut unread = self.unread.lock();
        if let Unread::Saved(loading) = &mut *unread {
            if loading.go_on(&self.pages) == Some(true) {
                return Ok(true);
            }
            let is_complete = index.end(loading);
            *unread = if is_complete { Unread::Nothing } else { Unread::ALL };
            return Ok(!is_complete);
        }
        let Unread::From(first, started) = &*unread else { return Ok(false) };
        let (first, mut started) = (*first, started.clone());
        let record_pages =
            |first, most| RecordPages::find(&self.pages, &records.stored.fingerprints, first, most);
        if first >= started.start {
            // The disk reads them while those before them are looked at.
            let ahead = record_pages(started.end, AHEAD_PAGES)?;
            self.pages.start(&ahead.places());
            started = started.end..ahead.next.unwrap_or(u64::MAX);
        }
        let part = record_pages(first, PART_PAGES)?;
        let read = part.read(&self.pages)?;
        let keys: Vec<u64> = read.iter().map(|(pbn, _)| *pbn).collect();
        let live = records.stored_counts().are_live(&keys);
        let mut edits = Vec::with_capacity(read.len());
        let mut removed = Vec::new();
        for ((pbn, fingerprint), is_live) in read.into_iter().zip(live) {
            let is_live = is_live?;
            let hash = fingerprint.low();
            if is_live && is_about_to_change(records, pbn, fingerprint) {
                removed.push(IndexEdit { hash, pbn, comes: false });
            } else if is_live {
                edits.push(IndexEdit { hash, pbn, comes: true });
            }
        }
        index.edit(&edits);
        if !removed.is_empty() {
            index.note(removed);
        }
        *unread = part.next.map_or(Unread::Nothing, |next| Unread::From(next, started));
        Ok(!matches!(*unread, Unread::Nothing))
    }
}

/// Returns whether the merge of the frozen delta removes this entry. It may have done so already,
/// and would not do it again.
fn is_about_to_change(records: &Records, pbn: u64, fingerprint: Fingerprint) -> bool {
    let Some(frozen) = records.frozen_delta() else { return false };
    let is_freed = frozen.counts.get(pbn).is_some_and(|count| *count == 0);
    let identity = frozen.identity(pbn);
    is_freed || identity.is_some_and(|identity| identity.fingerprint() != fingerprint)
}
