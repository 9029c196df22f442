//! The data of options and of their replies: INFO, GO, LIST and the META_CONTEXT options.

use super::bytes::{Fixed, Reader};
use super::handshake::ExportFlags;
use super::{LONGEST_STRING_BYTES, WireError};

/// Name of the meta context that reports allocated ranges and ranges of zeros.
pub const BASE_ALLOCATION: &str = "base:allocation";

/// The id that this program's server gives to [`BASE_ALLOCATION`].
pub const BASE_ALLOCATION_ID: u32 = 1;

/// The start of the names of meta contexts that report what differs from a snapshot, whose name
/// follows.
pub const SINCE: &str = "gemelo:since=";

/// The id that this program's server gives to the context of [`SINCE`].
pub const SINCE_ID: u32 = 2;

/// The kind of an item of information about an export. Unknown numbers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InfoKind(pub u16);

impl InfoKind {
    /// Size and transmission flags.
    pub const EXPORT: Self = Self(0);
    /// The export's canonical name.
    pub const NAME: Self = Self(1);
    /// A description for people.
    pub const DESCRIPTION: Self = Self(2);
    /// Limits of the sizes of requests.
    pub const BLOCK_SIZE: Self = Self(3);
}

fn text<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str, WireError> {
    if bytes.len() > LONGEST_STRING_BYTES {
        let most = LONGEST_STRING_BYTES as u64;
        return Err(WireError::TooLong { what, length: bytes.len() as u64, most });
    }
    let text = std::str::from_utf8(bytes).map_err(|_| WireError::NoText(what))?;
    if text.contains('\0') { Err(WireError::NoText(what)) } else { Ok(text) }
}

fn counted_text<'a>(reader: &mut Reader<'a>, what: &'static str) -> Result<&'a str, WireError> {
    let length = reader.u32()? as usize;
    text(reader.bytes(length)?, what)
}

fn ended(reader: Reader<'_>) -> Result<(), WireError> {
    if reader.rest().is_empty() { Ok(()) } else { Err(WireError::Excess) }
}

fn put_counted_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// The data of INFO and GO: an export and the requested information.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InfoRequest<'a> {
    /// Name of the export; empty for the default export.
    pub name: &'a str,
    /// Requested information. [`InfoKind::EXPORT`] need not be named, because servers always send
    /// it.
    pub wanted: Vec<InfoKind>,
}

impl<'a> InfoRequest<'a> {
    /// Decodes an option's data.
    ///
    /// # Errors
    /// Fails if the lengths contradict each other, or if the name is not valid text.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let name = counted_text(&mut reader, "an export's name")?;
        let count = reader.u16()?;
        let wanted = (0..count).map(|_| reader.u16().map(InfoKind)).collect::<Result<_, _>>()?;
        ended(reader)?;
        Ok(Self { name, wanted })
    }

    /// Encodes an option's data.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_counted_text(&mut out, self.name);
        out.extend_from_slice(&(self.wanted.len() as u16).to_be_bytes());
        for kind in &self.wanted {
            out.extend_from_slice(&kind.0.to_be_bytes());
        }
        out
    }
}

/// Limits of the sizes of requests in bytes ("Block size constraints").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizes {
    /// Alignment of requests: offsets and lengths are multiples of it.
    pub minimum: u32,
    /// Size of the cheapest requests.
    pub preferred: u32,
    /// Length of the longest payload.
    pub maximum: u32,
}

