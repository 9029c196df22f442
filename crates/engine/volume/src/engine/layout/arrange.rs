//! Brings the blocks of a chunk together.

use super::chunk::Chunk;
use super::marks::Stretch;
use super::moves::MoveState;
use super::references::References;
use super::room::Room;
use crate::counters::{PoolCounters, add};
use crate::engine::catalogue::Catalogue;
use crate::engine::checked::Reader;
use crate::engine::data::DataPath;
use crate::engine::health::Health;
use crate::engine::layout::{Mover, Ticker};
use crate::engine::log::Log;
use crate::engine::parts::Common;
use crate::engine::{VolumeShared, Wanted};
use crate::error::{Result, VolumeError};
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
#[derive(Default)]
pub(super) struct Arranged {
    pub(super) report: ArrangeReport,
    /// `true` if the chunk has to be looked at again later.
    pub(super) is_left: bool,
}

/// The arranger of an open pool; see [`super`].
pub(crate) struct Arranger {
    pub(super) mover: Arc<Mover>,
    pub(super) reader: Arc<Reader>,
    pub(super) data: Arc<DataPath>,
    pub(super) log: Arc<Log>,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) health: Arc<Health>,
    pub(super) counters: Arc<PoolCounters>,
    pub(super) ticker: Arc<Ticker>,
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
            data: Arc::clone(&common.data),
            log: Arc::clone(&common.log),
            catalogue: Arc::clone(&common.catalogue),
            health: Arc::clone(&common.health),
            counters: Arc::clone(&common.counters),
            ticker: Arc::clone(ticker),
        }
    }

    /// Brings the blocks of a chunk together, if they are scattered. Blocks with many references
    /// are done in parts, so that a commit has few changes. The caller has entered the volume's
    /// gate.
    pub(super) fn arrange_chunk(
        &self,
        volume: &VolumeShared,
        stretch: Stretch,
        means: &mut Means,
    ) -> Result<Arranged> {
        let mut arranged = Arranged::default();
        let mut left = stretch;
        while left.first < left.end && !arranged.report.is_short_of_room {
            left.first = self.arrange_part(volume, left, (means, &mut arranged))?;
        }
        Ok(arranged)
    }

    /// Brings the first blocks of a chunk together, as many as one commit may change. Returns the
    /// LBN after them.
    fn arrange_part(
        &self,
        volume: &VolumeShared,
        stretch: Stretch,
        (means, arranged): (&mut Means, &mut Arranged),
    ) -> Result<u64> {
        self.health.check_writable()?;
        self.log.bound_open_commit()?;
        // The pin keeps all blocks that are looked up here from being reused before the end.
        let _pin = self.data.pin();
        let chunk = self.mover.chunk(volume, stretch, &means.references)?;
        let stretch = chunk.stretch;
        let runs = chunk.runs();
        let mut part = Arranged {
            report: ArrangeReport {
                examined_blocks: chunk.blocks.len() as u64,
                runs_before: runs,
                runs_after: runs,
                ..ArrangeReport::default()
            },
            is_left: chunk.unexamined > 0,
        };
        if chunk.is_worth(self.mover.run_blocks()) {
            self.log.reserve_slots()?;
            self.move_blocks(volume, stretch, &chunk, (means, &mut part))?;
            let report = &mut part.report;
            if report.moved_blocks > 0 {
                report.runs_after = self.mover.chunk(volume, stretch, &means.references)?.runs();
            }
            add(&self.counters.arranged_blocks, report.moved_blocks);
            add(&self.counters.arrange_overtaken_blocks, report.overtaken_blocks);
        }
        arranged.report.add(part.report);
        arranged.is_left |= part.is_left;
        Ok(stretch.end)
    }

    fn move_blocks(
        &self,
        volume: &VolumeShared,
        stretch: Stretch,
        chunk: &Chunk,
        (means, arranged): (&mut Means, &mut Arranged),
    ) -> Result<()> {
        let block_bytes = self.data.block_bytes();
        let movable = chunk.movable();
        let mut contents = vec![0; movable.len() * block_bytes];
        let read =
            self.reader.read_blocks(volume.id(), &movable, contents.chunks_exact_mut(block_bytes));
        let blocks = movable.iter().zip(contents.chunks_exact(block_bytes)).zip(&read);
        let good = blocks.filter(|(_, read)| read.is_ok()).map(|(block, _)| block);
        let (good, contents): (Vec<Wanted>, Vec<&[u8]>) = good.unzip();
        let Means { room, references } = means;
        let (compression, least) = (volume.compression(), self.mover.run_blocks() as usize);
        let take = || room.take(&self.mover, (&contents, compression), least);
        let moves =
            self.mover.move_contents(volume, (stretch, &good), &contents, references, take)?;
        let Some(moves) = moves else {
            arranged.report.is_short_of_room = true;
            arranged.is_left = true;
            return Ok(());
        };
        arranged.is_left |= moves.iter().any(|one| one.state == MoveState::Failed);
        let moved = moves.iter().filter(|one| one.state == MoveState::Made).count() as u64;
        arranged.report.moved_blocks = moved;
        arranged.report.overtaken_blocks = movable.len() as u64 - moved;
        Ok(())
    }
}

/// The means by which chunks are arranged one after another.
#[derive(Debug, Default)]
pub(super) struct Means {
    pub(super) room: Room,
    /// The references of shared blocks, if they are to be moved.
    pub(super) references: References,
}

/// Returns whether an error means that there is no space, which may change.
pub(super) const fn is_full(error: &VolumeError) -> bool {
    matches!(error, VolumeError::NoSpace { .. })
}
