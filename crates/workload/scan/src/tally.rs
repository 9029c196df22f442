//! The figures of a block size, computed from counted contents one after another. Scans and merges
//! share this code, so that both give the same figures.

use crate::copies::CopyCounts;
use crate::estimate::{self, SampleScale};
use crate::fingerprint::ScanFingerprint;
use crate::levels::LevelSample;
use crate::locality::{MAX_COPIES, MAX_OCCURRENCES};
use crate::nature::Nature;
use crate::result::{
    BlockSizeResult, ENTROPY_STEPS, LocalityResult, NatureClass, NatureResult, NatureStats,
    RangeResult, Repeated, WithZeros,
};
use crate::set::ContentLocation;
use gemelo_content::{range_index, range_label, range_start};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The number of contents in the list of the most repeated.
const MAX_REPEATED: usize = 10;

/// The values of one distinct content.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) fingerprint: ScanFingerprint,
    pub(crate) length_bytes: u32,
    pub(crate) copies: u64,
    pub(crate) zero: bool,
    pub(crate) place: Option<ContentLocation>,
    pub(crate) nature: Option<Nature>,
    /// The places in the scan in bytes, ascending; empty if the content is not in the locality
    /// sample.
    pub(crate) positions: Vec<u64>,
}

/// The counts of a block size that do not depend on contents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BlockTotals {
    pub(crate) blocks: u64,
    pub(crate) data_bytes: u64,
    pub(crate) short_blocks: u64,
    pub(crate) skipped_tails: u64,
    pub(crate) skipped_tail_bytes: u64,
    pub(crate) padding_bytes: u64,
    pub(crate) zero_blocks: u64,
    pub(crate) zero_bytes: u64,
}

