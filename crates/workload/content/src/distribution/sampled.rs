//! The result of the sampled algorithm (DEDISbench, Paulo et al. 2012) at a given size.
//!
//! The algorithm draws every block independently from the distribution weighted by blocks, and
//! numbers unique contents consecutively. In a data set smaller than the distribution's, most
//! contents are drawn less often than they have copies, and many only once. Such a data set has
//! more unique blocks and fewer duplicates than the distribution.
//!
//! The figures are computed by formula or by drawing. The formula takes the copies of a content as
//! Poisson distributed, which differs from N independent draws by the order of 1/N.

use super::{Distribution, DistributionError, DuplicateClass, RANGE_COUNT, range_index, ratio};
use gemelo_base::random::Random;
use std::collections::BTreeMap;

/// Above this mean, the copies of a content count as exactly the mean: they spread by only 0.1 %.
const SPREADLESS_MEAN: f64 = 1e6;

/// Numbers of copies that are less likely than the likeliest one by this factor are ignored.
const NEGLIGIBLE: f64 = 1e-16;

/// The most contents with duplicates that a drawing can count: 2 GiB of counters.
const MAX_COUNTED_CONTENTS: u64 = 1 << 28;

/// The most blocks of a drawing, which takes some minutes.
const MAX_DRAWN_BLOCKS: u64 = 1 << 33;

/// The expected figures of a sampled data set.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedSample {
    /// The blocks of the data set.
    pub blocks: u64,
    /// The expected blocks of zeros.
    pub zero_blocks: f64,
    /// The expected number of contents that occur once.
    pub unique: f64,
    /// The expected number of contents that occur at least twice.
    pub distinct_with_duplicates: f64,
    /// The expected blocks that are not zeros minus the expected number of distinct contents.
    pub duplicates: f64,
    /// The share of all blocks, 0 to 1, in each range of duplicates; [`super::range_label`] gives
    /// the texts.
    pub range_shares: Vec<f64>,
}

impl ExpectedSample {
    /// Returns the expected logical blocks divided by the expected physical blocks, both without
    /// blocks of zeros.
    #[must_use]
    pub fn dedup_ratio(&self) -> f64 {
        ratio(self.blocks as f64 - self.zero_blocks, self.unique + self.distinct_with_duplicates)
    }

    /// Returns the expected dedup ratio of a store for which zeros are a content like any other.
    #[must_use]
    pub fn dedup_ratio_with_zeros(&self) -> f64 {
        let zeros = self.zero_blocks.min(1.0);
        ratio(self.blocks as f64, self.unique + self.distinct_with_duplicates + zeros)
    }
}

impl Distribution {
    /// Returns the expected figures of `blocks` sampled blocks.
    ///
    /// # Errors
    /// Fails with [`DistributionError::Empty`] if `blocks` is 0.
    pub fn expected_sample(&self, blocks: u64) -> Result<ExpectedSample, DistributionError> {
        if blocks == 0 {
            return Err(DistributionError::Empty);
        }
        let scale = blocks as f64 / self.blocks() as f64;
        let mut sample = ExpectedSample {
            blocks,
            zero_blocks: self.zero_blocks() as f64 * scale,
            unique: 0.0,
            distinct_with_duplicates: 0.0,
            duplicates: 0.0,
            range_shares: vec![0.0; RANGE_COUNT],
        };
        for class in self.classes() {
            let contents = class.contents as f64;
            let mut add = |copies: u64, likelihood: f64| sample.add(copies, contents * likelihood);
            if class.duplicates == 0 {
                // Unique contents are numbered consecutively, so none is drawn twice.
                add(1, scale);
            } else {
                for_each_count(class.copies() as f64 * scale, add);
            }
        }
        let highest = sample.range_shares.iter().rposition(|share| *share > 0.0).unwrap_or(0);
        sample.range_shares.truncate(highest + 1);
        Ok(sample)
    }

    /// Draws `blocks` sampled blocks and returns their distribution, as a scan of them would find
    /// it.
    ///
    /// # Errors
    /// Fails with [`DistributionError::Empty`] if `blocks` is 0, and with
    /// [`DistributionError::Limit`] above 2^33 blocks or if the distribution has more than 2^28
    /// contents with duplicates.
    pub fn drawn_sample(&self, blocks: u64, seed: u64) -> Result<Self, DistributionError> {
        let summary = self.summary();
        if blocks > MAX_DRAWN_BLOCKS {
            return Err(DistributionError::Limit {
                what: "the number of blocks to draw",
                found: blocks,
                most: MAX_DRAWN_BLOCKS,
            });
        }
        if summary.distinct_with_duplicates > MAX_COUNTED_CONTENTS {
            return Err(DistributionError::Limit {
                what: "the number of contents with duplicates",
                found: summary.distinct_with_duplicates,
                most: MAX_COUNTED_CONTENTS,
            });
        }
        let starts = self.starts();
        let mut copies = vec![0u64; summary.distinct_with_duplicates as usize];
        let mut random = Random::new(seed);
        let (mut unique, mut zero_blocks) = (0, 0);
        for _ in 0..blocks {
            let block = random.below(self.blocks());
            if block < summary.unique {
                unique += 1;
                continue;
            }
            if block >= self.counted_blocks() {
                zero_blocks += 1;
                continue;
            }
            let after = starts.partition_point(|start| start.block <= block);
            if let Some(start) = starts.get(after.wrapping_sub(1))
                && let Some(count) =
                    copies.get_mut((start.content + (block - start.block) / start.copies) as usize)
            {
                *count += 1;
            }
        }
        let mut classes = BTreeMap::from([(0, unique)]);
        for count in copies.into_iter().filter(|count| *count > 0) {
            *classes.entry(count - 1).or_default() += 1;
        }
        let classes = classes
            .into_iter()
            .map(|(duplicates, contents)| DuplicateClass { duplicates, contents });
        Self::with_zeros(classes, zero_blocks)
    }

