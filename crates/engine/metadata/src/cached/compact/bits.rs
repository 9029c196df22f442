//! Numbers of any width in an array of words. Bit n is bit n mod 64 of word n / 64.

/// Bits of a word.
pub(super) const WORD_BITS: usize = u64::BITS as usize;

/// The number whose lowest `width` bits are set.
const fn mask(width: usize) -> u64 {
    if width == 0 { 0 } else { u64::MAX >> (WORD_BITS - width) }
}

/// Reads a number of at most 64 bits.
pub(super) fn get(words: &[u64], at: usize, width: usize) -> u64 {
    assert!(width <= WORD_BITS, "a number has at most 64 bits, not {width}");
    let (word, shift) = (at / WORD_BITS, at % WORD_BITS);
    let low = words[word] >> shift;
    let is_whole = shift + width <= WORD_BITS;
    let value = if is_whole { low } else { low | words[word + 1] << (WORD_BITS - shift) };
    value & mask(width)
}

/// Writes a number of at most 64 bits.
pub(super) fn set(words: &mut [u64], at: usize, width: usize, value: u64) {
    assert!(value & !mask(width) == 0, "{value} has at most {width} bits");
    let (word, shift) = (at / WORD_BITS, at % WORD_BITS);
    words[word] = words[word] & !(mask(width) << shift) | value << shift;
    if shift + width > WORD_BITS {
        let done = WORD_BITS - shift;
        words[word + 1] = words[word + 1] & !(mask(width) >> done) | value >> done;
    }
}

/// The 64 bits from this one on. Those beyond the words are 0.
fn word_at(words: &[u64], at: usize) -> u64 {
    let (word, shift) = (at / WORD_BITS, at % WORD_BITS);
    let low = words[word] >> shift;
    let next = words.get(word + 1).copied().unwrap_or(0);
    if shift == 0 { low } else { low | next << (WORD_BITS - shift) }
}

/// The words that a range of bits begins and ends in, and the bits of these that are not in it.
struct Edges {
    first: usize,
    last: usize,
    below: u64,
    above: u64,
}

impl Edges {
    const fn of(from: usize, end: usize) -> Self {
        let in_last = (end - 1) % WORD_BITS + 1;
        Self {
            first: from / WORD_BITS,
            last: (end - 1) / WORD_BITS,
            below: mask(from % WORD_BITS),
            above: !mask(in_last),
        }
    }
}

/// Changes the bits of a word that are not kept.
fn put(words: &mut [u64], word: usize, kept: u64, value: u64) {
    words[word] = words[word] & kept | value & !kept;
}

/// Moves the bits from `from` to `end` up by this number of bits.
pub(super) fn move_up(words: &mut [u64], from: usize, end: usize, by: usize) {
    if from >= end {
        return;
    }
    let Edges { first, last, below, above } = Edges::of(from + by, end + by);
    let lowest = word_at(words, from) << ((from + by) % WORD_BITS);
    if first == last {
        put(words, first, below | above, lowest);
        return;
    }
    put(words, last, above, word_at(words, last * WORD_BITS - by));
    let (whole, shift) = (by / WORD_BITS, by % WORD_BITS);
    let mut high = words[last - 1 - whole];
    for word in (first + 1..last).rev() {
        let low = words[word - whole - 1];
        words[word] = high << shift | low >> 1 >> (WORD_BITS - 1 - shift);
        high = low;
    }
    put(words, first, below, lowest);
}

/// Moves the bits from `from` to `end` down by this number of bits.
pub(super) fn move_down(words: &mut [u64], from: usize, end: usize, by: usize) {
    if from >= end {
        return;
    }
    let Edges { first, last, below, above } = Edges::of(from - by, end - by);
    let lowest = word_at(words, from) << ((from - by) % WORD_BITS);
    if first == last {
        put(words, first, below | above, lowest);
        return;
    }
    put(words, first, below, lowest);
    let (whole, shift) = (by / WORD_BITS, by % WORD_BITS);
    let mut low = words[first + 1 + whole];
    for word in first + 1..last {
        let high = words[word + whole + 1];
        words[word] = low >> shift | high << 1 << (WORD_BITS - 1 - shift);
        low = high;
    }
    put(words, last, above, word_at(words, last * WORD_BITS + by));
}

