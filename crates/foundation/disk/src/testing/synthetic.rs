//! A disk that makes contents instead of keeping them, for pools of sizes that no disk here holds.
//!
//! A content has a number, and its bytes follow from it. The disk keeps the numbers, 4 bytes for
//! each block, and makes the bytes again when a block is read. It keeps all other blocks whole. So
//! whatever was written is read back, and a pool checks and compares contents as on any disk.

use crate::{Disk, DiskRead, DiskWrite};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The bytes of a content between its number and the complement of its number.
const FILLER: [u8; 4096] = [0x5a; 4096];
/// Blocks whose numbers are allocated at once: 256 KiB.
const CHUNK_BLOCKS: u64 = 1 << 16;

/// Makes a block, of at least 16 bytes, the content of a number.
pub fn synthesize(number: u32, block: &mut [u8]) {
    block.fill(FILLER[0]);
    renumber(number, block);
}

/// Makes a block that is the content of any number the content of this one.
///
/// # Panics
/// If the block has less than 16 bytes.
pub fn renumber(number: u32, block: &mut [u8]) {
    let number = u64::from(number);
    let parts = block
        .split_first_chunk_mut()
        .and_then(|(first, rest)| rest.split_last_chunk_mut().map(|(_, last)| (first, last)));
    assert!(parts.is_some(), "a content has room for its number");
    if let Some((first, last)) = parts {
        (*first, *last) = (number.to_le_bytes(), (!number).to_le_bytes());
    }
}

/// Returns the number whose content this is.
fn number_of(block: &[u8]) -> Option<u32> {
    let (first, rest) = block.split_first_chunk()?;
    let (filler, last) = rest.split_last_chunk()?;
    let number = u64::from_le_bytes(*first);
    let is_content = *last == (!number).to_le_bytes()
        && filler.chunks(FILLER.len()).all(|part| FILLER.starts_with(part));
    u32::try_from(number).ok().filter(|_| is_content)
}

/// The blocks of a disk. One that is in neither list is zeros.
#[derive(Default)]
struct Blocks {
    /// One more than the number of each block's content, in chunks; 0 for a block without one.
    numbers: BTreeMap<u64, Vec<u32>>,
    /// Blocks that are no content of a number.
    others: BTreeMap<u64, Box<[u8]>>,
    length: u64,
}

impl Blocks {
    fn number(&self, block: u64) -> Option<u32> {
        let chunk = self.numbers.get(&(block / CHUNK_BLOCKS))?;
        chunk.get((block % CHUNK_BLOCKS) as usize)?.checked_sub(1)
    }

    /// Sets the number of a block, or that it has none. The largest number stands for none.
    fn set_number(&mut self, block: u64, number: Option<u32>) {
        let empty = || vec![0; CHUNK_BLOCKS as usize];
        let chunk = match number {
            Some(_) => Some(self.numbers.entry(block / CHUNK_BLOCKS).or_insert_with(empty)),
            None => self.numbers.get_mut(&(block / CHUNK_BLOCKS)),
        };
        if let Some(kept) = chunk.and_then(|chunk| chunk.get_mut((block % CHUNK_BLOCKS) as usize)) {
            *kept = number.map_or(0, |number| number.saturating_add(1));
        }
    }

    fn forget(&mut self, blocks: Range<u64>) {
        let chunks = blocks.start / CHUNK_BLOCKS..blocks.end.div_ceil(CHUNK_BLOCKS);
        for (chunk, numbers) in self.numbers.range_mut(chunks) {
            let first = chunk * CHUNK_BLOCKS;
            let numbers = (first..).zip(numbers.iter_mut());
            numbers.filter(|(at, _)| blocks.contains(at)).for_each(|(_, number)| *number = 0);
        }
        let others: Vec<u64> = self.others.range(blocks).map(|(block, _)| *block).collect();
        others.iter().for_each(|block| drop(self.others.remove(block)));
    }

    fn read(&self, block: u64, to: &mut [u8]) {
        match (self.number(block), self.others.get(&block)) {
            (Some(number), _) => synthesize(number, to),
            (None, Some(other)) => to.copy_from_slice(other),
            (None, None) => to.fill(0),
        }
    }

    fn write(&mut self, block: u64, from: &[u8]) {
        let number = number_of(from).filter(|number| *number < u32::MAX);
        self.set_number(block, number);
        match number {
            Some(_) => drop(self.others.remove(&block)),
            None => drop(self.others.insert(block, from.into())),
        }
    }
}

/// A disk for contents that [`synthesize`] makes.
pub struct SyntheticDisk {
    blocks: Mutex<Blocks>,
    block_bytes: usize,
}

impl SyntheticDisk {
    /// Makes an empty disk for contents of this size.
    #[must_use]
    pub fn new(block_bytes: usize) -> Self {
        Self { blocks: Mutex::default(), block_bytes }
    }

