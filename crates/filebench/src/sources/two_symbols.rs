//! The five ways to fill a buffer with data of a chosen entropy, after the entropy sources for Filebench (Al-Rfou',
//! Patwardhan, Bhagavatula 2010): one frequent symbol, 255 equally rare ones.

use gemelo_base::random::Random;

/// Values of a byte.
const SYMBOLS: usize = 256;
/// Bytes of the pages of [`Method::PermutedPages`].
const PAGE_BYTES: usize = 4096;
/// Entries of the table of [`Method::Lookup`]: a 16-bit number chooses one.
const TABLE_BYTES: usize = 1 << 16;

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

/// The share of uniformly random bytes among frequent symbols that has this entropy; found by halving.
fn random_share(entropy_bits: f64) -> f64 {
    let entropy = |share: f64| {
        let rare = share / SYMBOLS as f64;
        let frequent = 1.0 - rare * (SYMBOLS - 1) as f64;
        let term = |p: f64| if p > 0.0 { -p * p.log2() } else { 0.0 };
        term(frequent) + (SYMBOLS - 1) as f64 * term(rare)
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if entropy(middle) < entropy_bits {
            low = middle;
        } else {
            high = middle;
        }
    }
    // Halving comes close to 0 and never there.
    if entropy_bits <= 0.0 { 0.0 } else { high }
}

/// What one method needs to fill buffers of one entropy.
#[derive(Debug, Clone)]
pub(super) struct Filling {
    method: Method,
    /// Probability of each of the rare symbols.
    rare: f64,
    /// Of 2^32, how many numbers belong to the symbols up to this one. Only for [`Method::Search`].
    cumulative: Vec<u64>,
    /// Only for [`Method::Lookup`].
    table: Vec<u8>,
}

impl Filling {
    pub(super) fn new(method: Method, entropy_bits: f64) -> Self {
        let rare = random_share(entropy_bits) / SYMBOLS as f64;
        let mut filling = Self { method, rare, cumulative: Vec::new(), table: Vec::new() };
        match method {
            Method::Search => {
                let frequent = 1.0 - rare * (SYMBOLS - 1) as f64;
                let upto = |symbol: usize| frequent + rare * symbol as f64;
                filling.cumulative =
                    (0..SYMBOLS).map(|symbol| (upto(symbol) * 2f64.powi(32)) as u64).collect();
            }
            Method::Lookup => {
                filling.table = vec![0; TABLE_BYTES];
                let mut table = std::mem::take(&mut filling.table);
                filling.contiguous(0, &mut table);
                filling.table = table;
            }
            Method::Contiguous | Method::Permuted | Method::PermutedPages => {}
        }
        filling
    }

    pub(super) fn fill(&self, random: &mut Random, buffer: &mut [u8]) {
        match self.method {
            Method::Search => self.search(random, buffer),
            Method::Contiguous => self.contiguous(random.below(255) as usize, buffer),
            Method::Permuted => {
                self.contiguous(random.below(255) as usize, buffer);
                shuffle(random, buffer);
            }
            Method::PermutedPages => {
                for page in buffer.chunks_mut(PAGE_BYTES) {
                    self.contiguous(random.below(255) as usize, page);
                    shuffle(random, page);
                }
            }
            Method::Lookup => self.lookup(random, buffer),
        }
    }

    fn search(&self, random: &mut Random, buffer: &mut [u8]) {
        for byte in buffer {
            let number = random.next_u64() >> 32;
            let symbol = self.cumulative.partition_point(|upto| *upto <= number);
            *byte = symbol.min(SYMBOLS - 1) as u8;
        }
    }

    /// The k-th rare symbol ends where k rare symbols should; so counts are right to one byte at every length. The
    /// frequent one takes what is left. `first` says which rare symbol is the first.
    fn contiguous(&self, first: usize, buffer: &mut [u8]) {
        let length = buffer.len() as f64;
        let mut start = 0;
        for rank in 0..SYMBOLS - 1 {
            let end = ((rank + 1) as f64 * self.rare * length).round() as usize;
            let end = end.min(buffer.len());
            let symbol = (first + rank) % (SYMBOLS - 1) + 1;
            if let Some(run) = buffer.get_mut(start..end) {
                run.fill(symbol as u8);
            }
            start = start.max(end);
        }
        if let Some(rest) = buffer.get_mut(start..) {
            rest.fill(0);
        }
    }

    fn lookup(&self, random: &mut Random, buffer: &mut [u8]) {
        for four in buffer.chunks_mut(4) {
            let mut word = random.next_u64();
            for byte in four {
                *byte = self.table.get((word & 0xffff) as usize).copied().unwrap_or(0);
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
