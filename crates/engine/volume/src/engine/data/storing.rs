//! Storing new contents: each gets a free PBN, and is written there.
//!
//! 1. A plain store gives each content a block: in a row, near its neighbours, or in runs that the
//!    caller has found. One that compresses has the packer lay contents out in blocks of the write
//!    buffer, by their compressed forms.
//! 2. What is known of an earlier content of these PBNs is forgotten.
//! 3. Contents that have a block of their own are written to the buffer in one list. Those that
//!    share one were written with it.
//!
//! Nothing refers to them before the caller makes a change that does. Until then their PBNs count
//! as taken.

use super::allocator::{Taken, TakenPbns};
use super::packer::{NotPlaced, Packer, PackerRoom};
use super::{CONTENT, DataPath, MAX_CONTENTS};
use crate::counters::add;
use crate::error::{Result, VolumeError};
use gemelo_format::{Checksum, Compression, DiskRole, PACKED_TABLE_BYTES, PackedPlace, Pbn};
use gemelo_store::{
    Codec, Compressed, ContentRead, ContentWrite, PackedStore, block_number, packed_blocks,
};
use std::io;

/// Blocks of which the contents are measured.
const SAMPLED_BLOCKS: u64 = 64;
/// Blocks that are looked at to find one of them.
const SAMPLED_FROM: u32 = 1024;

/// The place of a new content, and whether it could be written there.
#[derive(Debug)]
pub(crate) struct NewPlace {
    pub(crate) pbn: Pbn,
    pub(crate) outcome: io::Result<()>,
}

/// New contents in their places, to which nothing refers yet.
pub(crate) struct StoredContents<'e> {
    pub(crate) places: Vec<NewPlace>,
    /// They count as taken until this is dropped.
    pub(crate) taken: Vec<Taken<'e>>,
}

/// A content that passes its checksum, and its stored form. That of a content that fills its block
/// is the content.
pub(crate) struct GoodForm {
    pub(crate) form: Vec<u8>,
    pub(crate) content: Vec<u8>,
}

/// The blocks that forms are packed into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FormRoom {
    /// Free blocks, or those of the cleaner where too few are free.
    Any,
    /// Blocks of the cleaner, in a row if there are as many.
    Cleaner,
}

impl DataPath {
    /// Fails if the pool stores its contents as they are.
    pub(crate) fn check_compresses(&self) -> Result<()> {
        if self.is_packed() {
            return Ok(());
        }
        Err(VolumeError::BadOption {
            what: "compression in this pool".to_owned(),
            rule: "only a pool that was created with --compression can compress".to_owned(),
        })
    }

