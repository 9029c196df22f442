//! The records of a stream. They are in the order of their blocks, and no block has two.

use super::bytes::{Bytes, put_varint};
use gemelo_format::Compression;

const ZEROS: u8 = 0;
const PLAIN: u8 = 1;
const COMPRESSED_LZ4: u8 = 2;
const COMPRESSED_ZSTD: u8 = 3;
const COPIES: u8 = 4;

/// Some blocks of the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    /// Blocks that read as zeros.
    Zeros {
        /// The first block.
        first: u64,
        /// Their number.
        count: u64,
    },
    /// Contents as they are.
    Plain {
        /// The first block.
        first: u64,
        /// The contents of whole blocks.
        contents: &'a [u8],
    },
    /// A compressed content.
    Compressed {
        /// The block.
        block: u64,
        /// The number of the algorithm, as a pool has it.
        algorithm: u8,
        /// The compressed bytes, fewer than those of a block.
        bytes: &'a [u8],
    },
    /// Blocks whose contents an earlier part of the stream has.
    Copies {
        /// The first block.
        first: u64,
        /// Their number.
        count: u64,
        /// The first of the earlier blocks; all of them are before `first`.
        from: u64,
    },
}

/// The sums of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// Blocks whose contents are in the stream.
    pub contents: u64,
    /// Blocks whose contents are those of an earlier block.
    pub copies: u64,
    /// Blocks that are zeros now.
    pub zeros: u64,
    /// Blocks whose contents the receiver had.
    pub known: u64,
}

impl Sums {
    pub(super) fn put(self, out: &mut Vec<u8>) {
        let sums = [self.contents, self.copies, self.zeros, self.known];
        sums.into_iter().for_each(|sum| put_varint(out, sum));
    }

    pub(super) fn from(bytes: &mut Bytes<'_>) -> Option<Self> {
        Some(Self {
            contents: bytes.varint()?,
            copies: bytes.varint()?,
            zeros: bytes.varint()?,
            known: bytes.varint()?,
        })
    }

    pub(super) fn add(&mut self, record: &Record<'_>, block_bytes: u32) {
        match record {
            Record::Zeros { count, .. } => self.zeros += count,
            Record::Plain { contents, .. } => {
                self.contents += contents.len() as u64 / u64::from(block_bytes);
            }
            Record::Compressed { .. } => self.contents += 1,
            Record::Copies { count, .. } => self.copies += count,
        }
    }
}

/// The place in a stream: the block after the last record, the size of a block, and the number of
/// blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    pub(super) next: u64,
    pub(super) block_bytes: u32,
    pub(super) blocks: u64,
}

impl Position {
    /// Begins a record at this block.
    pub(super) fn go_to(&mut self, first: u64, out: &mut Vec<u8>) {
        assert!(first >= self.next, "records are in order");
        put_varint(out, first - self.next);
        self.next = first;
    }

    /// Ends a record of so many blocks.
    pub(super) fn pass(&mut self, count: u64) {
        self.next += count;
        assert!(self.next <= self.blocks, "records are within the snapshot");
    }
}

impl Record<'_> {
    /// The first block.
    pub(super) const fn first(&self) -> u64 {
        match self {
            Self::Zeros { first, .. } | Self::Plain { first, .. } | Self::Copies { first, .. } => {
                *first
            }
            Self::Compressed { block, .. } => *block,
        }
    }

    /// Adds the record to a payload.
    pub(super) fn put(&self, at: &mut Position, out: &mut Vec<u8>) {
        let first = self.first();
        at.go_to(first, out);
        let count = match self {
            Self::Zeros { count, .. } => {
                out.push(ZEROS);
                put_varint(out, *count);
                *count
            }
            Self::Plain { contents, .. } => {
                let count = contents.len() as u64 / u64::from(at.block_bytes);
                put_plain(count, std::iter::once(*contents), out);
                count
            }
            Self::Compressed { algorithm, bytes, .. } => {
                let is_lz4 = *algorithm == Compression::Lz4.algorithm();
                out.push(if is_lz4 { COMPRESSED_LZ4 } else { COMPRESSED_ZSTD });
                put_varint(out, bytes.len() as u64);
                out.extend_from_slice(bytes);
                1
            }
            Self::Copies { count, from, .. } => {
                out.push(COPIES);
                put_varint(out, *count);
                put_varint(out, *from);
                *count
            }
        };
        at.pass(count);
    }
}

/// Adds the kind and the rest of a record of contents as they are to a payload.
pub(super) fn put_plain<'c>(
    count: u64,
    contents: impl Iterator<Item = &'c [u8]>,
    out: &mut Vec<u8>,
) {
    out.push(PLAIN);
    put_varint(out, count);
    contents.for_each(|some| out.extend_from_slice(some));
}

impl<'a> Record<'a> {
    /// Reads a record. Returns [`None`] if it is malformed, or outside of the snapshot.
    pub(super) fn from(bytes: &mut Bytes<'a>, at: &mut Position) -> Option<Self> {
        let first = at.next.checked_add(bytes.varint()?)?;
        let block_bytes = u64::from(at.block_bytes);
        let compressed = |bytes: &mut Bytes<'a>, compression: Compression| {
            let length = bytes.varint().filter(|length| (1..block_bytes).contains(length))?;
            let (algorithm, bytes) = (compression.algorithm(), bytes.take(length)?);
            Some((Self::Compressed { block: first, algorithm, bytes }, 1))
        };
        let counted = |bytes: &mut Bytes<'a>| bytes.varint().filter(|count| *count > 0);
        let (record, count) = match bytes.u8()? {
            ZEROS => {
                let count = counted(bytes)?;
                (Self::Zeros { first, count }, count)
            }
            PLAIN => {
                let count = counted(bytes)?;
                let contents = bytes.take(count.checked_mul(block_bytes)?)?;
                (Self::Plain { first, contents }, count)
            }
            COMPRESSED_LZ4 => compressed(bytes, Compression::Lz4)?,
            COMPRESSED_ZSTD => compressed(bytes, Compression::Zstd(1))?,
            COPIES => {
                let (count, from) = (counted(bytes)?, bytes.varint()?);
                if from.checked_add(count)? > first {
                    return None;
                }
                (Self::Copies { first, count, from }, count)
            }
            _ => return None,
        };
        at.next = first.checked_add(count).filter(|end| *end <= at.blocks)?;
        Some(record)
    }
}
