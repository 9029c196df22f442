//! A bucket of the index: PBNs with some bits of their fingerprints' hashes, packed to the bit.
//!
//! The bits of a hash above those that choose the bucket are its *rest*. The upper [`RUN_BITS`]
//! bits of the rest are the number of a *run*, the bits below them are the *tag*. The entries of a
//! bucket are in the order of their runs, and each takes a tag and a PBN. After them, each run has
//! a one for each of its entries, and then a zero. So the number of a run costs each entry a bit
//! and its share of the zeros, as in a quotient filter.

use super::bits;

/// Bits of the number of a run.
pub(super) const RUN_BITS: u32 = 9;
/// Runs of a bucket.
const RUNS: usize = 1 << RUN_BITS;
/// The most entries of a run. Only a content that is stored as often makes a run as long.
const MAX_RUN: usize = 64;

/// Bits of a PBN.
pub(super) const fn bits_of(pbn: u64) -> u32 {
    let bits = u64::BITS - pbn.leading_zeros();
    if bits == 0 { 1 } else { bits }
}

/// An entry of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BucketEntry {
    /// The bits of the hash that do not follow from the bucket.
    pub(super) rest: u64,
    pub(super) pbn: u64,
}

/// The form of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// The number of entries.
    pub(super) entries: usize,
    /// Bits of a tag.
    pub(super) tag_bits: u32,
    /// Bits of a PBN.
    pub(super) pbn_bits: u32,
}

impl Shape {
    /// Bits of an entry without its run.
    const fn entry_bits(self) -> usize {
        (self.tag_bits + self.pbn_bits) as usize
    }

    /// The first bit of the runs.
    const fn runs_at(self) -> usize {
        self.entries * self.entry_bits()
    }

    /// The first bit after the bucket.
    const fn end(self) -> usize {
        self.runs_at() + self.entries + RUNS
    }

    /// The words that the bucket takes; none if it is empty.
    pub(super) const fn words(self) -> usize {
        if self.entries == 0 { 0 } else { self.end().div_ceil(bits::WORD_BITS) }
    }

    const fn run_of(self, rest: u64) -> usize {
        (rest >> self.tag_bits) as usize
    }

    /// The bit of the first one of the run of this rest.
    const fn run_at(self, rest: u64, run: &Run) -> usize {
        self.runs_at() + self.run_of(rest) + run.first
    }

    /// Packs the tag and the PBN of an entry, whose PBN has no more bits than those of the shape.
    fn packed(self, entry: BucketEntry) -> u64 {
        assert!(bits_of(entry.pbn) <= self.pbn_bits, "a PBN does not reach into the tag");
        let tag = entry.rest & ((1 << self.tag_bits) - 1);
        tag << self.pbn_bits | entry.pbn
    }
}

/// Returns whether words can be those of a bucket of this shape, which has entries: each has its
/// one among the runs.
pub(super) fn is_sound(words: &[u64], shape: Shape) -> bool {
    let ones = |from: usize, end: usize| {
        let parts = (from..end).step_by(bits::WORD_BITS);
        let part = |at: usize| bits::get(words, at, bits::WORD_BITS.min(end - at)).count_ones();
        parts.map(|at| part(at) as usize).sum::<usize>()
    };
    words.len() == shape.words()
        && shape.entry_bits() <= bits::WORD_BITS
        && ones(shape.runs_at(), shape.end()) == shape.entries
}

/// The entries of a run: the index of the first, and their number.
pub(super) struct Run {
    first: usize,
    entries: usize,
}

fn run(words: &[u64], shape: Shape, number: usize) -> Run {
    let at = bits::after_zero(words, shape.runs_at(), shape.end(), number);
    let first = at - shape.runs_at() - number;
    let entries = bits::ones(words, at, shape.end());
    assert!(first + entries <= shape.entries, "a bucket has as many ones as entries");
    Run { first, entries }
}

fn packed_at(words: &[u64], shape: Shape, index: usize) -> u64 {
    bits::get(words, index * shape.entry_bits(), shape.entry_bits())
}

/// Calls a function with the PBNs of the entries with this rest, at most `most`.
pub(super) fn candidates(
    words: &[u64],
    shape: Shape,
    rest: u64,
    most: usize,
    found: impl FnMut(u64),
) {
    if shape.entries == 0 {
        return;
    }
    let Run { first, entries, .. } = run(words, shape, shape.run_of(rest));
    let tag = rest & ((1 << shape.tag_bits) - 1);
    let packed = (first..first + entries).map(|index| packed_at(words, shape, index));
    let same = packed.filter(|packed| packed >> shape.pbn_bits == tag);
    same.take(most).map(|packed| packed & ((1 << shape.pbn_bits) - 1)).for_each(found);
}

