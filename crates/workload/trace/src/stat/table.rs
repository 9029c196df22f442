//! The tables of places and contents. Their entries are small, because counting is exact.

use crate::record::ContentHash;
use gemelo_base::random::{GOLDEN_STEP, mix64};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::num::NonZeroU32;

/// A block of a device in one word: 16 bits for the device, 48 bits for the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PlaceKey(u64);

const BLOCK_BITS: u32 = 48;

impl PlaceKey {
    #[inline]
    pub(super) fn new(device: u32, block: u64) -> Option<Self> {
        let device = u16::try_from(device).ok()?;
        (block >> BLOCK_BITS == 0).then_some(Self((u64::from(device) << BLOCK_BITS) | block))
    }

    pub(super) const fn device(self) -> u32 {
        (self.0 >> BLOCK_BITS) as u32
    }

    pub(super) const fn block(self) -> u64 {
        self.0 & ((1 << BLOCK_BITS) - 1)
    }
}

/// The number of a content in the table, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContentNumber(NonZeroU32);

/// The state of a place.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PlaceState {
    /// Content that the place holds now, if it is known.
    pub(super) content: Option<ContentNumber>,
    pub(super) reads: u32,
    pub(super) writes: u32,
}

pub(super) type Places = HashMap<PlaceKey, PlaceState, BuildHasherDefault<MixHasher>>;

/// The counts of a content.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Content {
    /// Number of times that the content was written.
    pub(super) writes: u32,
    /// Number of times that the content was read.
    pub(super) reads: u32,
    /// Places that hold the content now.
    pub(super) places: u32,
}

const fn key_of(hash: ContentHash) -> [u64; 2] {
    [(hash.0 >> 64) as u64, hash.0 as u64]
}

/// All contents of a trace.
#[derive(Debug, Default)]
pub(super) struct Contents {
    numbers: HashMap<[u64; 2], ContentNumber, BuildHasherDefault<MixHasher>>,
    counts: Vec<Content>,
}

impl Contents {
    #[inline]
    fn number(&mut self, hash: ContentHash) -> ContentNumber {
        let counts = &mut self.counts;
        *self.numbers.entry(key_of(hash)).or_insert_with(|| {
            counts.push(Content::default());
            // The memory limit is reached first, because 2^32 contents need 170 GB of tables.
            let number = u32::try_from(counts.len()).ok().and_then(NonZeroU32::new);
            ContentNumber(number.unwrap_or(NonZeroU32::MAX))
        })
    }

    #[inline]
    fn count_mut(&mut self, number: ContentNumber) -> Option<&mut Content> {
        self.counts.get_mut(number.0.get() as usize - 1)
    }

    /// Counts a write of this content.
    #[inline]
    pub(super) fn written(&mut self, hash: ContentHash) -> ContentNumber {
        let number = self.number(hash);
        if let Some(count) = self.count_mut(number) {
            count.writes = count.writes.saturating_add(1);
        }
        number
    }

    /// Counts a read of this content.
    #[inline]
    pub(super) fn read(&mut self, hash: ContentHash) -> ContentNumber {
        let number = self.number(hash);
        if let Some(count) = self.count_mut(number) {
            count.reads = count.reads.saturating_add(1);
        }
        number
    }

    /// Makes a place hold another content, or an unknown one.
    #[inline]
    pub(super) fn replace(&mut self, held: &mut Option<ContentNumber>, now: Option<ContentNumber>) {
        if *held == now {
            return;
        }
        if let Some(count) = held.and_then(|old| self.count_mut(old)) {
            count.places -= 1;
        }
        if let Some(count) = now.and_then(|new| self.count_mut(new)) {
            count.places += 1;
        }
        *held = now;
    }

    pub(super) fn counts(&self) -> &[Content] {
        &self.counts
    }

    fn index_of_zeros(&self) -> Option<usize> {
        let number = self.numbers.get(&key_of(ContentHash::ZEROS))?;
        Some(number.0.get() as usize - 1)
    }

    /// Returns the counts of zeros.
    pub(super) fn zeros(&self) -> Content {
        let index = self.index_of_zeros();
        index.and_then(|index| self.counts.get(index)).copied().unwrap_or_default()
    }

    /// Returns the counts of all other contents.
    pub(super) fn without_zeros(&self) -> impl Iterator<Item = &Content> {
        let zeros = self.index_of_zeros();
        self.counts.iter().enumerate().filter(move |(at, _)| Some(*at) != zeros).map(|(_, it)| it)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.numbers.capacity() * (size_of::<([u64; 2], ContentNumber)>() + 1)
            + self.counts.capacity() * size_of::<Content>()
    }
}

/// A fast hash for keys of whole words. It needs no protection against chosen keys, as slow
/// statistics harm only the user who chose the trace.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MixHasher(u64);

impl Hasher for MixHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = mix64(self.0.wrapping_add(GOLDEN_STEP) ^ word);
    }

    #[inline]
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}
