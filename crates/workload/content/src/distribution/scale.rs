//! Scaling of a distribution to another number of blocks.
//!
//! Every class gets its share of the blocks, to rounding. The blocks that do not make a whole
//! content of a class are carried to the class below, or the missing blocks are borrowed from
//! there. Both are done only if they move at most [`CARRY_SHARE`] of all blocks and keep the number
//! of contents near the exact value. Otherwise the remaining blocks become one content with fewer
//! copies than its class has.
//!
//! The blocks of each class are therefore exact to 0.03 % of all blocks (or to the copies of one
//! content), and the dedup ratio to one or two contents. A content with more copies than the data
//! set has blocks for its class is one case of this: if 700 blocks are the share of a content of
//! 30,001 copies, it becomes one content of 700 copies. [`ScaledDistribution::cut_short`] lists
//! such contents.

use super::{Distribution, DistributionError, DuplicateClass};

/// The largest share of all blocks that rounding may move from one class to the next: 0.03 %.
const CARRY_SHARE: f64 = 0.0003;

/// The most blocks of a scaled distribution, and so the most contents of one class that an
/// assignment can number: 32 PiB in blocks of 4 KiB.
const MAX_SCALED_BLOCKS: u64 = 1 << 43;

/// Contents of a scaled distribution that have the same source class and the same number of copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScaledClass {
    /// The index of the class in the source distribution, counted from the fewest duplicates.
    pub source: usize,
    /// The number of duplicates of the source class.
    pub source_duplicates: u64,
    /// The copies of each content here. A content that was cut short has fewer than its source
    /// class.
    pub copies: u64,
    /// The number of distinct contents.
    pub contents: u64,
    /// The index of the first of these contents within the source class.
    pub first_content: u64,
    /// The rank of the first copy of the first content. The ranks of one content are consecutive,
    /// and the contents follow each other.
    pub first_rank: u64,
}

/// A distribution at a given number of blocks: a table from *rank* (the number of a block when the
/// blocks are ordered by content) to content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaledDistribution {
    classes: Vec<ScaledClass>,
    blocks: u64,
    /// The blocks of zeros; they have the last ranks.
    zero_blocks: u64,
    unique: u64,
    source_classes: usize,
}

/// The content at a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankedContent {
    /// Zeros.
    Zeros,
    /// The unique content with this number.
    Unique(u64),
    /// A content of a class of the source distribution.
    Duplicated {
        /// The index of the class in the source distribution.
        source: usize,
        /// The index of the content within the class.
        content: u64,
    },
}

impl ScaledDistribution {
    /// Scales the distribution to `blocks` blocks.
    ///
    /// # Errors
    /// Fails with [`DistributionError::Empty`] if `blocks` is 0, and with
    /// [`DistributionError::Limit`] above 2^43.
    pub fn new(distribution: &Distribution, blocks: u64) -> Result<Self, DistributionError> {
        if blocks == 0 {
            return Err(DistributionError::Empty);
        }
        if blocks > MAX_SCALED_BLOCKS {
            return Err(DistributionError::Limit {
                what: "the number of blocks in the data set",
                found: blocks,
                most: MAX_SCALED_BLOCKS,
            });
        }
        let zero_blocks = nearest_proportion(distribution.zero_blocks(), blocks, distribution);
        let mut classes = whole_and_cut_contents(distribution, blocks - zero_blocks);
        // Unique contents come first: they are most of the blocks in most data sets, and `at_rank`
        // finds them without a search.
        classes.sort_by_key(|class| (class.source_duplicates, class.first_content));
        let mut rank = 0;
        for class in &mut classes {
            class.first_rank = rank;
            rank += class.copies * class.contents;
        }
        let first = classes.first().filter(|class| class.source_duplicates == 0);
        let unique = first.map_or(0, |class| class.contents);
        let source_classes = distribution.classes().len();
        Ok(Self { classes, blocks, zero_blocks, unique, source_classes })
    }

    /// Returns the blocks of the data set.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns the blocks of zeros.
    #[must_use]
    pub const fn zero_blocks(&self) -> u64 {
        self.zero_blocks
    }

