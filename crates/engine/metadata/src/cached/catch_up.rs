//! Computes an index in memory from the records of the checkpoint, part by part, after an opening.
//!
//! A part is read under the state's lock, so the checkpoint's pages stay, and writers wait for a
//! millisecond or so. The index of a block that a merge changes is changed by the merge: before
//! the part is read, after it, or at the same time.

use super::CachedBackend;
use super::layout::{IndexEdit, IndexState, Layout, Visitor};
use crate::error::{MetadataError, Result};
use gemelo_format::{Fingerprint, Identity, Part};
use std::ops::{ControlFlow, Range};

/// Records of a part: 4 pages. Takes a millisecond.
const PART_RECORDS: usize = 1024;

/// The records that an index in memory has not been told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    /// Those of this PBN and after.
    From(u64),
    Nothing,
}

/// Collects records.
struct Records {
    found: Vec<(u32, Fingerprint)>,
    /// The PBN at which the next part begins, if there is one.
    next: Option<u64>,
}

impl Visitor for Records {
    fn value(&mut self, pbn: u64, value: u128) -> ControlFlow<()> {
        if self.found.len() == PART_RECORDS {
            self.next = Some(pbn);
            return ControlFlow::Break(());
        }
        let fingerprint = Identity::from_bytes(value.to_le_bytes()).fingerprint();
        self.found.push((pbn as u32, fingerprint));
        ControlFlow::Continue(())
    }

    /// The blocks of a lost page are not found as duplicates. The pool takes no writes any more.
    fn lost(&mut self, _pbns: Range<u64>, _error: MetadataError) -> Result<()> {
        Ok(())
    }
}

impl<L: Layout> CachedBackend<L> {
    /// Adds the entries of the next records to the index. Returns whether there are more.
    pub(super) fn catch_up_a_part(&self) -> Result<bool> {
        let Some(index) = self.version.index.in_memory() else { return Ok(false) };
        let mut unread = self.unread.lock();
        let Unread::From(first) = *unread else { return Ok(false) };
        let mut records = Records { found: Vec::with_capacity(PART_RECORDS), next: None };
        L::walk(&self.pages, &self.version.fingerprints, Part::Fingerprints, first, &mut records)?;
        let mut counts = self.stored_counts();
        let mut edits = Vec::with_capacity(records.found.len());
        let mut removed = Vec::new();
        for (pbn, fingerprint) in records.found {
            let is_live = !fingerprint.is_none() && counts.get(u64::from(pbn))? > 0;
            let hash = fingerprint.low();
            if is_live && self.is_about_to_change(pbn, fingerprint) {
                removed.push(IndexEdit { hash, pbn, comes: false });
            } else if is_live {
                edits.push(IndexEdit { hash, pbn, comes: true });
            }
        }
        index.edit(&edits);
        index.note(&removed);
        *unread = records.next.map_or(Unread::Nothing, Unread::From);
        Ok(*unread != Unread::Nothing)
    }

    /// Returns whether the merge of the frozen delta removes this entry. It may have done so
    /// already, and would not do it again.
    fn is_about_to_change(&self, pbn: u32, fingerprint: Fingerprint) -> bool {
        let Some(frozen) = self.frozen() else { return false };
        let is_freed = frozen.counts.get(&pbn).is_some_and(|count| *count == 0);
        let identity = frozen.identities.get(&pbn);
        is_freed || identity.is_some_and(|identity| identity.fingerprint() != fingerprint)
    }
}
