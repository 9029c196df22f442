//! Requests of the transmission phase ("Request message", "Request types", "Command flags").

use super::WireError;
use super::bytes::{Fixed, Reader};
use std::ops::Range;

const REQUEST_MAGIC: u32 = 0x2560_9513;

/// Length of a request's header in bytes. The data of a write follows.
pub const REQUEST_BYTES: usize = 28;

/// The effect must be durable before the reply is sent (force unit access).
pub const COMMAND_FLAG_FUA: u16 = 1;
/// Zeroes must stay allocated.
pub const COMMAND_FLAG_NO_HOLE: u16 = 1 << 1;
/// A read must be answered in one piece.
pub const COMMAND_FLAG_DF: u16 = 1 << 2;
/// One extent is enough as block status.
pub const COMMAND_FLAG_REQ_ONE: u16 = 1 << 3;
/// Zeroes are written only if that is faster than writing them as data.
pub const COMMAND_FLAG_FAST_ZERO: u16 = 1 << 4;

/// The command of a request. Unknown numbers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Command(pub u16);

impl Command {
    /// Reads the range.
    pub const READ: Self = Self(0);
    /// Writes the data that follows the header.
    pub const WRITE: Self = Self(1);
    /// Ends the session.
    pub const DISCONNECT: Self = Self(2);
    /// Makes completed writes durable.
    pub const FLUSH: Self = Self(3);
    /// Tells the server that the content of the range is no longer needed.
    pub const TRIM: Self = Self(4);
    /// Tells the server that the range will be read soon.
    pub const CACHE: Self = Self(5);
    /// Makes the range read as zeros.
    pub const WRITE_ZEROES: Self = Self(6);
    /// Requests the extents of the range.
    pub const BLOCK_STATUS: Self = Self(7);

    /// Returns the known flags that are valid with this command. FUA is valid with every command
    /// ("Command flags"), and has no effect on commands that do not write.
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

/// The header of a request. The data of a write follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader {
    /// `COMMAND_FLAG_…` bits.
    pub flags: u16,
    /// The command to carry out.
    pub command: Command,
    /// A number that the client chooses for the request. The reply repeats it.
    pub cookie: u64,
    /// First byte of the range on the export.
    pub offset: u64,
    /// Length of the range in bytes.
    pub length: u32,
}

impl RequestHeader {
    /// Returns the range on the export.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(u64::from(self.length))
    }

    /// Encodes the header.
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

    /// Decodes the header.
    ///
    /// # Errors
    /// Fails if there are too few bytes, or if they are not a request.
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

    /// Returns the number of data bytes that follow the header.
    #[inline]
    #[must_use]
    pub fn payload_bytes(self) -> usize {
        if self.command == Command::WRITE { self.length as usize } else { 0 }
    }

    /// Returns whether all these flags are set.
    #[must_use]
    pub fn has(self, flags: u16) -> bool {
        self.flags & flags == flags
    }
}