    /// Stores contents; [`None`] if there are too few free blocks. `near` is empty, or has for each
    /// content the block near which a plain store should place it, if any. With `is_remembered`,
    /// the fingerprints are taken while the contents are in memory.
    pub(crate) fn store_new(
        &self,
        contents: &[&[u8]],
        compression: Compression,
        (near, is_remembered): (&[Option<Pbn>], bool),
    ) -> Result<Option<StoredContents<'_>>> {
        let packing = self.contents.packing.as_ref().filter(|_| !contents.is_empty());
        let taken = match packing {
            None => self.allocator.take(contents.len(), near),
            Some(packing) => {
                let compressed = packing.codec.compress(compression, contents);
                let taken = self.pack(&compressed)?;
                if taken.is_some() {
                    let bytes = compressed.stored_bytes(self.block_bytes);
                    add(&self.counters.packed_bytes, bytes);
                }
                taken
            }
        };
        Ok(taken.map(|(pbns, taken)| self.write_new(contents, (pbns, vec![taken]), is_remembered)))
    }

    /// Stores contents whose forms are known, for one that fills its block the content itself;
    /// [`None`] if there is too little room.
    pub(crate) fn store_forms(
        &self,
        contents: &[&[u8]],
        compressed: &Compressed,
        room: FormRoom,
    ) -> Result<Option<StoredContents<'_>>> {
        let free = if room == FormRoom::Any { self.pack(compressed)? } else { None };
        let taken = match free {
            Some(taken) => Some(taken),
            None => self.pack_in_reserve(compressed)?,
        };
        Ok(taken.map(|(pbns, taken)| self.write_new(contents, (pbns, vec![taken]), false)))
    }

    /// Stores contents of a plain store in runs of blocks that were taken for them.
    pub(crate) fn store_in_runs<'e>(
        &'e self,
        contents: &[&[u8]],
        runs: Vec<TakenPbns<'e>>,
    ) -> StoredContents<'e> {
        let (pbns, taken): (Vec<Vec<Pbn>>, Vec<Taken<'e>>) = runs.into_iter().unzip();
        self.write_new(contents, (pbns.concat(), taken), false)
    }

    /// Writes new contents to PBNs that were taken for them.
    fn write_new<'e>(
        &self,
        contents: &[&[u8]],
        (pbns, taken): (Vec<Pbn>, Vec<Taken<'e>>),
        is_remembered: bool,
    ) -> StoredContents<'e> {
        assert_eq!(pbns.len(), contents.len(), "each content has a place");
        self.remembered.forget(&pbns);
        let ticket = if is_remembered { self.remembered.expect(&pbns) } else { None };
        let has_own_block = |pbn: &Pbn| !self.is_packed() || PackedPlace::of(*pbn).is_whole();
        let own = pbns.iter().zip(contents).filter(|(pbn, _)| has_own_block(pbn));
        let mut writes: Vec<ContentWrite<'_>> = own
            .map(|(pbn, content)| ContentWrite { ticket, ..ContentWrite::new(*pbn, content) })
            .collect();
        self.write(&mut writes);
        let mut writes = writes.into_iter().peekable();
        let place = |pbn: Pbn| {
            let write = writes.next_if(|write| write.pbn == pbn);
            assert_eq!(write.is_some(), has_own_block(&pbn), "each own block is written once");
            NewPlace { pbn, outcome: write.map_or(Ok(()), |write| write.outcome) }
        };
        StoredContents { places: pbns.into_iter().map(place).collect(), taken }
    }

    /// Packs contents into free blocks.
    fn pack(&self, compressed: &Compressed) -> Result<Option<TakenPbns<'_>>> {
        let (Some(packing), Some(buffer)) = (&self.contents.packing, self.contents.buffer()) else {
            return Ok(None);
        };
        // What is placed before the last free block is used would be placed for nothing.
        let blocks = compressed.stored_bytes(self.block_bytes) / self.block_bytes as u64;
        if self.allocator.lock().free_or_open() + 1 < blocks {
            return Ok(None);
        }
        let mut packer = packing.packer.lock();
        let mut room = PackerRoom::of_writers(&self.allocator);
        let placed = packer.place(compressed, buffer, &mut room);
        self.packed(placed, room.taken, Some(packer.open_blocks()))
    }

    /// Packs contents into blocks of the cleaner.
    fn pack_in_reserve(&self, compressed: &Compressed) -> Result<Option<TakenPbns<'_>>> {
        let (Some(packing), Some(buffer)) = (&self.contents.packing, self.contents.buffer()) else {
            return Ok(None);
        };
        let lengths = compressed.parts().map(|part| part.map(|(_, bytes)| bytes.len()));
        let blocks = packed_blocks(self.block_bytes, lengths);
        let taken = self.allocator.lock().take_reserved(blocks);
        let mut packer = Packer::new(self.block_bytes, packing.seed);
        let mut room = PackerRoom::of_cleaner(taken.clone());
        let placed = packer.place(compressed, buffer, &mut room);
        self.packed(placed, taken, None)
    }

    /// Has writers begin a block of its own for their next contents.
    pub(super) fn close_open_blocks(&self) {
        if let Some(packing) = &self.contents.packing {
            let mut packer = packing.packer.lock();
            packer.close();
            self.allocator.lock().settle(&[], [], Some(Vec::new()));
        }
    }

    /// Notes which PBNs a packer has given, which blocks it took for them, and to which blocks
    /// writers add contents from now on, if that changes.
    fn packed(
        &self,
        placed: std::result::Result<Vec<Pbn>, NotPlaced>,
        blocks: Vec<u32>,
        open: Option<Vec<u32>>,
    ) -> Result<Option<TakenPbns<'_>>> {
        let mut space = self.allocator.lock();
        space.settle(placed.as_deref().unwrap_or_default(), blocks, open);
        match placed {
            Ok(pbns) => Ok(Some(self.allocator.taken(space, pbns))),
            Err(NotPlaced::Full) => Ok(None),
            Err(NotPlaced::Failed(error)) => Err(VolumeError::io(DiskRole::Data, "write")(error)),
        }
    }

    /// Compresses contents for [`Self::store_forms`], each as well as it can be.
    pub(crate) fn compress(&self, contents: &[&[u8]], compression: Compression) -> Compressed {
        Codec::thorough(self.block_bytes).compress(compression, contents)
    }

    /// Reads the forms of compressed contents; [`None`] for one that cannot be read.
    fn read_forms(&self, pbns: &[Pbn]) -> Vec<Option<Vec<u8>>> {
        let Some((store, _)) = &self.contents.forms else { return vec![None; pbns.len()] };
        let parts = |place: PackedPlace| place.block..=place.block + u32::from(place.is_spanning());
        let mut numbers: Vec<u32> =
            pbns.iter().flat_map(|pbn| parts(PackedPlace::of(*pbn))).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let block_bytes = self.block_bytes;
        let mut bytes = vec![0; numbers.len() * block_bytes];
        let blocks = numbers.iter().filter_map(|number| block_number(*number));
        let buffers = bytes.chunks_exact_mut(block_bytes);
        let mut reads: Vec<ContentRead<'_>> = blocks
            .zip(buffers)
            .map(|(number, buffer)| ContentRead::new(number, 0, buffer))
            .collect();
        assert_eq!(reads.len(), numbers.len(), "each block is read once");
        store.read(&mut reads);
        let block = |number: u32| {
            let read = numbers.binary_search(&number).ok().and_then(|at| reads.get(at));
            read.filter(|read| read.outcome.is_ok()).map(|read| &*read.buffer)
        };
        let form = |pbn: &Pbn| {
            let place = PackedPlace::of(*pbn);
            let next = if place.is_spanning() { Some(block(place.block + 1)?) } else { None };
            PackedStore::form_in(*pbn, block(place.block)?, next)
        };
        pbns.iter().map(form).collect()
    }

    /// Reads forms as [`Self::read_forms`] does, with their contents; [`None`] for one whose
    /// content has not the checksum that the map has.
    pub(crate) fn read_good_forms(&self, wanted: &[(Pbn, Checksum)]) -> Vec<Option<GoodForm>> {
        let pbns: Vec<Pbn> = wanted.iter().map(|(pbn, _)| *pbn).collect();
        let forms = self.read_forms(&pbns);
        assert_eq!(forms.len(), wanted.len(), "each content is read");
        let good = |(form, (pbn, checksum)): (Option<Vec<u8>>, &(Pbn, Checksum))| {
            let (form, (_, seed)) = (form?, self.contents.forms.as_ref()?);
            let content = self.store().content_of_form(*pbn, &form)?;
            (seed.of_content(&content) == *checksum).then_some(GoodForm { form, content })
        };
        forms.into_iter().zip(wanted).map(good).collect()
    }

    /// The contents that a full block has in the mean, in units of which a content has [`CONTENT`],
    /// by a sample of the store.
    pub(crate) fn contents_per_block(&self) -> u64 {
        let blocks = self.allocator.lock().blocks().blocks();
        let mut pbns = Vec::new();
        for number in 0..SAMPLED_BLOCKS {
            let first = (blocks * number / SAMPLED_BLOCKS) as u32;
            let range = first..(first + SAMPLED_FROM).min(blocks as u32);
            let block = self.allocator.lock().packed_block(range);
            pbns.extend(
                block
                    .into_iter()
                    .flat_map(|block| self.allocator.contents_of_blocks(block..block + 1)),
            );
        }
        pbns.sort_unstable();
        pbns.dedup();
        pbns.retain(|pbn| !PackedPlace::of(*pbn).is_whole());
        let forms = self.read_forms(&pbns);
        let block_bytes = self.block_bytes;
        let pairs = pbns.iter().zip(&forms);
        let known = pairs.filter_map(|(pbn, form)| Some((*pbn, form.as_deref()?)));
        let Some(compressed) = Compressed::of_forms(known) else { return CONTENT };
        let bytes = compressed.stored_bytes(block_bytes).max(1);
        let room = (block_bytes - PACKED_TABLE_BYTES) as u64;
        let contents = compressed.parts().count() as u64;
        (CONTENT * room * contents / bytes).clamp(CONTENT, CONTENT * MAX_CONTENTS)
    }
}
