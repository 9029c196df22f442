//! Reading contents of packed blocks: each block of a list is read once, and each content that is
//! wanted whole is decompressed into the buffer of its read.

use super::codec::decompress;
use super::image::{find_form, split_form};
use super::{block_number, invalid};
use crate::ContentRead;
use gemelo_format::{PackedPlace, Pbn, PoolSeed};
use parking_lot::Mutex;
use std::io;

/// Most bytes of contents that are read together if all are at hand: their packed blocks then stay
/// in the processor's cache until they are decompressed.
pub(super) const READY_BYTES: usize = 128 << 10;
/// Most memories that are kept for later lists.
const KEPT_MEMORIES: usize = 4;
/// Most bytes of a memory that is kept.
const KEPT_BYTES: usize = 2 << 20;

/// Memory for the blocks of lists, which is used again: fresh memory would be zeroed, and the
/// system is slow to give it.
#[derive(Debug, Default)]
pub(super) struct ReadMemory {
    kept: Mutex<Vec<Vec<u8>>>,
}

impl ReadMemory {
    /// Lends memory, whose bytes may be anything.
    pub(super) fn lend<T>(&self, act: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let kept = self.kept.lock().pop();
        let mut memory = kept.unwrap_or_default();
        let outcome = act(&mut memory);
        let mut kept = self.kept.lock();
        if kept.len() < KEPT_MEMORIES && memory.capacity() <= KEPT_BYTES {
            kept.push(memory);
        }
        outcome
    }
}

/// Packed blocks that were read for a list.
struct Blocks<'m> {
    numbers: Vec<u32>,
    bytes: &'m [u8],
    outcomes: Vec<io::Result<()>>,
    block_bytes: usize,
}

