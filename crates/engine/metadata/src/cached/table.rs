//! The layout `table`: arrays, and a hash table that grows bucket by bucket (linear hashing).
//!
//! Bucket b has the pages 2·b and 2·b + 1 of an array; the second is used only if the first is
//! full. Entries that fit in neither are not indexed, which costs a duplicate and nothing else.

use super::array::{self, LeafEdits, LeafShape};
use super::layout::{IndexEdit, Layout, MAX_CANDIDATES, StoredIndex, Visitor, each_candidate, tag};
use super::pages::Pages;
use crate::error::{MetadataError, Result};
use gemelo_format::{
    BUCKET_ENTRIES, Page, Part, array_value, bucket_entries, bucket_of, bucket_page, index_entry,
};
use std::iter::Peekable;
use std::sync::Arc;

/// The most index entries of a bucket on average: half a page. Even the fullest buckets then seldom
/// need their second page.
const MEAN_ENTRIES: u64 = 256;

/// The layout of arrays and a hash table.
pub(crate) struct TableLayout;

/// An index entry that is added to a bucket, or removed from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct BucketEdit {
    bucket: u32,
    entry: u64,
    comes: bool,
}

/// Added and removed index entries, as changes of the pages of buckets.
struct Buckets<'e> {
    pages: &'e Pages,
    before: StoredIndex,
    buckets: u32,
    /// The buckets that change, in ascending order.
    touched: Peekable<std::vec::IntoIter<u32>>,
    /// Sorted by bucket, and then by index entry.
    edits: Peekable<std::vec::IntoIter<BucketEdit>>,
    /// The entries of a bucket that did not fit in its first page.
    rest: Option<(u32, Vec<u64>)>,
}

fn entries_of(pages: &Pages, index: &StoredIndex, bucket: u32) -> Result<Vec<u64>> {
    let mut entries = Vec::new();
    for number in [u64::from(bucket) * 2, u64::from(bucket) * 2 + 1] {
        let Some(page) = array::leaf(pages, &index.tree, number)? else { break };
        let some = bucket_entries(&page);
        entries.extend(
            some.ok_or_else(|| MetadataError::damaged("a bucket of the index is malformed"))?,
        );
    }
    Ok(entries)
}

impl Buckets<'_> {
    /// Returns the bucket that held this bucket's entries before the table grew.
    fn source(&self, mut bucket: u32) -> u32 {
        while bucket >= self.before.buckets && bucket > 0 {
            bucket ^= 1 << bucket.ilog2();
        }
        bucket
    }

    /// Consumes the edits of a bucket and returns its entries with those edits made.
    fn entries(&mut self, bucket: u32) -> Result<Vec<u64>> {
        let mut entries = entries_of(self.pages, &self.before, self.source(bucket))?;
        entries.retain(|entry| bucket_of((entry >> 32) as u32, self.buckets) == bucket);
        while let Some(edit) = self.edits.next_if(|edit| edit.bucket == bucket) {
            let BucketEdit { entry, comes, .. } = edit;
            match (entries.binary_search(&entry), comes) {
                (Err(place), true) => entries.insert(place, entry),
                (Ok(place), false) => drop(entries.remove(place)),
                _ => {}
            }
        }
        entries.truncate(2 * BUCKET_ENTRIES);
        Ok(entries)
    }
}

impl LeafEdits for Buckets<'_> {
    fn part(&self) -> Part {
        Part::Index
    }

    fn next(&mut self) -> Option<u64> {
        match &self.rest {
            Some((bucket, _)) => Some(u64::from(*bucket) * 2 + 1),
            None => self.touched.peek().map(|bucket| u64::from(*bucket) * 2),
        }
    }

    /// The pages of the buckets are read with their entries.
    fn upcoming(&self, _end: u64) -> Vec<u64> {
        Vec::new()
    }

    fn change(&mut self, _: u64, _before: Option<Arc<Page>>) -> Result<Option<Arc<Page>>> {
        let entries = match self.rest.take() {
            Some((_, rest)) => rest,
            None => {
                let Some(bucket) = self.touched.next() else { return Ok(None) };
                let mut entries = self.entries(bucket)?;
                let rest = entries.split_off(entries.len().min(BUCKET_ENTRIES));
                self.rest = Some((bucket, rest));
                entries
            }
        };
        Ok((!entries.is_empty()).then(|| bucket_page(&entries).into()))
    }
}

