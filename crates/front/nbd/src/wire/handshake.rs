//! Messages of the handshake: the greeting, options and their replies ("Fixed newstyle
//! negotiation", "Option types", "Option reply types").

use super::WireError;
use super::bytes::{Fixed, Reader};

/// The ASCII text "NBDMAGIC".
const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// The ASCII text "IHAVEOPT".
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

/// Length of the greeting, the server's first message, in bytes.
pub const GREETING_BYTES: usize = 18;
/// Length of an option's header in bytes.
pub const OPTION_HEADER_BYTES: usize = 16;
/// Length of an option reply's header in bytes.
pub const OPTION_REPLY_HEADER_BYTES: usize = 20;
/// Number of zero bytes after the reply to EXPORT_NAME, unless both sides agreed to omit them.
pub const NO_ZEROES_PADDING_BYTES: usize = 124;

/// Flags of the greeting ("handshake flags").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeFlags(pub u16);

impl HandshakeFlags {
    /// The server replies to options.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// The server can omit the zeros after the reply to EXPORT_NAME.
    pub const NO_ZEROES: u16 = 2;
}

/// Flags of the client's answer to the greeting ("client flags").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientFlags(pub u32);

impl ClientFlags {
    /// The client expects replies to options.
    pub const FIXED_NEWSTYLE: u32 = 1;
    /// The client wants the zeros after the reply to EXPORT_NAME omitted.
    pub const NO_ZEROES: u32 = 2;
}

/// Flags that describe an export ("Transmission flags").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportFlags(pub u16);

impl ExportFlags {
    /// Set in all valid flags.
    pub const HAS_FLAGS: u16 = 1;
    /// The server refuses writes.
    pub const READ_ONLY: u16 = 1 << 1;
    /// The server supports the command FLUSH.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// The server supports the command flag FUA.
    pub const SEND_FUA: u16 = 1 << 3;
    /// The server supports the command TRIM.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// The server supports the command WRITE_ZEROES.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// The server supports the command flag DF.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers the writes of all connections.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// The server supports the command CACHE.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// The server supports the command flag FAST_ZERO.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;

    /// Returns whether all these flags are set.
    #[must_use]
    pub fn has(self, bits: u16) -> bool {
        self.0 & bits == bits
    }
}

/// Encodes the greeting, the server's first message.
#[must_use]
pub fn encode_greeting(flags: HandshakeFlags) -> [u8; GREETING_BYTES] {
    Fixed::new().u64(GREETING_MAGIC).u64(OPTION_MAGIC).u16(flags.0).finish()
}

/// Decodes the greeting, the server's first message.
///
/// # Errors
/// Fails if the bytes are not the greeting of newstyle negotiation.
pub fn decode_greeting(bytes: &[u8]) -> Result<HandshakeFlags, WireError> {
    let mut reader = Reader::new(bytes);
    expect_magic(reader.u64()?, GREETING_MAGIC, "an NBD server's greeting")?;
    expect_magic(reader.u64()?, OPTION_MAGIC, "newstyle negotiation")?;
    Ok(HandshakeFlags(reader.u16()?))
}

fn expect_magic(found: u64, wanted: u64, expected: &'static str) -> Result<(), WireError> {
    if found == wanted { Ok(()) } else { Err(WireError::Magic { found, expected }) }
}

/// The number of an option, a client's request in the handshake. Unknown numbers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OptionCode(pub u32);

impl OptionCode {
    /// Selects an export. The server cannot refuse with a reply.
    pub const EXPORT_NAME: Self = Self(1);
    /// Ends the session.
    pub const ABORT: Self = Self(2);
    /// Lists the exports.
    pub const LIST: Self = Self(3);
    /// Starts TLS.
    pub const STARTTLS: Self = Self(5);
    /// Requests information about an export.
    pub const INFO: Self = Self(6);
    /// Selects an export.
    pub const GO: Self = Self(7);
    /// Requests structured replies.
    pub const STRUCTURED_REPLY: Self = Self(8);
    /// Lists meta contexts, the kinds of block status.
    pub const LIST_META_CONTEXT: Self = Self(9);
    /// Selects meta contexts.
    pub const SET_META_CONTEXT: Self = Self(10);
}

