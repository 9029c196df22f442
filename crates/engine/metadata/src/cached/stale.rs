//! Entries of freed blocks in an index in memory.
//!
//! To remove the entry of a freed block, its record has to be read, which costs a random read for
//! each block that is overwritten. So a merge that frees blocks far from each other leaves their
//! entries, and removes those of blocks that were freed before, in the order of their records, at a
//! pace that bounds their number. The entry of a block that is stored again is removed with the
//! change of its record, and one that a look-up meets at once: so those of a content that comes and
//! goes do not gather.
//!
//! A stale entry has the fingerprint of its block's record on disk, and the block's count is 0, so
//! a look-up does not take it for a duplicate.

use super::compact::MemoryIndex;
use super::counts::StoredCounts;
use super::delta::Delta;
use super::layout::IndexEdit;
use super::pages::Pages;
use super::record_pages::RecordPages;
use super::records::{FrozenRecords, StoredRecords};
use crate::error::Result;
use gemelo_format::Part;

/// All records are looked at while as many entries become stale as this part of the used blocks.
const STALE_PART: u64 = 32;
/// Pages of records that are read in one list.
const PAGES_AT_ONCE: usize = 64;
/// PBNs of a page of records.
const PAGE_PBNS: u64 = Part::Fingerprints.array_entries() as u64;

/// The treatment of the entries of blocks that a checkpoint frees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FreedEntries {
    /// They are removed, by their records.
    Remove,
    /// They stay, and stale entries are looked for in this many pages of records.
    Leave { pages: u64 },
}

impl FreedEntries {
    /// Chooses what reads fewer pages, for these new counts by PBN, in order.
    pub(super) fn choose(frozen: &FrozenRecords, counted: &[(u64, u32)]) -> Self {
        let (mut blocks, mut to_read, mut last) = (0, 0, None);
        for (pbn, _) in counted.iter().filter(|(_, count)| *count == 0) {
            let page = Some(pbn / PAGE_PBNS);
            blocks += 1;
            to_read += u64::from(page != last);
            last = page;
        }
        // All PBNs for a part of the used ones.
        let pbns = u128::from(blocks * STALE_PART) * u128::from(frozen.pbn_end);
        let pages = pbns / u128::from(PAGE_PBNS * frozen.physical.max(1)) + 1;
        let pages = u64::try_from(pages).unwrap_or(u64::MAX);
        if to_read <= pages { Self::Remove } else { Self::Leave { pages } }
    }
}

/// Removes the stale entries of the next pages of records, and continues at the first record after
/// the last one. It leaves alone what the checkpoint under way changes.
pub(super) fn sweep(
    pages: &Pages,
    index: &MemoryIndex,
    before: &StoredRecords,
    delta: &Delta,
    most: u64,
) -> Result<()> {
    let mut counts = StoredCounts::new(pages, before);
    let (mut next, mut left) = (index.swept(), usize::try_from(most).unwrap_or(usize::MAX));
    while left > 0 {
        let some = left.min(PAGES_AT_ONCE);
        let part = RecordPages::find(pages, &before.fingerprints, next, some)?;
        let records = part.read(pages)?;
        let pbns: Vec<u64> = records.iter().map(|(pbn, _)| *pbn).collect();
        let mut edits = Vec::new();
        for ((pbn, fingerprint), is_live) in records.into_iter().zip(counts.are_live(&pbns)) {
            if !is_live? && !delta.has_identity(pbn) {
                edits.push(IndexEdit { hash: fingerprint.low(), pbn, comes: false });
            }
        }
        index.edit(&edits);
        left -= some;
        next = part.next.unwrap_or(0);
        if part.next.is_none() {
            break;
        }
    }
    index.set_swept(next);
    Ok(())
}
