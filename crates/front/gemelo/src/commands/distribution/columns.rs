//! The comparison of distributions. Each has a column of figures and a column of differences from
//! the first.

use super::figures::ratio;
use crate::table::Table;
use gemelo_base::units::{format_count, format_percent};
use gemelo_content::{Comparison, Distribution, ExpectedSample, range_label};
use schemars::JsonSchema;
use serde::Serialize;

/// The name of the blocks of zeros beside the labels of ranges.
const ZEROS: &str = "zeros";

/// The figures of a distribution. Shares are of all blocks, from 0 to 1.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub(super) struct Column {
    /// The name of the distribution.
    pub(super) name: String,
    /// The number of all blocks.
    pub(super) blocks: u64,
    /// The blocks that are not zeros divided by the distinct contents.
    pub(super) dedup_ratio: f64,
    /// The dedup ratio of a store for which zeros are a content like any other.
    pub(super) dedup_ratio_with_zeros: f64,
    /// The share of blocks that are zeros.
    pub(super) zero_share: f64,
    /// The share of all blocks whose content has one copy.
    pub(super) unique_share: f64,
    /// The contents with two or more copies, each counted once, as a share of all blocks.
    pub(super) distinct_with_duplicates_share: f64,
    /// The duplicates as a share of all blocks.
    pub(super) duplicate_share: f64,
    /// The mean number of duplicates of a content with two or more copies.
    pub(super) duplicates_per_duplicated_content: f64,
    /// [`None`] for expected figures, which do not include it.
    pub(super) max_duplicates: Option<u64>,
    /// The share of blocks in each range, in the order of the ranges.
    pub(super) range_shares: Vec<f64>,
}

/// The largest difference of a range, or of the zeros, from the first column.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub(super) struct Largest {
    /// The range of duplicates, or `zeros`.
    pub(super) duplicates: String,
    /// The name of the distribution.
    pub(super) name: String,
    /// The difference from the first one in percentage points of blocks.
    pub(super) percentage_points: f64,
}

/// The columns and their largest difference.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub(super) struct Columns {
    /// The distributions; the others are compared with the first.
    pub(super) columns: Vec<Column>,
    /// The labels of the ranges.
    pub(super) ranges: Vec<String>,
    /// The largest difference from the first one.
    pub(super) largest_difference: Largest,
}

impl Column {
    pub(super) fn of(name: &str, distribution: &Distribution) -> Self {
        let summary = distribution.summary();
        let share = |part: u64| part as f64 / summary.blocks as f64;
        Self {
            name: name.to_owned(),
            blocks: summary.blocks,
            dedup_ratio: summary.dedup_ratio(),
            dedup_ratio_with_zeros: summary.dedup_ratio_with_zeros(),
            zero_share: share(summary.zero_blocks),
            unique_share: share(summary.unique),
            distinct_with_duplicates_share: share(summary.distinct_with_duplicates),
            duplicate_share: share(summary.duplicates),
            duplicates_per_duplicated_content: summary.duplicates_per_duplicated_content(),
            max_duplicates: Some(summary.max_duplicates),
            range_shares: distribution.ranges().iter().map(|row| row.share).collect(),
        }
    }

    pub(super) fn expected(name: &str, sample: &ExpectedSample) -> Self {
        let share = |part: f64| part / sample.blocks as f64;
        let duplicated = sample.distinct_with_duplicates;
        Self {
            name: name.to_owned(),
            blocks: sample.blocks,
            dedup_ratio: sample.dedup_ratio(),
            dedup_ratio_with_zeros: sample.dedup_ratio_with_zeros(),
            zero_share: share(sample.zero_blocks),
            unique_share: share(sample.unique),
            distinct_with_duplicates_share: share(duplicated),
            duplicate_share: share(sample.duplicates),
            duplicates_per_duplicated_content: if duplicated > 0.0 {
                sample.duplicates / duplicated
            } else {
                0.0
            },
            max_duplicates: None,
            range_shares: sample.range_shares.clone(),
        }
    }
}

