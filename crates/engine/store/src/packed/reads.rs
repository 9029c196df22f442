//! Reading contents of packed blocks: each block of a list is read once, and each content that is
//! wanted whole is decompressed into the buffer of its read.

use super::codec::decompress;
use super::image::{find_parts, split_form};
use super::{block_number, invalid};
use crate::{ContentRead, LentContent, copy_of};
use gemelo_base::locks::Mutex;
use gemelo_format::{PackedPlace, Pbn, PoolSeed};
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

/// Blocks of a list that are in memory, by their places in it, in order.
type Lent = Vec<(usize, LentContent)>;

/// Packed blocks that a list needs.
struct Blocks<'m> {
    /// Their numbers, in order.
    numbers: Vec<Pbn>,
    /// Those that are read where they are, by their places among the numbers.
    lent: Lent,
    /// The bytes of the others, and how their reads ended.
    bytes: &'m [u8],
    outcomes: Vec<io::Result<()>>,
    block_bytes: usize,
}

impl Blocks<'_> {
    /// Returns the bytes of a block.
    fn get(&self, number: u32) -> io::Result<&[u8]> {
        let at = block_number(number).and_then(|number| self.numbers.binary_search(&number).ok());
        let at = at.ok_or_else(lost)?;
        let read = match self.lent.binary_search_by_key(&at, |(at, _)| *at) {
            Ok(lent) => return self.lent.get(lent).map(|(_, block)| &**block).ok_or_else(lost),
            Err(before) => at - before,
        };
        match self.outcomes.get(read) {
            Some(Ok(())) => {
                let start = read * self.block_bytes;
                self.bytes.get(start..start + self.block_bytes).ok_or_else(lost)
            }
            Some(Err(error)) => Err(copy_of(error)),
            None => Err(lost()),
        }
    }
}

fn lost() -> io::Error {
    io::ErrorKind::NotFound.into()
}

/// Reads contents of a packed store whose blocks the caller can read.
#[derive(Debug, Clone, Copy)]
pub struct PackedReader {
    /// Bytes of a block.
    pub block_bytes: usize,
    /// The seed of the pool to which the store belongs.
    pub seed: PoolSeed,
}

/// Memory for one content at a time.
#[derive(Debug, Default)]
struct Scratch {
    /// A form whose bytes lie in two blocks.
    form: Vec<u8>,
    /// A content that is wanted in part.
    content: Vec<u8>,
}

impl PackedReader {
    /// Decompresses a form that passes its checksum.
    pub(super) fn open_form(self, pbn: Pbn, form: &[u8], content: &mut [u8]) -> io::Result<()> {
        let is_whole =
            split_form(form).is_some_and(|(head, bytes)| head.is_of(self.seed, pbn, bytes));
        match is_whole {
            true => decompress_form(form, content),
            false => Err(invalid("a packed content fails its checksum")),
        }
    }

    /// Reads contents. `below` reads blocks, by their numbers, in one list.
    pub fn read_by(
        self,
        reads: &mut [ContentRead<'_>],
        below: impl FnOnce(&mut [ContentRead<'_>]),
    ) {
        self.read_in(&mut Vec::new(), reads, (|_: &[Pbn]| Vec::new(), below));
    }

    /// Reads contents that are at hand, or leaves them, some at a time.
    pub(super) fn read_ready(
        self,
        memory: &mut Vec<u8>,
        reads: &mut [ContentRead<'_>],
        (lend, below): (impl Fn(&[Pbn]) -> Lent, impl Fn(&mut [ContentRead<'_>])),
    ) {
        let at_once = (READY_BYTES / self.block_bytes).max(1);
        reads.chunks_mut(at_once).for_each(|some| self.read_in(memory, some, (&lend, &below)));
    }

    /// Does what [`Self::read_by`] does, with the packed blocks where `lend` has them, or else in
    /// this memory.
    pub(super) fn read_in(
        self,
        memory: &mut Vec<u8>,
        reads: &mut [ContentRead<'_>],
        (lend, below): (impl FnOnce(&[Pbn]) -> Lent, impl FnOnce(&mut [ContentRead<'_>])),
    ) {
        let numbers = numbers_of(reads);
        let lent = if numbers.is_empty() { Vec::new() } else { lend(&numbers) };
        let length = (numbers.len() - lent.len()) * self.block_bytes;
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
        let mut at_hand = lent.iter().map(|(at, _)| *at).peekable();
        let absent = numbers.iter().enumerate().filter(|(at, _)| at_hand.next_if_eq(at).is_none());
        let buffers = bytes.chunks_exact_mut(self.block_bytes);
        list.extend(
            absent.zip(buffers).map(|((_, number), buffer)| ContentRead::new(*number, 0, buffer)),
        );
        assert_eq!(list.len() + lent.len(), whole + numbers.len(), "each block is read once");
        if !list.is_empty() {
            below(&mut list);
        }
        let mut done = list.into_iter().map(|read| read.outcome);
        outcomes.into_iter().zip(done.by_ref()).for_each(|(outcome, done)| *outcome = done);
        let outcomes = done.collect();
        let blocks = Blocks { numbers, lent, bytes, outcomes, block_bytes: self.block_bytes };
        let mut scratch = Scratch::default();
        for read in packed {
            read.outcome = self.read_packed(&blocks, read, &mut scratch);
        }
    }

    /// Decompresses a content, or the part of it that is wanted.
    fn read_packed(
        self,
        blocks: &Blocks<'_>,
        read: &mut ContentRead<'_>,
        scratch: &mut Scratch,
    ) -> io::Result<()> {
        let Scratch { form, content } = scratch;
        let ContentRead { within, buffer, .. } = read;
        let place = PackedPlace::of(read.pbn);
        let block = blocks.get(place.block)?;
        let next = if place.is_spanning() { Some(blocks.get(place.block + 1)?) } else { None };
        let found = find_parts(place, block, next);
        let (_, start, rest) =
            found.ok_or_else(|| invalid("a packed block has no such content"))?;
        let form = if rest.is_empty() {
            start
        } else {
            form.clear();
            form.extend_from_slice(start);
            form.extend_from_slice(rest);
            &*form
        };
        let open = |content: &mut [u8]| match read.is_compared {
            true => decompress_form(form, content),
            false => self.open_form(read.pbn, form, content),
        };
        if buffer.len() == self.block_bytes {
            return open(buffer);
        }
        content.resize(self.block_bytes, 0);
        open(content)?;
        let part = content.get(*within..*within + buffer.len());
        assert!(part.is_some(), "one content is read");
        part.into_iter().for_each(|part| buffer.copy_from_slice(part));
        Ok(())
    }
}

/// Decompresses a form, of which the caller knows or will find out whether it is whole.
fn decompress_form(form: &[u8], content: &mut [u8]) -> io::Result<()> {
    let split = split_form(form).filter(|(head, bytes)| decompress(head.algorithm, bytes, content));
    split.map(|_| ()).ok_or_else(|| invalid("a packed content cannot be decompressed"))
}

/// The packed blocks that a list needs, in order.
fn numbers_of(reads: &[ContentRead<'_>]) -> Vec<Pbn> {
    let mut numbers = Vec::with_capacity(reads.len() + 1);
    for place in reads.iter().map(|read| PackedPlace::of(read.pbn)) {
        if !place.is_whole() {
            numbers.extend(block_number(place.block));
            numbers.extend(place.is_spanning().then(|| block_number(place.block + 1)).flatten());
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