    /// Returns the number of blocks whose content occurs only once.
    #[must_use]
    pub const fn unique(&self) -> u64 {
        self.unique
    }

    /// Returns the classes, in order of rank.
    #[must_use]
    pub fn classes(&self) -> &[ScaledClass] {
        &self.classes
    }

    /// Returns the number of classes in the source distribution.
    #[must_use]
    pub const fn source_classes(&self) -> usize {
        self.source_classes
    }

    /// Returns the content at a rank, which must be below [`Self::blocks`].
    #[inline]
    #[must_use]
    pub fn at_rank(&self, rank: u64) -> RankedContent {
        if rank < self.unique {
            return RankedContent::Unique(rank);
        }
        if rank >= self.blocks - self.zero_blocks {
            return RankedContent::Zeros;
        }
        let after = self.classes.partition_point(|class| class.first_rank <= rank);
        match self.classes.get(after.wrapping_sub(1)) {
            Some(class) => RankedContent::Duplicated {
                source: class.source,
                content: class.first_content + (rank - class.first_rank) / class.copies,
            },
            // Unreachable, because the first class begins at rank 0.
            None => RankedContent::Zeros,
        }
    }

    /// Returns the distribution that a scan of the data set will find.
    ///
    /// # Errors
    /// Never fails in practice: a scaled distribution has at least one block.
    pub fn to_distribution(&self) -> Result<Distribution, DistributionError> {
        let classes = self
            .classes
            .iter()
            .map(|class| DuplicateClass { duplicates: class.copies - 1, contents: class.contents });
        Distribution::with_zeros(classes, self.zero_blocks)
    }

    /// Returns the contents that have fewer copies than their class, because the data set has too
    /// few blocks for more.
    pub fn cut_short(&self) -> impl Iterator<Item = &ScaledClass> {
        self.classes.iter().filter(|class| class.copies <= class.source_duplicates)
    }
}

/// Scales the classes to `blocks` blocks that are not zeros, from the most duplicates down. The
/// module's documentation states the rule.
fn whole_and_cut_contents(distribution: &Distribution, blocks: u64) -> Vec<ScaledClass> {
    let source = distribution.classes();
    let mut scaled = Vec::with_capacity(source.len() + 8);
    let mut course =
        ContentBalance { carry_limit: (blocks as f64 * CARRY_SHARE) as u64, surplus: 0.0 };
    let mut source_blocks_seen: u64 = 0;
    let mut blocks_given: u64 = 0;
    // The blocks to add to the next class. A negative number means that the next class lends them.
    let mut carry: i64 = 0;
    for (index, class) in source.iter().enumerate().rev() {
        source_blocks_seen += class.blocks();
        let blocks_due = proportion(source_blocks_seen, blocks, distribution.counted_blocks());
        let own = blocks_due - blocks_given;
        blocks_given = blocks_due;
        let below = index.checked_sub(1).and_then(|below| source.get(below));
        let below = below.map(|below| Below {
            copies: below.copies(),
            lendable: proportion(below.blocks(), blocks, distribution.counted_blocks()) / 2,
        });
        let available = own.saturating_add_signed(carry);
        let choice = course.choose(own, available, class.copies(), below);
        carry = choice.carry;
        let mut push = |copies, contents, first_content| {
            if contents > 0 {
                scaled.push(ScaledClass {
                    source: index,
                    source_duplicates: class.duplicates,
                    copies,
                    contents,
                    first_content,
                    first_rank: 0,
                });
            }
        };
        push(class.copies(), choice.whole, 0);
        push(choice.cut_copies, u64::from(choice.cut_copies > 0), choice.whole);
    }
    scaled
}

/// Returns `blocks` times `part` divided by `of`.
fn proportion(part: u64, blocks: u64, of: u64) -> u64 {
    // The result is at most `blocks`, because `part` is at most `of`.
    (u128::from(part) * u128::from(blocks) / u128::from(of)) as u64
}

/// Returns the share of `blocks` that the zeros of a distribution have, to the nearest block.
fn nearest_proportion(zero_blocks: u64, blocks: u64, distribution: &Distribution) -> u64 {
    let of = u128::from(distribution.blocks());
    let exact = u128::from(zero_blocks) * u128::from(blocks);
    // The result is at most `blocks`, because the zeros are a part of the distribution.
    ((exact + of / 2) / of) as u64
}