/// The data of an INFO reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Info<'a> {
    /// Size and transmission flags.
    Export {
        /// Size of the export in bytes.
        size_bytes: u64,
        /// Transmission flags of the export.
        flags: ExportFlags,
    },
    /// The export's canonical name.
    Name(&'a str),
    /// A description for people.
    Description(&'a str),
    /// Limits of the sizes of requests.
    BlockSize(BlockSizes),
    /// Information of an unknown kind.
    Other(InfoKind),
}

impl<'a> Info<'a> {
    /// Encodes a reply's data.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Export { size_bytes, flags } => Fixed::<12>::new()
                .u16(InfoKind::EXPORT.0)
                .u64(*size_bytes)
                .u16(flags.0)
                .finish()
                .to_vec(),
            Self::Name(text) => [&InfoKind::NAME.0.to_be_bytes(), text.as_bytes()].concat(),
            Self::Description(text) => {
                [&InfoKind::DESCRIPTION.0.to_be_bytes(), text.as_bytes()].concat()
            }
            Self::BlockSize(sizes) => Fixed::<14>::new()
                .u16(InfoKind::BLOCK_SIZE.0)
                .u32(sizes.minimum)
                .u32(sizes.preferred)
                .u32(sizes.maximum)
                .finish()
                .to_vec(),
            Self::Other(kind) => kind.0.to_be_bytes().to_vec(),
        }
    }

    /// Decodes a reply's data.
    ///
    /// # Errors
    /// Fails if there are too few bytes, or if a string is not valid text.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let info = match InfoKind(reader.u16()?) {
            InfoKind::EXPORT => {
                Self::Export { size_bytes: reader.u64()?, flags: ExportFlags(reader.u16()?) }
            }
            InfoKind::NAME => return Ok(Self::Name(text(reader.rest(), "an export's name")?)),
            InfoKind::DESCRIPTION => {
                return Ok(Self::Description(text(reader.rest(), "a description")?));
            }
            InfoKind::BLOCK_SIZE => Self::BlockSize(BlockSizes {
                minimum: reader.u32()?,
                preferred: reader.u32()?,
                maximum: reader.u32()?,
            }),
            other => return Ok(Self::Other(other)),
        };
        ended(reader)?;
        Ok(info)
    }
}

/// Encodes the data of a reply to LIST: the export's name and description.
#[must_use]
pub fn encode_listed_export(name: &str, description: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + name.len() + description.len());
    put_counted_text(&mut out, name);
    out.extend_from_slice(description.as_bytes());
    out
}

/// Decodes the name and description in a reply to LIST.
///
/// # Errors
/// Fails if the lengths contradict each other, or if a string is not valid text.
pub fn decode_listed_export(bytes: &[u8]) -> Result<(&str, &str), WireError> {
    let mut reader = Reader::new(bytes);
    let name = counted_text(&mut reader, "an export's name")?;
    Ok((name, text(reader.rest(), "a description")?))
}

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaContextRequest<'a> {
    /// Name of the export; empty for the default export.
    pub name: &'a str,
    /// Names of meta contexts, or of their namespaces.
    pub queries: Vec<&'a str>,
}

impl<'a> MetaContextRequest<'a> {
    /// Decodes an option's data.
    ///
    /// # Errors
    /// Fails if the lengths contradict each other, or if a string is not valid text.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let name = counted_text(&mut reader, "an export's name")?;
        let count = reader.u32()?;
        // `count` is not reserved in advance. Each query takes at least four bytes of the message,
        // which bounds the number of queries.
        let mut queries = Vec::new();
        for _ in 0..count {
            queries.push(counted_text(&mut reader, "a query")?);
        }
        ended(reader)?;
        Ok(Self { name, queries })
    }

    /// Encodes an option's data.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_counted_text(&mut out, self.name);
        out.extend_from_slice(&(self.queries.len() as u32).to_be_bytes());
        for query in &self.queries {
            put_counted_text(&mut out, query);
        }
        out
    }
}

/// Encodes the data of a META_CONTEXT reply.
#[must_use]
pub fn encode_meta_context(id: u32, name: &str) -> Vec<u8> {
    [&id.to_be_bytes(), name.as_bytes()].concat()
}

/// Decodes the id and the name in a META_CONTEXT reply.
///
/// # Errors
/// Fails if there are too few bytes, or if the name is not valid text.
pub fn decode_meta_context(bytes: &[u8]) -> Result<(u32, &str), WireError> {
    let mut reader = Reader::new(bytes);
    Ok((reader.u32()?, text(reader.rest(), "a meta context")?))
}
