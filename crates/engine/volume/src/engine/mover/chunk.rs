//! A chunk: some consecutive blocks of a volume, the order in which they are stored, and the
//! decision whether it is worth bringing them together.
//!
//! A shared content moves with the chunk of its first reference, by the ids of the volumes and the
//! LBNs: no second volume moves it away again, and a clone gets the order of its origin.

use super::Mover;
use super::moves::{Content, Followers};
use super::order::Stretch;
use super::references::Reference;
use crate::engine::log::Log;
use crate::engine::read::wanted_at;
use crate::engine::{State, VolumeShared, Wanted};
use crate::error::Result;
use gemelo_base::SparseBits;
use gemelo_format::{Lbn, MapEntry, Pbn, StoreKind, VolumeId};
use std::collections::BTreeSet;

/// Bytes that are read, moved and written together.
const CHUNK_BYTES: usize = 1 << 20;
/// Most blocks of a chunk. It is the length of a stretch, or a part of it.
const MAX_CHUNK_BLOCKS: usize = 256;

/// The blocks that a command has been at, which it does not move again: a bit for each PBN.
#[derive(Debug, Default)]
pub(super) struct Visited(SparseBits);

impl Visited {
    /// Notes the blocks of a stretch, where they are now.
    pub(super) fn note(&mut self, log: &Log, volume: VolumeId, stretch: Stretch) -> Result<()> {
        let lbns: Vec<Lbn> = (stretch.first..stretch.end).map(Lbn).collect();
        let places = log.places(volume, &lbns)?;
        for pbn in places.into_iter().filter_map(MapEntry::pbn) {
            self.0.insert(pbn.number());
        }
        Ok(())
    }

    fn has(&self, pbn: Pbn) -> bool {
        self.0.has(pbn.number())
    }
}

/// A block of a chunk.
#[derive(Debug, Clone, Copy)]
struct ChunkBlock {
    wanted: Wanted,
    /// Its content, if it can be moved.
    content: Option<Content<'static>>,
}

/// The stored blocks of some consecutive LBNs, in the order of these.
#[derive(Debug)]
pub(super) struct Chunk {
    /// The kind of the store, which knows what lies side by side.
    kind: StoreKind,
    blocks: Vec<ChunkBlock>,
    /// Blocks that the finder has to examine first.
    pub(super) unexamined: u64,
    /// Blocks that cannot be moved, if that was looked at.
    pub(super) fixed: u64,
}

