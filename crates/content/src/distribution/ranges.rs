//! The ranges in which duplicates per content are told: 0, 1-4, 5-9, 10-49, 50-99 and so on by factors of five and
//! two, as DEDISbench's figures have them.

use super::Distribution;

/// The ranges up to the last, open one.
pub const RANGE_COUNT: usize = STARTS.len();

const STARTS: [u64; 17] = [
    0, 1, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000,
    5_000_000, 10_000_000, 50_000_000,
];

/// One range of a distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeRow {
    /// Which range; see [`range_label`].
    pub index: usize,
    /// Distinct contents in it.
    pub contents: u64,
    /// Blocks in it.
    pub blocks: u64,
    /// Its share of all blocks, 0 to 1.
    pub share: f64,
}

/// The range that this number of duplicates falls in.
#[must_use]
pub fn range_index(duplicates: u64) -> usize {
    STARTS.partition_point(|start| *start <= duplicates) - 1
}

/// The first number of duplicates of a range; `u64::MAX` past the last.
#[must_use]
pub fn range_start(index: usize) -> u64 {
    STARTS.get(index).copied().unwrap_or(u64::MAX)
}

/// The range as text: `0`, `1-4`, `50000000+`.
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
    /// The distribution by ranges, all up to the highest that has contents.
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
