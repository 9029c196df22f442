//! Compares the fingerprints of blocks with one another and with the index, those of one part of
//! all tags after another.

use crate::bits::UsedPbns;
use crate::source::Source;
use crate::values::{Identities, Leaves};
use crate::{CheckError, CheckReport, Work};
use gemelo_format::{Fingerprint, IndexForm, Part, StoreTable, bucket_of, index_entry};
use std::collections::HashMap;
use std::ops::Range;

/// Bytes of a fingerprint, and of the two index entries that a block has and should have.
const CONTENT_BYTES: u64 = 16;

/// Parts of `all` numbers with so many contents in all, each of which takes bounded memory.
fn parts(all: u64, contents: u64, memory_bytes: u64) -> Vec<Range<u64>> {
    let most = (memory_bytes / CONTENT_BYTES).max(1);
    let parts = contents.div_ceil(most).clamp(1, all);
    (0..parts).map(|part| all * part / parts..all * (part + 1) / parts).collect()
}

/// Somewhat more than the contents of each part, so that lists of them do not grow.
fn each(used: &UsedPbns, parts: usize) -> usize {
    let each = used.count() as usize / parts;
    each + each / 16 + 64
}

/// The part of a fingerprint that the index has as well, and that is spread evenly.
const fn tag(fingerprint: Fingerprint) -> u32 {
    (fingerprint.low() >> 32) as u32
}

impl Identities {
    /// Counts contents that are stored more than once, and blocks that are marked as damaged.
    pub(crate) fn count_contents(
        &self,
        source: &Source,
        used: &UsedPbns,
        (work, report): (Work<'_>, &mut CheckReport),
    ) -> Result<(), CheckError> {
        let parts = parts(1 << 32, used.count(), work.memory_bytes);
        (report.marked_blocks, report.repeated_contents) = (0, 0);
        for (number, part) in (1..).zip(&parts) {
            let pass = (number, parts.len());
            work.begin("Comparing fingerprints", pass, self.stored.pages());
            let mut found: Vec<[u64; 2]> = Vec::with_capacity(each(used, parts.len()));
            self.each((source, work), 0, &mut |pbn, identity| {
                if !used.has(pbn) {
                    return true;
                }
                report.marked_blocks += u64::from(number == 1 && identity.is_suspect());
                let fingerprint = identity.fingerprint();
                if !fingerprint.is_none() && part.contains(&tag(fingerprint).into()) {
                    found.push([fingerprint.low(), fingerprint.high()]);
                }
                true
            })?;
            found.sort_unstable();
            let repeated = found.chunk_by(|one, other| one == other).filter(|same| same.len() > 1);
            report.repeated_contents += repeated.count() as u64;
        }
        Ok(())
    }

    /// Compares the index with the fingerprints of referenced blocks. An entry may be missing if
    /// its bucket is full.
    pub(crate) fn compare_index(
        &self,
        source: &Source,
        (index, table, form): (&Leaves, &StoreTable, IndexForm),
        used: &UsedPbns,
        (work, report): (Work<'_>, &mut CheckReport),
    ) -> Result<(), CheckError> {
        let is_table = form == IndexForm::HashTable;
        // The entries of a bucket are in one part.
        let all = if is_table { u64::from(table.buckets).max(1) } else { 1 << 32 };
        let place = |entry: u64| {
            let tag = (entry >> 32) as u32;
            u64::from(if is_table { bucket_of(tag, table.buckets) } else { tag })
        };
        let parts = parts(all, used.count(), work.memory_bytes);
        for (number, part) in (1..).zip(&parts) {
            let pages = self.stored.pages() + index.pages();
            work.begin("Comparing the index", (number, parts.len()), pages);
            let capacity = each(used, parts.len());
            let mut right = Vec::with_capacity(capacity);
            let mut present = Vec::with_capacity(capacity);
            self.each((source, work), 0, &mut |pbn, identity| {
                let fingerprint = identity.fingerprint();
                if !fingerprint.is_none() && used.has(pbn) {
                    let entry = index_entry(tag(fingerprint), pbn);
                    right.extend(part.contains(&place(entry)).then_some(entry));
                }
                true
            })?;
            let mut entries = index.from((source, work), 0);
            while let Some((entry, _)) = entries.next()? {
                present.extend(part.contains(&place(entry)).then_some(entry));
            }
            [&mut right, &mut present].into_iter().for_each(|entries| {
                entries.sort_unstable();
                entries.dedup();
            });
            let mut sizes: HashMap<u64, usize> = HashMap::new();
            present.iter().for_each(|entry| *sizes.entry(place(*entry)).or_default() += 1);
            let is_full = |entry: u64| {
                let size = sizes.get(&place(entry)).copied().unwrap_or(0);
                is_table && table.buckets > 0 && size >= 2 * Part::Index.array_entries()
            };
            for entry in present.iter().filter(|entry| right.binary_search(entry).is_err()) {
                let what = format!(
                    "the index has block {}, which is unreferenced or has another fingerprint",
                    *entry as u32
                );
                report.add(false, what);
            }
            for entry in right.iter().filter(|entry| present.binary_search(entry).is_err()) {
                if !is_full(*entry) {
                    let block = *entry as u32;
                    report.add(false, format!("the index has no entry for block {block}"));
                }
            }
        }
        Ok(())
    }
}
