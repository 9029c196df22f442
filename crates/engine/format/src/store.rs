//! The pages of the metadata: directories, arrays, buckets and nodes of trees, and the table
//! that names their roots.

use super::codec::Reader;
use super::{PAGE_BYTES, Page, Slot};
use crate::types::{MAX_VOLUME_BLOCKS, VolumeId, WordForm};
use crate::volume::VolumeRecord;

/// Bytes of a [`NodeRef`] on disk.
pub const NODE_REF_BYTES: usize = 12;
/// Pages that a directory page names.
pub const DIRECTORY_ENTRIES: usize = PAGE_BYTES / NODE_REF_BYTES;
/// Bytes before the entries of a bucket and of a node.
const NODE_HEADER_BYTES: usize = 8;
/// Index entries of a bucket page.
pub const BUCKET_ENTRIES: usize = (PAGE_BYTES - NODE_HEADER_BYTES) / 8;
/// The most levels of a tree. Such a tree could hold more entries than there are blocks, and fewer
/// keys than a `u64` counts.
pub const MAX_LEVELS: u8 = 6;

/// The slot and the checksum of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeRef {
    /// The slot of the page.
    pub slot: Slot,
    /// The checksum of the page.
    pub checksum: u64,
}

impl NodeRef {
    /// Packs it into a number: the slot in the lowest 32 bits, the checksum above.
    #[must_use]
    pub const fn to_bits(self) -> u128 {
        self.slot.number() as u128 | (self.checksum as u128) << 32
    }

    /// Unpacks it from that number.
    #[must_use]
    pub const fn from_bits(bits: u128) -> Option<Self> {
        match Slot::new(bits as u32) {
            Some(slot) => Some(Self { slot, checksum: (bits >> 32) as u64 }),
            None => None,
        }
    }
}

/// A tree of pages; a height of 0 means that the root is a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tree {
    /// The root, or `None` if the tree is empty.
    pub root: Option<NodeRef>,
    /// Levels above the leaves.
    pub height: u8,
}

/// The kinds of trees, by their contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// LBN to map word.
    Map,
    /// The number of a group of PBNs to two bits for each of them: the number of its references, or
    /// [`super::MANY`] for these and more.
    Counts,
    /// PBN to the number of its references, if they are [`super::MANY`] or more.
    Many,
    /// PBN to the fingerprint of its content.
    Fingerprints,
    /// Index entries, which are keys without values: a tag of the fingerprint and the PBN.
    Index,
    /// What a clean stop leaves of an index in memory, as a stream of bytes.
    Saved,
}

impl Part {
    /// Bytes of a key in a node of a B-tree with this content.
    #[must_use]
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::Map => 5,
            Self::Counts | Self::Many | Self::Fingerprints | Self::Saved => 4,
            Self::Index => 8,
        }
    }

    /// Bytes of a value in a tree with this content.
    #[must_use]
    pub const fn value_bytes(self) -> usize {
        match self {
            Self::Map => 8,
            Self::Many => 4,
            Self::Counts | Self::Fingerprints | Self::Saved => 16,
            Self::Index => 0,
        }
    }

    /// Values in a page of an array with this content.
    #[must_use]
    pub const fn array_entries(self) -> usize {
        match self.value_bytes() {
            0 => BUCKET_ENTRIES,
            bytes => PAGE_BYTES / bytes,
        }
    }
}

/// Reads a little-endian number of at most 16 bytes.
#[must_use]
#[inline]
fn number_at(bytes: &[u8]) -> u128 {
    // A look-up reads one of these. Their lengths are known to the compiler, which copies nothing.
    if let Ok(bytes) = <[u8; 8]>::try_from(bytes) {
        return u64::from_le_bytes(bytes).into();
    }
    if let Ok(bytes) = <[u8; 16]>::try_from(bytes) {
        return u128::from_le_bytes(bytes);
    }
    if let (Some(low), Some(high)) = (bytes.first_chunk(), bytes.last_chunk())
        && bytes.len() == NODE_REF_BYTES
    {
        return u128::from(u64::from_le_bytes(*low)) | u128::from(u32::from_le_bytes(*high)) << 64;
    }
    any_number_at(bytes)
}

fn any_number_at(bytes: &[u8]) -> u128 {
    let mut all = [0; size_of::<u128>()];
    let (number, _) = all.split_at_mut(bytes.len());
    number.copy_from_slice(bytes);
    u128::from_le_bytes(all)
}

/// Writes a number, little-endian. It fits in the bytes.
fn put_number(to: &mut [u8], number: u128) {
    let bytes = number.to_le_bytes();
    let (from, rest) = bytes.split_at(to.len());
    assert!(rest.iter().all(|byte| *byte == 0), "{number} fits in {} bytes", to.len());
    to.copy_from_slice(from);
}

