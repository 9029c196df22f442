//! The places of the copies of a content: a keyed bijection between positions of a data set and
//! ranks.
//!
//! Positions are divided into rows whose length is the requested mean distance. Every row is
//! shuffled by its own permutation. Ranks run down the columns and turn at each end. The copies of
//! a content have neighbouring ranks, so consecutive rows hold one copy each, at independent
//! places. The mean distance of the copies is therefore the length of a row. A single row as long
//! as the data set spreads the copies evenly. A content with about as many copies as there are
//! rows, or more, turns at an end, so its copies lie closer together.

use gemelo_base::Permutation;
use gemelo_base::random::mix_pair;

/// A bijection between positions and ranks of one data set.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// The number of blocks in the data set.
    blocks: u64,
    row: Permutation,
    last_row: Permutation,
    rows: u64,
    key: u64,
}

impl Layout {
    /// Creates a layout of `blocks` blocks (at least one) with this mean distance between copies.
    pub(crate) fn new(blocks: u64, distance: Option<u64>, key: u64) -> Self {
        let row = distance.unwrap_or(blocks).clamp(1, blocks.max(1));
        let rows = blocks.div_ceil(row).max(1);
        let last_row = blocks - (rows - 1) * row;
        Self { blocks, row: Permutation::new(row), last_row: Permutation::new(last_row), rows, key }
    }

    /// Returns the rank at a position, which must be below the number of blocks. Every epoch has
    /// its own order.
    #[inline]
    pub(crate) fn rank(&self, epoch: u64, position: u64) -> u64 {
        debug_assert!(position < self.blocks);
        if self.rows == 1 {
            return self.row.apply(mix_pair(self.key, epoch), position);
        }
        let row = position / self.row.size();
        let place = position % self.row.size();
        let shuffle = if row + 1 == self.rows { &self.last_row } else { &self.row };
        let column = shuffle.apply(mix_pair(mix_pair(self.key, epoch), row), place);
        self.down_the_columns(column, row)
    }

    /// Returns the rank at a place of the grid. Columns that reach into the last row are one block
    /// longer than the others.
    #[inline]
    fn down_the_columns(&self, column: u64, row: u64) -> u64 {
        let tall = self.last_row.size();
        let (first, height) = if column < tall {
            (column * self.rows, self.rows)
        } else {
            (tall * self.rows + (column - tall) * (self.rows - 1), self.rows - 1)
        };
        // Every other column runs upwards, so a content that continues in the next column stays
        // close together.
        first + if column.is_multiple_of(2) { row } else { height - 1 - row }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn copies_lie_as_far_apart_as_asked() {
        const BLOCKS: u64 = 100_003;
        const COPIES: u64 = 5;
        for distance in [1, 2, 10, 100, 1000] {
            let layout = Layout::new(BLOCKS, Some(distance), 42);
            let mut last_seen = vec![None; (BLOCKS / COPIES + 1) as usize];
            let (mut sum, mut pairs) = (0, 0);
            for position in 0..BLOCKS {
                let content = (layout.rank(0, position) / COPIES) as usize;
                if let Some(last) = last_seen[content].replace(position) {
                    sum += position - last;
                    pairs += 1;
                }
            }
            let mean = sum as f64 / f64::from(pairs);
            assert!((mean / distance as f64 - 1.0).abs() < 0.03, "{distance}: {mean}");
        }
    }

    #[test]
    fn an_even_spread_has_no_trend() {
        const BLOCKS: u64 = 1 << 16;
        let layout = Layout::new(BLOCKS, None, 7);
        // The first quarter of the ranks must spread evenly over 16 equal stretches of positions.
        let mut hits = [0u32; 16];
        for position in 0..BLOCKS {
            if layout.rank(3, position) < BLOCKS / 4 {
                hits[(position * 16 / BLOCKS) as usize] += 1;
            }
        }
        let chi_square: f64 =
            hits.iter().map(|hit| (f64::from(*hit) - 1024.0).powi(2) / 1024.0).sum();
        // With 15 degrees of freedom, a value above 37.7 has a probability of 1 in 1000.
        assert!(chi_square < 37.7, "{chi_square} {hits:?}");
    }

    proptest! {
        #[test]
        fn every_rank_has_one_position(
            blocks in 1u64..2000, distance in proptest::option::of(1u64..3000), key: u64,
            epoch in 0u64..5
        ) {
            let layout = Layout::new(blocks, distance, key);
            let mut ranks: Vec<u64> =
                (0..blocks).map(|position| layout.rank(epoch, position)).collect();
            ranks.sort_unstable();
            prop_assert_eq!(ranks, (0..blocks).collect::<Vec<_>>());
        }
    }
}