impl Blocks<'_> {
    /// Returns the bytes of a block.
    fn get(&self, number: u32) -> io::Result<&[u8]> {
        let at = self.numbers.binary_search(&number).ok();
        let start = at.map_or(self.bytes.len(), |at| at * self.block_bytes);
        let bytes = self.bytes.get(start..start + self.block_bytes);
        let outcome = at.and_then(|at| self.outcomes.get(at));
        match (bytes, outcome) {
            (Some(bytes), Some(Ok(()))) => Ok(bytes),
            (_, Some(Err(error))) => Err(copy_of(error)),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// Reads contents of a packed store whose blocks the caller can read.
#[derive(Debug, Clone, Copy)]
pub struct PackedReader {
    /// Bytes of a block.
    pub block_bytes: usize,
    /// The seed of the pool to which the store belongs.
    pub seed: PoolSeed,
}

impl PackedReader {
    /// Decompresses a form that passes its checksum.
    pub(super) fn open_form(self, pbn: Pbn, form: &[u8], content: &mut [u8]) -> io::Result<()> {
        let split = split_form(form).filter(|(head, bytes)| head.is_of(self.seed, pbn, bytes));
        let (head, bytes) = split.ok_or_else(|| invalid("a packed content fails its checksum"))?;
        match decompress(head.algorithm, bytes, content) {
            true => Ok(()),
            false => Err(invalid("a packed content cannot be decompressed")),
        }
    }

    /// Decompresses a content that is in these blocks.
    fn unpack(
        self,
        pbn: Pbn,
        (block, next): (&[u8], Option<&[u8]>),
        content: &mut [u8],
    ) -> io::Result<()> {
        let found = find_form(PackedPlace::of(pbn), block, next);
        let (_, form) = found.ok_or_else(|| invalid("a packed block has no such content"))?;
        self.open_form(pbn, &form, content)
    }

    /// Reads contents. `below` reads blocks, by their numbers, in one list.
    pub fn read_by(
        self,
        reads: &mut [ContentRead<'_>],
        below: impl FnOnce(&mut [ContentRead<'_>]),
    ) {
        self.read_in(&mut Vec::new(), reads, below);
    }

    /// Reads contents that are at hand, or leaves them, some at a time.
    pub(super) fn read_ready(
        self,
        memory: &mut Vec<u8>,
        reads: &mut [ContentRead<'_>],
        below: impl Fn(&mut [ContentRead<'_>]),
    ) {
        let at_once = (READY_BYTES / self.block_bytes).max(1);
        reads.chunks_mut(at_once).for_each(|some| self.read_in(memory, some, &below));
    }

    /// Does what [`Self::read_by`] does, with the packed blocks in this memory.
    pub(super) fn read_in(
        self,
        memory: &mut Vec<u8>,
        reads: &mut [ContentRead<'_>],
        below: impl FnOnce(&mut [ContentRead<'_>]),
    ) {
        let numbers = numbers_of(reads);
        let length = numbers.len() * self.block_bytes;
        if memory.len() < length {
            memory.resize(length, 0);
        }
        let (bytes, _) = memory.split_at_mut(length);
        let (mut list, mut outcomes, mut packed) = (Vec::new(), Vec::new(), Vec::new());
        for read in reads.iter_mut() {
            let place = PackedPlace::of(read.pbn);
            match block_number(place.block).filter(|_| place.is_whole()) {
                Some(number) => {
                    let ContentRead { within, buffer, outcome, .. } = read;
                    list.push(ContentRead::new(number, *within, buffer));
                    outcomes.push(outcome);
                }
                None => packed.push(read),
            }
        }
        let whole = list.len();
        let blocks = numbers.iter().filter_map(|number| block_number(*number));
        let buffers = bytes.chunks_exact_mut(self.block_bytes);
        list.extend(
            blocks.zip(buffers).map(|(number, buffer)| ContentRead::new(number, 0, buffer)),
        );
        assert_eq!(list.len(), whole + numbers.len(), "each block is read once");
        below(&mut list);
        let mut done = list.into_iter().map(|read| read.outcome);
        outcomes.into_iter().zip(done.by_ref()).for_each(|(outcome, done)| *outcome = done);
        let outcomes = done.collect();
        let blocks = Blocks { numbers, bytes, outcomes, block_bytes: self.block_bytes };
        let mut content = Vec::new();
        for read in packed {
            read.outcome =
                self.read_packed(&blocks, read.pbn, (read.within, read.buffer), &mut content);
        }
    }

    /// Decompresses a content, or the part of it that is wanted.
    fn read_packed(
        self,
        blocks: &Blocks<'_>,
        pbn: Pbn,
        (within, buffer): (usize, &mut [u8]),
        content: &mut Vec<u8>,
    ) -> io::Result<()> {
        let place = PackedPlace::of(pbn);
        let block = blocks.get(place.block)?;
        let next = if place.is_spanning() { Some(blocks.get(place.block + 1)?) } else { None };
        if buffer.len() == self.block_bytes {
            return self.unpack(pbn, (block, next), buffer);
        }
        content.resize(self.block_bytes, 0);
        self.unpack(pbn, (block, next), content)?;
        let part = content.get(within..within + buffer.len());
        assert!(part.is_some(), "one content is read");
        part.into_iter().for_each(|part| buffer.copy_from_slice(part));
        Ok(())
    }
}

/// The packed blocks that a list needs, in order.
fn numbers_of(reads: &[ContentRead<'_>]) -> Vec<u32> {
    let mut numbers = Vec::with_capacity(reads.len() + 1);
    for place in reads.iter().map(|read| PackedPlace::of(read.pbn)) {
        if !place.is_whole() {
            numbers.push(place.block);
            numbers.extend(place.is_spanning().then_some(place.block + 1));
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lends this many memories at once.
    fn lend_nested(memory: &ReadMemory, count: usize) {
        if count > 0 {
            memory.lend(|_| lend_nested(memory, count - 1));
        }
    }

    #[test]
    fn memory_is_used_again_and_little_of_it_is_kept() {
        let memory = ReadMemory::default();
        memory.lend(|bytes| bytes.resize(4096, 7));
        assert_eq!(memory.lend(|bytes| (bytes.len(), bytes.first().copied())), (4096, Some(7)));
        memory.lend(|bytes| bytes.resize(KEPT_BYTES + 1, 7));
        assert!(memory.lend(|bytes| bytes.is_empty()), "it was too large");
        lend_nested(&memory, 2 * KEPT_MEMORIES);
        assert_eq!(memory.kept.lock().len(), KEPT_MEMORIES);
    }
}