/// Reads the value of index `at` in a page of an array whose values have `bytes` bytes.
#[must_use]
#[inline]
pub fn array_value(page: &Page, at: usize, bytes: usize) -> u128 {
    let (_, from) = page.split_at(at * bytes);
    let (value, _) = from.split_at(bytes);
    number_at(value)
}

/// Sets the value of index `at`, as [`array_value`] reads it.
pub fn set_array_value(page: &mut Page, at: usize, bytes: usize, value: u128) {
    let (_, to) = page.split_at_mut(at * bytes);
    let (to, _) = to.split_at_mut(bytes);
    put_number(to, value);
}

/// Packs a fingerprint's tag and a PBN of 32 bits into an index entry.
#[must_use]
pub const fn index_entry(tag: u32, pbn: u64) -> u64 {
    assert!(pbn < WordForm::Narrow.end(), "an index on disk has PBNs of 32 bits");
    (tag as u64) << 32 | pbn
}

/// The bucket of a tag in a table of this many buckets, by linear hashing.
#[must_use]
pub const fn bucket_of(tag: u32, buckets: u32) -> u32 {
    let mask = if buckets <= 1 { 0 } else { u32::MAX >> (buckets - 1).leading_zeros() };
    let bucket = tag & mask;
    if bucket < buckets { bucket } else { bucket & (mask >> 1) }
}

/// Reads the index entries of a bucket page, in ascending order. Returns `None` if the page is
/// malformed.
#[must_use]
pub fn bucket_entries(page: &Page) -> Option<Vec<u64>> {
    let mut reader = Reader::new(page);
    let count = usize::from(reader.u16()?);
    reader.bytes(NODE_HEADER_BYTES - 2)?;
    (0..count).map(|_| reader.u64()).collect()
}

/// Makes a bucket page of at most [`BUCKET_ENTRIES`] index entries.
#[must_use]
pub fn bucket_page(entries: &[u64]) -> Box<Page> {
    assert!(entries.len() <= BUCKET_ENTRIES, "{} entries fit in a bucket", entries.len());
    let mut page = Box::new([0; PAGE_BYTES]);
    let (head, body) = page.split_at_mut(NODE_HEADER_BYTES);
    put_number(head, entries.len() as u128);
    for (to, entry) in body.chunks_exact_mut(8).zip(entries) {
        put_number(to, u128::from(*entry));
    }
    page
}

/// A node of a B-tree, read in place.
#[derive(Debug, Clone, Copy)]
pub struct Node<'p> {
    page: &'p Page,
    key_bytes: usize,
    value_bytes: usize,
}

impl<'p> Node<'p> {
    /// Returns the node in a page, or `None` if the page is malformed or of another level.
    #[must_use]
    pub fn of(page: &'p Page, part: Part, level: u8) -> Option<Self> {
        let value_bytes = if level == 0 { part.value_bytes() } else { NODE_REF_BYTES };
        let node = Self { page, key_bytes: part.key_bytes(), value_bytes };
        let fits = node.len() <= Self::capacity(part, level) && page.get(2) == Some(&level);
        fits.then_some(node)
    }

    /// The most entries of a node.
    #[must_use]
    pub const fn capacity(part: Part, level: u8) -> usize {
        let value_bytes = if level == 0 { part.value_bytes() } else { NODE_REF_BYTES };
        (PAGE_BYTES - NODE_HEADER_BYTES) / (part.key_bytes() + value_bytes)
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.page.get(..2).map_or(0, number_at) as usize
    }

    /// Returns whether the node has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn field(&self, at: usize, skip: usize, bytes: usize) -> u128 {
        let start = NODE_HEADER_BYTES + at * (self.key_bytes + self.value_bytes) + skip;
        let (_, from) = self.page.split_at(start);
        let (field, _) = from.split_at(bytes);
        number_at(field)
    }

    /// The key of the entry with this index.
    #[must_use]
    pub fn key(&self, at: usize) -> u64 {
        self.field(at, 0, self.key_bytes) as u64
    }

    /// The value of the entry with this index: a value of a leaf, or the bits of a [`NodeRef`].
    #[must_use]
    pub fn value(&self, at: usize) -> u128 {
        self.field(at, self.key_bytes, self.value_bytes)
    }

    /// The number of keys that are less than this one.
    #[must_use]
    pub fn keys_below(&self, key: u64) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.key(middle) < key { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// All entries in order.
    pub fn entries(self) -> impl Iterator<Item = (u64, u128)> + 'p {
        (0..self.len()).map(move |at| (self.key(at), self.value(at)))
    }

    /// Makes the page of a node with these entries, which are in ascending order and fit.
    #[must_use]
    pub fn page(part: Part, level: u8, entries: &[(u64, u128)]) -> Box<Page> {
        assert!(
            entries.len() <= Self::capacity(part, level) && level <= MAX_LEVELS,
            "{} entries fit in a node of level {level}",
            entries.len()
        );
        assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "the keys of a node go up");
        let mut page = Box::new([0; PAGE_BYTES]);
        let value_bytes = if level == 0 { part.value_bytes() } else { NODE_REF_BYTES };
        let (head, body) = page.split_at_mut(NODE_HEADER_BYTES);
        put_number(head, entries.len() as u128 | u128::from(level) << 16);
        for (to, (key, value)) in body.chunks_exact_mut(part.key_bytes() + value_bytes).zip(entries)
        {
            let (to_key, to_value) = to.split_at_mut(part.key_bytes());
            put_number(to_key, u128::from(*key));
            put_number(to_value, *value);
        }
        page
    }
}