impl BlockTotals {
    pub(crate) fn add(&mut self, other: &Self) {
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.data_bytes = self.data_bytes.saturating_add(other.data_bytes);
        self.short_blocks = self.short_blocks.saturating_add(other.short_blocks);
        self.skipped_tails = self.skipped_tails.saturating_add(other.skipped_tails);
        self.skipped_tail_bytes = self.skipped_tail_bytes.saturating_add(other.skipped_tail_bytes);
        self.padding_bytes = self.padding_bytes.saturating_add(other.padding_bytes);
        self.zero_blocks = self.zero_blocks.saturating_add(other.zero_blocks);
        self.zero_bytes = self.zero_bytes.saturating_add(other.zero_bytes);
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Measured {
    nature: Nature,
    length_bytes: u32,
    copies: u64,
}

/// Adds up the contents of one block size.
pub(crate) struct Tally {
    block_bytes: u32,
    /// The contents that are not zero; in an estimate, those in the sample.
    counts: CopyCounts,
    bytes: u64,
    /// The contents of zeros: one for each length.
    zero_contents: u64,
    /// The bytes of one copy of each content of zeros.
    zero_distinct_bytes: u64,
    max_repeated: Vec<Repeated>,
    nature: LevelSample<Measured>,
    locality: LevelSample<Vec<u64>>,
}

impl Tally {
    pub(crate) fn new(block_bytes: u32, max_measured: u64) -> Self {
        Self {
            block_bytes,
            counts: CopyCounts::default(),
            bytes: 0,
            zero_contents: 0,
            zero_distinct_bytes: 0,
            max_repeated: Vec::with_capacity(MAX_REPEATED + 1),
            nature: LevelSample::new(max_measured, |_| 1),
            locality: LevelSample::new(MAX_OCCURRENCES, |positions| {
                positions.len().min(MAX_COPIES) as u64
            }),
        }
    }

    /// Raises the levels of both samples to at least those at which the samples of the rows were
    /// taken.
    pub(crate) fn raise_levels(&mut self, nature: u32, locality: u32) {
        self.nature.raise_to(nature);
        self.locality.raise_to(locality);
    }

    /// Returns the current levels of the nature sample and the locality sample.
    pub(crate) fn levels(&self) -> (u32, u32) {
        (self.nature.level(), self.locality.level())
    }

    /// Adds a content. Each content must be added only once.
    pub(crate) fn add(&mut self, row: &Row) {
        if row.zero {
            self.zero_contents += 1;
            self.zero_distinct_bytes += u64::from(row.length_bytes);
            return;
        }
        self.counts.add(row.copies);
        self.bytes += u64::from(row.length_bytes);
        self.rank(row);
        if let Some(nature) = row.nature {
            let (length_bytes, copies) = (row.length_bytes, row.copies);
            self.nature.insert(row.fingerprint, || Measured { nature, length_bytes, copies });
        }
        if !row.positions.is_empty() {
            let first = row.positions.get(..MAX_COPIES).unwrap_or(&row.positions);
            self.locality.insert(row.fingerprint, || first.to_vec());
        }
    }

    fn rank(&mut self, row: &Row) {
        if row.copies < 2 {
            return;
        }
        // Rows come in ascending order of fingerprints, so this row follows those with equal
        // copies.
        let at = self.max_repeated.partition_point(|other| other.copies >= row.copies);
        if at < MAX_REPEATED {
            let Row { fingerprint, copies, length_bytes, ref place, .. } = *row;
            let repeated = Repeated { fingerprint, copies, length_bytes, place: place.clone() };
            self.max_repeated.insert(at, repeated);
            self.max_repeated.truncate(MAX_REPEATED);
        }
    }

    /// Returns the figures of a store that keeps zeros, from those of the other contents.
    fn with_zeros(&self, totals: &BlockTotals, distinct: u64, distinct_bytes: u64) -> WithZeros {
        let distinct = distinct.saturating_add(self.zero_contents).min(totals.blocks);
        let distinct_bytes =
            distinct_bytes.saturating_add(self.zero_distinct_bytes).min(totals.data_bytes);
        let saved_bytes = totals.data_bytes - distinct_bytes;
        WithZeros {
            distinct,
            distinct_bytes,
            dedup_ratio: ratio(totals.blocks, distinct),
            saved_bytes,
            saved_share: share(saved_bytes, totals.data_bytes),
        }
    }

    /// Returns the figures. `sample` is given if the contents are a sample.
    pub(crate) fn finish(
        self,
        totals: &BlockTotals,
        sample: Option<SampleScale>,
    ) -> BlockSizeResult {
        let blocks = totals.blocks - totals.zero_blocks;
        let bytes = totals.data_bytes.saturating_sub(totals.zero_bytes);
        let scale = sample.map_or(1.0, |sample| 1.0 / sample.share);
        let up = |count: u64| (count as f64 * scale).round() as u64;
        let classes: BTreeMap<u64, u64> = self
            .counts
            .classes()
            .map(|(copies, contents)| {
                (copies, if sample.is_some() { up(contents) } else { contents })
            })
            .collect();
        let distinct: u64 = classes.values().sum::<u64>().min(blocks);
        let distinct_bytes = if sample.is_some() { up(self.bytes) } else { self.bytes }.min(bytes);
        let unique = classes.get(&1).copied().unwrap_or(0);
        BlockSizeResult {
            block_bytes: self.block_bytes,
            blocks: totals.blocks,
            data_bytes: totals.data_bytes,
            short_blocks: totals.short_blocks,
            skipped_tails: totals.skipped_tails,
            skipped_tail_bytes: totals.skipped_tail_bytes,
            padding_bytes: totals.padding_bytes,
            zero_blocks: totals.zero_blocks,
            zero_bytes: totals.zero_bytes,
            with_zeros: self.with_zeros(totals, distinct, distinct_bytes),
            counted_blocks: blocks,
            counted_bytes: bytes,
            distinct,
            distinct_bytes,
            unique,
            distinct_with_duplicates: distinct.saturating_sub(unique),
            duplicates: blocks - distinct,
            dedup_ratio: ratio(blocks, distinct),
            saved_bytes: bytes - distinct_bytes,
            saved_share: share(bytes - distinct_bytes, bytes),
            distribution: classes
                .iter()
                .map(|(copies, contents)| [copies - 1, *contents])
                .collect(),
            ranges: ranges(&classes, blocks),
            max_repeated: self.max_repeated,
            nature: nature_result(&self.nature.into_sorted()),
            pools: Vec::new(),
            locality: locality_result(
                self.locality.into_sorted().iter().map(|(_, places)| places.as_slice()),
            ),
            estimate: sample.map(|sample| {
                let whole = estimate::Whole {
                    blocks,
                    bytes,
                    distinct_bytes,
                    zero_blocks: totals.zero_blocks,
                    zero_bytes: totals.zero_bytes,
                    zero_contents: self.zero_contents,
                    zero_distinct_bytes: self.zero_distinct_bytes,
                };
                estimate::intervals(&self.counts, sample, whole)
            }),
        }
    }
}

fn ratio(blocks: u64, distinct: u64) -> f64 {
    if distinct == 0 { 1.0 } else { blocks as f64 / distinct as f64 }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn ranges(classes: &BTreeMap<u64, u64>, blocks: u64) -> Vec<RangeResult> {
    let highest = classes.keys().next_back().map(|copies| range_index(copies - 1));
    let mut rows: Vec<RangeResult> = (0..highest.map_or(0, |index| index + 1))
        .map(|index| RangeResult {
            duplicates: range_label(index),
            contents: 0,
            blocks: 0,
            share: 0.0,
        })
        .collect();
    for (copies, contents) in classes {
        if let Some(row) = rows.get_mut(range_index(copies - 1)) {
            row.contents += contents;
            row.blocks = row.blocks.saturating_add(copies.saturating_mul(*contents));
        }
    }
    for row in &mut rows {
        row.share = row.blocks as f64 / blocks.max(1) as f64;
    }
    rows
}

fn nature_result(contents: &[(ScanFingerprint, Measured)]) -> Option<NatureResult> {
    let measured = || contents.iter().map(|(_, measured)| measured);
    let mut by_range: BTreeMap<usize, Vec<&Measured>> = BTreeMap::new();
    let mut entropy_histogram = [0; ENTROPY_STEPS];
    for one in measured() {
        by_range.entry(range_index(one.copies - 1)).or_default().push(one);
        let step = (one.nature.entropy_bits * 2.0) as usize;
        if let Some(count) = entropy_histogram.get_mut(step.min(ENTROPY_STEPS - 1)) {
            *count += 1;
        }
    }
    let classes = by_range.into_iter().map(|(index, members)| NatureClass {
        duplicates: range_label(index),
        duplicates_from: range_start(index),
        duplicates_to: range_start(index + 1).saturating_sub(1),
        figures: figures(members.into_iter()),
    });
    (!contents.is_empty()).then(|| NatureResult {
        overall: figures(measured()),
        classes: classes.collect(),
        entropy_histogram,
    })
}

fn figures<'measured>(contents: impl Iterator<Item = &'measured Measured>) -> NatureStats {
    let (mut count, mut entropy_bits, mut bytes, mut lz4_bytes, mut zstd_bytes) =
        (0u64, 0.0, 0u64, 0u64, 0u64);
    for content in contents {
        count += 1;
        entropy_bits += content.nature.entropy_bits;
        bytes += u64::from(content.length_bytes);
        lz4_bytes += u64::from(content.nature.lz4_bytes);
        zstd_bytes += u64::from(content.nature.zstd_bytes);
    }
    let saved = |compressed: u64| 1.0 - compressed as f64 / bytes.max(1) as f64;
    NatureStats {
        sampled_contents: count,
        entropy_bits: entropy_bits / count.max(1) as f64,
        lz4_saved_share: saved(lz4_bytes),
        zstd_saved_share: saved(zstd_bytes),
    }
}

fn locality_result<'places>(
    contents: impl Iterator<Item = &'places [u64]>,
) -> Option<LocalityResult> {
    let mut sampled_contents = 0;
    let mut distances: Vec<u64> = Vec::new();
    for places in contents.filter(|places| places.len() > 1) {
        sampled_contents += 1;
        distances.extend(
            places.iter().zip(places.iter().skip(1)).map(|(from, to)| to.saturating_sub(*from)),
        );
    }
    distances.sort_unstable();
    let median_bytes = *distances.get(distances.len() / 2)?;
    let mut histogram: BTreeMap<u64, u64> = BTreeMap::new();
    for distance in &distances {
        *histogram.entry(1 << distance.max(&1).ilog2()).or_insert(0) += 1;
    }
    let sum: u128 = distances.iter().map(|distance| u128::from(*distance)).sum();
    Some(LocalityResult {
        sampled_contents,
        distances: distances.len() as u64,
        mean_bytes: sum as f64 / distances.len() as f64,
        median_bytes,
        histogram: histogram.into_iter().map(|(from, count)| [from, count]).collect(),
    })
}
