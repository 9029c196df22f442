//! A chunk: some consecutive blocks of a volume, the order in which they are stored, and the
//! decision whether it is worth bringing them together.

use super::Mover;
use super::moves::Content;
use super::order::Stretch;
use super::references::{MAX_OF_BLOCK, Reference, References};
use crate::engine::read::wanted_at;
use crate::engine::{State, VolumeShared, Wanted};
use crate::error::Result;
use gemelo_format::{Lbn, Pbn, StoreKind, VolumeId};
use gemelo_metadata::Record;

/// Bytes that are read, moved and written together.
const CHUNK_BYTES: usize = 1 << 20;
/// Most blocks of a chunk. It is the length of a stretch, or a part of it.
const MAX_CHUNK_BLOCKS: usize = 256;

/// Most map entries that are changed for a chunk, as many as for a long write: they are in one
/// commit.
pub(super) const MAX_CHANGES: u32 = 1024;

/// A block of a chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkBlock<'r> {
    wanted: Wanted,
    /// The other references of a block that can be moved.
    others: Option<&'r [Reference]>,
}

/// The stored blocks of some consecutive LBNs, in the order of these.
#[derive(Debug)]
pub(super) struct Chunk<'r> {
    /// The kind of the store, which knows what lies side by side.
    kind: StoreKind,
    volume: VolumeId,
    /// The LBNs that were looked at. They are fewer than asked for if too many references follow.
    pub(super) stretch: Stretch,
    pub(super) blocks: Vec<ChunkBlock<'r>>,
    /// Blocks that the finder has to examine first.
    pub(super) unexamined: u64,
    /// Blocks that cannot be moved with any of their references, if that was looked at.
    pub(super) fixed: u64,
}

impl<'r> Chunk<'r> {
    /// The number of runs: contents that lie side by side are one run.
    pub(super) fn runs(&self) -> u64 {
        count_runs(self.kind, self.blocks.iter().map(|block| block.wanted.pbn))
    }

    /// The number of runs if the movable blocks lay side by side.
    fn runs_afterwards(&self) -> u64 {
        let mut runs = 0;
        let mut last: Option<ChunkBlock<'_>> = None;
        for block in &self.blocks {
            let follows = last.is_some_and(|last| {
                let is_next = self.kind.is_next(last.wanted.pbn, block.wanted.pbn);
                let is_movable = block.others.is_some();
                last.others.is_some() == is_movable && (is_movable || is_next)
            });
            runs += u64::from(!follows);
            last = Some(*block);
        }
        runs
    }

    /// Returns whether its runs are short. `run_blocks` is the mean length from which they are long
    /// enough.
    fn is_scattered(&self, run_blocks: u64) -> bool {
        self.runs().saturating_mul(run_blocks) > self.blocks.len() as u64
    }

    /// Returns whether moving its blocks is worth the writes: its runs are short, and would become
    /// half as many at least.
    pub(super) fn is_worth(&self, run_blocks: u64) -> bool {
        self.is_scattered(run_blocks) && self.runs_afterwards() * 2 <= self.runs()
    }

    /// The contents that can be moved.
    pub(super) fn movable(&self) -> Vec<Content<'r>> {
        let content = |block: &ChunkBlock<'r>| {
            let Wanted { lbn, pbn, checksum } = block.wanted;
            let first = Reference { pbn, volume: self.volume, lbn };
            Some(Content { first, others: block.others?, checksum })
        };
        self.blocks.iter().filter_map(content).collect()
    }
}

/// The number of runs of contents that lie side by side.
pub(super) fn count_runs(kind: StoreKind, pbns: impl Iterator<Item = Pbn>) -> u64 {
    let mut last: Option<Pbn> = None;
    let begins = |pbn: &Pbn| last.replace(*pbn).is_none_or(|last| !kind.is_next(last, *pbn));
    pbns.filter(begins).count() as u64
}

impl Mover {
    /// LBNs of a chunk.
    pub(super) fn chunk_blocks(&self) -> u64 {
        (CHUNK_BYTES / self.data.block_bytes()).clamp(1, MAX_CHUNK_BLOCKS) as u64
    }

    /// The mean number of blocks from which the runs of a chunk are long enough. A single block is
    /// no run, however large it is.
    pub(super) fn run_blocks(&self) -> u64 {
        (self.tuning.layout.run_bytes / self.data.block_bytes() as u64).max(2)
    }

