//! Merges saved sets in bounded memory: their sorted rows are read in parallel and combined.

use super::error::SavedSetError;
use super::read::SetReader;
use super::write::Saving;
use super::{Saved, SetHead, SizeHead};
use crate::fingerprint::ScanFingerprint;
use crate::locality::MAX_COPIES;
use crate::nature;
use crate::result::{BlockSizeResult, Effort, ScanResult};
use crate::tally::{BlockTotals, Row, Tally};
use gemelo_base::{Clock, Monitor, StopFlag, SystemClock, Unit};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::path::PathBuf;

/// The most sets that are merged at once. Each is an open file and takes some MiB of memory.
pub const MAX_SETS: usize = 512;

/// The number of rows between two progress reports.
const ADVANCE_ROWS: u64 = 1 << 16;

/// Merges sets to the result of one scan of all their data, in the order of `paths`. The merged set
/// is written to `save`, if given, which must be an empty file opened for reading and writing.
///
/// # Errors
/// Fails if a set cannot be read, is damaged, or has another fingerprint, other block sizes or
/// another tail policy than the first set, and after a stop. If the merged set cannot be written,
/// [`Saved::set`] holds the error.
pub fn merge_sets(
    paths: &[PathBuf],
    save: Option<&File>,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<Saved, SavedSetError> {
    let clock = SystemClock::new();
    if paths.is_empty() || paths.len() > MAX_SETS {
        return Err(SavedSetError::Count { found: paths.len(), most: MAX_SETS });
    }
    monitor.begin("checking", Unit::Items, Some(paths.len() as u64));
    let mut sets: Vec<SetReader> = Vec::with_capacity(paths.len());
    for path in paths {
        if stop.is_raised() {
            return Err(SavedSetError::Stopped);
        }
        let set = SetReader::open(path)?;
        if let Some(first) = sets.first() {
            check_alike(first, &set)?;
        }
        sets.push(set);
        monitor.advance(1);
    }
    let mut head = united_head(&sets);
    monitor.begin("merging", Unit::Items, None);
    let mut merge = Merge::new(sets)?;
    let mut saving = Saving::begin(save);
    let mut block_sizes = Vec::with_capacity(head.sizes.len());
    for size in &mut head.sizes {
        block_sizes.push(merge.block_size(size, &mut saving, monitor, stop)?);
    }
    let set = saving.finish(&head);
    monitor.finish();
    let result = ScanResult {
        partial: head.partial,
        fingerprint: head.fingerprint,
        tail: head.tail,
        files: head.files,
        effort: Effort { elapsed_ns: clock.now_ns(), ..Effort::default() },
        block_sizes,
        sharing: None,
    };
    Ok(Saved { result, set })
}

fn check_alike(first: &SetReader, second: &SetReader) -> Result<(), SavedSetError> {
    let sizes = |head: &SetHead| {
        let sizes: Vec<String> =
            head.sizes.iter().map(|size| size.block_bytes.to_string()).collect();
        sizes.join(",")
    };
    let tail = |head: &SetHead| format!("{:?}", head.tail).to_lowercase();
    let (one, other) = (&first.head, &second.head);
    let compared = [
        ("fingerprints", one.fingerprint.name().to_owned(), other.fingerprint.name().to_owned()),
        ("block sizes", sizes(one), sizes(other)),
        ("tail policies", tail(one), tail(other)),
    ];
    for (what, first_has, second_has) in compared {
        if first_has != second_has {
            let (first, second) = (first.path().to_owned(), second.path().to_owned());
            return Err(SavedSetError::Differ { first, second, what, first_has, second_has });
        }
    }
    Ok(())
}

fn united_head(sets: &[SetReader]) -> SetHead {
    let mut heads = sets.iter().map(|set| &set.head);
    let Some(mut all) = heads.next().cloned() else {
        // Unreachable, because there is at least one set. An empty head would be harmless.
        return SetHead {
            partial: true,
            fingerprint: crate::ScanFingerprintKind::default(),
            tail: crate::TailPolicy::default(),
            files: crate::FileCounts::default(),
            position_bytes: 0,
            sizes: Vec::new(),
        };
    };
    for head in heads {
        all.partial |= head.partial;
        all.files.add(&head.files);
        all.position_bytes = all.position_bytes.saturating_add(head.position_bytes);
        for (sum, part) in all.sizes.iter_mut().zip(&head.sizes) {
            sum.totals.add(&part.totals);
            sum.nature_level = sum.nature_level.max(part.nature_level);
            sum.locality_level = sum.locality_level.max(part.locality_level);
        }
    }
    all
}

/// A set with its next row.
struct MergedSet {
    set: SetReader,
    /// The bytes of all sets before this one.
    start_bytes: u64,
    row: Option<(u32, Row)>,
}

struct Merge {
    heads: Vec<MergedSet>,
    /// The next row of every set. Of rows with the same key, that of the earlier set comes first.
    order: BinaryHeap<Reverse<(u32, ScanFingerprint, usize)>>,
}

impl Merge {
    fn new(sets: Vec<SetReader>) -> Result<Self, SavedSetError> {
        let mut merge = Self { heads: Vec::with_capacity(sets.len()), order: BinaryHeap::new() };
        let mut start_bytes: u64 = 0;
        for (index, set) in sets.into_iter().enumerate() {
            let bytes = set.head.position_bytes;
            merge.heads.push(MergedSet { set, start_bytes, row: None });
            start_bytes = start_bytes.saturating_add(bytes);
            merge.advance(index)?;
        }
        Ok(merge)
    }

    /// Reads the next row of a set.
    fn advance(&mut self, index: usize) -> Result<(), SavedSetError> {
        let Some(head) = self.heads.get_mut(index) else { return Ok(()) };
        head.row = head.set.next()?;
        if let Some((block_bytes, row)) = &mut head.row {
            for place in &mut row.positions {
                *place = place.saturating_add(head.start_bytes);
            }
            self.order.push(Reverse((*block_bytes, row.fingerprint, index)));
        }
        Ok(())
    }

    /// Returns the next content of a block size, with its rows in all sets combined.
    fn next(&mut self, block_bytes: u32) -> Result<Option<Row>, SavedSetError> {
        let mut united: Option<Row> = None;
        while let Some(&Reverse((size, fingerprint, index))) = self.order.peek() {
            if size != block_bytes
                || united.as_ref().is_some_and(|row| row.fingerprint != fingerprint)
            {
                break;
            }
            self.order.pop();
            let Some((_, row)) = self.heads.get_mut(index).and_then(|head| head.row.take()) else {
                continue;
            };
            match &mut united {
                None => united = Some(row),
                Some(sum) => unite(sum, row),
            }
            self.advance(index)?;
        }
        Ok(united)
    }

    fn block_size(
        &mut self,
        size: &mut SizeHead,
        saving: &mut Saving<'_>,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<BlockSizeResult, SavedSetError> {
        let mut tally = Tally::new(size.block_bytes, nature::max_contents(size.block_bytes));
        tally.raise_levels(size.nature_level, size.locality_level);
        let mut rows = 0;
        let mut counted = BlockTotals::default();
        while let Some(row) = self.next(size.block_bytes)? {
            rows += 1;
            if rows % ADVANCE_ROWS == 0 {
                monitor.advance(ADVANCE_ROWS);
                if stop.is_raised() {
                    return Err(SavedSetError::Stopped);
                }
            }
            counted.blocks = counted.blocks.saturating_add(row.copies);
            if row.zero {
                counted.zero_blocks = counted.zero_blocks.saturating_add(row.copies);
            }
            tally.add(&row);
            saving.add(size.block_bytes, &row);
        }
        if counted.blocks != size.totals.blocks {
            return Err(self.invalid("the copies in its rows do not add up to its blocks"));
        }
        if counted.zero_blocks != size.totals.zero_blocks {
            return Err(self.invalid("its rows of zeros do not add up to its blocks of zeros"));
        }
        (size.nature_level, size.locality_level) = tally.levels();
        Ok(tally.finish(&size.totals, None))
    }

    fn invalid(&self, what: &'static str) -> SavedSetError {
        let path = self.heads.first().map_or_else(PathBuf::new, |head| head.set.path().to_owned());
        SavedSetError::Invalid { path, what }
    }
}

fn unite(sum: &mut Row, row: Row) {
    sum.copies = sum.copies.saturating_add(row.copies);
    // The set in which the content is more frequent may have no place for it, while another has
    // one.
    sum.place = sum.place.take().or(row.place);
    sum.nature = sum.nature.or(row.nature);
    sum.positions.extend(row.positions);
    sum.positions.truncate(MAX_COPIES);
}
