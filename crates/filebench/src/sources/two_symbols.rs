//! The five ways to fill a buffer with data of a chosen entropy, after the entropy sources for Filebench (Al-Rfou',
//! Patwardhan, Bhagavatula 2010, sections 2.4 and 3.2).
//!
//! In one thing they differ from the report: which bytes are the symbols does not change from buffer to buffer. A file
//! of several buffers has the entropy asked for too, and not a larger one.

use gemelo_base::random::Random;

/// Values of a byte.
const SYMBOLS: usize = 256;
/// Bytes of the pages of [`Method::PermutedPages`].
const PAGE_BYTES: usize = 4096;
/// Entries of the table of [`Method::Lookup`], as many as in the report's.
const TABLE_BYTES: usize = 1 << 14;
/// Every symbol at its own place.
const IN_ORDER: [u8; SYMBOLS] = {
    let mut order = [0; SYMBOLS];
    let mut symbol = 0;
    while symbol < SYMBOLS {
        order[symbol] = symbol as u8;
        symbol += 1;
    }
    order
};

/// How a buffer is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    /// A random number for each byte, looked for in the cumulative distribution.
    Search,
    /// Every symbol as often as it should occur, all of a kind together.
    Contiguous,
    /// The same, then the whole buffer shuffled.
    Permuted,
    /// Every page of 4 KiB contiguous, then shuffled within itself.
    PermutedPages,
    /// A random place of a table that holds every symbol in proportion.
    Lookup,
}

/// The names of the methods, with what they do.
pub const METHODS: [(&str, &str); 6] = [
    ("gemelo", "random bytes at random places, by vector instructions; no two blocks equal"),
    ("search", "a random number for each byte, looked for in the cumulative distribution"),
    ("contiguous", "every symbol as often as it should occur, all of a kind together"),
    ("permuted", "contiguous, then the whole buffer shuffled"),
    ("permuted-pages", "every page of 4 KiB contiguous, then shuffled within itself"),
    ("lookup", "a random place of a table that holds every symbol in proportion"),
];

impl Method {
    /// The method of this name; `None` for gemelo's own and for unknown ones.
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

/// The probabilities of the symbols, as the report has them: as few symbols as can have the entropy, all equally likely
/// but for two, of which the one gains what the other loses. That loss is found by halving.
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

/// What one method needs to fill buffers of one entropy.
#[derive(Debug, Clone)]
pub(super) struct Filling {
    method: Method,
    /// Of all bytes, the share that has one of the symbols up to this one.
    cumulative: Vec<f64>,
    /// The same in 2^32 parts. Only for [`Method::Search`].
    thresholds: Vec<u64>,
    /// Only for [`Method::Lookup`].
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
                // Another order in each buffer, so that few are equal.
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

    /// The runs of all symbols in this order. Each symbol gets as many bytes as lie between where the symbols below it
    /// end, rounded, and where it ends; so counts are right to one byte at every length.
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

/// Every order is equally likely (Fisher and Yates 1938, Durstenfeld 1964).
fn shuffle(random: &mut Random, buffer: &mut [u8]) {
    for last in (1..buffer.len()).rev() {
        buffer.swap(last, random.below(last as u64 + 1) as usize);
    }
}
