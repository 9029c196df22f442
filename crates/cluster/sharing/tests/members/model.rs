//! A model of what the clients of a member's volumes were told: the contents that each block may
//! have.

use std::collections::BTreeMap;

/// Contents that a block may have.
#[derive(Debug, Clone)]
struct Block {
    /// The content of the last flush, or of the last take-over.
    flushed: u64,
    /// Contents that were written since, in order.
    since: Vec<u64>,
}

/// The blocks of the volumes of one member.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contents {
    /// The tenure of the newest process. An older one that goes on after a stop writes nothing.
    epoch: u64,
    blocks: BTreeMap<(usize, u64), Block>,
}

impl Contents {
    fn block(&mut self, volume: usize, lbn: u64) -> &mut Block {
        let new = Block { flushed: 0, since: Vec::new() };
        self.blocks.entry((volume, lbn)).or_insert(new)
    }

    /// A process has taken the member over.
    pub(crate) fn taken_over(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
    }

    /// A client of the process with this tenure is about to write.
    pub(crate) fn write(&mut self, epoch: u64, (volume, lbn): (usize, u64), id: u64) {
        if epoch >= self.epoch {
            self.block(volume, lbn).since.push(id);
        }
    }

    /// A flush was acknowledged.
    pub(crate) fn flushed(&mut self) {
        for block in self.blocks.values_mut() {
            block.flushed = block.since.drain(..).next_back().unwrap_or(block.flushed);
        }
    }

    /// The content that a block has in the process that wrote it.
    pub(crate) fn newest(&self, volume: usize, lbn: u64) -> u64 {
        let block = self.blocks.get(&(volume, lbn));
        block.map_or(0, |block| block.since.last().copied().unwrap_or(block.flushed))
    }

    /// The contents that a block may have after a take-over.
    pub(crate) fn possible(&self, volume: usize, lbn: u64) -> Vec<u64> {
        let Some(block) = self.blocks.get(&(volume, lbn)) else { return vec![0] };
        std::iter::once(block.flushed).chain(block.since.iter().copied()).collect()
    }

    /// A new process has found this content.
    pub(crate) fn found(&mut self, volume: usize, lbn: u64, id: u64) {
        *self.block(volume, lbn) = Block { flushed: id, since: Vec::new() };
    }
}
