//! The numbers and identifiers of a pool, each with a type of its own, and the settings of volumes
//! and pools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU64;

/// A logical block number: a block of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lbn(pub u64);

/// A physical block number: the number of a content in the data store, which knows where it lies.
/// Never 0: the first block of a plain store identifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pbn(NonZeroU64);

impl Pbn {
    /// The first PBN that holds a content.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// Returns the PBN of this number, unless the number is out of range.
    #[inline]
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) if number.get() < WordForm::Wide.end() => Some(Self(number)),
            _ => None,
        }
    }

    /// Returns the number that map entries have for this PBN.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0.get()
    }

    /// Returns the number of a PBN in a pool whose words are [`WordForm::Narrow`].
    #[inline]
    #[must_use]
    pub const fn narrow(self) -> u32 {
        assert!(self.number() < WordForm::Narrow.end(), "a PBN of a narrow pool has 32 bits");
        self.number() as u32
    }

    /// Returns the number as an index.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.number() as usize
    }
}

/// A checksum of the content of one block: 32 bits of the pool's keyed hash, or 28 in a pool whose
/// words are [`WordForm::Wide`].
///
/// It is in the map beside the PBN, so each reference to a block states which content the block
/// must hold. A read thereby detects a wrong content whatever the cause: a flipped bit, a lost
/// write, or a block that was reused too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Checksum(pub u32);

/// The map entry of an LBN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MapEntry {
    /// Reads as zeros and takes no space.
    Unmapped,
    /// The content is in this block of the data store and has this checksum.
    Stored(Pbn, Checksum),
    /// The metadata page that located this content is lost, or the content itself is; reads fail.
    Damaged,
}

impl MapEntry {
    /// The block that holds the content, if it is known.
    #[inline]
    #[must_use]
    pub const fn pbn(self) -> Option<Pbn> {
        match self {
            Self::Stored(pbn, _) => Some(pbn),
            Self::Unmapped | Self::Damaged => None,
        }
    }
}

/// The form of the words of a pool's map pages, which have 8 bytes: the PBN in the lower bits, the
/// checksum above. The PBN of a damaged entry is 0, and its checksum is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WordForm {
    /// 32 bits for each.
    #[default]
    Narrow,
    /// 36 bits for the PBN and 28 for the checksum: for pools of 2^32 blocks or more.
    Wide,
}

impl WordForm {
    /// The word of [`MapEntry::Damaged`].
    pub const DAMAGED: u64 = 1 << 63;

    /// Bits of a PBN.
    const fn pbn_bits(self) -> u32 {
        match self {
            Self::Narrow => 32,
            Self::Wide => 36,
        }
    }

    /// A number above all PBNs that a word can have: the most blocks of a store.
    #[must_use]
    pub const fn end(self) -> u64 {
        1 << self.pbn_bits()
    }

    /// The bits of a content's hash that its checksum has.
    #[must_use]
    pub const fn checksum_mask(self) -> u32 {
        u32::MAX >> (self.pbn_bits() - u32::BITS)
    }

    /// Decodes the word of a map page.
    #[inline]
    #[must_use]
    pub const fn entry(self, word: u64) -> MapEntry {
        match NonZeroU64::new(word & (self.end() - 1)) {
            None if word == 0 => MapEntry::Unmapped,
            None => MapEntry::Damaged,
            Some(number) => {
                MapEntry::Stored(Pbn(number), Checksum((word >> self.pbn_bits()) as u32))
            }
        }
    }

    /// Encodes the word of a map page.
    #[inline]
    #[must_use]
    pub const fn word(self, entry: MapEntry) -> u64 {
        match entry {
            MapEntry::Unmapped => 0,
            MapEntry::Damaged => Self::DAMAGED,
            MapEntry::Stored(pbn, checksum) => {
                assert!(pbn.number() < self.end(), "a word has room for the PBN");
                ((checksum.0 & self.checksum_mask()) as u64) << self.pbn_bits() | pbn.number()
            }
        }
    }

    /// The PBN of a word, if it names a block.
    #[inline]
    #[must_use]
    pub const fn pbn(self, word: u64) -> Option<Pbn> {
        self.entry(word).pbn()
    }
}

/// 127 bits of a hash of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(u128);

/// The bit of a stored record that says that the block is suspect.
const SUSPECT: u128 = 1 << 127;

impl Fingerprint {
    /// The fingerprint of a block that is not in the index.
    pub const NONE: Self = Self(0);

    /// The fingerprint with these bits, without the highest one. All-zero bits mean "none", so a
    /// hash of zeros is changed to another one.
    #[must_use]
    pub const fn of_hash(bits: u128) -> Self {
        let bits = bits & !SUSPECT;
        if bits == 0 { Self(1) } else { Self(bits) }
    }