/// The position after the zero number `zeros` (from 1) of the bits from `from` to `end`; `from` for
/// 0.
pub(super) fn after_zero(words: &[u64], from: usize, end: usize, zeros: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("popcnt") {
        // SAFETY: The processor has the instruction.
        return unsafe { after_zero_by_popcnt(words, from, end, zeros) };
    }
    seek_zero(words, from, end, zeros)
}

/// The same with an instruction that counts bits. A look-up counts those of some words, each of
/// which takes a dozen other instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt")]
fn after_zero_by_popcnt(words: &[u64], from: usize, end: usize, zeros: usize) -> usize {
    seek_zero(words, from, end, zeros)
}

#[inline(always)]
fn seek_zero(words: &[u64], from: usize, end: usize, zeros: usize) -> usize {
    if zeros == 0 {
        return from;
    }
    let (mut word, mut left) = (from / WORD_BITS, zeros as u32);
    let mut unset = !words[word] & !mask(from % WORD_BITS);
    while unset.count_ones() < left {
        left -= unset.count_ones();
        word += 1;
        unset = !words[word];
    }
    let at = word * WORD_BITS + one_of(unset, left);
    assert!(at < end, "the bits have {zeros} zeros");
    at + 1
}

/// The position of a one of a word by its number (from 1). The word has so many.
#[inline(always)]
fn one_of(mut word: u64, mut number: u32) -> usize {
    let mut at = 0;
    for width in [WORD_BITS / 2, WORD_BITS / 4, WORD_BITS / 8] {
        let below = (word & mask(width)).count_ones();
        if below < number {
            (number, at, word) = (number - below, at + width, word >> width);
        }
    }
    (1..number).for_each(|_| word &= word - 1);
    at + word.trailing_zeros() as usize
}

/// The number of ones from `from` on, before the next zero.
pub(super) fn ones(words: &[u64], from: usize, end: usize) -> usize {
    let mut at = from;
    while at < end {
        let width = WORD_BITS.min(end - at);
        let found = (get(words, at, width) | !mask(width)).trailing_ones() as usize;
        at += found.min(width);
        if found < width {
            break;
        }
    }
    at - from
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::Random;

    #[test]
    fn bits_move_as_those_of_a_vector_do() {
        let mut random = Random::new(7);
        for _ in 0..3000 {
            let mut words: Vec<u64> = (0..8).map(|_| random.below(u64::MAX)).collect();
            let bit = |words: &[u64], at| get(words, at, 1);
            let all = |words: &[u64]| (0..512).map(|at| bit(words, at)).collect::<Vec<_>>();
            let (by, width) = (random.below(80) as usize, random.below(65) as usize);
            let from = random.below(200) as usize;
            let end = from + random.below(200) as usize;
            let before = all(&words);
            move_up(&mut words, from, end, by);
            let mut right = before.clone();
            right.copy_within(from..end, from + by);
            assert_eq!(all(&words), right, "up");
            move_down(&mut words, from + by, end + by, by);
            right.copy_within(from + by..end + by, from);
            assert_eq!(all(&words), right, "down");
            let value = random.below(u64::MAX) & mask(width);
            set(&mut words, from, width, value);
            assert_eq!(get(&words, from, width), value);
            let after = all(&words);
            assert_eq!(after[from + width..], right[from + width..], "the bits above stay");
            let zeros = after[from..end].iter().filter(|bit| **bit == 0).count();
            let wanted = random.below(zeros as u64 + 1) as usize;
            let place = after_zero(&words, from, end, wanted);
            assert_eq!(after[from..place].iter().filter(|bit| **bit == 0).count(), wanted);
            assert_eq!(seek_zero(&words, from, end, wanted), place, "without the instruction");
            assert!(wanted == 0 || after[place - 1] == 0);
            let run = after[from..end].iter().take_while(|bit| **bit == 1).count();
            assert_eq!(ones(&words, from, end), run);
        }
    }
}
