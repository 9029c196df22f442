//! The handshake: greeting, options and their replies ("Fixed newstyle negotiation", "Option types", "Option reply
//! types").

use super::WireError;
use super::bytes::{Fixed, Reader};

/// "NBDMAGIC".
const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// "IHAVEOPT".
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

/// Length of the server's first message.
pub const GREETING_BYTES: usize = 18;
/// Length of an option's header.
pub const OPTION_HEADER_BYTES: usize = 16;
/// Length of the header of a reply to an option.
pub const OPTION_REPLY_HEADER_BYTES: usize = 20;
/// Zeros after the reply to EXPORT_NAME unless both sides do without.
pub const NO_ZEROES_PADDING_BYTES: usize = 124;

/// Bits of the greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeFlags(pub u16);

impl HandshakeFlags {
    /// Options have replies.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// The reply to EXPORT_NAME can do without zeros.
    pub const NO_ZEROES: u16 = 2;
}

/// Bits of the client's answer to the greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientFlags(pub u32);

impl ClientFlags {
    /// The client knows that options have replies.
    pub const FIXED_NEWSTYLE: u32 = 1;
    /// The client wants no zeros after the reply to EXPORT_NAME.
    pub const NO_ZEROES: u32 = 2;
}

/// Bits that tell what an export can do ("Transmission flags").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportFlags(pub u16);

impl ExportFlags {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is known.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// FUA is known.
    pub const SEND_FUA: u16 = 1 << 3;
    /// TRIM is known.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES is known.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// DF is known.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers all.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// CACHE is known.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// FAST_ZERO is known.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;

    /// Whether all these bits are set.
    #[must_use]
    pub fn has(self, bits: u16) -> bool {
        self.0 & bits == bits
    }
}

/// The server's first message.
#[must_use]
pub fn encode_greeting(flags: HandshakeFlags) -> [u8; GREETING_BYTES] {
    Fixed::new().u64(GREETING_MAGIC).u64(OPTION_MAGIC).u16(flags.0).finish()
}

/// Reads the server's first message.
///
/// # Errors
/// If it is no newstyle greeting.
pub fn decode_greeting(bytes: &[u8]) -> Result<HandshakeFlags, WireError> {
    let mut reader = Reader::new(bytes);
    expect_magic(reader.u64()?, GREETING_MAGIC, "an NBD server's greeting")?;
    expect_magic(reader.u64()?, OPTION_MAGIC, "newstyle negotiation")?;
    Ok(HandshakeFlags(reader.u16()?))
}

fn expect_magic(found: u64, wanted: u64, expected: &'static str) -> Result<(), WireError> {
    if found == wanted { Ok(()) } else { Err(WireError::Magic { found, expected }) }
}

/// What a client asks in the handshake; numbers unknown here are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OptionCode(pub u32);

impl OptionCode {
    /// Chooses an export, without a reply that could refuse.
    pub const EXPORT_NAME: Self = Self(1);
    /// Ends the session.
    pub const ABORT: Self = Self(2);
    /// Lists the exports.
    pub const LIST: Self = Self(3);
    /// Goes on encrypted.
    pub const STARTTLS: Self = Self(5);
    /// Tells of an export.
    pub const INFO: Self = Self(6);
    /// Chooses an export.
    pub const GO: Self = Self(7);
    /// Asks for structured replies.
    pub const STRUCTURED_REPLY: Self = Self(8);
    /// Lists kinds of block status.
    pub const LIST_META_CONTEXT: Self = Self(9);
    /// Chooses kinds of block status.
    pub const SET_META_CONTEXT: Self = Self(10);
}

/// The header of an option; `length` bytes of data follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionHeader {
    /// Which option.
    pub option: OptionCode,
    /// Bytes of data.
    pub length: u32,
}

impl OptionHeader {
    /// To bytes.
    #[must_use]
    pub fn encode(self) -> [u8; OPTION_HEADER_BYTES] {
        Fixed::new().u64(OPTION_MAGIC).u32(self.option.0).u32(self.length).finish()
    }

    /// From bytes.
    ///
    /// # Errors
    /// If they are too few or no option.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        expect_magic(reader.u64()?, OPTION_MAGIC, "an option")?;
        Ok(Self { option: OptionCode(reader.u32()?), length: reader.u32()? })
    }
}

/// What a reply to an option is; numbers unknown here are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OptionReplyKind(pub u32);

impl OptionReplyKind {
    /// Done.
    pub const ACK: Self = Self(1);
    /// One export of a list.
    pub const SERVER: Self = Self(2);
    /// One piece of information on an export.
    pub const INFO: Self = Self(3);
    /// One kind of block status.
    pub const META_CONTEXT: Self = Self(4);
    /// Unknown option.
    pub const ERR_UNSUPPORTED: Self = Self::error(1);
    /// Refused by the server's settings.
    pub const ERR_POLICY: Self = Self::error(2);
    /// Not a valid request.
    pub const ERR_INVALID: Self = Self::error(3);
    /// The server first wants encryption.
    pub const ERR_TLS_REQUIRED: Self = Self::error(5);
    /// No such export.
    pub const ERR_UNKNOWN: Self = Self::error(6);
    /// The server is going down.
    pub const ERR_SHUTDOWN: Self = Self::error(7);
    /// The request is too big.
    pub const ERR_TOO_BIG: Self = Self::error(9);

    const fn error(number: u32) -> Self {
        Self(1 << 31 | number)
    }

    /// Whether this refuses the option.
    #[must_use]
    pub fn is_error(self) -> bool {
        self.0 & 1 << 31 != 0
    }
}

/// The header of a reply to an option; `length` bytes of data follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionReplyHeader {
    /// Which option.
    pub option: OptionCode,
    /// What the reply is.
    pub kind: OptionReplyKind,
    /// Bytes of data.
    pub length: u32,
}

impl OptionReplyHeader {
    /// To bytes.
    #[must_use]
    pub fn encode(self) -> [u8; OPTION_REPLY_HEADER_BYTES] {
        Fixed::new()
            .u64(OPTION_REPLY_MAGIC)
            .u32(self.option.0)
            .u32(self.kind.0)
            .u32(self.length)
            .finish()
    }

    /// From bytes.
    ///
    /// # Errors
    /// If they are too few or no reply to an option.
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

/// The whole reply to EXPORT_NAME.
#[must_use]
pub fn encode_export_name_reply(size_bytes: u64, flags: ExportFlags, zeroes: bool) -> Vec<u8> {
    let mut reply = Fixed::<10>::new().u64(size_bytes).u16(flags.0).finish().to_vec();
    if zeroes {
        reply.resize(reply.len() + NO_ZEROES_PADDING_BYTES, 0);
    }
    reply
}
