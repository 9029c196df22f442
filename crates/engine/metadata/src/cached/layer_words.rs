//! The words of a layer by LBN.
//!
//! The LBNs are divided into pieces of 64 leaves. A piece has a bit for each of its leaves that has
//! words, so that most look-ups end there, and a hash table of the words, whose growth nobody
//! waits for. Walks in the order of the LBNs go from leaf to leaf.

use super::layer::LEAF_LBNS;
use gemelo_base::random::mix64;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::collections::BTreeMap;
use std::ops::Range;

/// Leaves of a piece: one for each bit of a number.
const PIECE_LEAVES: u64 = u64::BITS as u64;
const PIECE_LBNS: u64 = PIECE_LEAVES * LEAF_LBNS;
const _: () = assert!(PIECE_LBNS <= 1 << u16::BITS, "an LBN within a piece takes two bytes");

/// A word, and its LBN within the piece, in 10 bytes.
type Word = (u16, [u8; 8]);

#[derive(Debug, Default)]
struct Piece {
    /// The leaves that have words.
    leaves: u64,
    words: HashTable<Word>,
}

const fn hash(within: u16) -> u64 {
    mix64(within as u64)
}

impl Piece {
    fn has_leaf(&self, leaf: u64) -> bool {
        self.leaves & 1 << (leaf % PIECE_LEAVES) != 0
    }

    fn get(&self, lbn: u64) -> Option<u64> {
        let key = within(lbn);
        let found = self.words.find(hash(key), |(of, _)| *of == key);
        found.map(|(_, word)| u64::from_le_bytes(*word))
    }

    /// The numbers from `from` on, but before `end`, of leaves that have words.
    fn next_leaf(&self, from: u64) -> Option<u64> {
        let left = self.leaves & u64::MAX << (from % PIECE_LEAVES);
        let first = from / PIECE_LEAVES * PIECE_LEAVES;
        (left != 0).then(|| first + u64::from(left.trailing_zeros()))
    }
}

/// The LBN within its piece.
const fn within(lbn: u64) -> u16 {
    (lbn % PIECE_LBNS) as u16
}

/// The parts of a layer that a word has made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Added {
    pub(super) piece: bool,
    pub(super) leaf: bool,
    pub(super) word: bool,
}

/// Words by LBN.
#[derive(Debug, Default)]
pub(super) struct LayerWords {
    pieces: BTreeMap<u64, Piece>,
}

impl LayerWords {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    fn piece_of_leaf(&self, leaf: u64) -> Option<&Piece> {
        let piece = self.pieces.get(&(leaf / PIECE_LEAVES))?;
        piece.has_leaf(leaf).then_some(piece)
    }

    pub(super) fn get(&self, lbn: u64) -> Option<u64> {
        self.piece_of_leaf(lbn / LEAF_LBNS)?.get(lbn)
    }

    /// Sets the word of an LBN.
    pub(super) fn set(&mut self, lbn: u64, word: u64) -> Added {
        let (key, leaf) = (within(lbn), lbn / LEAF_LBNS);
        let piece = self.pieces.entry(leaf / PIECE_LEAVES).or_default();
        let (is_new_piece, is_new_leaf) = (piece.leaves == 0, !piece.has_leaf(leaf));
        piece.leaves |= 1 << (leaf % PIECE_LEAVES);
        let new = (key, word.to_le_bytes());
        let hash_of = |(of, _): &Word| hash(*of);
        let is_new = match piece.words.entry(hash(key), |(of, _)| *of == key, hash_of) {
            Entry::Occupied(mut known) => {
                *known.get_mut() = new;
                false
            }
            Entry::Vacant(place) => {
                place.insert(new);
                true
            }
        };
        Added { piece: is_new_piece, leaf: is_new_leaf, word: is_new }
    }

    /// Returns whether a leaf has words.
    pub(super) fn has_leaf(&self, leaf: u64) -> bool {
        self.piece_of_leaf(leaf).is_some()
    }

    /// The first of these leaves that has words.
    pub(super) fn next_leaf(&self, leaves: Range<u64>) -> Option<u64> {
        if leaves.is_empty() {
            return None;
        }
        let pieces = leaves.start / PIECE_LEAVES..=(leaves.end - 1) / PIECE_LEAVES;
        let mut pieces = self.pieces.range(pieces);
        let next = pieces
            .find_map(|(number, piece)| piece.next_leaf(leaves.start.max(number * PIECE_LEAVES)));
        next.filter(|leaf| *leaf < leaves.end)
    }

    /// The words of a leaf, each with its place there, in any order.
    pub(super) fn of_leaf(&self, leaf: u64) -> impl Iterator<Item = (usize, u64)> {
        let piece = self.piece_of_leaf(leaf).into_iter();
        let first = within(leaf * LEAF_LBNS);
        piece.flat_map(move |piece| {
            // The leaf's LBNs, or all words of the piece if these are fewer.
            let few = piece.words.len() < LEAF_LBNS as usize;
            let all = few.then(|| piece.words.iter()).into_iter().flatten();
            let own = all.filter_map(move |(of, word)| {
                let place = of.checked_sub(first).map(usize::from)?;
                (place < LEAF_LBNS as usize).then(|| (place, u64::from_le_bytes(*word)))
            });
            let lbns = if few { 0..0 } else { 0..LEAF_LBNS };
            let probed = lbns.filter_map(move |place| {
                Some((place as usize, piece.get(u64::from(first) + place)?))
            });
            own.chain(probed)
        })
    }

