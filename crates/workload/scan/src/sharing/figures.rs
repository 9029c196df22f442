//! From the sample of copies to figures by directory and by group of files.
//!
//! A content with c copies in all, d of them in a directory, takes its length once. Each copy
//! bears an equal part of it, so the directory saves d × (1 - 1/c) × length, and the savings of all
//! directories add up to those of the scan. Zero blocks are no part of the sample: they save
//! nothing here, as in the figures of the scan. Sums over the sample are divided by the share of
//! contents in it.

use super::{Copies, DirectoryTotals, FileNumber, SharingSample};
use crate::result::{DirectoryResult, FileGroup, SharingResult};
use std::collections::HashMap;
use std::path::PathBuf;

/// The most groups of files in a result.
const MAX_GROUPS: usize = 100;

/// The most files of a group that are named.
const MAX_NAMED: usize = 16;

/// Sums of a directory over the contents of the sample, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct DirectorySums {
    saved: f64,
    saved_alone: f64,
    only_here: f64,
}

#[derive(Default)]
struct GroupSums {
    distinct: f64,
    saved: f64,
}

/// Returns the figures of all directories with data, and the groups of files that save most.
pub(crate) fn sharing_result(
    block_bytes: u32,
    sample: &SharingSample,
    paths: &[PathBuf],
    totals: &[DirectoryTotals],
) -> SharingResult {
    let mut sums = vec![DirectorySums::default(); paths.len()];
    let mut groups: HashMap<Vec<FileNumber>, GroupSums> = HashMap::new();
    for copies in sample.copies.chunk_by(|a, b| a.fingerprint == b.fingerprint) {
        add_to_directories(copies, &mut sums);
        add_to_group(copies, &mut groups);
    }
    let scale = |sum: f64| (sum / sample.share()).round() as u64;
    let mut directories: Vec<DirectoryResult> = paths
        .iter()
        .zip(totals)
        .zip(&sums)
        .filter(|((_, totals), _)| totals.blocks > 0)
        .map(|((path, totals), sums)| DirectoryResult {
            path: gemelo_base::text_of_name(path.as_os_str()),
            blocks: totals.blocks,
            data_bytes: totals.data_bytes,
            zero_bytes: totals.zero_bytes,
            saved_bytes: scale(sums.saved),
            saved_alone_bytes: scale(sums.saved_alone),
            only_here_bytes: scale(sums.only_here),
        })
        .collect();
    directories.sort_by(|a, b| (b.saved_bytes, &a.path).cmp(&(a.saved_bytes, &b.path)));
    SharingResult {
        block_bytes,
        sampled_share: sample.share(),
        directories,
        file_groups: file_groups(groups, sample, scale),
    }
}

fn add_to_directories(copies: &[Copies], sums: &mut [DirectorySums]) {
    let all: u64 = copies.iter().map(|one| one.copies).sum();
    let by_directory = copies.chunk_by(|a, b| a.directory == b.directory);
    for here in by_directory {
        let Some(first) = here.first() else { continue };
        let Some(sums) = sums.get_mut(first.directory as usize) else { continue };
        let count: u64 = here.iter().map(|one| one.copies).sum();
        let length = f64::from(first.length_bytes);
        sums.saved += length * count as f64 * (1.0 - 1.0 / all as f64);
        sums.saved_alone += length * (count - 1) as f64;
        if count == all {
            sums.only_here += length;
        }
    }
}

/// Adds a content with duplicates to the group of the files that have it.
fn add_to_group(copies: &[Copies], groups: &mut HashMap<Vec<FileNumber>, GroupSums>) {
    let all: u64 = copies.iter().map(|one| one.copies).sum();
    let Some(mut files) = copies.iter().map(|one| one.file).collect::<Option<Vec<_>>>() else {
        return;
    };
    let Some(first) = copies.first().filter(|_| all > 1) else { return };
    files.sort_unstable();
    let sums = groups.entry(files).or_default();
    sums.distinct += f64::from(first.length_bytes);
    sums.saved += f64::from(first.length_bytes) * (all - 1) as f64;
}

fn file_groups(
    groups: HashMap<Vec<FileNumber>, GroupSums>,
    sample: &SharingSample,
    scale: impl Fn(f64) -> u64,
) -> Vec<FileGroup> {
    let mut groups: Vec<(Vec<FileNumber>, GroupSums)> = groups.into_iter().collect();
    groups.sort_by(|(a_files, a), (b_files, b)| {
        b.saved.total_cmp(&a.saved).then_with(|| a_files.cmp(b_files))
    });
    groups.truncate(MAX_GROUPS);
    let named = |files: &[FileNumber]| {
        let mut paths: Vec<String> = files
            .iter()
            .filter_map(|number| sample.files.get(number))
            .map(|path| gemelo_base::text_of_name(path.as_os_str()))
            .collect();
        paths.sort();
        paths.truncate(MAX_NAMED);
        paths
    };
    groups
        .into_iter()
        .map(|(files, sums)| FileGroup {
            files: files.len() as u64,
            paths: named(&files),
            distinct_bytes: scale(sums.distinct),
            saved_bytes: scale(sums.saved),
        })
        .collect()
}
