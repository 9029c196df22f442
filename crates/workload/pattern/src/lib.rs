//! Access patterns, which choose the next block that a process reads or writes.
//!
//! The n-th draw is a function of seed, process and n alone, so that the writes of a run can be
//! computed again afterwards. Load and the synthesis of traces draw from the same patterns.
//!
//! This crate leaves to others what is done with the blocks.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod zipf;

use gemelo_base::Permutation;
use gemelo_base::random::{Random, mix_pair};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;
use zipf::Zipf;

/// The pattern by which a process chooses blocks of its place. The pattern's text parses to exactly
/// the same pattern, because the writes of a run are computed from it later.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Pattern {
    /// One block after the other, starting again at the first after the last.
    Sequential,
    /// Every block is equally likely.
    Uniform,
    /// TPC-C's non-uniform random function (clause 2.1.6); its hot spots are spread over the place.
    NuRand {
        /// Constant A of the function; `None` is a tenth of the blocks, as in DEDISbench.
        a: Option<u64>,
    },
    /// The block of rank k has a probability proportional to k to the power of -theta; the ranks
    /// are scattered over the place.
    Zipf {
        /// Exponent, from 0 to [`Pattern::MAX_THETA`].
        theta: f64,
    },
    /// A share of the accesses goes to a share of the blocks, which lie at the start of the place.
    Hotspot {
        /// Percentage of accesses, from 0 to 100.
        accesses_percent: f64,
        /// Percentage of blocks, above 0 and at most 100.
        blocks_percent: f64,
    },
}

impl Pattern {
    /// The largest exponent of Zipf: only one access in a thousand misses the block of rank 1.
    pub const MAX_THETA: f64 = 10.0;
}

/// The error for a text that names no pattern.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is not a pattern: {hint}use sequential, uniform, nurand, nurand:A (A in blocks), zipf:THETA (0 \
     to 10, such as zipf:0.99) or hotspot:ACCESSES/BLOCKS (percent, such as hotspot:80/20)",
    hint = meaning(.0)
)]
pub struct PatternError(String);

/// Names of other benchmarks for patterns, with the names that they have here.
const OTHER_NAMES: [(&str, &str); 6] = [
    ("random", "uniform"),
    ("rand", "uniform"),
    ("randwrite", "uniform"),
    ("randread", "uniform"),
    ("seq", "sequential"),
    ("zipfian", "zipf:0.99"),
];

/// Says what a name of another benchmark is called here.
fn meaning(wrong: &str) -> String {
    let known = OTHER_NAMES.iter().find(|(other, _)| *other == wrong);
    known.map_or_else(String::new, |(other, name)| format!("{other} is called {name} here; "))
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let error = || PatternError(text.to_owned());
        match text.split_once(':') {
            None => match text {
                "sequential" => Ok(Self::Sequential),
                "uniform" => Ok(Self::Uniform),
                "nurand" => Ok(Self::NuRand { a: None }),
                _ => Err(error()),
            },
            Some(("nurand", a)) => {
                a.parse().map(|a| Self::NuRand { a: Some(a) }).map_err(|_| error())
            }
            Some(("zipf", theta)) => {
                let theta = theta.parse::<f64>().map_err(|_| error())?;
                let is_known = (0.0..=Self::MAX_THETA).contains(&theta);
                is_known.then_some(Self::Zipf { theta }).ok_or_else(error)
            }
            Some(("hotspot", shares)) => {
                let (accesses, blocks) = shares.split_once('/').ok_or_else(error)?;
                let percent = |text: &str| {
                    let number = text.trim_end_matches('%').parse::<f64>().ok();
                    number.filter(|percent| (0.0..=100.0).contains(percent)).ok_or_else(error)
                };
                let (accesses_percent, blocks_percent) = (percent(accesses)?, percent(blocks)?);
                let hotspot = Self::Hotspot { accesses_percent, blocks_percent };
                (blocks_percent > 0.0).then_some(hotspot).ok_or_else(error)
            }
            Some(_) => Err(error()),
        }
    }
}

gemelo_base::text_in_results!(Pattern);

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sequential => formatter.write_str("sequential"),
            Self::Uniform => formatter.write_str("uniform"),
            Self::NuRand { a: None } => formatter.write_str("nurand"),
            Self::NuRand { a: Some(a) } => write!(formatter, "nurand:{a}"),
            Self::Zipf { theta } => write!(formatter, "zipf:{theta}"),
            Self::Hotspot { accesses_percent, blocks_percent } => {
                write!(formatter, "hotspot:{accesses_percent}/{blocks_percent}")
            }
        }
    }
}

/// Key that separates the random streams of a run; so is the next.
const NURAND_KEY: u64 = 0x6e75_7261;
const SCATTER_KEY: u64 = 0x7363_6174;

/// The endless sequence of blocks that one process accesses.
#[derive(Debug, Clone)]
pub struct Positions {
    draw: Draw,
    random: Random,
    blocks: u64,
}

#[derive(Debug, Clone)]
enum Draw {
    Sequential { next: u64 },
    Uniform,
    NuRand { a: u64, c: u64 },
    Zipf { zipf: Zipf, scatter: Permutation, key: u64 },
    Hotspot { hot_below: f64, hot_blocks: u64 },
}

impl Positions {
    /// Creates the stream of a seed over `blocks` blocks, at least one. The hot spots depend on the
    /// seed alone. `stream` separates processes, and reads from writes.
    #[must_use]
    pub fn new(pattern: Pattern, blocks: u64, seed: u64, stream: u64) -> Self {
        let draw = match pattern {
            Pattern::Sequential => Draw::Sequential { next: 0 },
            Pattern::Uniform => Draw::Uniform,
            Pattern::NuRand { a } => {
                let a = a.unwrap_or(blocks / 10);
                // C is a constant of the run (clause 2.1.6), so all processes have the same hot
                // spots.
                let c = Random::new(mix_pair(seed, NURAND_KEY)).below(a.saturating_add(1));
                Draw::NuRand { a, c }
            }
            Pattern::Zipf { theta } => Draw::Zipf {
                zipf: Zipf::new(blocks, theta),
                scatter: Permutation::new(blocks),
                key: mix_pair(seed, SCATTER_KEY),
            },
            Pattern::Hotspot { accesses_percent, blocks_percent } => {
                let hot_blocks =
                    ((blocks as f64 * blocks_percent / 100.0).round() as u64).clamp(1, blocks);
                Draw::Hotspot { hot_below: accesses_percent / 100.0, hot_blocks }
            }
        };
        Self { draw, random: Random::new(mix_pair(seed, stream)), blocks }
    }

    /// Returns the next block.
    #[inline]
    pub fn next_block(&mut self) -> u64 {
        let Self { draw, random, blocks } = self;
        match draw {
            Draw::Sequential { next } => {
                let block = *next;
                *next = if block + 1 == *blocks { 0 } else { block + 1 };
                block
            }
            Draw::Uniform => random.below(*blocks),
            Draw::NuRand { a, c } => {
                // ((rand(0, A) | rand(x, y)) + C) % (y - x + 1) + x with x = 0 and y as the last
                // block.
                let mixed = random.below(a.saturating_add(1)) | random.below(*blocks);
                mixed.wrapping_add(*c) % *blocks
            }
            Draw::Zipf { zipf, scatter, key } => scatter.apply(*key, zipf.rank(random) - 1),
            Draw::Hotspot { hot_below, hot_blocks } => {
                let is_hot = random.unit() < *hot_below || hot_blocks == blocks;
                if is_hot {
                    random.below(*hot_blocks)
                } else {
                    *hot_blocks + random.below(*blocks - *hot_blocks)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