    /// Returns the memory of the disk in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let blocks = self.blocks();
        let chunks = blocks.numbers.len() as u64 * CHUNK_BLOCKS * size_of::<u32>() as u64;
        chunks + (blocks.others.len() * self.block_bytes) as u64
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls with each block of a range of bytes, and the part of the range in it.
    fn parts(&self, offset: u64, length: usize) -> impl Iterator<Item = Part> + use<> {
        let block_bytes = self.block_bytes;
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = offset + done as u64;
            let within = (at % block_bytes as u64) as usize;
            let bytes = (block_bytes - within).min(length - done);
            let part = Part { block: at / block_bytes as u64, within, from: done, bytes };
            done += bytes;
            (bytes > 0).then_some(part)
        })
    }

    fn read(&self, blocks: &Blocks, read: &mut DiskRead<'_>) -> io::Result<()> {
        let end = read.offset.checked_add(read.buffer.len() as u64);
        if end.is_none_or(|end| end > blocks.length) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        for part in self.parts(read.offset, read.buffer.len()) {
            let to = read.buffer.get_mut(part.from..part.from + part.bytes);
            let to = to.ok_or(ErrorKind::InvalidInput)?;
            if part.bytes == self.block_bytes {
                blocks.read(part.block, to);
            } else {
                let mut whole = vec![0; self.block_bytes];
                blocks.read(part.block, &mut whole);
                to.copy_from_slice(&whole[part.within..part.within + part.bytes]);
            }
        }
        Ok(())
    }

    fn write(&self, blocks: &mut Blocks, write: &DiskWrite<'_>) -> io::Result<()> {
        for part in self.parts(write.offset, write.bytes.len()) {
            let from = write.bytes.get(part.from..part.from + part.bytes);
            let from = from.ok_or(ErrorKind::InvalidInput)?;
            if part.bytes == self.block_bytes {
                blocks.write(part.block, from);
            } else {
                let mut whole = vec![0; self.block_bytes];
                blocks.read(part.block, &mut whole);
                whole[part.within..part.within + part.bytes].copy_from_slice(from);
                blocks.write(part.block, &whole);
            }
        }
        blocks.length = blocks.length.max(write.offset + write.bytes.len() as u64);
        Ok(())
    }
}

/// The part of a request in one block.
struct Part {
    block: u64,
    /// The first byte of the part in the block, and in the request.
    within: usize,
    from: usize,
    bytes: usize,
}

impl Disk for SyntheticDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.blocks().length)
    }

    /// Sets the length. What a shorter disk has lost comes back with the length.
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.blocks().length = length;
        Ok(())
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        let blocks = self.blocks();
        for read in reads {
            read.outcome = self.read(&blocks, read);
        }
    }

    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        let mut blocks = self.blocks();
        for write in writes {
            write.outcome = self.write(&mut blocks, write);
        }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// Forgets whole blocks, which are zeros then.
    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let block_bytes = self.block_bytes as u64;
        let whole = offset.div_ceil(block_bytes)..(offset + length) / block_bytes;
        self.blocks().forget(whole);
        Ok(())
    }

    /// Returns the bytes of the blocks that are kept whole: the others take no space of a disk.
    fn allocated_bytes(&self) -> io::Result<Option<u64>> {
        Ok(Some((self.blocks().others.len() * self.block_bytes) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::Random;

    const BLOCK: usize = 512;

    /// Writes contents, other bytes and parts of blocks, and compares with a disk that keeps all.
    #[test]
    fn whatever_was_written_is_read_back() {
        let length = 64 * BLOCK;
        let disk = SyntheticDisk::new(BLOCK);
        let kept = super::super::MemoryDisk::default();
        for disk in [&disk as &dyn Disk, &kept] {
            disk.set_len(length as u64).unwrap();
        }
        let mut random = Random::new(1);
        for round in 0..2000u32 {
            let first = random.below(60) as usize * BLOCK;
            let mut bytes = vec![0; BLOCK * (1 + random.below(4) as usize)];
            bytes.chunks_mut(BLOCK).for_each(|block| synthesize(round, block));
            let skipped = if round % 3 == 0 { random.below(BLOCK as u64) as usize } else { 0 };
            if round % 5 == 0 {
                bytes[skipped] = 1;
            }
            for disk in [&disk as &dyn Disk, &kept] {
                disk.write_at((first + skipped) as u64, &bytes[skipped..]).unwrap();
            }
        }
        let mut all = vec![0; length];
        disk.read_at(0, &mut all).unwrap();
        assert!(all == kept.image(), "the bytes differ");
        assert!(disk.read_at(1, &mut all).is_err(), "beyond the end");
    }

    #[test]
    fn what_was_discarded_is_zeros() {
        let disk = SyntheticDisk::new(BLOCK);
        let mut bytes = vec![1; 4 * BLOCK];
        synthesize(7, &mut bytes[..BLOCK]);
        disk.write_at(0, &bytes).unwrap();
        assert_eq!(disk.allocated_bytes().unwrap(), Some(3 * BLOCK as u64));
        disk.discard(0, 2 * BLOCK as u64 + 5).unwrap();
        bytes[..2 * BLOCK].fill(0);
        let mut found = vec![9; 4 * BLOCK];
        disk.read_at(0, &mut found).unwrap();
        assert!(found == bytes, "two blocks are zeros");
        assert_eq!(disk.allocated_bytes().unwrap(), Some(2 * BLOCK as u64));
    }

    #[test]
    fn contents_take_four_bytes() {
        let disk = SyntheticDisk::new(BLOCK);
        let mut block = vec![0; BLOCK];
        for number in 0..CHUNK_BLOCKS {
            synthesize(number as u32, &mut block);
            disk.write_at(number * BLOCK as u64, &block).unwrap();
        }
        assert_eq!(disk.memory_bytes(), CHUNK_BLOCKS * 4);
    }
}