/// The class to which rounding carries blocks.
#[derive(Clone, Copy)]
struct Below {
    copies: u64,
    /// The number of blocks that the class can lend.
    lendable: u64,
}

/// The rounding of one class to whole contents.
struct Choice {
    whole: u64,
    /// The copies of the content that was cut short; 0 if there is none.
    cut_copies: u64,
    carry: i64,
}

/// Keeps the number of contents near the exact value while blocks move between classes.
struct ContentBalance {
    carry_limit: u64,
    /// The contents made so far minus the exact number of contents so far.
    surplus: f64,
}

impl ContentBalance {
    fn choose(&mut self, own: u64, available: u64, copies: u64, below: Option<Below>) -> Choice {
        let whole = available / copies;
        let rest = available % copies;
        self.surplus += whole as f64 - own as f64 / copies as f64;
        if rest == 0 {
            return Choice { whole, cut_copies: 0, carry: 0 };
        }
        let lent = copies - rest;
        let cut = Choice { whole, cut_copies: rest, carry: 0 };
        // Each candidate is a triple: the surplus it leads to in the end, its change of the surplus
        // now, and the choice.
        let mut best = (self.surplus + 1.0, 1.0, cut);
        if let Some(below) = below {
            let moved = |blocks: u64| blocks as f64 / below.copies as f64;
            let mut offer = |end: f64, now: f64, choice: Choice| {
                if end.abs() <= best.0.abs() {
                    best = (end, now, choice);
                }
            };
            if lent <= self.carry_limit.min(below.lendable) {
                let choice = Choice { whole: whole + 1, cut_copies: 0, carry: -(lent as i64) };
                offer(self.surplus + 1.0 - moved(lent), 1.0, choice);
            }
            if rest <= self.carry_limit {
                offer(
                    self.surplus + moved(rest),
                    0.0,
                    Choice { whole, cut_copies: 0, carry: rest as i64 },
                );
            }
        }
        self.surplus += best.1;
        best.2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn distribution(classes: &[(u64, u64)]) -> Distribution {
        let classes = classes.iter();
        Distribution::new(
            classes.map(|&(duplicates, contents)| DuplicateClass { duplicates, contents }),
        )
        .unwrap()
    }

    #[test]
    fn its_own_size_gives_the_distribution_back() {
        let source = distribution(&[(0, 760), (1, 60), (4, 20), (19, 1)]);
        let scaled = ScaledDistribution::new(&source, source.blocks()).unwrap();
        assert_eq!(scaled.to_distribution().unwrap(), source);
        assert_eq!(scaled.cut_short().count(), 0);
    }

    #[test]
    fn a_content_that_does_not_fit_keeps_its_share_of_blocks() {
        let source = distribution(&[(0, 500_000), (499_999, 1)]);
        let scaled = ScaledDistribution::new(&source, 1000).unwrap();
        assert_eq!(scaled.to_distribution().unwrap().to_text(), "0 500\n499 1\n");
        assert_eq!(scaled.cut_short().count(), 1);
    }

    #[test]
    fn without_unique_contents_the_rest_is_one_content_cut_short() {
        let scaled = ScaledDistribution::new(&distribution(&[(3, 7)]), 10).unwrap();
        assert_eq!(scaled.to_distribution().unwrap().to_text(), "1 1\n3 2\n");
    }

    #[test]
    fn zeros_get_their_share_to_the_nearest_block_at_any_size() {
        let source = Distribution::parse("# zeros 30720\n1 1024\n").unwrap();
        for blocks in (1..200).chain([32_767, 32_768, 32_769, 1 << 43]) {
            let scaled = ScaledDistribution::new(&source, blocks).unwrap();
            let due = blocks as f64 * 30_720.0 / 32_768.0;
            assert!((scaled.zero_blocks() as f64 - due).abs() <= 0.5, "{blocks}");
            assert_eq!(scaled.to_distribution().unwrap().blocks(), blocks);
            assert_eq!(scaled.at_rank(blocks - 1) == RankedContent::Zeros, due > 0.5);
        }
        let only =
            ScaledDistribution::new(&Distribution::parse("# zeros 9\n").unwrap(), 4).unwrap();
        assert_eq!(only.to_distribution().unwrap().to_text(), "# zeros 4\n");
        assert_eq!(only.at_rank(0), RankedContent::Zeros);
    }

    #[test]
    fn a_million_million_blocks_are_no_problem_and_too_many_are_refused() {
        let source = distribution(&[(0, 3), (1, 1)]);
        let scaled = ScaledDistribution::new(&source, 1_000_000_000_000).unwrap();
        assert_eq!(scaled.to_distribution().unwrap().to_text(), "0 600000000000\n1 200000000000\n");
        assert!(ScaledDistribution::new(&source, (1 << 43) + 1).is_err());
        assert_eq!(ScaledDistribution::new(&source, 0), Err(DistributionError::Empty));
    }

    fn any_distribution() -> impl Strategy<Value = Distribution> {
        let classes = proptest::collection::btree_map(0u64..300, 1u64..5000, 1..40);
        (classes, prop_oneof![Just(0), 0u64..1_000_000]).prop_map(|(classes, zero_blocks)| {
            Distribution::with_zeros(
                classes
                    .into_iter()
                    .map(|(duplicates, contents)| DuplicateClass { duplicates, contents }),
                zero_blocks,
            )
            .unwrap()
        })
    }

    proptest! {
        #[test]
        fn every_rank_has_a_content_and_contents_have_the_copies_promised(
            source in any_distribution(), blocks in 1u64..3000
        ) {
            let scaled = ScaledDistribution::new(&source, blocks).unwrap();
            let mut copies: HashMap<(usize, u64), u64> = HashMap::new();
            let mut zero_blocks = 0;
            for rank in 0..blocks {
                let key = match scaled.at_rank(rank) {
                    RankedContent::Zeros => {
                        zero_blocks += 1;
                        continue;
                    }
                    RankedContent::Unique(number) => (usize::MAX, number),
                    RankedContent::Duplicated { source, content } => (source, content),
                };
                *copies.entry(key).or_default() += 1;
            }
            let mut classes: HashMap<u64, u64> = HashMap::new();
            for count in copies.values() {
                *classes.entry(count - 1).or_default() += 1;
            }
            let found = Distribution::with_zeros(
                classes
                    .into_iter()
                    .map(|(duplicates, contents)| DuplicateClass { duplicates, contents }),
                zero_blocks
            ).unwrap();
            prop_assert_eq!(found, scaled.to_distribution().unwrap());
        }

        /// The promise of the scaling: from 100,000 blocks on, each class is within 0.1 percentage
        /// points and the dedup ratio within 0.1 % or two contents, for classes of up to 50 copies.
        #[test]
        fn shares_and_ratio_hold_from_100_000_blocks_on(
            classes in proptest::collection::btree_map(0u64..50, 1u64..5000, 1..40),
            blocks in 100_000u64..3_000_000
        ) {
            let source = Distribution::new(
                classes
                    .into_iter()
                    .map(|(duplicates, contents)| DuplicateClass { duplicates, contents })
            ).unwrap();
            let scaled =
                ScaledDistribution::new(&source, blocks).unwrap().to_distribution().unwrap();
            prop_assert_eq!(scaled.blocks(), blocks);
            let share = |of: &Distribution, duplicates: u64| {
                let class = of.classes().iter().find(|class| class.duplicates == duplicates);
                class.map_or(0.0, |class| class.blocks() as f64) / of.blocks() as f64
            };
            for duplicates in 0..100 {
                let difference = share(&source, duplicates) - share(&scaled, duplicates);
                prop_assert!(difference.abs() < 0.001, "{} duplicates: {}", duplicates, difference);
            }
            let due = source.summary().distinct as f64 * blocks as f64 / source.blocks() as f64;
            let surplus = scaled.summary().distinct as f64 - due;
            prop_assert!(
                surplus.abs() <= 0.001 * due || surplus.abs() < 2.0, "{} of {}", surplus, due
            );
        }
    }
}
