//! A bitmap of the PBNs that are in use, in chunks. A chunk of which all PBNs are free, or all are
//! used, takes no memory.

use super::runs::{ANY, ChunkSet, Levels, RUN_BLOCKS, level_of};
use std::ops::Range;

/// PBNs of a word.
pub(super) const WORD_BLOCKS: u64 = u64::BITS as u64;
/// Words of a chunk.
pub(super) const CHUNK_WORDS: usize = 512;
/// PBNs of a chunk.
const CHUNK_BLOCKS: u32 = CHUNK_WORDS as u32 * u64::BITS;
/// The level of words that are free as a whole.
const WHOLE: usize = 0;

/// A chunk that has free PBNs and used ones.
#[derive(Debug)]
struct MixedPiece {
    /// A set bit is a PBN that is in use or out of range.
    used: [u64; CHUNK_WORDS],
    levels: Levels,
    free: u32,
}

impl MixedPiece {
    /// A chunk of which all PBNs are free, or none is.
    fn new(is_free: bool) -> Box<Self> {
        let (used, free) = if is_free { (0, CHUNK_BLOCKS) } else { (u64::MAX, 0) };
        Box::new(Self { used: [used; CHUNK_WORDS], levels: Levels::new(is_free), free })
    }
}

/// The bitmap; see the module.
#[derive(Debug, Default)]
pub(super) struct Used {
    /// The chunks that are neither free nor used as a whole.
    mixed: Vec<Option<Box<MixedPiece>>>,
    /// The chunks by the free runs in their words.
    levels: [ChunkSet; RUN_BLOCKS.len()],
    words: usize,
}

impl Used {
    /// Covers this many words. Words that are added are used.
    pub(super) fn resize(&mut self, words: usize) {
        let chunks = words.div_ceil(CHUNK_WORDS);
        self.mixed.resize_with(chunks, || None);
        self.levels.iter_mut().for_each(|level| level.resize(chunks));
        self.words = words;
    }

    pub(super) const fn words(&self) -> usize {
        self.words
    }

    fn is_free_chunk(&self, chunk: usize) -> bool {
        self.levels[WHOLE].has(chunk)
    }

    /// The used bits of a word. A word out of range is used.
    pub(super) fn word(&self, word: usize) -> u64 {
        match self.mixed.get(word / CHUNK_WORDS) {
            Some(Some(chunk)) => chunk.used[word % CHUNK_WORDS],
            Some(None) if self.is_free_chunk(word / CHUNK_WORDS) => 0,
            _ => u64::MAX,
        }
    }

    /// Changes the used bits of a word in range.
    pub(super) fn set(&mut self, word: usize, after: u64) {
        let (number, at) = (word / CHUNK_WORDS, word % CHUNK_WORDS);
        let is_free = self.is_free_chunk(number);
        let chunk = self.mixed[number].get_or_insert_with(|| MixedPiece::new(is_free));
        let before = std::mem::replace(&mut chunk.used[at], after);
        chunk.free = chunk.free + after.count_zeros() - before.count_zeros();
        let (was, is) = (level_of(before), level_of(after));
        // A word with a run has all shorter ones as well.
        for level in was.min(is)..was.max(is) {
            let has_words = chunk.levels.set(level, at, is < was);
            self.levels[level].set(number, has_words);
        }
        if chunk.free == 0 || chunk.free == CHUNK_BLOCKS {
            self.mixed[number] = None;
        }
    }

    /// Frees the words of whole chunks.
    pub(super) fn free_chunks(&mut self, chunks: Range<usize>) {
        self.mixed[chunks.clone()].iter_mut().for_each(|chunk| *chunk = None);
        self.levels.iter_mut().for_each(|level| level.add(chunks.clone()));
    }

    /// Returns the first word at or after `start` that has a run of this level.
    pub(super) fn next(&self, level: usize, start: usize) -> Option<usize> {
        let (number, at) = (start / CHUNK_WORDS, start % CHUNK_WORDS);
        let in_chunk = |chunk: usize, at: usize| match self.mixed.get(chunk)? {
            Some(mixed) => mixed.levels.next(level, at),
            None => self.is_free_chunk(chunk).then_some(at),
        };
        if let Some(found) = in_chunk(number, at) {
            return Some(number * CHUNK_WORDS + found);
        }
        let number = self.levels[level].next(number + 1)?;
        Some(number * CHUNK_WORDS + in_chunk(number, 0)?)
    }

    /// The first word at or after `start` that has a free PBN, or `end` if that comes first.
    pub(super) fn next_with_free(&self, start: usize, end: usize) -> usize {
        self.next(ANY, start).map_or(end, |word| word.min(end))
    }

    /// The number of free PBNs in these words.
    pub(super) fn free_in(&self, words: Range<usize>) -> u64 {
        let (mut word, mut free) = (words.start, 0);
        while word < words.end {
            let number = word / CHUNK_WORDS;
            let end = ((number + 1) * CHUNK_WORDS).min(words.end);
            free += match self.mixed.get(number) {
                Some(Some(_)) => {
                    (word..end).map(|word| u64::from(self.word(word).count_zeros())).sum()
                }
                Some(None) if self.is_free_chunk(number) => (end - word) as u64 * WORD_BLOCKS,
                _ => 0,
            };
            word = end;
        }
        free
    }

    /// The number of chunks that take memory.
    #[cfg(test)]
    pub(super) fn mixed_chunks(&self) -> usize {
        self.mixed.iter().flatten().count()
    }
}
