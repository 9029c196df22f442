//! The format of a stream: a head, frames of records, and an end.
//!
//! Each frame ends with eight bytes of the BLAKE3 of all bytes of the stream up to there. So a
//! frame that is damaged, missing, repeated or at another place is found where it is read, before
//! anything is done with it. The end has the sums of the stream and the whole hash.

mod bytes;
mod compressed;
mod error;
mod head;
mod read;
mod record;
mod write;

pub use compressed::CompressedFrame;
pub use error::StreamError;
pub use head::{Head, MAX_BLOCK_BYTES, MIN_BLOCK_BYTES};
pub use read::{Frame, StreamReader};
pub use record::{Record, Sums};
pub use write::StreamWriter;

/// The first bytes of a stream.
const MAGIC: &[u8; 8] = b"GEMELOST";
/// The version of the format.
const VERSION: u32 = 1;

/// A frame with records.
const RECORDS: u8 = 1;
/// The last frame.
const END: u8 = 2;
/// The last frame of a sender that gave up: it has the reason.
const GIVEN_UP: u8 = 3;
/// Contents that the sender asks for.
const ASK: u8 = 4;
/// Records that are compressed together.
const COMPRESSED: u8 = 5;
/// Most bytes of the contents of one question, unless it is one block.
pub(crate) const ASKED_BYTES: usize = 1 << 20;

/// Bytes before the payload of a frame: its kind and its length.
const FRAME_HEAD_BYTES: usize = 5;
/// Bytes of the checksum after the payload.
const CHECK_BYTES: usize = 8;
/// Bytes of the hash of the whole stream.
const HASH_BYTES: usize = 32;
/// The longest payload of a frame.
const MAX_PAYLOAD_BYTES: usize = 2 << 20;
/// A frame is written once its payload is this long.
const FULL_PAYLOAD_BYTES: usize = 256 << 10;
/// The same of a frame that is compressed: the longer, the fewer bytes. Another record of a MiB
/// fits into it.
const FULL_COMPRESSED_BYTES: usize = 768 << 10;

/// The running hash of a stream.
#[derive(Default)]
struct Running {
    hasher: blake3::Hasher,
    bytes: u64,
}

impl Running {
    fn add(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    fn hash(&self) -> [u8; HASH_BYTES] {
        *self.hasher.finalize().as_bytes()
    }

    fn check(&self) -> [u8; CHECK_BYTES] {
        let [a, b, c, d, e, f, g, h, ..] = self.hash();
        [a, b, c, d, e, f, g, h]
    }
}

#[cfg(test)]
mod tests;
