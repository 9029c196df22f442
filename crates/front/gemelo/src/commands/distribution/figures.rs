//! The summary figures of a distribution, as text and as JSON.

use crate::table::Table;
use gemelo_base::units::{format_count, format_percent, format_size};
use gemelo_content::{Distribution, range_label};
use schemars::JsonSchema;
use serde::Serialize;

/// The summary figures of a distribution. Shares are of all blocks, from 0 to 1.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub(super) struct DistributionFigures {
    /// The name or the file of the distribution.
    pub(super) name: String,
    /// The source of the distribution, as its profile tells it; [`None`] if it has none.
    pub(super) source: Option<String>,
    /// The size of a block in bytes.
    pub(super) block_bytes: u64,
    /// The number of all blocks.
    pub(super) blocks: u64,
    /// The bytes of all blocks.
    pub(super) data_bytes: u64,
    /// The blocks of zeros.
    pub(super) zero_blocks: u64,
    /// The number of distinct contents that are not zeros.
    pub(super) distinct: u64,
    /// The number of contents with one copy.
    pub(super) unique: u64,
    /// The number of contents with two or more copies.
    pub(super) distinct_with_duplicates: u64,
    /// The number of blocks that repeat another one.
    pub(super) duplicates: u64,
    /// The share of blocks that are zeros.
    pub(super) zero_share: f64,
    /// The share of all blocks whose content has one copy.
    pub(super) unique_share: f64,
    /// The contents with two or more copies, each counted once, as a share of all blocks.
    pub(super) distinct_with_duplicates_share: f64,
    /// The duplicates as a share of all blocks.
    pub(super) duplicate_share: f64,
    /// The blocks that are not zeros divided by the distinct contents.
    pub(super) dedup_ratio: f64,
    /// The dedup ratio of a store for which zeros are a content like any other.
    pub(super) dedup_ratio_with_zeros: f64,
    /// The mean number of duplicates of a content with two or more copies.
    pub(super) duplicates_per_duplicated_content: f64,
    /// null for expected figures, which do not include it.
    pub(super) max_duplicates: u64,
    /// The labels of the ranges.
    pub(super) ranges: Vec<RangeStats>,
}

/// One range of duplicates.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub(super) struct RangeStats {
    /// The range as text, such as `10-49`.
    pub(super) duplicates: String,
    /// The number of distinct contents in the range.
    pub(super) contents: u64,
    /// The number of blocks in the range, all copies included.
    pub(super) blocks: u64,
    /// The share of all blocks that is in the range.
    pub(super) block_share: f64,
}

impl DistributionFigures {
    pub(super) fn of(
        name: &str,
        source: Option<&str>,
        distribution: &Distribution,
        block_bytes: u64,
    ) -> Self {
        let summary = distribution.summary();
        let share = |part: u64| part as f64 / summary.blocks as f64;
        Self {
            name: name.to_owned(),
            source: source.map(|source| source.trim().to_owned()),
            block_bytes,
            blocks: summary.blocks,
            data_bytes: summary.blocks.saturating_mul(block_bytes),
            zero_blocks: summary.zero_blocks,
            distinct: summary.distinct,
            unique: summary.unique,
            distinct_with_duplicates: summary.distinct_with_duplicates,
            duplicates: summary.duplicates,
            zero_share: share(summary.zero_blocks),
            unique_share: share(summary.unique),
            distinct_with_duplicates_share: share(summary.distinct_with_duplicates),
            duplicate_share: share(summary.duplicates),
            dedup_ratio: summary.dedup_ratio(),
            dedup_ratio_with_zeros: summary.dedup_ratio_with_zeros(),
            duplicates_per_duplicated_content: summary.duplicates_per_duplicated_content(),
            max_duplicates: summary.max_duplicates,
            ranges: distribution
                .ranges()
                .into_iter()
                .map(|row| RangeStats {
                    duplicates: range_label(row.index),
                    contents: row.contents,
                    blocks: row.blocks,
                    block_share: row.share,
                })
                .collect(),
        }
    }

    /// Returns the figures as text.
    pub(super) fn to_text(&self) -> String {
        let mut text = format!("{}\n", self.name);
        if let Some(source) = &self.source {
            text += &format!("  source: {source}\n");
        }
        let mut table = Table::new();
        let size = if self.data_bytes == u64::MAX {
            "more than 16 EiB".to_owned()
        } else {
            format_size(self.data_bytes)
        };
        table.row(["blocks", &format_count(self.blocks), "100.00 %"]);
        table.row([&format!("data, in blocks of {}", format_size(self.block_bytes)), &size]);
        if self.zero_blocks > 0 {
            let (count, share) = (format_count(self.zero_blocks), format_percent(self.zero_share));
            table.row(["zero blocks", &count, &share]);
        }
        table.row([
            "distinct",
            &format_count(self.distinct),
            &format_percent(self.unique_share + self.distinct_with_duplicates_share),
        ]);
        table.row(["unique", &format_count(self.unique), &format_percent(self.unique_share)]);
        table.row([
            "distinct with duplicates",
            &format_count(self.distinct_with_duplicates),
            &format_percent(self.distinct_with_duplicates_share),
        ]);
        table.row([
            "duplicates",
            &format_count(self.duplicates),
            &format_percent(self.duplicate_share),
        ]);
        if self.zero_blocks > 0 {
            table.row(["dedup ratio without zeros", &ratio(self.dedup_ratio)]);
            table.row(["dedup ratio with zeros", &ratio(self.dedup_ratio_with_zeros)]);
        } else {
            table.row(["dedup ratio", &ratio(self.dedup_ratio)]);
        }
        table.row([
            "duplicates per duplicated content",
            &format!("{:.2}", self.duplicates_per_duplicated_content),
        ]);
        table.row(["most duplicates of a content", &format_count(self.max_duplicates)]);
        text += &table.render(2);
        let mut ranges = Table::new();
        ranges.row(["duplicates", "contents", "blocks", "of blocks"]);
        for row in &self.ranges {
            let (contents, blocks) = (format_count(row.contents), format_count(row.blocks));
            ranges.row([&row.duplicates, &contents, &blocks, &format_percent(row.block_share)]);
        }
        text + "\n" + &ranges.render(2)
    }
}

/// Returns a dedup ratio with five digits.
pub(super) fn ratio(ratio: f64) -> String {
    if ratio < 1000.0 { format!("{ratio:.4}") } else { format!("{ratio:.0}") }
}
