//! The five methods to fill a buffer with data of a chosen entropy, after the entropy sources for
//! Filebench (Al-Rfou', Patwardhan, Bhagavatula 2010, sections 2.2 and 3.2).
//!
//! They differ from the report in one respect: the bytes that serve as symbols are the same for all
//! buffers. A file of several buffers therefore has the requested entropy, and not a larger one.

use gemelo_base::random::Random;

/// Number of values of a byte.
const SYMBOLS: usize = 256;
/// Bytes of a page of [`Method::PermutedPages`].
const PAGE_BYTES: usize = 4096;
/// Entries in the table of [`Method::Lookup`], as in the report.
const TABLE_BYTES: usize = 1 << 14;
/// All symbols in ascending order.
const IN_ORDER: [u8; SYMBOLS] = {
    let mut order = [0; SYMBOLS];
    let mut symbol = 0;
    while symbol < SYMBOLS {
        order[symbol] = symbol as u8;
        symbol += 1;
    }
    order
};

/// The method of filling a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    /// Draws a random number for each byte and finds it in the cumulative distribution.
    Search,
    /// Writes every symbol with its frequency; equal symbols are contiguous.
    Contiguous,
    /// Fills contiguously, then shuffles the whole buffer.
    Permuted,
    /// Fills every page of 4 KiB contiguously, then shuffles the page.
    PermutedPages,
    /// Takes each byte from a random entry of a table that holds the symbols in proportion.
    Lookup,
}

/// Names and descriptions of the methods.
pub const METHODS: [(&str, &str); 6] = [
    ("gemelo", "random bytes at random places, by vector instructions; all blocks differ"),
    ("search", "a random number for each byte, found in the cumulative distribution"),
    ("contiguous", "every symbol with its frequency, equal symbols contiguous"),
    ("permuted", "contiguous, then the whole buffer shuffled"),
    ("permuted-pages", "every page of 4 KiB contiguous, then shuffled within itself"),
    ("lookup", "a random entry of a table that holds the symbols in proportion"),
];

impl Method {
    /// Returns the method with this name, or `None` for gemelo's own method and unknown names.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "search" => Self::Search,
            "contiguous" => Self::Contiguous,
            "permuted" => Self::Permuted,
            "permuted-pages" => Self::PermutedPages,
            "lookup" => Self::Lookup,
            _ => return None,
        })
    }
}

/// Returns the probabilities of the symbols as defined in the report. The fewest symbols that can
/// have the entropy are used. All are equally likely except two, one of which gains what the other
/// loses. Bisection finds this difference.
pub(super) fn probabilities(entropy_bits: f64) -> Vec<f64> {
    let count = (entropy_bits.exp2().ceil() as usize).clamp(1, SYMBOLS);
    let even = 1.0 / count as f64;
    let mut shares = vec![even; count];
    let [first, second, others @ ..] = shares.as_mut_slice() else { return shares };
    let term = |p: f64| if p > 0.0 { -p * p.log2() } else { 0.0 };
    let of_others = others.len() as f64 * term(even);
    let (mut low, mut high) = (0.0, even);
    for _ in 0..60 {
        let loss = f64::midpoint(low, high);
        if of_others + term(even + loss) + term(even - loss) > entropy_bits {
            low = loss;
        } else {
            high = loss;
        }
    }
    *first += low;
    *second -= low;
    shares
}

/// The prepared data of one method for one entropy.
#[derive(Debug, Clone)]
pub(super) struct Filling {
    method: Method,
    /// Share of the bytes that are one of the symbols up to this one.
    cumulative: Vec<f64>,
    /// The cumulative shares in units of 2^-32, for [`Method::Search`] only.
    thresholds: Vec<u64>,
    /// The table of symbols, for [`Method::Lookup`] only.
    table: Vec<u8>,
}

impl Filling {
    pub(super) fn new(method: Method, entropy_bits: f64) -> Self {
        let shares = probabilities(entropy_bits);
        let mut sum = 0.0;
        let cumulative: Vec<f64> = shares
            .iter()
            .map(|share| {
                sum += share;
                sum
            })
            .collect();
        let mut filling = Self { method, cumulative, thresholds: Vec::new(), table: Vec::new() };
        match method {
            Method::Search => {
                let parts = |share: &f64| (share * 2f64.powi(32)) as u64;
                filling.thresholds = filling.cumulative.iter().map(parts).collect();
            }
            Method::Lookup => {
                let mut table = vec![0; TABLE_BYTES];
                filling.contiguous(&IN_ORDER, &mut table);
                filling.table = table;
            }
            Method::Contiguous | Method::Permuted | Method::PermutedPages => {}
        }
        filling
    }

    pub(super) fn fill(&self, random: &mut Random, buffer: &mut [u8]) {
        match self.method {
            Method::Search => self.search(random, buffer),
            Method::Contiguous => {
                // Each buffer gets another order, so that few buffers are equal.
                let mut order = IN_ORDER;
                let used = self.cumulative.len();
                shuffle(random, order.get_mut(..used).unwrap_or_default());
                self.contiguous(&order, buffer);
            }
            Method::Permuted => {
                self.contiguous(&IN_ORDER, buffer);
                shuffle(random, buffer);
            }
            Method::PermutedPages => {
                for page in buffer.chunks_mut(PAGE_BYTES) {
                    self.contiguous(&IN_ORDER, page);
                    shuffle(random, page);
                }
            }
            Method::Lookup => self.lookup(random, buffer),
        }
    }

    fn search(&self, random: &mut Random, buffer: &mut [u8]) {
        let last = self.thresholds.len().saturating_sub(1);
        for byte in buffer {
            let number = random.next_u64() >> 32;
            *byte = self.thresholds.partition_point(|upto| *upto <= number).min(last) as u8;
        }
    }

    /// Writes the runs of all symbols in this order. The end of each symbol in the cumulative
    /// distribution is rounded to whole bytes, so every count is right to one byte for any length.
    fn contiguous(&self, order: &[u8; SYMBOLS], buffer: &mut [u8]) {
        let bytes = buffer.len() as f64;
        let end = |rank: usize| {
            let below = rank.checked_sub(1).and_then(|below| self.cumulative.get(below));
            (below.copied().unwrap_or(0.0) * bytes).round() as usize
        };
        let used = self.cumulative.len();
        let mut start = 0;
        for symbol in order.iter().take(used) {
            let rank = usize::from(*symbol);
            let count = end(rank + 1).saturating_sub(end(rank));
            let upto = (start + count).min(buffer.len());
            if let Some(run) = buffer.get_mut(start..upto) {
                run.fill(*symbol);
            }
            start = upto;
        }
    }

    fn lookup(&self, random: &mut Random, buffer: &mut [u8]) {
        for four in buffer.chunks_mut(4) {
            let mut word = random.next_u64();
            for byte in four {
                *byte = self.table.get(word as usize % TABLE_BYTES).copied().unwrap_or(0);
                word >>= 16;
            }
        }
    }
}

/// Shuffles so that every order is equally likely (Fisher and Yates 1938, Durstenfeld 1964).
fn shuffle(random: &mut Random, buffer: &mut [u8]) {
    for last in (1..buffer.len()).rev() {
        buffer.swap(last, random.below(last as u64 + 1) as usize);
    }
}
