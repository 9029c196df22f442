//! A store of compressed contents: several of them share a block of the store below.
//!
//! [`PackedStore`] reads contents of such blocks, and writes a content again to the place that it
//! has. The engine gives new contents their places, in a [`BlockImage`]. The store below has the
//! blocks, by their numbers: it is the plain store on the disk, or a write buffer over that. The
//! layout of a block is that of [`gemelo_format::SlotHead`] and its module.

mod codec;
mod image;
mod lz4;
mod patches;
mod reads;
#[cfg(test)]
pub(crate) mod tests;

pub use codec::{Codec, Compressed, decompress};
pub use reads::PackedReader;

use crate::{
    ContentComparison, ContentRead, ContentWrite, LentContent, Store, StoreRoom, StoreSetUp,
    compare_by_reading, write_blocks,
};
use gemelo_base::locks::Mutex;
use gemelo_format::{Compression, PackedPlace, Pbn, PoolSeed, Superblock};
pub use image::{BlockImage, Fit, PackedCount, form_into, packed_blocks};
use image::{find_form, is_apart};
use patches::Patches;
use reads::ReadMemory;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Bytes of the offset before a form that is kept apart from its block.
const OFFSET_BYTES: usize = 2;

/// A store of compressed contents; see the module.
pub struct PackedStore {
    below: Arc<dyn Store>,
    reader: PackedReader,
    memory: ReadMemory,
    codec: Codec,
    /// Held while contents are written to places in blocks that have other contents.
    patching: Mutex<()>,
}

