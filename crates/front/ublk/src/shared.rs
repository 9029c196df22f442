//! Memory of a queue that the kernel and this process share.

use crate::abi::Descriptor;
use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::io;

/// The descriptors of all queues lie in one file, each queue with room for the largest depth.
const MAX_DEPTH: usize = 4096;
const PAGE_BYTES: usize = 4096;

/// The descriptors of a queue's requests, one for each tag. The kernel writes them.
pub(crate) struct Descriptors {
    map: MmapRaw,
    depth: u16,
}

impl Descriptors {
    pub(crate) fn map(file: &File, queue: u16, depth: u16) -> io::Result<Self> {
        let room = (MAX_DEPTH * Descriptor::STRIDE).next_multiple_of(PAGE_BYTES);
        let length = (usize::from(depth) * Descriptor::STRIDE).next_multiple_of(PAGE_BYTES);
        let offset = room as u64 * u64::from(queue);
        let map = MmapOptions::new().offset(offset).len(length).map_raw_read_only(file)?;
        Ok(Self { map, depth })
    }

    /// Returns the descriptor of a request that the kernel has just told of.
    pub(crate) fn read(&self, tag: u16) -> Descriptor {
        assert!(tag < self.depth, "a tag is less than the depth of its queue");
        let words = self.map.as_ptr().wrapping_add(usize::from(tag) * Descriptor::STRIDE);
        let words = words.cast::<[u64; 2]>();
        assert!(words.is_aligned(), "descriptors begin at a page");
        // SAFETY: the map has a descriptor for each tag below the depth, and lives as long as this.
        // The kernel writes a descriptor before it tells of the request, and again only after its
        // answer. A volatile read takes what is there.
        let words = unsafe { words.read_volatile() };
        let mut bytes = [0; Descriptor::BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        Descriptor::decode(&bytes)
    }
}