    /// Reads the bytes of a journal entry.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes) & !SUSPECT)
    }

    /// Returns the bytes of a journal entry.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// Returns whether this is [`Self::NONE`].
    #[inline]
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The lower half, which is itself a good hash.
    #[inline]
    #[must_use]
    pub const fn low(self) -> u64 {
        self.0 as u64
    }

    /// The upper 64 bits.
    #[inline]
    #[must_use]
    pub const fn high(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

/// The stored part of a block's record: its fingerprint, and the mark of a damaged block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity(u128);

impl Identity {
    /// The identity of a block without a fingerprint.
    pub const NONE: Self = Self(0);

    /// The identity of an intact block with this fingerprint.
    #[must_use]
    pub const fn of(fingerprint: Fingerprint) -> Self {
        Self(fingerprint.0)
    }

    /// Reads the bytes of a page.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    /// Returns the bytes of a page.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// The fingerprint of the block's content.
    #[inline]
    #[must_use]
    pub const fn fingerprint(self) -> Fingerprint {
        Fingerprint(self.0 & !SUSPECT)
    }

    /// Returns whether the block was found damaged. Such a block must not be shared before its
    /// content is written anew.
    #[inline]
    #[must_use]
    pub const fn is_suspect(self) -> bool {
        self.0 & SUSPECT != 0
    }

    /// The same fingerprint, with or without the mark of a damaged block. A block without a
    /// fingerprint is never shared, so it never has the mark.
    #[must_use]
    pub const fn with_suspect(self, is_suspect: bool) -> Self {
        let fingerprint = self.0 & !SUSPECT;
        if is_suspect && fingerprint != 0 { Self(fingerprint | SUSPECT) } else { Self(fingerprint) }
    }
}

/// The id of a volume. An id is never used again.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct VolumeId(pub u32);

impl VolumeId {
    /// Returns whether a volume can have this id. 0 stands for no volume, and the id of the next
    /// volume is one more.
    #[must_use]
    pub const fn is_possible(self) -> bool {
        0 < self.0 && self.0 < u32::MAX
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The time at which a volume's writes are deduplicated, with its byte on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DedupMode {
    /// Never: every write gets a block of its own.
    Off = 0,
    /// Before a write is acknowledged.
    Inline = 1,
    /// In the background, after a write was acknowledged.
    Offline = 2,
}

impl DedupMode {
    const ALL: [Self; 3] = [Self::Off, Self::Inline, Self::Offline];

    /// Decodes the byte on disk.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.byte() == byte)
    }

    /// Encodes the byte on disk.
    #[must_use]
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Inline => "inline",
            Self::Offline => "offline",
        }
    }

    /// Returns the mode of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// The hash of a content that is its fingerprint, with its byte on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FingerprintKind {
    /// BLAKE3 with the pool's key, without which collisions cannot be prepared.
    #[default]
    Blake3 = 0,
    /// XXH3 with 128 bits; bytes are always compared before a block is shared.
    Xxh3Compare = 1,
    /// SHA-256 with the pool's key, without which collisions cannot be prepared.
    Sha256 = 2,
    /// SHA-1, for which collisions are published; bytes are always compared before a block is
    /// shared.
    Sha1 = 3,
}

impl FingerprintKind {
    /// Decodes the byte on disk.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        let all = [Self::Blake3, Self::Xxh3Compare, Self::Sha256, Self::Sha1];
        all.into_iter().find(|kind| kind.byte() == byte)
    }

    /// Encodes the byte on disk.
    #[must_use]
    pub const fn byte(self) -> u8 {
        self as u8
    }
}

/// The policy of a pool's metadata: what stays in memory, how the index lies on disk, and what a
/// checkpoint writes. All pools have one engine and one form of maps, counts and records. The
/// numbers are the bytes on disk; others were those of earlier programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// A cache of pages, and the index in some 4.5 bytes for each block; a checkpoint writes the
    /// pages that changed.
    #[default]
    Compact = 4,
    /// Everything in memory, and a checkpoint writes all of it. Dmdedup's INRAM.
    #[serde(rename = "inram")]
    InRam = 5,
    /// A cache of pages, and a hash table on disk for the index. Dmdedup's DTB.
    Dtb = 2,
    /// A cache of pages, and a copy-on-write B-tree on disk for the index. Dmdedup's CBT.
    Cbt = 6,
}

/// The form of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexForm {
    /// It is in memory alone, computed from the records.
    Memory,
    /// A hash table on disk.
    HashTable,
    /// A B-tree on disk.
    BTree,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 4] = [Self::Compact, Self::InRam, Self::Dtb, Self::Cbt];

    /// The form of the index.
    #[must_use]
    pub const fn index(self) -> IndexForm {
        match self {
            Self::Compact | Self::InRam => IndexForm::Memory,
            Self::Dtb => IndexForm::HashTable,
            Self::Cbt => IndexForm::BTree,
        }
    }

    /// Returns whether everything is in memory, and written as an image by each checkpoint.
    #[must_use]
    pub const fn is_image(self) -> bool {
        matches!(self, Self::InRam)
    }

    /// Returns whether PBNs may have more than 32 bits. An index on disk has no room for them.
    #[must_use]
    pub const fn has_words(self, words: WordForm) -> bool {
        matches!((self.index(), words), (IndexForm::Memory, _) | (_, WordForm::Narrow))
    }

    /// Decodes the byte on disk.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.byte() == byte)
    }

    /// Encodes the byte on disk.
    #[must_use]
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// Names what has this byte on disk if this program cannot read it.
    pub(crate) fn unknown(byte: u8) -> String {
        match byte {
            0 => "metadata of an earlier program (backend 'log')".into(),
            1 => "metadata of an earlier program (backend 'ram')".into(),
            3 => "metadata of an earlier program (backend 'btree')".into(),
            _ => format!("metadata of the kind {byte}"),
        }
    }

    /// The name that users give.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Compact => "compact",
            Self::InRam => "inram",
            Self::Dtb => "dtb",
            Self::Cbt => "cbt",
        }
    }

    /// Returns the policy of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The longest name of a volume in bytes.
pub const MAX_NAME_BYTES: usize = 255;
/// The largest volume in blocks. Its empty map takes some 16 MB of memory.
pub const MAX_VOLUME_BLOCKS: u64 = 1 << 38;
