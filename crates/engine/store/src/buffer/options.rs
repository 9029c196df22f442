//! The options of a buffer, and those who see its contents.

use gemelo_format::Pbn;
use std::num::NonZeroU64;

/// The options of a [`super::WriteBuffer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferOptions {
    /// Most bytes of contents that are in memory to be written. There is always room for two
    /// contents.
    pub bytes: u64,
    /// Most bytes of contents that are in memory for readers; 0 for none.
    pub cache_bytes: u64,
    /// `true` if contents that were read are kept there too, and not only written ones.
    pub caches_reads: bool,
    /// `true` to write out, and to make memory, in threads of the buffer. Otherwise only a sync,
    /// and a writer that finds no room, write out, in a fixed order.
    pub background: bool,
    /// Threads that write out in the background.
    pub threads: usize,
}

/// A content that was written out.
#[derive(Debug, Clone, Copy)]
pub struct WrittenContent<'a> {
    /// The number of the content.
    pub pbn: Pbn,
    /// The ticket of the write.
    pub ticket: NonZeroU64,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// Sees contents on their way to the store below, while they are still in memory.
pub trait WriteObserver: Send + Sync {
    /// Returns whether it wants to see this many contents now.
    fn wants(&self, contents: usize) -> bool;

    /// Sees contents that were written out. A newer write of the PBN may have followed. In a buffer
    /// with threads, a thread that uses spare time calls it.
    fn written(&self, contents: &[WrittenContent<'_>]);

    /// Learns that it does not see this many contents that it wants, because they are too many, or
    /// writers need their room.
    fn missed(&self, contents: usize);
}