impl Chunk {
    /// The number of its blocks.
    pub(super) const fn blocks(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// The number of runs: contents that lie side by side are one run.
    pub(super) fn runs(&self) -> u64 {
        count_runs(self.kind, self.blocks.iter().map(|block| block.wanted.pbn))
    }

    /// The number of runs if the movable blocks lay side by side.
    fn runs_afterwards(&self) -> u64 {
        let mut runs = 0;
        let mut last: Option<ChunkBlock> = None;
        for block in &self.blocks {
            let follows = last.is_some_and(|last| {
                let is_next = self.kind.is_next(last.wanted.pbn, block.wanted.pbn);
                let is_movable = block.content.is_some();
                last.content.is_some() == is_movable && (is_movable || is_next)
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

    /// The contents that can be moved, and where they are.
    pub(super) fn movable(&self) -> Vec<(Content<'static>, Wanted)> {
        self.blocks.iter().filter_map(|block| Some((block.content?, block.wanted))).collect()
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
    /// records are not read: a look at a volume in good order reads the map alone. Shared blocks
    /// stay without `visited`.
    pub(super) fn chunk(
        &self,
        volume: &VolumeShared,
        stretch: Stretch,
        visited: Option<&Visited>,
    ) -> Result<Chunk> {
        self.log.look(|state| {
            let mut chunk = self.stored_blocks(state, volume, stretch)?;
            if chunk.is_scattered(self.run_blocks()) {
                self.find_movable(state, volume, (visited, false), &mut chunk)?;
            }
            Ok(chunk)
        })
    }

    /// Looks at the blocks of a chunk as [`Self::chunk`] does, whether they are scattered or not.
    /// With `asks`, those count as movable that may come back from the domain.
    pub(super) fn whole_chunk(
        &self,
        volume: &VolumeShared,
        stretch: Stretch,
        (visited, asks): (&Visited, bool),
    ) -> Result<Chunk> {
        self.log.look(|state| {
            let mut chunk = self.stored_blocks(state, volume, stretch)?;
            self.find_movable(state, volume, (Some(visited), asks), &mut chunk)?;
            Ok(chunk)
        })
    }

    /// Looks up the blocks of a chunk. None counts as movable.
    fn stored_blocks(
        &self,
        state: &State,
        volume: &VolumeShared,
        stretch: Stretch,
    ) -> Result<Chunk> {
        let lbns: Vec<Lbn> = (stretch.first..stretch.end).map(Lbn).collect();
        let places = state.places(volume.id(), &lbns)?;
        let stored = (stretch.first..).zip(&places).filter_map(wanted_at);
        Ok(Chunk {
            kind: self.superblock.store,
            blocks: stored.map(|wanted| ChunkBlock { wanted, content: None }).collect(),
            unexamined: 0,
            fixed: 0,
        })
    }

    /// Finds the movable blocks of a chunk by their records.
    fn find_movable(
        &self,
        state: &State,
        volume: &VolumeShared,
        (visited, asks): (Option<&Visited>, bool),
        chunk: &mut Chunk,
    ) -> Result<()> {
        let pbns: Vec<Pbn> = chunk.blocks.iter().map(|block| block.wanted.pbn).collect();
        let records = state.records(&pbns)?;
        let mut shared = BTreeSet::new();
        for (block, record) in chunk.blocks.iter_mut().zip(&records) {
            // A block without a fingerprint is the durable mark of the finder's work. The finder
            // compares its PBN at the end, and would have to begin again.
            let is_unexamined = volume.is_examined() && record.fingerprint.is_none();
            let Wanted { lbn, pbn, checksum } = block.wanted;
            // The old place of a kept block would not become free.
            let is_free = !self.data.is_kept(pbn) || asks && self.data.may_come_back(pbn);
            let can_move = is_free && !record.is_suspect;
            chunk.fixed += u64::from(!can_move || is_unexamined);
            // Entries that volumes share are counted once, and cannot be changed one by one.
            let is_alone =
                record.references == 1 && !state.backend().is_in_shared_part(volume.id(), lbn);
            let first = Reference { pbn, volume: volume.id(), lbn };
            let followers = match visited {
                _ if is_alone => Some(Followers::These { first, others: &[] }),
                Some(visited) if !visited.has(pbn) && shared.insert(pbn) => {
                    Some(Followers::All(record.references))
                }
                _ => None,
            };
            let followers = followers.filter(|_| can_move);
            chunk.unexamined += u64::from(followers.is_some() && is_unexamined);
            let followers = followers.filter(|_| !is_unexamined);
            block.content = followers.map(|followers| Content { pbn, checksum, followers });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_format::Checksum;

    /// A chunk with these PBNs; negative ones are not movable.
    fn chunk(pbns: &[i32]) -> Chunk {
        let block = |(lbn, number): (u64, &i32)| {
            let pbn = Pbn::new(number.unsigned_abs().into()).unwrap();
            let checksum = Checksum(0);
            let content = Content { pbn, checksum, followers: Followers::All(2) };
            let content = (*number > 0).then_some(content);
            ChunkBlock { wanted: Wanted { lbn: Lbn(lbn), pbn, checksum }, content }
        };
        let blocks = (0..).zip(pbns).map(block).collect();
        Chunk { kind: StoreKind::Plain, blocks, unexamined: 0, fixed: 0 }
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
