//! Reading contents of packed blocks: each block of a list is read once.

use super::codec::decompress;
use super::image::{find_form, split_form};
use super::{block_number, invalid};
use crate::ContentRead;
use gemelo_format::{PackedPlace, Pbn, PoolSeed};
use std::io;

/// Packed blocks that were read for a list.
struct Blocks {
    numbers: Vec<u32>,
    bytes: Vec<u8>,
    outcomes: Vec<io::Result<()>>,
    block_bytes: usize,
}

impl Blocks {
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
        let numbers = numbers_of(reads);
        let mut bytes = vec![0; numbers.len() * self.block_bytes];
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
        blocks: &Blocks,
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
