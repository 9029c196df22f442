//! The form of a data store: plain, or packed with compressed contents.
//!
//! A packed store divides its disk into blocks as a plain one does. A block holds one content as it
//! is, or several compressed ones. A PBN names the block and a slot in it, so no table of places
//! exists. Slot 0 is a whole block without any header. The other slots are those of a packed block:
//!
//! | bytes | contents |
//! |---|---|
//! | 0..2 | [`PACKED_MAGIC`] |
//! | 2..16 | offsets in the block at which slots 1 to 7 begin; 0 for a slot that is not used |
//! | 16.. | the rest of a content that begins in the block before, then the contents of the slots |
//!
//! A content begins with a [`SlotHead`]. Only the content of the last slot goes on in the next
//! block, so the number of a PBN tells which blocks it needs.

use crate::types::{Pbn, WordForm};
use crate::{PoolSeed, Superblock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

/// The slot of a content that fills its block.
pub const WHOLE_SLOT: u8 = 0;
/// The slot of a content that goes on in the next block.
pub const SPANNING_SLOT: u8 = 7;
/// The first bytes of a packed block.
pub const PACKED_MAGIC: [u8; 2] = [0x47, 0xd5];
/// Bytes of a packed block before its contents.
pub const PACKED_TABLE_BYTES: usize = 16;
/// Bytes of a [`SlotHead`].
pub const SLOT_HEAD_BYTES: usize = 8;
/// The largest block of a packed store: offsets in it have 16 bits.
pub const MAX_PACKED_BLOCK_BYTES: u32 = 64 << 10;

/// Slots of a block.
const SLOTS: u32 = 8;
/// Blocks of a region. Within a region, PBNs of the same slot are consecutive: slots that few
/// blocks use then make no gaps in the tables of the metadata, which are by PBN.
const REGION_BLOCKS: u32 = 4096;

/// The level of Zstandard if none is given: the fastest.
const DEFAULT_LEVEL: u8 = 1;

/// The algorithm that compresses contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Compression {
    /// Contents stay as they are.
    #[default]
    Off,
    /// LZ4 blocks, without frames and levels.
    Lz4,
    /// Zstandard at a level from 1 to 19.
    Zstd(u8),
}

impl Compression {
    /// The levels of Zstandard.
    pub const LEVELS: RangeInclusive<u8> = 1..=19;

    /// Returns the compression of this name: `off`, `lz4`, `zstd` or `zstd:LEVEL`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name.split_once(':') {
            None => match name {
                "off" => Some(Self::Off),
                "lz4" => Some(Self::Lz4),
                "zstd" => Some(Self::Zstd(DEFAULT_LEVEL)),
                _ => None,
            },
            Some(("zstd", level)) => {
                let level = level.parse().ok().filter(|level| Self::LEVELS.contains(level));
                level.map(Self::Zstd)
            }
            Some(_) => None,
        }
    }

    /// Encodes the algorithm and its level.
    #[must_use]
    pub const fn bytes(self) -> [u8; 2] {
        match self {
            Self::Off => [0, 0],
            Self::Lz4 => [1, 0],
            Self::Zstd(level) => [2, level],
        }
    }

    /// Returns what [`Self::bytes`] has encoded; [`None`] if the bytes mean nothing.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 2]) -> Option<Self> {
        match bytes {
            [0, 0] => Some(Self::Off),
            [1, 0] => Some(Self::Lz4),
            [2, level] if Self::LEVELS.contains(&level) => Some(Self::Zstd(level)),
            _ => None,
        }
    }

    /// Returns whether this is the byte of an algorithm that is known.
    pub(crate) const fn is_algorithm(byte: u8) -> bool {
        byte <= Self::Zstd(DEFAULT_LEVEL).algorithm()
    }

    /// The byte of the algorithm in a [`SlotHead`].
    #[must_use]
    pub const fn algorithm(self) -> u8 {
        let [algorithm, _] = self.bytes();
        algorithm
    }
}

/// The name by which [`Compression::from_name`] knows it.
impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Lz4 => f.write_str("lz4"),
            Self::Zstd(level) => write!(f, "zstd:{level}"),
        }
    }
}

impl From<Compression> for String {
    fn from(compression: Compression) -> Self {
        compression.to_string()
    }
}

