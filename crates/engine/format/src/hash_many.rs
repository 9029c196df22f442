//! Keyed BLAKE3 of many blocks of one length at once: the same hashes as one by one, with all lanes
//! of the processor's vectors busy.
//!
//! A block of 4 KiB alone has four chunks, which fill four lanes; sixteen blocks fill sixteen. The
//! crate `blake3` has a function that hashes many inputs side by side, but documents that it may
//! change. So `Cargo.toml` pins the version, and a test compares the results with those of the
//! crate's stable interface.

use blake3::IncrementCounter;
use blake3::platform::{Platform, words_from_le_bytes_32};

/// Blocks hashed side by side: the widest vectors (AVX-512) have this many lanes. Narrower ones
/// hash them in turns.
const LANES: usize = 16;
/// Below this number of blocks it is faster to hash each on its own, with its chunks side by side.
const FEWEST: usize = 5;

const CHUNK_BYTES: usize = 1024;
const HASH_BYTES: usize = 32;
/// Chunks of the longest blocks that are hashed side by side. Longer blocks fill the lanes on their
/// own.
const MAX_CHUNKS: usize = 8;

// BLAKE3, section 2.2.
const CHUNK_START: u8 = 1;
const CHUNK_END: u8 = 1 << 1;
const PARENT: u8 = 1 << 2;
const ROOT: u8 = 1 << 3;
const KEYED_HASH: u8 = 1 << 4;

type Hash = [u8; HASH_BYTES];

/// Hashes of one chunk or subtree of each block.
type Level = [Hash; LANES];

/// Hashes many blocks with one key.
#[derive(Debug, Clone)]
pub(crate) struct ManyHasher {
    platform: Platform,
    key: [u8; 32],
    words: [u32; 8],
}

impl ManyHasher {
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self { platform: Platform::detect(), key, words: words_from_le_bytes_32(&key) }
    }

    pub(crate) fn hash(&self, block: &[u8]) -> Hash {
        *blake3::keyed_hash(&self.key, block).as_bytes()
    }

    /// Calls `found` with the hash of every block, in order. The blocks have one length.
    pub(crate) fn hash_all(&self, blocks: &[&[u8]], mut found: impl FnMut(&Hash)) {
        let bytes = blocks.first().map_or(0, |block| block.len());
        let chunks = bytes / CHUNK_BYTES;
        let fits =
            chunks.is_power_of_two() && chunks <= MAX_CHUNKS && bytes.is_multiple_of(CHUNK_BYTES);
        for group in blocks.chunks(LANES) {
            if fits && group.len() >= FEWEST && group.iter().all(|block| block.len() == bytes) {
                let hashes = self.hash_chunks(group, chunks);
                let roots = self.join(group.len(), hashes);
                roots.iter().flatten().take(group.len()).for_each(&mut found);
            } else {
                group.iter().for_each(|block| found(&self.hash(block)));
            }
        }
    }

    /// Hashes the first chunks of all blocks, then the second ones, and so on, because chunks
    /// hashed side by side share one counter.
    fn hash_chunks(&self, blocks: &[&[u8]], chunks: usize) -> Vec<Level> {
        let end = if chunks == 1 { CHUNK_END | ROOT } else { CHUNK_END };
        let of_chunk = |chunk: usize| {
            let mut inputs = [&[0; CHUNK_BYTES]; LANES];
            for (input, block) in inputs.iter_mut().zip(blocks) {
                if let Some(bytes) = block.as_chunks().0.get(chunk) {
                    *input = bytes;
                }
            }
            let inputs = &inputs[..lanes(blocks.len())];
            self.side_by_side(inputs, chunk as u64, KEYED_HASH, CHUNK_START, end)
        };
        (0..chunks).map(of_chunk).collect()
    }

    /// Joins neighbours until each block has one hash.
    fn join(&self, blocks: usize, mut trees: Vec<Level>) -> Vec<Level> {
        while trees.len() > 1 {
            let is_root = trees.len() == 2;
            let flags = if is_root { KEYED_HASH | PARENT | ROOT } else { KEYED_HASH | PARENT };
            let (pairs, _) = trees.as_chunks::<2>();
            let joined = pairs.iter().map(|[left, right]| {
                let inputs: [[u8; 2 * HASH_BYTES]; LANES] = std::array::from_fn(|lane| {
                    let mut input = [0; 2 * HASH_BYTES];
                    input[..HASH_BYTES].copy_from_slice(&left[lane]);
                    input[HASH_BYTES..].copy_from_slice(&right[lane]);
                    input
                });
                self.side_by_side(&inputs.each_ref()[..lanes(blocks)], 0, flags, 0, 0)
            });
            trees = joined.collect();
        }
        trees
    }

    fn side_by_side<const N: usize>(
        &self,
        inputs: &[&[u8; N]],
        counter: u64,
        flags: u8,
        start: u8,
        end: u8,
    ) -> [Hash; LANES] {
        let mut hashes = [[0; HASH_BYTES]; LANES];
        let out = hashes.as_flattened_mut();
        self.platform.hash_many(
            inputs,
            &self.words,
            counter,
            IncrementCounter::No,
            flags,
            start,
            end,
            out,
        );
        hashes
    }
}

/// The number of lanes to fill: a multiple of a whole vector. Empty lanes cost less than several
/// calls with fewer lanes.
const fn lanes(blocks: usize) -> usize {
    if blocks > LANES / 2 { LANES } else { LANES / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::mix_pair;

    fn bytes_of(seed: u64, length: usize) -> Vec<u8> {
        (0..length as u64).map(|at| mix_pair(seed, at) as u8).collect()
    }

    #[test]
    fn many_hashes_are_what_each_is_alone() {
        let key: [u8; 32] = bytes_of(0, 32).try_into().unwrap();
        let hasher = ManyHasher::new(key);
        for bytes in [512, 1024, 2048, 4096, 8192, 16384, 1000, 3072] {
            for count in [1, 4, 5, 8, 9, 16, 17, 40] {
                let blocks: Vec<Vec<u8>> = (1..=count).map(|seed| bytes_of(seed, bytes)).collect();
                let slices: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
                let mut hashes = Vec::new();
                hasher.hash_all(&slices, |hash| hashes.push(*hash));
                let alone: Vec<Hash> = blocks
                    .iter()
                    .map(|block| *blake3::keyed_hash(&key, block).as_bytes())
                    .collect();
                assert!(hashes == alone, "{count} blocks of {bytes} bytes");
            }
        }
    }
}