    /// The first of these LBNs that has a word, and the word.
    pub(super) fn next(&self, lbns: Range<u64>) -> Option<(u64, u64)> {
        let end = lbns.end.div_ceil(LEAF_LBNS);
        let mut leaf = lbns.start / LEAF_LBNS;
        loop {
            leaf = self.next_leaf(leaf..end)?;
            let first = leaf * LEAF_LBNS;
            let within = first.max(lbns.start)..lbns.end.min(first.saturating_add(LEAF_LBNS));
            let piece = self.piece_of_leaf(leaf)?;
            let found = within.into_iter().find_map(|lbn| Some((lbn, piece.get(lbn)?)));
            if found.is_some() {
                return found;
            }
            leaf += 1;
        }
    }

    /// Forgets the words of leaves. Returns their number.
    pub(super) fn forget(&mut self, leaves: Range<u64>) -> usize {
        let mut forgotten = 0;
        while let Some(leaf) = self.next_leaf(leaves.clone()) {
            let number = leaf / PIECE_LEAVES;
            let Some(piece) = self.pieces.get_mut(&number) else { break };
            let first = number * PIECE_LEAVES;
            let own = |leaf: u64| leaves.contains(&(first + leaf));
            let before = piece.words.len();
            piece.words.retain(|(of, _)| !own(u64::from(*of) / LEAF_LBNS));
            forgotten += before - piece.words.len();
            (0..PIECE_LEAVES)
                .filter(|leaf| own(*leaf))
                .for_each(|leaf| piece.leaves &= !(1 << leaf));
            if piece.leaves == 0 {
                self.pieces.remove(&number);
            }
        }
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::super::maps::WORD_BYTES;
    use super::*;
    use gemelo_base::random::Random;

    #[test]
    fn a_word_takes_the_memory_that_is_counted_for_it() {
        let (mut words, mut used) = (LayerWords::default(), 0.0);
        let lbns: Vec<u64> = (0..PIECE_LBNS / 2).map(|number| 2 * number).collect();
        for lbn in &lbns {
            words.set(*lbn, 1);
            let bytes = words.pieces[&0].words.allocation_size();
            used += bytes as f64 / (lbn / 2 + 1) as f64;
        }
        let mean = used / lbns.len() as f64;
        assert!((WORD_BYTES as f64 - 2.0..WORD_BYTES as f64).contains(&mean), "{mean}");
    }

    #[test]
    fn they_are_those_of_an_ordered_map() {
        let mut random = Random::new(11);
        for round in 0..60 {
            let (mut words, mut map) = (LayerWords::default(), BTreeMap::new());
            // In some rounds LBNs lie dense, in others far apart, and near the last one.
            let (span, first) = [(3000, 0), (3 * PIECE_LBNS, 100), (1 << 40, 1 << 50)][round % 3];
            let (mut leaves, mut pieces) = (0, 0);
            for step in 0..2500 {
                let lbn = first + random.below(span);
                let leaf = lbn / LEAF_LBNS;
                if step % 100 == 99 {
                    let cut = leaf..leaf + random.below(80);
                    let lbns = cut.start * LEAF_LBNS..cut.end * LEAF_LBNS;
                    let before = map.len();
                    map.retain(|lbn, _| !lbns.contains(lbn));
                    assert_eq!(words.forget(cut.clone()), before - map.len());
                    assert_eq!(words.next_leaf(cut), None);
                } else {
                    let of = |each: u64| {
                        map.range(lbn / each * each..)
                            .next()
                            .is_some_and(|(other, _)| other / each == lbn / each)
                    };
                    let (is_new_leaf, is_new_piece) = (!of(LEAF_LBNS), !of(PIECE_LBNS));
                    let added = words.set(lbn, step);
                    let is_new = map.insert(lbn, step).is_none();
                    assert_eq!(
                        (added.word, added.leaf, added.piece),
                        (is_new, is_new_leaf, is_new_piece)
                    );
                    leaves += u64::from(is_new_leaf);
                    pieces += u64::from(is_new_piece);
                }
                let other = first + random.below(span);
                assert_eq!(words.get(other), map.get(&other).copied());
                let range = other..other + random.below(2 * PIECE_LBNS);
                let next = map.range(range.clone()).next().map(|(lbn, word)| (*lbn, *word));
                assert_eq!(words.next(range), next);
            }
            assert!(leaves > 0 && pieces > 0 && words.is_empty() == map.is_empty());
            let mut leaf = 0;
            while let Some(next) = words.next_leaf(leaf..u64::MAX) {
                let lbns = next * LEAF_LBNS..(next + 1) * LEAF_LBNS;
                let mut own: Vec<(usize, u64)> = words.of_leaf(next).collect();
                own.sort_unstable();
                let right = map.range(lbns).map(|(lbn, word)| ((lbn % LEAF_LBNS) as usize, *word));
                assert_eq!(own, right.collect::<Vec<_>>());
                assert!(words.has_leaf(next) && !own.is_empty());
                leaf = next + 1;
            }
            assert_eq!(words.forget(0..u64::MAX), map.len());
            assert!(words.is_empty());
        }
    }
}
