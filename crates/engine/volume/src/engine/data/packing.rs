//! The data path of a store that compresses: places for contents, and the moving of contents out of
//! blocks that are used in part.

use super::super::locks::OrderedGuard;
use super::{CONTENT, ContentSpace, DataPath, MAX_CONTENTS, Rule, Runs, Taken, Taking, Window};
use crate::counters::add;
use crate::error::{Result, VolumeError};
use gemelo_format::{Compression, DiskRole, PACKED_TABLE_BYTES, PackedPlace, Pbn};
use gemelo_store::{
    Codec, Compressed, ContentRead, NotPlaced, PackedStore, Packer, Store, block_number,
    packed_blocks,
};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Blocks that are looked at while writers wait for the lock of the space.
const LOOKED_AT: u32 = 1 << 16;
/// Blocks of which the contents are measured.
const SAMPLED_BLOCKS: u64 = 64;
/// Blocks that are looked at to find one of them.
const SAMPLED_FROM: u32 = 1024;

/// PBNs that count as taken until the guard is dropped.
type TakenPbns<'e> = (Vec<Pbn>, Taken<'e>);

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

    /// Takes a free PBN for each content; `None` if there are too few blocks. They count as taken
    /// until the guard is dropped. A store whose contents may share blocks compresses them; those
    /// that share a block are written as well, as [`Self::is_written`] tells. Another one looks for
    /// blocks near those in `near`, which is empty or has an entry for each content.
    pub(crate) fn take(
        &self,
        contents: &[&[u8]],
        compression: Compression,
        near: &[Option<Pbn>],
    ) -> Result<Option<TakenPbns<'_>>> {
        let Some(packing) = self.contents.packing.as_ref().filter(|_| !contents.is_empty()) else {
            return Ok(self.take_blocks(contents.len(), near));
        };
        let compressed = packing.codec.compress(compression, contents);
        let placed = self.take_free(&compressed)?;
        if placed.is_some() {
            let bytes = compressed.stored_bytes(self.store().block_bytes());
            add(&self.counters.packed_bytes, bytes);
        }
        Ok(placed)
    }

    /// Takes free blocks: for each that is to be near another one a hole there if there is one, and
    /// blocks in a row for the others. `near` is empty if that is all the same.
    fn take_blocks(&self, wanted: usize, near: &[Option<Pbn>]) -> Option<(Vec<Pbn>, Taken<'_>)> {
        assert!(near.is_empty() || near.len() == wanted, "each block has a wish or none has");
        let mut pbns = Vec::with_capacity(wanted);
        let mut space = self.space.lock();
        if space.blocks().free() < wanted as u64 {
            return None;
        }
        let blocks = space.blocks_mut();
        for wish in near {
            match wish.and_then(|wish| blocks.take_near(wish)) {
                Some(found) => pbns.push(found),
                None => blocks.take(1, &mut pbns),
            }
        }
        blocks.take(wanted - pbns.len(), &mut pbns);
        assert_eq!(pbns.len(), wanted, "as many blocks as were free");
        pbns.iter().for_each(|pbn| self.owners.take(*pbn));
        self.taken.fetch_add(wanted as u64, Ordering::Relaxed);
        drop(space);
        self.remembered.forget(&pbns);
        Some((pbns, Taken { all: &self.taken, count: wanted as u64 }))
    }

    /// Takes a free PBN for each content of a list whose form is known, and blocks of the cleaner
    /// where [`Self::take`] finds none.
    pub(crate) fn take_for_forms(&self, compressed: &Compressed) -> Result<Option<TakenPbns<'_>>> {
        match self.take_free(compressed)? {
            Some(places) => Ok(Some(places)),
            None => self.take_reserved(compressed),
        }
    }

    /// Takes a PBN for each content of a list in blocks of the cleaner, in a row if there are as
    /// many.
    pub(crate) fn take_reserved(&self, compressed: &Compressed) -> Result<Option<TakenPbns<'_>>> {
        let (Some(packing), Some(buffer)) = (&self.contents.packing, self.contents.buffer()) else {
            return Ok(None);
        };
        let block_bytes = self.store().block_bytes();
        let lengths = compressed.parts().map(|part| part.map(|(_, bytes)| bytes.len()));
        let blocks = packed_blocks(block_bytes, lengths);
        let taken = self.space.lock().take_reserved(blocks);
        let mut packer = Packer::new(block_bytes, packing.seed);
        let placed = packer.place(compressed, buffer, &mut Runs(taken.clone().into_iter()));
        let mut space = self.space.lock();
        space.settle(placed.as_deref().unwrap_or_default(), taken, None);
        self.places(space, placed)
    }

    /// Takes a free PBN for each content of a list.
    fn take_free(&self, compressed: &Compressed) -> Result<Option<TakenPbns<'_>>> {
        let (Some(packing), Some(buffer)) = (&self.contents.packing, self.contents.buffer()) else {
            return Ok(None);
        };
        // What is placed before the last free block is used would be placed for nothing.
        let block_bytes = self.store().block_bytes();
        let blocks = compressed.stored_bytes(block_bytes) / block_bytes as u64;
        if self.space.lock().free_or_open() + 1 < blocks {
            return Ok(None);
        }
        let mut packer = packing.packer.lock();
        let with = |act: &mut dyn FnMut(&mut ContentSpace)| act(&mut self.space.lock());
        let mut taking = Taking { with, taken: Vec::new() };
        let placed = packer.place(compressed, buffer, &mut taking);
        let taken = taking.taken;
        let mut space = self.space.lock();
        let open = Some(packer.open_blocks());
        space.settle(placed.as_deref().unwrap_or_default(), taken, open);
        self.places(space, placed)
    }

    /// Notes that the PBNs which a packer has given are taken.
    fn places(
        &self,
        space: OrderedGuard<'_, ContentSpace>,
        placed: std::result::Result<Vec<Pbn>, NotPlaced>,
    ) -> Result<Option<TakenPbns<'_>>> {
        let pbns = match placed {
            Ok(pbns) => pbns,
            Err(NotPlaced::Full) => return Ok(None),
            Err(NotPlaced::Failed(error)) => {
                return Err(VolumeError::io(DiskRole::Data, "write")(error));
            }
        };
        pbns.iter().for_each(|pbn| self.owners.take(*pbn));
        let count = pbns.len() as u64;
        self.taken.fetch_add(count, Ordering::Relaxed);
        drop(space);
        self.remembered.forget(&pbns);
        Ok(Some((pbns, Taken { all: &self.taken, count })))
    }

    /// Compresses contents for [`Self::take_for_forms`], each as well as it can be.
    pub(crate) fn compress(&self, contents: &[&[u8]], compression: Compression) -> Compressed {
        Codec::thorough(self.store().block_bytes()).compress(compression, contents)
    }

    /// Free blocks for writers, and all blocks of the store.
    pub(crate) fn free_of_all(&self) -> (u64, u64) {
        let space = self.space.lock();
        (space.blocks().free(), space.blocks().blocks())
    }

    /// Contents that were freed since the pool was opened, and those in use.
    pub(crate) fn released_and_used(&self) -> (u64, u64) {
        let space = self.space.lock();
        (space.released(), space.contents(0))
    }

    /// Finds windows in the next blocks; see [`ContentSpace::windows`]. Returns where to go on, or
    /// [`None`] at the end of the store.
    pub(crate) fn windows(&self, from: u32, rule: Rule, found: &mut Vec<Window>) -> Option<u32> {
        let space = self.space.lock();
        let all = space.blocks().blocks() as u32;
        let end = all.min(from.saturating_add(LOOKED_AT));
        space.windows(from..end, rule, found);
        drop(space);
        found.retain(|window| self.has_movable(*window));
        (end < all).then_some(end)
    }

    /// Returns whether a content of a window may be moved, at once or when it has come back. Others
    /// that the veto keeps stay.
    fn has_movable(&self, window: Window) -> bool {
        let Some(free_veto) = &self.free_veto else { return true };
        let contents = self.contents_of_blocks(window.first..window.end);
        let may_move = |pbn| !free_veto.is_kept(pbn) || free_veto.may_come_back(pbn);
        contents.into_iter().any(may_move)
    }

    /// A bit for each slot in use of these blocks.
    pub(crate) fn used_slots(&self, blocks: Range<u32>) -> Vec<u8> {
        self.space.lock().used_slots(blocks)
    }

    /// The contents that have a part in a block of this range.
    pub(crate) fn contents_of_blocks(&self, blocks: Range<u32>) -> Vec<Pbn> {
        let numbers: Vec<Pbn> = blocks.filter_map(block_number).collect();
        self.space.lock().contents_of(&numbers)
    }

    /// Reads the forms of compressed contents; [`None`] for one that cannot be read.
    pub(crate) fn read_forms(&self, pbns: &[Pbn]) -> Vec<Option<Vec<u8>>> {
        let Some(buffer) = self.contents.buffer() else { return vec![None; pbns.len()] };
        let parts = |place: PackedPlace| place.block..=place.block + u32::from(place.is_spanning());
        let mut numbers: Vec<u32> =
            pbns.iter().flat_map(|pbn| parts(PackedPlace::of(*pbn))).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let block_bytes = self.store().block_bytes();
        let mut bytes = vec![0; numbers.len() * block_bytes];
        let blocks = numbers.iter().filter_map(|number| block_number(*number));
        let buffers = bytes.chunks_exact_mut(block_bytes);
        let mut reads: Vec<ContentRead<'_>> = blocks
            .zip(buffers)
            .map(|(number, buffer)| ContentRead::new(number, 0, buffer))
            .collect();
        assert_eq!(reads.len(), numbers.len(), "each block is read once");
        buffer.read(&mut reads);
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

    /// The content of a form, if it passes its checksum.
    pub(crate) fn content_of_form(&self, pbn: Pbn, form: &[u8]) -> Option<Vec<u8>> {
        self.store().content_of_form(pbn, form)
    }

    /// The contents that a full block has in the mean, in units of which a content has [`CONTENT`],
    /// by a sample of the store.
    pub(crate) fn contents_per_block(&self) -> u64 {
        let blocks = self.space.lock().blocks().blocks();
        let mut pbns = Vec::new();
        for number in 0..SAMPLED_BLOCKS {
            let first = (blocks * number / SAMPLED_BLOCKS) as u32;
            let range = first..(first + SAMPLED_FROM).min(blocks as u32);
            let block = self.space.lock().packed_block(range);
            pbns.extend(
                block.into_iter().flat_map(|block| self.contents_of_blocks(block..block + 1)),
            );
        }
        pbns.sort_unstable();
        pbns.dedup();
        pbns.retain(|pbn| !PackedPlace::of(*pbn).is_whole());
        let forms = self.read_forms(&pbns);
        let block_bytes = self.store().block_bytes();
        let pairs = pbns.iter().zip(&forms);
        let known = pairs.filter_map(|(pbn, form)| Some((*pbn, form.as_deref()?)));
        let Some(compressed) = Compressed::of_forms(known) else { return CONTENT };
        let bytes = compressed.stored_bytes(block_bytes).max(1);
        let room = (block_bytes - PACKED_TABLE_BYTES) as u64;
        let contents = compressed.parts().count() as u64;
        (CONTENT * room * contents / bytes).clamp(CONTENT, CONTENT * MAX_CONTENTS)
    }
}