    /// Returns the first block and the first content of each class with duplicates. The blocks of
    /// unique contents come first.
    fn starts(&self) -> Vec<ClassStart> {
        let (mut block, mut content) = (0, 0);
        let mut starts = Vec::with_capacity(self.classes().len());
        for class in self.classes() {
            if class.duplicates > 0 {
                starts.push(ClassStart { block, content, copies: class.copies() });
                content += class.contents;
            }
            block += class.blocks();
        }
        starts
    }
}

struct ClassStart {
    block: u64,
    content: u64,
    copies: u64,
}

impl ExpectedSample {
    fn add(&mut self, copies: u64, contents: f64) {
        match copies {
            0 => return,
            1 => self.unique += contents,
            _ => self.distinct_with_duplicates += contents,
        }
        self.duplicates += contents * (copies - 1) as f64;
        if let Some(share) = self.range_shares.get_mut(range_index(copies - 1)) {
            *share += contents * copies as f64 / self.blocks as f64;
        }
    }
}

/// Calls `visit(k, p)` for each number of copies k of a Poisson distribution with this mean, and
/// its probability p.
fn for_each_count(mean: f64, mut visit: impl FnMut(u64, f64)) {
    if mean > SPREADLESS_MEAN {
        visit(mean.round() as u64, 1.0);
        return;
    }
    // Probabilities are computed relative to the likeliest number, and divided by their sum at the
    // end.
    let likeliest = mean as u64;
    let mut below = Vec::new();
    let mut relative = 1.0;
    for count in (1..=likeliest).rev() {
        relative *= count as f64 / mean;
        if relative < NEGLIGIBLE {
            break;
        }
        below.push(relative);
    }
    let mut above = Vec::new();
    relative = 1.0;
    for count in likeliest + 1.. {
        relative *= mean / count as f64;
        if relative < NEGLIGIBLE {
            break;
        }
        above.push(relative);
    }
    let sum: f64 = below.iter().sum::<f64>() + 1.0 + above.iter().sum::<f64>();
    visit(likeliest, 1.0 / sum);
    for (distance, relative) in (1..).zip(below) {
        visit(likeliest - distance, relative / sum);
    }
    for (distance, relative) in (1..).zip(above) {
        visit(likeliest + distance, relative / sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution(text: &str) -> Distribution {
        Distribution::parse(text).unwrap()
    }

    #[test]
    fn likelihoods_are_those_of_poisson() {
        for mean in [0.01, 1.0, 7.3, 900.0, 50_000.0] {
            let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
            for_each_count(mean, |count, likelihood| {
                let count = count as f64;
                sum += likelihood;
                first += count * likelihood;
                second += (count - mean).powi(2) * likelihood;
            });
            assert!((sum - 1.0).abs() < 1e-9, "{mean}: {sum}");
            assert!((first / mean - 1.0).abs() < 1e-9, "{mean}: {first}");
            assert!((second / mean - 1.0).abs() < 1e-6, "{mean}: {second}");
        }
        for_each_count(1.0, |count, likelihood| {
            if count == 2 {
                assert!((likelihood - 0.5 * (-1.0f64).exp()).abs() < 1e-12);
            }
        });
    }

    #[test]
    fn the_formula_and_a_drawing_agree() {
        let source = distribution("# zeros 30000\n0 60000\n1 8000\n4 2000\n99 140\n2999 1\n");
        for blocks in [2_000, 20_000, 200_000] {
            let expected = source.expected_sample(blocks).unwrap();
            let drawn = source.drawn_sample(blocks, 7).unwrap();
            assert_eq!(drawn.blocks(), blocks);
            // The tolerance is five standard deviations of a count of this size.
            let near = |found: u64, due: f64| (found as f64 - due).abs() < 5.0 * due.sqrt() + 1.0;
            let summary = drawn.summary();
            assert!(near(summary.unique, expected.unique), "{summary:?} {expected:?}");
            assert!(near(summary.duplicates, expected.duplicates), "{summary:?} {expected:?}");
            assert!(near(summary.distinct_with_duplicates, expected.distinct_with_duplicates));
            assert!(near(summary.zero_blocks, expected.zero_blocks), "{summary:?} {expected:?}");
            let zeros = expected.zero_blocks / blocks as f64;
            assert!((expected.range_shares.iter().sum::<f64>() + zeros - 1.0).abs() < 1e-9);
            assert!((drawn.summary().dedup_ratio() / expected.dedup_ratio() - 1.0).abs() < 0.05);
        }
    }

    #[test]
    fn drawing_repeats_with_its_seed_and_unique_contents_stay_unique() {
        let source = distribution("0 10\n3 5\n");
        assert_eq!(source.drawn_sample(500, 1), source.drawn_sample(500, 1));
        assert_ne!(source.drawn_sample(500, 1), source.drawn_sample(500, 2));
        assert_eq!(distribution("0 10\n").drawn_sample(500, 1).unwrap().to_text(), "0 500\n");
        assert!((distribution("0 10\n").expected_sample(500).unwrap().unique - 500.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_and_too_much_are_refused() {
        let source = distribution("1 5\n");
        assert_eq!(source.expected_sample(0), Err(DistributionError::Empty));
        assert_eq!(source.drawn_sample(0, 1), Err(DistributionError::Empty));
        assert!(source.drawn_sample(1 << 40, 1).is_err());
        let expected = source.expected_sample(1 << 40).unwrap();
        // The tolerance allows for five contents, each rounded to whole copies.
        assert!((expected.duplicates - ((1u64 << 40) - 5) as f64).abs() <= 2.5);
    }
}
