//! Reading: files are cut into blocks, and the blocks' fingerprints are counted in the counting
//! sets.

mod blocks;
mod large;
mod router;
mod worker;

pub(crate) use blocks::{SizeCounts, SizeState};
pub(crate) use large::LargeFile;
pub(crate) use worker::{Counted, Session, Worker};

/// The minimum number of bytes that are read at once. Together with the routers' buffers they stay
/// in a core's second-level cache (1 MiB and more on current processors), where hashing finds them.
pub(crate) const CHUNK_LEAST_BYTES: u64 = 256 << 10;

/// The bytes of a large file that one reader takes at once.
pub(crate) const PIECE_BYTES: u64 = 4 << 20;

/// The memory of a reader for each block size, in bytes.
pub(crate) const WORKER_SIZE_BYTES: u64 = 512 << 10;