/// The index of an entry in its run, and that run.
fn find(words: &[u64], shape: Shape, entry: BucketEntry) -> (Option<usize>, Run) {
    let run = run(words, shape, shape.run_of(entry.rest));
    if bits_of(entry.pbn) > shape.pbn_bits {
        return (None, run);
    }
    let packed = shape.packed(entry);
    let is_it = |index: &usize| packed_at(words, shape, *index) == packed;
    ((run.first..run.first + run.entries).find(is_it), run)
}

/// The run that an entry can be added to: it is not there, and its run has room. The bucket is not
/// empty.
pub(super) fn run_to_add(words: &[u64], shape: Shape, entry: BucketEntry) -> Option<Run> {
    let (found, run) = find(words, shape, entry);
    (found.is_none() && run.entries < MAX_RUN).then_some(run)
}

/// Adds an entry to its run. The words have room for it.
pub(super) fn add(words: &mut [u64], shape: Shape, entry: BucketEntry, run: &Run) {
    let (each, at) = (shape.entry_bits(), shape.run_at(entry.rest, run));
    bits::move_up(words, at, shape.end(), each + 1);
    bits::set(words, at + each, 1, 1);
    bits::move_up(words, (run.first + run.entries) * each, at, each);
    bits::set(words, (run.first + run.entries) * each, each, shape.packed(entry));
}

/// Gives PBNs more bits. The words have room for them. Returns the shape after it.
pub(super) fn widen(words: &mut [u64], shape: Shape, pbn_bits: u32) -> Shape {
    let wider = Shape { pbn_bits, ..shape };
    bits::move_up(words, shape.runs_at(), shape.end(), wider.runs_at() - shape.runs_at());
    // From the last one on: each moves to where only those after it were.
    for index in (0..shape.entries).rev() {
        let packed = packed_at(words, shape, index);
        let (tag, pbn) = (packed >> shape.pbn_bits, packed & ((1 << shape.pbn_bits) - 1));
        bits::set(words, index * wider.entry_bits(), wider.entry_bits(), tag << pbn_bits | pbn);
    }
    wider
}

/// Removes an entry. Returns whether it was there.
pub(super) fn remove(words: &mut [u64], shape: Shape, entry: BucketEntry) -> bool {
    if shape.entries == 0 {
        return false;
    }
    let (Some(index), run) = find(words, shape, entry) else { return false };
    let (each, at) = (shape.entry_bits(), shape.run_at(entry.rest, &run));
    bits::move_down(words, (index + 1) * each, at, each);
    bits::move_down(words, at + 1, shape.end(), each + 1);
    true
}

/// All entries, in the order of their runs.
pub(super) fn entries(words: &[u64], shape: Shape) -> Vec<BucketEntry> {
    let mut entries = Vec::with_capacity(shape.entries);
    let mut at = shape.runs_at();
    for number in 0..if shape.entries == 0 { 0 } else { RUNS as u64 } {
        let count = bits::ones(words, at, shape.end());
        for index in entries.len()..entries.len() + count {
            let packed = packed_at(words, shape, index);
            let rest = number << shape.tag_bits | packed >> shape.pbn_bits;
            entries.push(BucketEntry { rest, pbn: packed & ((1 << shape.pbn_bits) - 1) });
        }
        at += count + 1;
    }
    assert!(entries.len() == shape.entries, "a bucket has as many ones as entries");
    entries
}

/// Writes a bucket. The entries are in the order of their runs, and the words have room for them.
pub(super) fn write(words: &mut [u64], shape: Shape, entries: &[BucketEntry]) {
    assert!(entries.len() == shape.entries, "all entries are written");
    for (index, entry) in entries.iter().enumerate() {
        let each = shape.entry_bits();
        bits::set(words, index * each, each, shape.packed(*entry));
    }
    let (mut at, mut left) = (shape.runs_at(), entries);
    for number in 0..RUNS {
        let count = left.iter().take_while(|entry| shape.run_of(entry.rest) == number).count();
        left = left.split_at(count).1;
        (0..count).for_each(|ahead| bits::set(words, at + ahead, 1, 1));
        bits::set(words, at + count, 1, 0);
        at += count + 1;
    }
    assert!(left.is_empty() && at == shape.end(), "the entries are in the order of their runs");
}