impl TryFrom<String> for Compression {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::from_name(&name).ok_or_else(|| format!("'{name}' is no compression"))
    }
}

/// The kind of a data store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreKind {
    /// Each block holds a content as it is. A PBN is the number of a block.
    #[default]
    Plain,
    /// Blocks hold compressed contents; see the module. New contents are compressed in this way.
    Packed(Compression),
}

impl StoreKind {
    /// The most blocks of such a store with words of this form, block 0 included. A packed store
    /// has numbers of 32 bits.
    #[must_use]
    pub const fn max_blocks(self, words: WordForm) -> u64 {
        match self {
            Self::Plain => words.end(),
            Self::Packed(_) => WordForm::Narrow.end() / SLOTS as u64,
        }
    }

    /// Returns the PBN of a number that was read. `None` if no store of this kind, with words of
    /// this form, can be so large as to have it.
    #[must_use]
    pub const fn pbn(self, number: u64, words: WordForm) -> Option<Pbn> {
        let end = match self {
            Self::Plain => words.end(),
            Self::Packed(_) => WordForm::Narrow.end(),
        };
        match Pbn::new(number) {
            Some(pbn) if number < end && self.first_block(pbn) > 0 => Some(pbn),
            _ => None,
        }
    }

    /// Returns whether a store of this many blocks has all parts of this content.
    #[must_use]
    pub const fn has(self, pbn: Pbn, blocks: u64) -> bool {
        let is_possible = match self {
            Self::Plain => true,
            Self::Packed(_) => pbn.number() < WordForm::Narrow.end(),
        };
        is_possible && self.first_block(pbn) > 0 && self.last_block(pbn) < blocks
    }

    /// A number above all PBNs of a store of this many blocks.
    #[must_use]
    pub const fn pbn_end(self, blocks: u64) -> u64 {
        match self {
            Self::Plain => blocks,
            Self::Packed(_) if blocks == 0 => 0,
            Self::Packed(_) => {
                let (region, block) =
                    ((blocks - 1) / REGION_BLOCKS as u64, (blocks - 1) % REGION_BLOCKS as u64);
                let slots = region * SLOTS as u64 + SPANNING_SLOT as u64;
                slots * REGION_BLOCKS as u64 + block + 1
            }
        }
    }

    /// The last block that holds a part of this content.
    #[must_use]
    pub const fn last_block(self, pbn: Pbn) -> u64 {
        match self {
            Self::Plain => pbn.number(),
            Self::Packed(_) => {
                let place = PackedPlace::of(pbn);
                place.block as u64 + place.is_spanning() as u64
            }
        }
    }

    /// The first block that holds a part of this content.
    #[must_use]
    pub const fn first_block(self, pbn: Pbn) -> u64 {
        match self {
            Self::Plain => pbn.number(),
            Self::Packed(_) => PackedPlace::of(pbn).block as u64,
        }
    }

    /// The first PBN of which a content may have a part in this block or in one after it.
    #[must_use]
    pub const fn first_pbn_from(self, block: u64) -> Option<Pbn> {
        let number = match self {
            Self::Plain => block,
            // A content goes on in the block after its own.
            Self::Packed(_) => {
                block.saturating_sub(1) / REGION_BLOCKS as u64 * (SLOTS * REGION_BLOCKS) as u64
            }
        };
        if number == 0 { Some(Pbn::FIRST) } else { Pbn::new(number) }
    }

    /// Returns whether a content lies right behind another one.
    #[must_use]
    pub const fn is_next(self, one: Pbn, next: Pbn) -> bool {
        let (end, start) = (self.last_block(one), self.first_block(next));
        match self {
            Self::Plain => end + 1 == start,
            Self::Packed(_) => {
                let slots = (PackedPlace::of(one).slot, PackedPlace::of(next).slot);
                let is_behind = PackedPlace::of(one).is_spanning() || slots.0 < slots.1;
                (end == start && is_behind) || (end + 1 == start && slots.1 <= 1)
            }
        }
    }

    /// The compression of new contents, unless their volume says otherwise.
    #[must_use]
    pub const fn compression(self) -> Compression {
        match self {
            Self::Plain => Compression::Off,
            Self::Packed(compression) => compression,
        }
    }

