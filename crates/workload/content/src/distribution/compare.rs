//! Comparison of distributions by the share of blocks in each range of duplicates, and by that of
//! blocks of zeros.

use super::{Distribution, RangeRow};

/// Distributions side by side. The first one is the reference for the others.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// All ranges up to the highest one that has blocks in any distribution.
    pub ranges: Vec<ComparedRange>,
    /// The largest difference between the first distribution and any other.
    pub largest: LargestDifference,
}

/// One range of duplicates in every distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedRange {
    /// The index of the range; [`super::range_label`] gives its text.
    pub index: usize,
    /// The share of blocks, 0 to 1, in each distribution.
    pub shares: Vec<f64>,
}

/// The largest difference of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LargestDifference {
    /// The index of the range; `None` for the blocks of zeros.
    pub range: Option<usize>,
    /// The index of the distribution, where 0 is the first one.
    pub distribution: usize,
    /// The distribution's share of blocks minus that of the first one, -1 to 1.
    pub difference: f64,
}

impl Comparison {
    /// Compares `first` with each of `others`.
    #[must_use]
    pub fn new(first: &Distribution, others: &[&Distribution]) -> Self {
        let tables: Vec<Vec<RangeRow>> = std::iter::once(first)
            .chain(others.iter().copied())
            .map(Distribution::ranges)
            .collect();
        let shares: Vec<Vec<f64>> =
            tables.iter().map(|rows| rows.iter().map(|row| row.share).collect()).collect();
        let all = std::iter::once(first).chain(others.iter().copied());
        let zeros = all.map(|one| one.zero_blocks() as f64 / one.blocks() as f64);
        Self::of_shares(&shares, &zeros.collect::<Vec<_>>())
    }

    /// Compares tables of the share of blocks in each range, such as expected ones, and the shares
    /// of blocks of zeros. The first table is the reference.
    #[must_use]
    pub fn of_shares(tables: &[Vec<f64>], zeros: &[f64]) -> Self {
        let count = tables.iter().map(Vec::len).max().unwrap_or(0);
        let share = |table: &Vec<f64>, index: usize| table.get(index).copied().unwrap_or(0.0);
        let ranges: Vec<ComparedRange> = (0..count)
            .map(|index| ComparedRange {
                index,
                shares: tables.iter().map(|table| share(table, index)).collect(),
            })
            .collect();
        let mut largest = LargestDifference { range: None, distribution: 0, difference: 0.0 };
        let rows = ranges.iter().map(|row| (Some(row.index), row.shares.as_slice()));
        for (range, shares) in rows.chain([(None, zeros)]) {
            let first = shares.first().copied().unwrap_or(0.0);
            for (distribution, share) in shares.iter().enumerate() {
                let difference = share - first;
                if difference.abs() > largest.difference.abs() {
                    largest = LargestDifference { range, distribution, difference };
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
            LargestDifference { range: Some(1), distribution: 2, difference: -0.5 }
        );
        assert_eq!(Comparison::new(&first, &[&same]).largest.difference, 0.0);
        let zeros = of("# zeros 300\n0 50\n1 25\n");
        let largest = Comparison::new(&first, &[&zeros]).largest;
        assert_eq!((largest.range, largest.difference), (None, 0.75));
    }
}
