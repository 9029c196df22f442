//! Requests of the transmission phase ("Request message", "Request types", "Command flags").

use super::WireError;
use super::bytes::{Fixed, Reader};

const REQUEST_MAGIC: u32 = 0x2560_9513;

/// Length of a request's header; the data of a write follows.
pub const REQUEST_BYTES: usize = 28;

/// The effect is durable when the reply comes.
pub const COMMAND_FLAG_FUA: u16 = 1;
/// Zeroes take space.
pub const COMMAND_FLAG_NO_HOLE: u16 = 1 << 1;
/// A read is answered in one piece.
pub const COMMAND_FLAG_DF: u16 = 1 << 2;
/// Block status of one extent is enough.
pub const COMMAND_FLAG_REQ_ONE: u16 = 1 << 3;
/// Zeroes only if that is faster than writing them.
pub const COMMAND_FLAG_FAST_ZERO: u16 = 1 << 4;

/// What a request does; numbers unknown here are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Command(pub u16);

impl Command {
    /// Reads.
    pub const READ: Self = Self(0);
    /// Writes the data that follows.
    pub const WRITE: Self = Self(1);
    /// Ends the session.
    pub const DISCONNECT: Self = Self(2);
    /// Makes completed writes durable.
    pub const FLUSH: Self = Self(3);
    /// The range is no longer needed.
    pub const TRIM: Self = Self(4);
    /// The range will be read soon.
    pub const CACHE: Self = Self(5);
    /// Makes the range read as zeros.
    pub const WRITE_ZEROES: Self = Self(6);
    /// Tells of the range's extents.
    pub const BLOCK_STATUS: Self = Self(7);

    /// The flags that may come with this command, of those this crate knows. FUA is valid with all of them
    /// ("Command flags"), and has no effect where nothing is written.
    #[must_use]
    pub fn valid_flags(self) -> u16 {
        COMMAND_FLAG_FUA
            | match self {
                Self::READ => COMMAND_FLAG_DF,
                Self::WRITE_ZEROES => COMMAND_FLAG_NO_HOLE | COMMAND_FLAG_FAST_ZERO,
                Self::BLOCK_STATUS => COMMAND_FLAG_REQ_ONE,
                _ => 0,
            }
    }
}

/// A request without the data of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader {
    /// `COMMAND_FLAG_…` bits.
    pub flags: u16,
    /// What to do.
    pub command: Command,
    /// The client's name for the request, repeated in the reply.
    pub cookie: u64,
    /// Where, in bytes.
    pub offset: u64,
    /// How long, in bytes.
    pub length: u32,
}

impl RequestHeader {
    /// To bytes.
    #[inline]
    #[must_use]
    pub fn encode(self) -> [u8; REQUEST_BYTES] {
        Fixed::new()
            .u32(REQUEST_MAGIC)
            .u16(self.flags)
            .u16(self.command.0)
            .u64(self.cookie)
            .u64(self.offset)
            .u32(self.length)
            .finish()
    }

    /// From bytes.
    ///
    /// # Errors
    /// If they are too few or no request.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let magic = reader.u32()?;
        if magic != REQUEST_MAGIC {
            return Err(WireError::Magic { found: magic.into(), expected: "a request" });
        }
        Ok(Self {
            flags: reader.u16()?,
            command: Command(reader.u16()?),
            cookie: reader.u64()?,
            offset: reader.u64()?,
            length: reader.u32()?,
        })
    }

    /// Bytes of data that follow the header.
    #[inline]
    #[must_use]
    pub fn payload_bytes(self) -> usize {
        if self.command == Command::WRITE { self.length as usize } else { 0 }
    }

    /// Whether all these flags are set.
    #[must_use]
    pub fn has(self, flags: u16) -> bool {
        self.flags & flags == flags
    }
}
