//! The policy of order: brings blocks together again that are neighbours in a volume and lie
//! scattered in the store.
//!
//! A write never overwrites a block in place, so random overwrites scatter a volume, and a
//! sequential read of it becomes a read for each block. The arranger looks at stretches that were
//! written and then left alone for a while ([`marks`]). Where runs are short, it reads the blocks
//! of a chunk and moves them to free PBNs in a row ([`runs`]).
//!
//! Suspect blocks and blocks that the finder has not examined stay where they are. A block with
//! several references moves with all of them, by the command alone: the next checkpoint then walks
//! over all maps.

mod marks;
mod runs;
mod sample;
mod walk;
mod work;

pub(super) use marks::Stretch;
pub(crate) use marks::{Marks, Ticker};
pub use sample::VolumeLayout;
pub(crate) use sample::layout_of;
pub(in crate::engine) use work::work;

use super::Mover;
use super::chunk::{Chunk, Visited};
use super::moves::{Content, MoveState};
use crate::counters::{PoolCounters, add};
use crate::engine::VolumeShared;
use crate::engine::checked::Reader;
use crate::engine::parts::Common;
use crate::error::Result;
use runs::FreeRuns;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Counts of what the arranger did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ArrangeReport {
    /// Stored blocks that were looked at.
    pub examined_blocks: u64,
    /// Blocks that were moved.
    pub moved_blocks: u64,
    /// Blocks that were read and then left where they are, because a request changed them meanwhile
    /// or because they could not be read or written.
    pub overtaken_blocks: u64,
    /// Runs of blocks that are neighbours in the store, counted in each chunk of 1 MiB, before the
    /// moves. Fewer runs mean longer ones.
    pub runs_before: u64,
    /// The same afterwards.
    pub runs_after: u64,
    /// `true` if blocks were left because the store has no free space in a row, or too little.
    pub is_short_of_room: bool,
}

impl ArrangeReport {
    /// Adds another's counts.
    pub fn add(&mut self, other: Self) {
        self.examined_blocks += other.examined_blocks;
        self.moved_blocks += other.moved_blocks;
        self.overtaken_blocks += other.overtaken_blocks;
        self.runs_before += other.runs_before;
        self.runs_after += other.runs_after;
        self.is_short_of_room |= other.is_short_of_room;
    }
}

/// The outcome of a chunk.
struct Arranged {
    report: ArrangeReport,
    /// `true` if the chunk has to be looked at again later.
    is_left: bool,
}

/// The arranger of an open pool; see [`super`].
pub(crate) struct Arranger {
    mover: Arc<Mover>,
    reader: Arc<Reader>,
    counters: Arc<PoolCounters>,
    ticker: Arc<Ticker>,
}

impl Arranger {
    pub(in crate::engine) fn new(
        common: &Common,
        mover: &Arc<Mover>,
        reader: &Arc<Reader>,
        ticker: &Arc<Ticker>,
    ) -> Self {
        Self {
            mover: Arc::clone(mover),
            reader: Arc::clone(reader),
            counters: Arc::clone(&common.counters),
            ticker: Arc::clone(ticker),
        }
    }

    /// Brings the blocks of a chunk together, if they are scattered. Shared ones stay without
    /// `visited`. The caller has entered the volume's gate.
    fn arrange_chunk(
        &self,
        volume: &VolumeShared,
        stretch: Stretch,
        (runs, visited): (&mut FreeRuns, Option<&Visited>),
    ) -> Result<Arranged> {
        let _pin = self.mover.begin()?;
        let chunk = self.mover.chunk(volume, stretch, visited)?;
        let mut arranged = Arranged {
            report: ArrangeReport {
                examined_blocks: chunk.blocks(),
                runs_before: chunk.runs(),
                runs_after: chunk.runs(),
                ..ArrangeReport::default()
            },
            is_left: chunk.unexamined > 0,
        };
        if chunk.is_worth(self.mover.run_blocks()) {
            self.move_blocks(volume, &chunk, (runs, &mut arranged))?;
            let report = &mut arranged.report;
            if report.moved_blocks > 0 {
                report.runs_after = self.mover.chunk(volume, stretch, visited)?.runs();
            }
            add(&self.counters.arranged_blocks, report.moved_blocks);
            add(&self.counters.arrange_overtaken_blocks, report.overtaken_blocks);
        }
        Ok(arranged)
    }

    fn move_blocks(
        &self,
        volume: &VolumeShared,
        chunk: &Chunk,
        (runs, arranged): (&mut FreeRuns, &mut Arranged),
    ) -> Result<()> {
        let block_bytes = self.mover.data.block_bytes();
        let movable = chunk.movable();
        let wanted: Vec<_> = movable.iter().map(|(_, wanted)| *wanted).collect();
        let mut contents = vec![0; movable.len() * block_bytes];
        let read =
            self.reader.read_blocks(volume.id(), &wanted, contents.chunks_exact_mut(block_bytes));
        let all = movable.iter().map(|(content, _)| *content);
        let blocks = all.zip(contents.chunks_exact(block_bytes)).zip(&read);
        let good = blocks.filter(|(_, read)| read.is_ok()).map(|(block, _)| block);
        let (good, contents): (Vec<Content<'_>>, Vec<&[u8]>) = good.unzip();
        let least = self.mover.run_blocks() as usize;
        let store = || runs.store(&self.mover, (&contents, volume.compression()), least);
        let Some(states) = self.mover.move_of(volume, &good, store)? else {
            arranged.report.is_short_of_room = true;
            arranged.is_left = true;
            return Ok(());
        };
        arranged.is_left |= states.contains(&MoveState::Failed);
        let moved = states.iter().filter(|state| **state == MoveState::Made).count() as u64;
        arranged.report.moved_blocks = moved;
        arranged.report.overtaken_blocks = movable.len() as u64 - moved;
        Ok(())
    }
}
