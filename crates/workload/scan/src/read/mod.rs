//! Reading: files are cut into blocks, and the blocks' fingerprints are counted in the counting
//! sets.

mod blocks;
mod large;
mod queue;
mod router;
mod worker;

pub(crate) use blocks::{SizeCounts, SizeState};
pub(crate) use queue::Queue;
pub(crate) use worker::{ReaderCounts, Session, Worker};

/// The bytes of a large file that one reader takes at once.
pub(crate) const PIECE_BYTES: u64 = 4 << 20;
