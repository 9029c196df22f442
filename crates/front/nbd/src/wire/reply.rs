//! Replies of the transmission phase ("Simple reply message", "Structured reply message",
//! "Structured reply types").

use super::bytes::{Fixed, Reader};
use super::{ErrorCode, LONGEST_STRING_BYTES, WireError};

const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Length of a simple reply in bytes. The data of a read follows.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Length of a chunk's header in bytes.
pub const CHUNK_HEADER_BYTES: usize = 20;
/// Length in bytes of everything before the data in a chunk of read data.
pub const OFFSET_DATA_HEADER_BYTES: usize = CHUNK_HEADER_BYTES + 8;
/// Length in bytes of an error chunk without a message.
pub const ERROR_CHUNK_BYTES: usize = CHUNK_HEADER_BYTES + 6;
/// Flag of the last chunk of a reply.
pub const CHUNK_FLAG_DONE: u16 = 1;
/// State of an extent that takes no space.
pub const STATE_HOLE: u32 = 1;
/// State of an extent that reads as zeros.
pub const STATE_ZERO: u32 = 2;

/// State of an extent that differs from a snapshot.
pub const STATE_CHANGED: u32 = 1;
/// State of an extent that held data in a snapshot, and reads as zeros now.
pub const STATE_ZERO_NOW: u32 = 2;

/// A reply that is not divided into chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimpleReply {
    /// Error number of the request.
    pub error: ErrorCode,
    /// Cookie of the request.
    pub cookie: u64,
}

impl SimpleReply {
    /// Encodes the reply.
    #[inline]
    #[must_use]
    pub fn encode(self) -> [u8; SIMPLE_REPLY_BYTES] {
        Fixed::new().u32(SIMPLE_REPLY_MAGIC).u32(self.error.0).u64(self.cookie).finish()
    }
}

/// The kind of a chunk. Unknown numbers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChunkKind(pub u16);

impl ChunkKind {
    /// The chunk has no content.
    pub const NONE: Self = Self(0);
    /// The chunk holds an offset and data that was read there.
    pub const OFFSET_DATA: Self = Self(1);
    /// The chunk describes a range of a read that holds zeros.
    pub const OFFSET_HOLE: Self = Self(2);
    /// The chunk holds extents.
    pub const BLOCK_STATUS: Self = Self(5);
    /// The chunk holds an error.
    pub const ERROR: Self = Self(1 << 15 | 1);

    /// Returns whether the chunk reports an error.
    #[must_use]
    pub fn is_error(self) -> bool {
        self.0 & 1 << 15 != 0
    }
}

/// The header of a chunk. `length` bytes follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHeader {
    /// `CHUNK_FLAG_…` bits.
    pub flags: u16,
    /// Kind of the chunk.
    pub kind: ChunkKind,
    /// Cookie of the request.
    pub cookie: u64,
    /// Number of bytes after the header.
    pub length: u32,
}

impl ChunkHeader {
    fn put<const N: usize>(self) -> Fixed<N> {
        Fixed::new()
            .u32(CHUNK_MAGIC)
            .u16(self.flags)
            .u16(self.kind.0)
            .u64(self.cookie)
            .u32(self.length)
    }

    /// Encodes the header.
    #[must_use]
    pub fn encode(self) -> [u8; CHUNK_HEADER_BYTES] {
        self.put().finish()
    }
}

/// Encodes everything before `data_bytes` of data read at `offset`, in a reply of one chunk.
#[inline]
#[must_use]
pub fn encode_offset_data_header(
    cookie: u64,
    offset: u64,
    data_bytes: u32,
) -> [u8; OFFSET_DATA_HEADER_BYTES] {
    encode_offset_data_part(cookie, offset, data_bytes, CHUNK_FLAG_DONE)
}

/// Encodes everything before `data_bytes` of data read at `offset`, in a reply of several chunks.
/// `flags` is [`CHUNK_FLAG_DONE`] for the last chunk and 0 for the others.
#[inline]
#[must_use]
pub fn encode_offset_data_part(
    cookie: u64,
    offset: u64,
    data_bytes: u32,
    flags: u16,
) -> [u8; OFFSET_DATA_HEADER_BYTES] {
    assert!(data_bytes <= u32::MAX - 8, "a chunk's length has 32 bits");
    let length = data_bytes + 8;
    ChunkHeader { flags, kind: ChunkKind::OFFSET_DATA, cookie, length }.put().u64(offset).finish()
}