    /// Looks at the blocks of a chunk. If they are not scattered, none counts as movable, and their
    /// records are not read: a look at a volume in good order reads the map alone. The chunk ends
    /// before the first block whose references are too many to be changed with those before it.
    pub(super) fn chunk<'r>(
        &self,
        volume: &VolumeShared,
        stretch: Stretch,
        references: &'r References,
    ) -> Result<Chunk<'r>> {
        self.log.look(|state| {
            let mut chunk = self.stored_blocks(state, volume, stretch)?;
            if chunk.is_scattered(self.run_blocks()) {
                self.find_movable(state, volume, (references, false), &mut chunk)?;
            }
            Ok(chunk)
        })
    }

    /// Looks at the blocks of a chunk as [`Self::chunk`] does, whether they are scattered or not.
    /// With `asks`, those count as movable that may come back from the domain.
    pub(super) fn whole_chunk<'r>(
        &self,
        volume: &VolumeShared,
        stretch: Stretch,
        (references, asks): (&'r References, bool),
    ) -> Result<Chunk<'r>> {
        self.log.look(|state| {
            let mut chunk = self.stored_blocks(state, volume, stretch)?;
            self.find_movable(state, volume, (references, asks), &mut chunk)?;
            Ok(chunk)
        })
    }

    /// Looks up the blocks of a chunk. None counts as movable.
    fn stored_blocks<'r>(
        &self,
        state: &State,
        volume: &VolumeShared,
        stretch: Stretch,
    ) -> Result<Chunk<'r>> {
        let lbns: Vec<Lbn> = (stretch.first..stretch.end).map(Lbn).collect();
        let places = state.places(volume.id(), &lbns)?;
        let stored = (stretch.first..).zip(&places).filter_map(wanted_at);
        Ok(Chunk {
            kind: self.superblock.store,
            volume: volume.id(),
            stretch,
            blocks: stored.map(|wanted| ChunkBlock { wanted, others: None }).collect(),
            unexamined: 0,
            fixed: 0,
        })
    }

    /// Finds the movable blocks of a chunk by their records.
    fn find_movable<'r>(
        &self,
        state: &State,
        volume: &VolumeShared,
        (references, asks): (&'r References, bool),
        chunk: &mut Chunk<'r>,
    ) -> Result<()> {
        let pbns: Vec<Pbn> = chunk.blocks.iter().map(|block| block.wanted.pbn).collect();
        let records = state.records(&pbns)?;
        let mut changes_left = MAX_CHANGES;
        for (at, (block, record)) in chunk.blocks.iter_mut().zip(&records).enumerate() {
            // A block without a fingerprint is the durable mark of the finder's work. The finder
            // compares its PBN at the end, and would have to begin again.
            let is_unexamined = volume.is_examined() && record.fingerprint.is_none();
            let Wanted { lbn, pbn, .. } = block.wanted;
            // The old place of a kept block would not become free.
            let is_free = !self.data.is_kept(pbn) || asks && self.data.may_come_back(pbn);
            let can_move = is_free && is_movable(state, volume.id(), lbn, record);
            let is_fixed = !can_move || is_unexamined || record.references > MAX_OF_BLOCK;
            let others = match record.references {
                1 => Some(&[][..]),
                count => references.others(pbn, (volume.id(), lbn), count),
            };
            let others = others.filter(|_| can_move);
            block.others = others.filter(|_| !is_unexamined);
            chunk.unexamined += u64::from(others.is_some() && is_unexamined);
            chunk.fixed += u64::from(is_fixed);
            if block.others.is_some() {
                let Some(left) = changes_left.checked_sub(record.references) else {
                    chunk.stretch.end = lbn.0;
                    chunk.blocks.truncate(at);
                    break;
                };
                changes_left = left;
            }
        }
        Ok(())
    }
}

/// Returns whether the block of this LBN is intact, and its references can be changed one by one:
/// those that volumes share are counted once.
fn is_movable(state: &State, volume: VolumeId, lbn: Lbn, record: &Record) -> bool {
    !record.is_suspect && !state.backend().is_in_shared_part(volume, lbn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_format::Checksum;

    /// A chunk with these PBNs; negative ones are not movable.
    fn chunk(pbns: &[i32]) -> Chunk<'static> {
        let block = |(lbn, number): (u64, &i32)| {
            let pbn = Pbn::new(number.unsigned_abs().into()).unwrap();
            let wanted = Wanted { lbn: Lbn(lbn), pbn, checksum: Checksum(0) };
            ChunkBlock { wanted, others: (*number > 0).then_some(&[][..]) }
        };
        let stretch = Stretch { first: 0, end: pbns.len() as u64 };
        let kind = StoreKind::Plain;
        Chunk {
            kind,
            volume: VolumeId(1),
            stretch,
            blocks: (0..).zip(pbns).map(block).collect(),
            unexamined: 0,
            fixed: 0,
        }
    }

    #[test]
    fn runs_are_counted_before_and_after() {
        for (pbns, before, after) in [
            (&[][..], 0, 0),
            (&[5, 6, 7], 1, 1),
            (&[5, 7, 6], 3, 1),
            (&[9, -4, 3, -5, -6, 8], 5, 5),
            (&[9, 2, 7, -4, -5, 1, 3], 6, 3),
        ] {
            let chunk = chunk(pbns);
            assert_eq!((chunk.runs(), chunk.runs_afterwards()), (before, after), "{pbns:?}");
        }
    }

    #[test]
    fn only_short_runs_that_become_few_are_worth_it() {
        assert!(chunk(&[9, 2, 7, 4]).is_worth(4));
        assert!(!chunk(&[1, 2, 3, 4]).is_worth(4));
        assert!(!chunk(&[1, 2, 3, 4, 11, 12, 13, 14]).is_worth(4), "long enough");
        assert!(chunk(&[1, 2, 3, 4, 11, 12, 13, 14]).is_worth(8));
        assert!(!chunk(&[9, -4, 3, -8, 6, -2]).is_worth(4), "shared blocks are in between");
    }
}