/// A volume in the table of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreVolume {
    /// The record of the volume.
    pub record: VolumeRecord,
    /// The number of LBNs that are not unmapped.
    pub mapped: u64,
    /// The number of LBNs that have a block.
    pub stored: u64,
    /// The volume right before this one in the order of its family, unless it is the first.
    pub follows: Option<VolumeId>,
    /// LBNs below this one have left the family, because the volume is being removed. Otherwise 0.
    pub left: u64,
    /// The map of the volume.
    pub map: Tree,
}

/// The table of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreTable {
    /// All volumes, by id.
    pub volumes: Vec<StoreVolume>,
    /// Reference counts by groups of PBNs, up to a bound.
    pub counts: Tree,
    /// Reference counts by PBN from that bound on.
    pub many: Tree,
    /// Records by PBN: the fingerprint of the content and whether it is suspect.
    pub fingerprints: Tree,
    /// The tree that finds blocks by fingerprint.
    pub index: Tree,
    /// The number of the index's buckets, if it is a hash table.
    pub buckets: u32,
    /// The number of entries in the index.
    pub index_entries: u64,
}

fn put_tree(out: &mut Vec<u8>, tree: Tree) {
    let (slot, checksum) = tree.root.map_or((0, 0), |root| (root.slot.number(), root.checksum));
    out.extend_from_slice(&slot.to_le_bytes());
    out.extend_from_slice(&checksum.to_le_bytes());
    out.push(tree.height);
}

fn tree_from(reader: &mut Reader<'_>) -> Option<Tree> {
    let (slot, checksum, height) = (reader.u32()?, reader.u64()?, reader.u8()?);
    let root = Slot::new(slot).map(|slot| NodeRef { slot, checksum });
    (height <= MAX_LEVELS).then_some(Tree { root, height })
}

impl StoreTable {
    /// Encodes the table as a stream of bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&(self.volumes.len() as u32).to_le_bytes());
        for volume in &self.volumes {
            volume.record.encode(&mut out);
            out.extend_from_slice(&volume.mapped.to_le_bytes());
            out.extend_from_slice(&volume.stored.to_le_bytes());
            out.extend_from_slice(&volume.follows.map_or(0, |volume| volume.0).to_le_bytes());
            out.extend_from_slice(&volume.left.to_le_bytes());
            put_tree(&mut out, volume.map);
        }
        for tree in [self.counts, self.many, self.fingerprints, self.index] {
            put_tree(&mut out, tree);
        }
        out.extend_from_slice(&self.buckets.to_le_bytes());
        out.extend_from_slice(&self.index_entries.to_le_bytes());
        out
    }

    /// Decodes the table from a stream of bytes.
    #[must_use]
    pub fn decode(stream: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(stream);
        let volumes = reader.u32()?;
        let mut table = Self::default();
        for _ in 0..volumes {
            let record = VolumeRecord::decode(&mut reader)?;
            let (mapped, stored) = (reader.u64()?, reader.u64()?);
            if stored > mapped || mapped > MAX_VOLUME_BLOCKS {
                return None;
            }
            let follows = Some(VolumeId(reader.u32()?)).filter(|volume| volume.0 > 0);
            let (left, map) = (reader.u64()?, tree_from(&mut reader)?);
            table.volumes.push(StoreVolume { record, mapped, stored, follows, left, map });
        }
        table.counts = tree_from(&mut reader)?;
        table.many = tree_from(&mut reader)?;
        table.fingerprints = tree_from(&mut reader)?;
        table.index = tree_from(&mut reader)?;
        table.buckets = reader.u32()?;
        table.index_entries = reader.u64()?;
        reader.is_empty().then_some(table)
    }
}

#[cfg(test)]
mod tests;
