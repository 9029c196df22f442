//! Gives new contents their places: compressed ones share blocks, others get one each.
//!
//! A block is filled in memory and written to a write buffer, where it waits. The last one stays
//! open and is set aside there: later contents are added to it until it is full, or a commit has it
//! written. A block that the buffer has begun to write is never changed, so a torn write damages
//! contents alone that no sync has covered. Some blocks behind it are taken as well if they are
//! free, so that contents can go on there whatever else is written meanwhile.

use super::allocator::Allocator;
use gemelo_format::{PackedPlace, Pbn, PoolSeed, SPANNING_SLOT, WHOLE_SLOT};
use gemelo_store::{
    BlockImage, Compressed, ContentWrite, Fit, WriteBuffer, block_number, form_into,
};
use std::io;

/// Blocks that are taken ahead.
const AHEAD_BLOCKS: u32 = 8;

/// The blocks that a packer takes.
pub(super) struct PackerRoom<'a> {
    /// Free blocks of the store; without it the own ones are all.
    allocator: Option<&'a Allocator>,
    /// Blocks that were taken for the packer, in runs.
    own: std::vec::IntoIter<u32>,
    /// Blocks that it has taken from the store.
    pub(super) taken: Vec<u32>,
}

impl<'a> PackerRoom<'a> {
    /// The free blocks of the store.
    pub(super) fn of_writers(allocator: &'a Allocator) -> Self {
        Self { allocator: Some(allocator), own: Vec::new().into_iter(), taken: Vec::new() }
    }

    /// These blocks of the cleaner alone.
    pub(super) fn of_cleaner(blocks: Vec<u32>) -> Self {
        Self { allocator: None, own: blocks.into_iter(), taken: Vec::new() }
    }

    /// Takes a free block; [`None`] if there is none.
    fn take(&mut self) -> Option<u32> {
        let Some(allocator) = self.allocator else { return self.own.next() };
        let block = allocator.lock().take_block()?;
        self.taken.push(block);
        Some(block)
    }

    /// Takes this block, if it is free. One that is taken `ahead` is not needed yet.
    fn take_this(&mut self, block: u32, ahead: bool) -> bool {
        let Some(allocator) = self.allocator else {
            return self.own.as_slice().first() == Some(&block) && self.own.next().is_some();
        };
        let was_free = allocator.lock().take_this_block(block, ahead);
        if was_free {
            self.taken.push(block);
        }
        was_free
    }
}

/// The block that is being filled.
struct Open {
    block: u32,
    image: BlockImage,
    /// `true` once the write buffer has a version of it.
    is_written: bool,
    /// Blocks behind it that are taken as well.
    ahead: u32,
}

/// Gives new contents their places; see the module.
pub(super) struct Packer {
    block_bytes: usize,
    seed: PoolSeed,
    open: Option<Open>,
    form: Vec<u8>,
}

/// The reason why contents got no places.
#[derive(Debug)]
pub(super) enum NotPlaced {
    /// Too few blocks are free.
    Full,
    /// A block could not be written.
    Failed(io::Error),
}

/// A compressed content without a place, by its number in the list.
type Unplaced<'c> = (usize, (u8, &'c [u8]));

impl Packer {
    /// Makes a packer of blocks of this size.
    pub(super) const fn new(block_bytes: usize, seed: PoolSeed) -> Self {
        Self { block_bytes, seed, open: None, form: Vec::new() }
    }

    /// The blocks to which contents may still be added.
    pub(super) fn open_blocks(&self) -> Vec<u32> {
        let blocks = |open: &Open| open.block..=open.block + open.ahead;
        self.open.as_ref().map(blocks).into_iter().flatten().collect()
    }

    /// Adds no more contents to the open block.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// Gives each content a place, and writes the compressed ones. Returns the PBNs, in the order
    /// of the contents. The caller writes the contents that fill their blocks. What was placed
    /// before a failure is not needed.
    pub(super) fn place(
        &mut self,
        compressed: &Compressed,
        buffer: &WriteBuffer,
        free: &mut PackerRoom<'_>,
    ) -> Result<Vec<Pbn>, NotPlaced> {
        let mut pbns = Vec::new();
        let mut unplaced: Vec<Unplaced<'_>> = Vec::new();
        for (at, part) in compressed.parts().enumerate() {
            pbns.push(match part {
                Some(part) => {
                    unplaced.push((at, part));
                    None
                }
                None => {
                    let block = free.take().ok_or(NotPlaced::Full)?;
                    PackedPlace { block, slot: WHOLE_SLOT }.pbn()
                }
            });
        }
        let mut left = &unplaced[..];
        while !left.is_empty() {
            left = self.fill(left, (buffer, free), &mut pbns)?;
        }
        let wanted = pbns.len();
        let pbns: Vec<Pbn> = pbns.into_iter().flatten().collect();
        assert_eq!(pbns.len(), wanted, "each content has a place");
        Ok(pbns)
    }

