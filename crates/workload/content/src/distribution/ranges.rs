//! The ranges of duplicates in which figures are reported: 0, 1-4, 5-9, 10-49, 50-99 and so on,
//! with bounds that grow by factors of five and two, as in the figures of the DEDISbench paper.

use super::Distribution;

/// The number of ranges; the last one has no upper bound.
pub const RANGE_COUNT: usize = STARTS.len();

const STARTS: [u64; 17] = [
    0, 1, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000,
    5_000_000, 10_000_000, 50_000_000,
];

/// One range of a distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeRow {
    /// The index of the range; [`range_label`] gives its text.
    pub index: usize,
    /// The number of distinct contents in the range.
    pub contents: u64,
    /// The number of blocks in the range.
    pub blocks: u64,
    /// The share of all blocks that is in the range, 0 to 1.
    pub share: f64,
}

/// Returns the index of the range that contains this number of duplicates.
#[must_use]
pub fn range_index(duplicates: u64) -> usize {
    STARTS.partition_point(|start| *start <= duplicates) - 1
}

/// Returns the first number of duplicates of a range; `u64::MAX` past the last range.
#[must_use]
pub fn range_start(index: usize) -> u64 {
    STARTS.get(index).copied().unwrap_or(u64::MAX)
}

/// Returns the text of a range: `0`, `1-4`, `50000000+`.
#[must_use]
pub fn range_label(index: usize) -> String {
    match (STARTS.get(index), STARTS.get(index + 1)) {
        (Some(start), Some(next)) if start + 1 == *next => start.to_string(),
        (Some(start), Some(next)) => format!("{start}-{}", next - 1),
        (Some(start), None) => format!("{start}+"),
        (None, _) => String::new(),
    }
}

impl Distribution {
    /// Returns the distribution by ranges, up to the highest range that has contents.
    #[must_use]
    pub fn ranges(&self) -> Vec<RangeRow> {
        let highest = self.classes().last().map_or(0, |class| range_index(class.duplicates));
        let mut rows: Vec<RangeRow> = (0..=highest)
            .map(|index| RangeRow { index, contents: 0, blocks: 0, share: 0.0 })
            .collect();
        for class in self.classes() {
            if let Some(row) = rows.get_mut(range_index(class.duplicates)) {
                row.contents += class.contents;
                row.blocks += class.blocks();
            }
        }
        for row in &mut rows {
            row.share = row.blocks as f64 / self.blocks() as f64;
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::super::DuplicateClass;
    use super::*;

    #[test]
    fn every_number_of_duplicates_has_the_range_that_its_label_says() {
        for (duplicates, label) in [
            (0, "0"),
            (1, "1-4"),
            (4, "1-4"),
            (5, "5-9"),
            (49, "10-49"),
            (499, "100-499"),
            (500, "500-999"),
            (49_999_999, "10000000-49999999"),
            (u64::MAX, "50000000+"),
        ] {
            assert_eq!(range_label(range_index(duplicates)), label);
        }
    }

    #[test]
    fn rows_add_up_to_the_whole() {
        let classes = [(0, 50), (2, 10), (4, 2), (60, 1)];
        let distribution = Distribution::new(
            classes.map(|(duplicates, contents)| DuplicateClass { duplicates, contents }),
        )
        .unwrap();
        let rows = distribution.ranges();
        assert_eq!(rows.len(), 5);
        assert_eq!(rows.iter().map(|row| row.blocks).sum::<u64>(), distribution.blocks());
        assert_eq!((rows[1].contents, rows[1].blocks), (12, 40));
        assert!((rows.iter().map(|row| row.share).sum::<f64>() - 1.0).abs() < 1e-12);
    }
}