impl Columns {
    pub(super) fn new(columns: Vec<Column>) -> Self {
        let tables: Vec<Vec<f64>> =
            columns.iter().map(|column| column.range_shares.clone()).collect();
        let zeros = columns.iter().map(|column| column.zero_share);
        let comparison = Comparison::of_shares(&tables, &zeros.collect::<Vec<_>>());
        let largest = comparison.largest;
        let at = largest.range.map_or_else(|| ZEROS.to_owned(), range_label);
        let name =
            columns.get(largest.distribution).map_or(String::new(), |column| column.name.clone());
        let columns = columns
            .into_iter()
            .enumerate()
            .map(|(index, column)| Column {
                range_shares: comparison
                    .ranges
                    .iter()
                    .filter_map(|row| row.shares.get(index).copied())
                    .collect(),
                ..column
            })
            .collect();
        Self {
            columns,
            ranges: comparison.ranges.iter().map(|row| range_label(row.index)).collect(),
            largest_difference: Largest {
                duplicates: at,
                name,
                percentage_points: 100.0 * largest.difference,
            },
        }
    }

    /// Returns the columns as text.
    pub(super) fn to_text(&self) -> String {
        let mut table = Table::new();
        let mut header = vec![String::new()];
        for (index, column) in self.columns.iter().enumerate() {
            header.push(column.name.clone());
            if index > 0 {
                header.push("difference".to_owned());
            }
        }
        table.row(header);
        table.row(self.plain("blocks", |column| format_count(column.blocks)));
        let has_zeros = self.columns.iter().any(|column| column.zero_share > 0.0);
        let name = if has_zeros { "dedup ratio without zeros" } else { "dedup ratio" };
        table.row(self.compared(name, |column| column.dedup_ratio, ratio, relative));
        if has_zeros {
            let with = |column: &Column| column.dedup_ratio_with_zeros;
            table.row(self.compared("dedup ratio with zeros", with, ratio, relative));
            let share = |column: &Column| column.zero_share;
            table.row(self.compared("zeros", share, format_percent, points));
        }
        table.row(self.compared("unique", |column| column.unique_share, format_percent, points));
        table.row(self.compared(
            "distinct with duplicates",
            |column| column.distinct_with_duplicates_share,
            format_percent,
            points,
        ));
        table.row(self.compared(
            "duplicates",
            |column| column.duplicate_share,
            format_percent,
            points,
        ));
        table.row(self.plain("duplicates per duplicated content", |column| {
            format!("{:.2}", column.duplicates_per_duplicated_content)
        }));
        table.row(self.plain("most duplicates of a content", |column| {
            column.max_duplicates.map_or("-".to_owned(), format_count)
        }));
        table.row(["blocks by duplicates of their content:"]);
        for (index, label) in self.ranges.iter().enumerate() {
            let share = |column: &Column| column.range_shares.get(index).copied().unwrap_or(0.0);
            table.row(self.compared(&format!("  {label}"), share, format_percent, points));
        }
        let Largest { duplicates, name, percentage_points } = &self.largest_difference;
        let largest = if *percentage_points == 0.0 {
            "no range differs\n".to_owned()
        } else {
            let at = if duplicates == ZEROS {
                ZEROS.to_owned()
            } else {
                format!("{duplicates} duplicates")
            };
            format!(
                "largest difference: {percentage_points:+.3} percentage points of blocks, in \
                 {name}, at {at}\n"
            )
        };
        table.render(0) + &largest
    }

    fn plain(&self, label: &str, cell: impl Fn(&Column) -> String) -> Vec<String> {
        let mut cells = vec![label.to_owned()];
        for (index, column) in self.columns.iter().enumerate() {
            cells.push(cell(column));
            if index > 0 {
                cells.push(String::new());
            }
        }
        cells
    }

    fn compared(
        &self,
        label: &str,
        value: impl Fn(&Column) -> f64,
        show: impl Fn(f64) -> String,
        difference: impl Fn(f64, f64) -> String,
    ) -> Vec<String> {
        let first = self.columns.first().map_or(0.0, &value);
        let mut cells = vec![label.to_owned()];
        for (index, column) in self.columns.iter().enumerate() {
            cells.push(show(value(column)));
            if index > 0 {
                cells.push(difference(first, value(column)));
            }
        }
        cells
    }
}

/// Returns a difference of shares in percentage points, such as `+0.02`.
fn points(first: f64, other: f64) -> String {
    signed(100.0 * (other - first))
}

/// Returns a relative difference, such as `+0.01 %`.
fn relative(first: f64, other: f64) -> String {
    signed(100.0 * (other / first - 1.0)) + " %"
}

/// Returns a number with a sign and two decimals; `0.00` has no sign.
fn signed(value: f64) -> String {
    if value.abs() < 0.005 { "0.00".to_owned() } else { format!("{value:+.2}") }
}