    pub(crate) const fn byte(self) -> u8 {
        match self {
            Self::Plain => 0,
            Self::Packed(_) => 1,
        }
    }
}

/// The block and the slot of a content in a packed store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedPlace {
    /// The block in which the content begins.
    pub block: u32,
    /// The slot of this block.
    pub slot: u8,
}

impl PackedPlace {
    /// The place that a PBN names.
    #[must_use]
    pub const fn of(pbn: Pbn) -> Self {
        let number = pbn.narrow();
        let (region, within) = (number / (SLOTS * REGION_BLOCKS), number % (SLOTS * REGION_BLOCKS));
        let block = region * REGION_BLOCKS + within % REGION_BLOCKS;
        Self { block, slot: (within / REGION_BLOCKS) as u8 }
    }

    /// The PBN that names the place; [`None`] for block 0, and beyond the largest store.
    #[must_use]
    pub const fn pbn(self) -> Option<Pbn> {
        const END: u64 = StoreKind::Packed(Compression::Off).max_blocks(WordForm::Narrow);
        if self.block == 0 || self.block as u64 >= END {
            return None;
        }
        let (region, block) = (self.block / REGION_BLOCKS, self.block % REGION_BLOCKS);
        Pbn::new(((region * SLOTS + self.slot as u32) * REGION_BLOCKS + block) as u64)
    }

    /// Returns whether the content fills its block.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        self.slot == WHOLE_SLOT
    }

    /// Returns whether the content goes on in the next block.
    #[must_use]
    pub const fn is_spanning(self) -> bool {
        self.slot == SPANNING_SLOT
    }
}

/// The bytes before a compressed content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotHead {
    /// Bytes of the compressed content.
    pub length: u16,
    /// The algorithm; see [`Compression::algorithm`].
    pub algorithm: u8,
    /// Checksum of the compressed bytes, of their PBN and of the algorithm.
    pub checksum: u32,
}

impl SlotHead {
    /// Makes the head of these compressed bytes, which are fewer than those of a block.
    #[must_use]
    pub fn new(seed: PoolSeed, pbn: Pbn, algorithm: u8, bytes: &[u8]) -> Self {
        let length = u16::try_from(bytes.len());
        assert!(length.is_ok(), "{} bytes are compressed", bytes.len());
        let checksum = Self::checksum_of(seed, pbn, algorithm, bytes);
        Self { length: length.unwrap_or(u16::MAX), algorithm, checksum }
    }

    /// Returns whether these are the bytes that the head was made for.
    #[must_use]
    pub fn is_of(self, seed: PoolSeed, pbn: Pbn, bytes: &[u8]) -> bool {
        usize::from(self.length) == bytes.len()
            && self.checksum == Self::checksum_of(seed, pbn, self.algorithm, bytes)
    }

    fn checksum_of(seed: PoolSeed, pbn: Pbn, algorithm: u8, bytes: &[u8]) -> u32 {
        let salt = pbn.number() << 8 | u64::from(algorithm);
        (seed.checksum(bytes) ^ seed.checksum(&salt.to_le_bytes())) as u32
    }

    /// Returns the bytes of the head as they are in a block, numbers in little-endian order.
    #[must_use]
    pub fn encode(self) -> [u8; SLOT_HEAD_BYTES] {
        let [l0, l1] = self.length.to_le_bytes();
        let [c0, c1, c2, c3] = self.checksum.to_le_bytes();
        [l0, l1, self.algorithm, 0, c0, c1, c2, c3]
    }

    /// Decodes a head, also a damaged one: [`Self::is_of`] tells whether bytes belong to it.
    #[must_use]
    pub const fn decode(bytes: [u8; SLOT_HEAD_BYTES]) -> Self {
        let [l0, l1, algorithm, _, c0, c1, c2, c3] = bytes;
        Self {
            length: u16::from_le_bytes([l0, l1]),
            algorithm,
            checksum: u32::from_le_bytes([c0, c1, c2, c3]),
        }
    }
}

