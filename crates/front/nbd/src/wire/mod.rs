//! The protocol's messages as pure functions over slices. They do no I/O, keep no state, and
//! allocate nothing whose size a peer could choose.
//!
//! The source is the protocol document of the NBD project (`doc/proto.md`); comments name its
//! sections. Decoding never panics on any input, and decoding an encoded message gives the message.

mod bytes;
mod error;
mod handshake;
mod option;
mod reply;
mod request;
#[cfg(test)]
mod tests;

pub use bytes::Truncated;
pub use error::{ErrorCode, WireError};
pub use handshake::{
    ClientFlags, ExportFlags, GREETING_BYTES, HandshakeFlags, NO_ZEROES_PADDING_BYTES,
    OPTION_HEADER_BYTES, OPTION_REPLY_HEADER_BYTES, OptionCode, OptionHeader, OptionReplyHeader,
    OptionReplyKind, decode_greeting, encode_export_name_reply, encode_greeting,
};
pub use option::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, BlockSizes, Info, InfoKind, InfoRequest,
    MetaContextRequest, SINCE, SINCE_ID, decode_listed_export, decode_meta_context,
    encode_listed_export, encode_meta_context,
};
pub use reply::{
    BlockDescriptor, CHUNK_FLAG_DONE, CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind,
    ERROR_CHUNK_BYTES, OFFSET_DATA_HEADER_BYTES, ReplyHead, SIMPLE_REPLY_BYTES, STATE_CHANGED,
    STATE_HOLE, STATE_ZERO, STATE_ZERO_NOW, SimpleReply, decode_block_descriptors,
    decode_block_status_context, decode_error_chunk, decode_reply_head, encode_block_status_header,
    encode_error_chunk, encode_offset_data_header, encode_offset_data_part,
};
pub use request::{
    COMMAND_FLAG_DF, COMMAND_FLAG_FAST_ZERO, COMMAND_FLAG_FUA, COMMAND_FLAG_NO_HOLE,
    COMMAND_FLAG_REQ_ONE, Command, REQUEST_BYTES, RequestHeader,
};

/// The longest string of the protocol in bytes: export names, queries and messages ("Values").
pub const LONGEST_STRING_BYTES: usize = 4096;

/// The longest payload of a read or write in bytes that every peer must accept ("Block size
/// constraints").
pub const LONGEST_PAYLOAD_BYTES: u32 = 32 << 20;