/// Encodes a reply of one chunk that reports an error without a message.
#[must_use]
pub fn encode_error_chunk(cookie: u64, error: ErrorCode) -> [u8; ERROR_CHUNK_BYTES] {
    ChunkHeader { flags: CHUNK_FLAG_DONE, kind: ChunkKind::ERROR, cookie, length: 6 }
        .put()
        .u32(error.0)
        .u16(0)
        .finish()
}

/// Encodes everything before `descriptors` extents of a context. `flags` is [`CHUNK_FLAG_DONE`]
/// for the last chunk of a reply and 0 for the others.
#[must_use]
pub fn encode_block_status_header(
    cookie: u64,
    context: u32,
    descriptors: usize,
    flags: u16,
) -> [u8; CHUNK_HEADER_BYTES + 4] {
    assert!(descriptors < (u32::MAX / 8) as usize, "a chunk's length has 32 bits");
    let length = 4 + 8 * descriptors as u32;
    ChunkHeader { flags, kind: ChunkKind::BLOCK_STATUS, cookie, length }.put().u32(context).finish()
}

/// An extent of a block status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockDescriptor {
    /// Length of the extent in bytes.
    pub length: u32,
    /// `STATE_…` bits.
    pub state: u32,
}

impl BlockDescriptor {
    /// Encodes the extent.
    #[must_use]
    pub fn encode(self) -> [u8; 8] {
        Fixed::new().u32(self.length).u32(self.state).finish()
    }
}

/// Decodes the id of the meta context that a BLOCK_STATUS chunk belongs to.
///
/// # Errors
/// Fails if the chunk is too short.
pub fn decode_block_status_context(chunk: &[u8]) -> Result<u32, WireError> {
    Ok(Reader::new(chunk).u32()?)
}

/// Decodes the extents of a BLOCK_STATUS chunk.
///
/// # Errors
/// Fails if the chunk is too short, or if its last extent is incomplete.
pub fn decode_block_descriptors(
    chunk: &[u8],
) -> Result<impl ExactSizeIterator<Item = BlockDescriptor> + '_, WireError> {
    let mut reader = Reader::new(chunk);
    reader.u32()?;
    let (descriptors, rest) = reader.rest().as_chunks::<8>();
    if !rest.is_empty() {
        return Err(WireError::Excess);
    }
    Ok(descriptors.iter().map(|&[a, b, c, d, e, f, g, h]| BlockDescriptor {
        length: u32::from_be_bytes([a, b, c, d]),
        state: u32::from_be_bytes([e, f, g, h]),
    }))
}

/// Decodes the error number and the message of an error chunk.
///
/// # Errors
/// Fails if the lengths contradict each other, or if the message is not UTF-8.
pub fn decode_error_chunk(chunk: &[u8]) -> Result<(ErrorCode, &str), WireError> {
    let mut reader = Reader::new(chunk);
    let code = ErrorCode(reader.u32()?);
    let length = usize::from(reader.u16()?);
    if length > LONGEST_STRING_BYTES {
        let most = LONGEST_STRING_BYTES as u64;
        return Err(WireError::TooLong { what: "an error's message", length: length as u64, most });
    }
    let message = std::str::from_utf8(reader.bytes(length)?)
        .map_err(|_| WireError::NoText("an error's message"))?;
    Ok((code, message))
}

/// The beginning of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyHead {
    /// A simple reply. The data of a read follows if the read succeeded.
    Simple(SimpleReply),
    /// The header of a chunk.
    Chunk(ChunkHeader),
}

/// Decodes the beginning of a reply; [`None`] means that more bytes are needed.
///
/// # Errors
/// Fails if the bytes are not a reply.
#[inline]
pub fn decode_reply_head(bytes: &[u8]) -> Result<Option<ReplyHead>, WireError> {
    let mut reader = Reader::new(bytes);
    match reader.u32() {
        Err(_) => Ok(None),
        Ok(SIMPLE_REPLY_MAGIC) if bytes.len() < SIMPLE_REPLY_BYTES => Ok(None),
        Ok(CHUNK_MAGIC) if bytes.len() < CHUNK_HEADER_BYTES => Ok(None),
        Ok(SIMPLE_REPLY_MAGIC) => Ok(Some(ReplyHead::Simple(SimpleReply {
            error: ErrorCode(reader.u32()?),
            cookie: reader.u64()?,
        }))),
        Ok(CHUNK_MAGIC) => Ok(Some(ReplyHead::Chunk(ChunkHeader {
            flags: reader.u16()?,
            kind: ChunkKind(reader.u16()?),
            cookie: reader.u64()?,
            length: reader.u32()?,
        }))),
        Ok(found) => Err(WireError::Magic { found: found.into(), expected: "a reply" }),
    }
}