/// Returns the offset at which a slot begins in a packed block, if the block has it.
#[must_use]
pub fn slot_offset(block: &[u8], slot: u8) -> Option<usize> {
    let at = 2 * usize::from(slot);
    let (magic, offset) = (block.get(..2)?, block.get(at..at + 2)?);
    let is_slot = (1..=SPANNING_SLOT).contains(&slot) && *magic == PACKED_MAGIC;
    let offset = usize::from(u16::from_le_bytes(offset.try_into().ok()?));
    (is_slot && (PACKED_TABLE_BYTES..block.len()).contains(&offset)).then_some(offset)
}

impl Superblock {
    /// The most blocks of the data store.
    #[must_use]
    pub const fn max_blocks(&self) -> u64 {
        self.store.max_blocks(self.words)
    }

    /// Returns the PBN of a number that was read, if the data store can ever have it.
    #[must_use]
    pub const fn pbn(&self, number: u64) -> Option<Pbn> {
        self.store.pbn(number, self.words)
    }

    /// A number above all PBNs of a data store of this many blocks.
    #[must_use]
    pub const fn pbn_end(&self, data_blocks: u64) -> u64 {
        self.store.pbn_end(data_blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKED: StoreKind = StoreKind::Packed(Compression::Lz4);

    #[test]
    fn each_place_has_a_pbn_of_its_own_below_the_end() {
        let mut seen = std::collections::HashSet::new();
        for block in (1..10_000).chain([(1 << 29) - 1]) {
            for slot in 0..8 {
                let place = PackedPlace { block, slot };
                let pbn = place.pbn().unwrap();
                assert_eq!(PackedPlace::of(pbn), place);
                assert!(pbn.number() < PACKED.pbn_end(u64::from(block) + 1));
                assert!(seen.insert(pbn));
                assert_eq!(PACKED.first_block(pbn), u64::from(block));
                assert_eq!(PACKED.last_block(pbn), u64::from(block) + u64::from(slot == 7));
            }
        }
        assert_eq!(PackedPlace { block: 0, slot: 3 }.pbn(), None);
        assert_eq!(PackedPlace { block: 1 << 29, slot: 0 }.pbn(), None);
    }

    #[test]
    fn compressions_have_names() {
        let named = [
            ("off", Some(Compression::Off)),
            ("lz4", Some(Compression::Lz4)),
            ("zstd", Some(Compression::Zstd(1))),
            ("zstd:19", Some(Compression::Zstd(19))),
            ("zstd:0", None),
            ("zstd:20", None),
            ("lz4:1", None),
            ("LZ4", None),
        ];
        for (name, compression) in named {
            assert_eq!(Compression::from_name(name), compression, "{name}");
            if let Some(compression) = compression {
                assert_eq!(Compression::from_name(&compression.to_string()), Some(compression));
                assert_eq!(Compression::from_bytes(compression.bytes()), Some(compression));
            }
        }
    }

    #[test]
    fn neighbours_are_known() {
        let pbn = |block, slot| PackedPlace { block, slot }.pbn().unwrap();
        let next =
            |one: (u32, u8), two: (u32, u8)| PACKED.is_next(pbn(one.0, one.1), pbn(two.0, two.1));
        assert!(next((5, 0), (6, 0)) && next((5, 1), (5, 2)) && next((5, 2), (5, 7)));
        assert!(next((5, 7), (6, 1)) && next((5, 3), (6, 1)) && next((5, 7), (7, 0)));
        assert!(!next((5, 2), (5, 1)) && !next((5, 0), (7, 0)) && !next((6, 0), (5, 0)));
    }

    #[test]
    fn a_head_belongs_to_its_bytes_its_pbn_and_its_algorithm() {
        let seed = |seed| PoolSeed { seed, words: WordForm::Narrow };
        let (other, seed, pbn) = (seed(8), seed(7), Pbn::FIRST);
        let head = SlotHead::new(seed, pbn, 1, b"bytes");
        assert_eq!(SlotHead::decode(head.encode()), head);
        assert!(head.is_of(seed, pbn, b"bytes") && !head.is_of(seed, pbn, b"bytez"));
        assert!(
            !head.is_of(seed, Pbn::new(2).unwrap(), b"bytes") && !head.is_of(other, pbn, b"bytes")
        );
        assert!(!SlotHead { algorithm: 2, ..head }.is_of(seed, pbn, b"bytes"));
    }
}
