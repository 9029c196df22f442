//! How far distributions lie apart: the share of blocks in each range of duplicates, side by side.

use super::{Distribution, RangeRow};

/// Distributions side by side. The first one is what the others are measured against.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// All ranges up to the highest that any of them has.
    pub ranges: Vec<ComparedRange>,
    /// Where one of the others lies furthest from the first.
    pub largest: LargestDifference,
}

/// One range of duplicates in every distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedRange {
    /// Which range; see [`super::range_label`].
    pub index: usize,
    /// The share of blocks, 0 to 1, in each distribution.
    pub shares: Vec<f64>,
}

/// The largest difference of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LargestDifference {
    /// Which range.
    pub range: usize,
    /// Which distribution, counted from 0, the first one included.
    pub distribution: usize,
    /// Its share of blocks less the first one's, -1 to 1.
    pub difference: f64,
}

impl Comparison {
    /// `first` beside `others`.
    #[must_use]
    pub fn new(first: &Distribution, others: &[&Distribution]) -> Self {
        let tables: Vec<Vec<RangeRow>> = std::iter::once(first)
            .chain(others.iter().copied())
            .map(Distribution::ranges)
            .collect();
        Self::of_shares(
            &tables
                .iter()
                .map(|rows| rows.iter().map(|row| row.share).collect())
                .collect::<Vec<_>>(),
        )
    }

    /// The same for tables that hold the share of blocks range by range, such as expected ones.
    #[must_use]
    pub fn of_shares(tables: &[Vec<f64>]) -> Self {
        let count = tables.iter().map(Vec::len).max().unwrap_or(0);
        let share = |table: &Vec<f64>, index: usize| table.get(index).copied().unwrap_or(0.0);
        let ranges: Vec<ComparedRange> = (0..count)
            .map(|index| ComparedRange {
                index,
                shares: tables.iter().map(|table| share(table, index)).collect(),
            })
            .collect();
        let mut largest = LargestDifference { range: 0, distribution: 0, difference: 0.0 };
        for row in &ranges {
            let first = row.shares.first().copied().unwrap_or(0.0);
            for (distribution, share) in row.shares.iter().enumerate() {
                let difference = share - first;
                if difference.abs() > largest.difference.abs() {
                    largest = LargestDifference { range: row.index, distribution, difference };
                }
            }
        }
        Self { ranges, largest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_difference_is_found_with_its_sign() {
        let of = |text: &str| Distribution::parse(text).unwrap();
        let (first, same, other) = (of("0 50\n1 25\n"), of("0 2\n1 1\n"), of("0 100\n9 10\n"));
        let comparison = Comparison::new(&first, &[&same, &other]);
        assert_eq!(comparison.ranges.len(), 3);
        assert_eq!(comparison.ranges[1].shares, [0.5, 0.5, 0.0]);
        assert_eq!(
            comparison.largest,
            LargestDifference { range: 1, distribution: 2, difference: -0.5 }
        );
        assert_eq!(Comparison::new(&first, &[&same]).largest.difference, 0.0);
    }
}