/// The number by which the store below knows a block.
#[must_use]
pub const fn block_number(block: u32) -> Option<Pbn> {
    Pbn::new(block as u64)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

impl PackedStore {
    /// Makes the store of the pool with this superblock over the store of its blocks.
    #[must_use]
    pub fn over(below: Arc<dyn Store>, superblock: &Superblock) -> Self {
        let block_bytes = superblock.block_bytes as usize;
        let reader = PackedReader { block_bytes, seed: PoolSeed::of(superblock) };
        let codec = Codec::thorough(block_bytes);
        let memory = ReadMemory::default();
        Self { below, reader, memory, codec, patching: Mutex::new(()) }
    }

    /// Returns the form of a content whose block is given: the bytes by which
    /// [`StoreSetUp::write_forms`] puts it back. A content that fills its block is its own form.
    #[must_use]
    pub fn form_in(pbn: Pbn, block: &[u8], next: Option<&[u8]>) -> Option<Vec<u8>> {
        let place = PackedPlace::of(pbn);
        if place.is_whole() {
            return Some(block.to_vec());
        }
        let (offset, form) = find_form(place, block, next)?;
        Some([&u16::try_from(offset).ok()?.to_le_bytes(), &*form].concat())
    }

    /// Returns the blocks that [`StoreSetUp::write_forms`] would write for a form, where `read`
    /// returns the present bytes of a block, if it can be read.
    ///
    /// # Errors
    /// Fails if the form makes no sense.
    pub fn patched(
        block_bytes: usize,
        (pbn, form): (Pbn, &[u8]),
        read: &dyn Fn(u32) -> Option<Vec<u8>>,
    ) -> io::Result<Vec<(u32, Vec<u8>)>> {
        let mut patches = Patches { block_bytes, read, blocks: BTreeMap::new() };
        patches.put(pbn, form)?;
        Ok(patches.blocks.into_iter().collect())
    }

    fn read_block(&self, block: u32, bytes: &mut [u8]) -> io::Result<()> {
        let number = block_number(block).ok_or_else(|| invalid("block 0 has no content"))?;
        let mut reads = [ContentRead::new(number, 0, bytes)];
        self.below.read_medium(&mut reads);
        let [read] = reads;
        read.outcome
    }

    /// Writes a content again to the place that it has in a packed block. It must compress to as
    /// many bytes as before, by whatever algorithm, so that the other contents of the block stay as
    /// they are.
    fn heal(&self, pbn: Pbn, content: &[u8]) -> io::Result<()> {
        let place = PackedPlace::of(pbn);
        let (mut block, mut next) =
            (vec![0; self.reader.block_bytes], vec![0; self.reader.block_bytes]);
        self.read_block(place.block, &mut block)?;
        if place.is_spanning() {
            self.read_block(place.block + 1, &mut next)?;
        }
        let lost = || io::Error::new(io::ErrorKind::Unsupported, "its place in a block is lost");
        let (offset, old) = find_form(place, &block, Some(&next)).ok_or_else(lost)?;
        if !is_apart(place, (&block, &next), (offset, old.len())) {
            return Err(lost());
        }
        let levels = Compression::LEVELS.map(Compression::Zstd);
        for compression in std::iter::once(Compression::Lz4).chain(levels) {
            let compressed = self.codec.compress(compression, &[content]);
            let Some(part) = compressed.parts().next().flatten() else { continue };
            let mut form = Vec::new();
            form_into(&mut form, self.reader.seed, pbn, part);
            if form.len() == old.len() {
                let offset = u16::try_from(offset).map_err(|_| lost())?;
                let form = [&offset.to_le_bytes(), &*form].concat();
                let unwritten = self.write_forms(&[(pbn, &form)])?;
                return match unwritten.is_empty() {
                    true => Ok(()),
                    false => Err(io::ErrorKind::StorageFull.into()),
                };
            }
        }
        Err(lost())
    }
}

impl StoreSetUp for PackedStore {
    forward_to!(below: blocks, enlarge, cut, copy_label, write_labels, check_labels);

    fn content_of_form(&self, pbn: Pbn, form: &[u8]) -> Option<Vec<u8>> {
        if PackedPlace::of(pbn).is_whole() {
            return (form.len() == self.reader.block_bytes).then(|| form.to_vec());
        }
        let (_, form) = form.split_first_chunk::<OFFSET_BYTES>()?;
        let mut content = vec![0; self.reader.block_bytes];
        self.reader.open_form(pbn, form, &mut content).ok().map(|()| content)
    }

    /// Other contents of a block stay as they are. A block that has its forms already is written as
    /// well: after a failed sync it may be in the page cache alone. The other contents have the
    /// same bytes on the medium, so a torn write does not harm them.
    fn write_forms(&self, forms: &[(Pbn, &[u8])]) -> io::Result<Vec<(Pbn, Vec<u8>)>> {
        let _alone = self.patching.lock();
        let has_timed_out = Cell::new(false);
        let read = |number: u32| {
            let mut bytes = vec![0; self.reader.block_bytes];
            let is_late = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
            // An error can pass, and the other contents of the block would be lost.
            let outcome =
                self.read_block(number, &mut bytes).or_else(|error| match is_late(&error) {
                    true => Err(error),
                    false => self.read_block(number, &mut bytes),
                });
            has_timed_out.set(has_timed_out.get() || outcome.as_ref().is_err_and(is_late));
            outcome.is_ok().then_some(bytes)
        };
        let (block_bytes, blocks) = (self.reader.block_bytes, BTreeMap::new());
        let mut patches = Patches { block_bytes, read: &read, blocks };
        for (pbn, form) in forms {
            patches.put(*pbn, form)?;
        }
        if has_timed_out.get() {
            // The other contents of the block are not lost.
            return Err(io::ErrorKind::TimedOut.into());
        }
        let blocks: Vec<(Pbn, &[u8])> = patches
            .blocks
            .iter()
            .filter_map(|(number, bytes)| Some((block_number(*number)?, &**bytes)))
            .collect();
        write_blocks(&*self.below, &blocks)
    }
}

/// Space is that of blocks, by their numbers.
impl StoreRoom for PackedStore {
    forward_to!(below: reserve, wants_reserve_ahead, reserve_ahead, discard, min_discard_blocks, allocated_bytes);
}

impl Store for PackedStore {
    forward_to!(below: sync);

    fn block_bytes(&self) -> usize {
        self.reader.block_bytes
    }

    fn read(&self, reads: &mut [ContentRead<'_>]) {
        let source = (
            |blocks: &[Pbn]| self.below.lend(blocks),
            |list: &mut [ContentRead<'_>]| self.below.read(list),
        );
        self.memory.lend(|memory| self.reader.read_in(memory, reads, source));
    }

    fn read_ready(&self, reads: &mut [ContentRead<'_>]) {
        let source = (
            |blocks: &[Pbn]| self.below.lend(blocks),
            |list: &mut [ContentRead<'_>]| self.below.read_ready(list),
        );
        self.memory.lend(|memory| self.reader.read_ready(memory, reads, source));
    }

    fn read_medium(&self, reads: &mut [ContentRead<'_>]) {
        self.reader.read_by(reads, |list| self.below.read_medium(list));
    }

    fn lend(&self, _: &[Pbn]) -> Vec<(usize, LentContent)> {
        Vec::new()
    }

    fn write(&self, writes: &mut [ContentWrite<'_>]) {
        let (mut whole, mut outcomes) = (Vec::new(), Vec::new());
        for ContentWrite { pbn, content, ticket, outcome } in writes {
            let place = PackedPlace::of(*pbn);
            match block_number(place.block).filter(|_| place.is_whole()) {
                Some(number) => {
                    let write = ContentWrite::new(number, content);
                    whole.push(ContentWrite { ticket: *ticket, ..write });
                    outcomes.push(outcome);
                }
                None => *outcome = self.heal(*pbn, content),
            }
        }
        self.below.write(&mut whole);
        outcomes.into_iter().zip(whole).for_each(|(outcome, write)| *outcome = write.outcome);
    }

    fn compare(&self, comparisons: &mut [ContentComparison<'_>]) {
        compare_by_reading(self, comparisons);
    }
}