    /// Fills the open block, or a fresh one. Returns the contents that are left.
    fn fill<'l, 'c>(
        &mut self,
        contents: &'l [Unplaced<'c>],
        (buffer, free): (&WriteBuffer, &mut PackerRoom<'_>),
        pbns: &mut [Option<Pbn>],
    ) -> Result<&'l [Unplaced<'c>], NotPlaced> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.fresh((free.take().ok_or(NotPlaced::Full)?, 0), &[], free),
        };
        let (mut next, mut added) = (None, 0);
        for (at, part) in contents {
            let fit = open.image.fit(part.1.len());
            let slot = match fit {
                Fit::Slot(slot) => slot,
                Fit::Spanning if open.ahead > 0 => SPANNING_SLOT,
                Fit::Spanning | Fit::None => break,
            };
            let pbn = PackedPlace { block: open.block, slot }.pbn();
            let Some(pbn) = pbn else { return Err(NotPlaced::Full) };
            form_into(&mut self.form, self.seed, pbn, *part);
            if fit == Fit::Spanning {
                let rest = open.image.add_start(&self.form).to_vec();
                next = Some(self.fresh((open.block + 1, open.ahead - 1), &rest, free));
            } else {
                open.image.add(slot, &self.form);
            }
            if let Some(to) = pbns.get_mut(*at) {
                *to = Some(pbn);
            }
            added += 1;
            if next.is_some() {
                break;
            }
        }
        let (done, left) = contents.split_at(added);
        let was_open = open.is_written;
        if (added > 0 || !was_open) && !write(&mut open, buffer)? {
            // The buffer has begun to write the block, so the contents go to another one.
            done.iter().for_each(|(at, _)| pbns.get_mut(*at).into_iter().for_each(|to| *to = None));
            let emptied =
                next.map(|next| Open { image: BlockImage::new(self.block_bytes, &[]), ..next });
            self.open = emptied.or_else(|| self.after(&open, free));
            return Ok(contents);
        }
        assert!(added > 0 || was_open, "a content fits in an empty block");
        if let Some(next) = &mut next {
            write(next, buffer)?;
        }
        let is_full = added < contents.len();
        self.open = match next {
            Some(next) => Some(next),
            None if is_full => self.after(&open, free),
            None => Some(open),
        };
        Ok(left)
    }

    /// Opens the block that was taken for the one before.
    fn after(&self, full: &Open, free: &mut PackerRoom<'_>) -> Option<Open> {
        let ahead = full.ahead.checked_sub(1)?;
        Some(self.fresh((full.block + 1, ahead), &[], free))
    }

    /// Opens a block behind which so many are taken already.
    fn fresh(
        &self,
        (block, mut ahead): (u32, u32),
        tail: &[u8],
        free: &mut PackerRoom<'_>,
    ) -> Open {
        while ahead < AHEAD_BLOCKS && free.take_this(block + 1 + ahead, ahead > 0) {
            ahead += 1;
        }
        let image = BlockImage::new(self.block_bytes, tail);
        Open { block, image, is_written: false, ahead }
    }
}

/// Writes a block to the buffer. Returns `false` if the buffer had an earlier version of it that
/// does not wait any more, or that a heal of one of its contents has replaced.
fn write(open: &mut Open, buffer: &WriteBuffer) -> Result<bool, NotPlaced> {
    let Some(number) = block_number(open.block) else { return Err(NotPlaced::Full) };
    if open.is_written {
        return Ok(buffer.replace_aside(number, open.image.bytes()));
    }
    let mut write = ContentWrite::new(number, open.image.bytes());
    buffer.write_aside(&mut write);
    write.outcome.map_err(NotPlaced::Failed)?;
    open.is_written = true;
    Ok(true)
}