impl Layout for TableLayout {
    type Index = StoredIndex;

    fn walk_index(pages: &Pages, index: &StoredIndex, visitor: &mut dyn Visitor) -> Result<()> {
        let mut read = |page: &Page, _first: u64, visitor: &mut dyn Visitor| {
            let flow =
                bucket_entries(page)?.into_iter().try_for_each(|entry| visitor.value(entry, 1));
            Some(flow)
        };
        let keys = Part::Index.array_entries() as u64;
        let mut shape = LeafShape { keys, read: &mut read };
        array::walk_leaves(pages, &index.tree, 0, &mut shape, visitor)
    }

    fn candidates(
        pages: &Pages,
        index: &StoredIndex,
        hashes: &[(usize, u64)],
        found: &mut Vec<(usize, u64)>,
    ) -> Result<()> {
        each_candidate(hashes, found, |hash, pbns| candidates_of(pages, index, hash, pbns))
    }

    fn merge_index(
        pages: &Pages,
        index: &StoredIndex,
        edits: Vec<IndexEdit>,
    ) -> Result<StoredIndex> {
        if edits.is_empty() {
            return Ok(*index);
        }
        let come = edits.iter().filter(|edit| edit.comes).count() as u64;
        let entries = index.entries.saturating_add(come).saturating_sub(edits.len() as u64 - come);
        let wanted = u32::try_from(entries / MEAN_ENTRIES + 1).unwrap_or(u32::MAX);
        let buckets = wanted.max(index.buckets);
        let by_bucket = |edit: IndexEdit| {
            let bucket = bucket_of(tag(edit.hash), buckets);
            BucketEdit { bucket, entry: edit.entry(), comes: edit.comes }
        };
        let mut edits: Vec<BucketEdit> = edits.into_iter().map(by_bucket).collect();
        edits.sort_unstable();
        let mut after = Buckets {
            pages,
            before: *index,
            buckets,
            touched: Vec::new().into_iter().peekable(),
            edits: Vec::new().into_iter().peekable(),
            rest: None,
        };
        let mut touched: Vec<u32> = edits.iter().map(|edit| edit.bucket).collect();
        touched.extend((index.buckets..buckets).flat_map(|bucket| [bucket, after.source(bucket)]));
        touched.sort_unstable();
        touched.dedup();
        let last = touched.last().map_or(0, |bucket| u64::from(*bucket) * 2 + 1);
        after.touched = touched.into_iter().peekable();
        after.edits = edits.into_iter().peekable();
        let tree = array::update(pages, &index.tree, last, &mut after)?;
        assert!(after.edits.peek().is_none(), "every change of the index has its bucket");
        Ok(StoredIndex { tree, buckets, entries })
    }
}

/// Adds the PBNs that the index has for a hash.
fn candidates_of(
    pages: &Pages,
    index: &StoredIndex,
    hash: u64,
    found: &mut Vec<u64>,
) -> Result<()> {
    let tag = tag(hash);
    let bucket = u64::from(bucket_of(tag, index.buckets));
    for number in [bucket * 2, bucket * 2 + 1] {
        let Some(page) = array::leaf(pages, &index.tree, number)? else { break };
        let entries = |at: usize| array_value(&page, at + 1, 8) as u64;
        let count = (array_value(&page, 0, 2) as usize).min(BUCKET_ENTRIES);
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = usize::midpoint(low, high);
            if entries(middle) < index_entry(tag, 0) { low = middle + 1 } else { high = middle }
        }
        let same = (low..count).map(entries).take_while(|entry| (entry >> 32) as u32 == tag);
        found.extend(same.take(MAX_CANDIDATES).map(|entry| u64::from(entry as u32)));
    }
    Ok(())
}
