//! Reading: files to blocks, blocks to fingerprints, fingerprints to the counting sets.

mod blocks;
mod large;
mod router;
mod worker;
mod zero;

pub(crate) use blocks::{SizeCounts, SizeState};
pub(crate) use large::LargeFile;
pub(crate) use worker::{Counted, Session, Worker};

/// Bytes read at once, at least: with the routers' buffers this stays in a core's second-level cache (1 MiB and more
/// on current processors), so that hashing finds it there.
pub(crate) const CHUNK_LEAST_BYTES: u64 = 256 << 10;

/// Bytes of a large file that one reader takes at once.
pub(crate) const PIECE_BYTES: u64 = 4 << 20;

/// What a reader keeps for each block size, in bytes.
pub(crate) const WORKER_SIZE_BYTES: u64 = 512 << 10;