/// The header of an option. `length` bytes of data follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionHeader {
    /// Number of the option.
    pub option: OptionCode,
    /// Length of the data in bytes.
    pub length: u32,
}

impl OptionHeader {
    /// Encodes the header.
    #[must_use]
    pub fn encode(self) -> [u8; OPTION_HEADER_BYTES] {
        Fixed::new().u64(OPTION_MAGIC).u32(self.option.0).u32(self.length).finish()
    }

    /// Decodes the header.
    ///
    /// # Errors
    /// Fails if there are too few bytes, or if they are not an option.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        expect_magic(reader.u64()?, OPTION_MAGIC, "an option")?;
        Ok(Self { option: OptionCode(reader.u32()?), length: reader.u32()? })
    }
}

/// The kind of an option reply. Unknown numbers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OptionReplyKind(pub u32);

impl OptionReplyKind {
    /// The option succeeded.
    pub const ACK: Self = Self(1);
    /// Describes one export of a list.
    pub const SERVER: Self = Self(2);
    /// Gives one item of information about an export.
    pub const INFO: Self = Self(3);
    /// Names one meta context.
    pub const META_CONTEXT: Self = Self(4);
    /// The server does not support the option.
    pub const ERR_UNSUPPORTED: Self = Self::error(1);
    /// The server's configuration forbids the option.
    pub const ERR_POLICY: Self = Self::error(2);
    /// The option is invalid.
    pub const ERR_INVALID: Self = Self::error(3);
    /// The server requires TLS before this option.
    pub const ERR_TLS_REQUIRED: Self = Self::error(5);
    /// The server has no such export.
    pub const ERR_UNKNOWN: Self = Self::error(6);
    /// The option is too large.
    pub const ERR_TOO_BIG: Self = Self::error(9);

    const fn error(number: u32) -> Self {
        Self(1 << 31 | number)
    }

    /// Returns whether the reply refuses the option.
    #[must_use]
    pub fn is_error(self) -> bool {
        self.0 & 1 << 31 != 0
    }
}

/// The header of an option reply. `length` bytes of data follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionReplyHeader {
    /// Number of the option.
    pub option: OptionCode,
    /// Kind of the reply.
    pub kind: OptionReplyKind,
    /// Length of the data in bytes.
    pub length: u32,
}

impl OptionReplyHeader {
    /// Encodes the header.
    #[must_use]
    pub fn encode(self) -> [u8; OPTION_REPLY_HEADER_BYTES] {
        Fixed::new()
            .u64(OPTION_REPLY_MAGIC)
            .u32(self.option.0)
            .u32(self.kind.0)
            .u32(self.length)
            .finish()
    }

    /// Decodes the header.
    ///
    /// # Errors
    /// Fails if there are too few bytes, or if they are not an option reply.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        expect_magic(reader.u64()?, OPTION_REPLY_MAGIC, "a reply to an option")?;
        Ok(Self {
            option: OptionCode(reader.u32()?),
            kind: OptionReplyKind(reader.u32()?),
            length: reader.u32()?,
        })
    }
}

/// Encodes the whole reply to EXPORT_NAME, with zeros at its end if `zeroes` is set.
#[must_use]
pub fn encode_export_name_reply(size_bytes: u64, flags: ExportFlags, zeroes: bool) -> Vec<u8> {
    let mut reply = Fixed::<10>::new().u64(size_bytes).u16(flags.0).finish().to_vec();
    if zeroes {
        reply.resize(reply.len() + NO_ZEROES_PADDING_BYTES, 0);
    }
    reply
}
