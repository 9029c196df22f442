//! The contents that the blocks of a volume may have.

use crate::members::contents::{BLOCK, content, execute, try_write};
use gemelo_base::random::Random;
use gemelo_device::{BlockDevice, DeviceError, Durability, Operation};
use std::ops::Range;

/// Blocks of each volume.
pub(super) const BLOCKS: u64 = 1000;
/// Contents of each block besides zeros. They are few, so that members often have the same.
const GENERATIONS: u64 = 3;
/// The generation of a block that was never written, or was trimmed.
const ZEROS: u8 = 0;
/// Most blocks that are changed together.
const MAX_BLOCKS: u64 = 100;

/// For each block, the generation that was flushed last and those of later changes, in order.
#[derive(Clone)]
pub(super) struct Seen(Vec<Vec<u8>>);

impl Seen {
    pub(super) fn empty() -> Self {
        Self((0..BLOCKS).map(|_| vec![ZEROS]).collect())
    }

    /// Writes or trims some blocks, and flushes.
    pub(super) fn change(
        &mut self,
        device: &dyn BlockDevice,
        random: &mut Random,
    ) -> Result<(), DeviceError> {
        let first = random.below(BLOCKS);
        let blocks = first..(first + 1 + random.below(MAX_BLOCKS)).min(BLOCKS);
        let generation = random.below(GENERATIONS + 1) as u8;
        for block in blocks.clone() {
            self.0[block as usize].push(generation);
        }
        if generation == ZEROS {
            trim(device, blocks)?;
        } else {
            try_write(device, blocks, generation)?;
        }
        execute(device, Operation::Flush)?;
        self.0.iter_mut().for_each(|possible| drop(possible.drain(..possible.len() - 1)));
        Ok(())
    }

    /// Reads all blocks, which must have possible contents, and remembers what they have. Returns
    /// how many there are.
    pub(super) fn verify(&mut self, device: &dyn BlockDevice) -> Result<u64, DeviceError> {
        let mut bytes = vec![0; BLOCK * BLOCKS as usize];
        execute(device, Operation::Read { offset: 0, buffer: &mut bytes })?;
        for (block, (found, possible)) in (0..).zip(bytes.chunks(BLOCK).zip(&mut self.0)) {
            let is = |generation: &&u8| match **generation {
                ZEROS => found.iter().all(|byte| *byte == 0),
                generation => found == content(block, generation),
            };
            let kept = possible.iter().find(is).copied();
            assert!(kept.is_some(), "block {block} is none of {possible:?}");
            possible.clear();
            possible.extend(kept);
        }
        Ok(BLOCKS)
    }
}

fn trim(device: &dyn BlockDevice, blocks: Range<u64>) -> Result<(), DeviceError> {
    let length = (blocks.end - blocks.start) * BLOCK as u64;
    let (offset, durability) = (blocks.start * BLOCK as u64, Durability::Flushed);
    execute(device, Operation::Trim { offset, length, durability })
}
