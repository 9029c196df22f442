//! Brings the blocks of a chunk together: reads them, writes them to free PBNs in a row, and changes
//! their map entries.

use super::chunk::{Chunk, is_movable};
use super::marks::Stretch;
use super::references::{Reference, References};
use super::room::{Places, Room};
use crate::counters::add;
use crate::engine::{Engine, State, VolumeShared, Wanted};
use crate::error::{Result, VolumeError};
use gemelo_format::{Change, Fingerprint, Lbn, MapEntry, Pbn, VolumeId};
use gemelo_store::ContentWrite;
use serde::{Deserialize, Serialize};

/// Bytes that are read, moved and written together.
const CHUNK_BYTES: usize = 1 << 20;
/// Most blocks of a chunk. It is the length of a stretch, or a part of it.
const MAX_CHUNK_BLOCKS: usize = 256;
/// Blocks whose map entries are changed in one hold of the state's lock: some 100 µs.
pub(super) const SETTLED_BLOCKS: usize = 64;

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

impl Engine {
    /// The blocks of a volume, those beyond its end left out.
    pub(crate) fn blocks_of(&self, volume: &VolumeShared) -> u64 {
        volume.size_bytes() / self.block_bytes() as u64
    }

    /// The mean number of blocks from which the runs of a chunk are long enough. A single block is
    /// no run, however large it is.
    pub(super) fn run_blocks(&self) -> u64 {
        (self.tuning.layout.run_bytes / self.block_bytes() as u64).max(2)
    }

    pub(super) fn chunk_blocks(&self) -> u64 {
        (CHUNK_BYTES / self.block_bytes()).clamp(1, MAX_CHUNK_BLOCKS) as u64
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
        self.check_writable()?;
        self.log.bound_open_commit()?;
        // The pin keeps all blocks that are looked up here from being reused before the end.
        let _pin = self.pin();
        let chunk = self.chunk(volume, stretch, &means.references)?;
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
        if chunk.is_worth(self.run_blocks()) {
            self.log.reserve_slots()?;
            self.move_blocks(volume, stretch, &chunk, (means, &mut part))?;
            let report = &mut part.report;
            if report.moved_blocks > 0 {
                report.runs_after = self.chunk(volume, stretch, &means.references)?.runs();
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
        let block_bytes = self.block_bytes();
        let movable = chunk.movable();
        let Means { room, references } = means;
        let others = self.volumes_of(references.of_all(volume.id(), &movable), volume.id());
        // The gates keep these volumes from being removed. The first reference of a block has the
        // least id, so gates are entered in the order of the ids.
        let gates: Vec<_> = others.iter().map(|other| (other, other.enter())).collect();
        let open = gates.iter().filter(|(other, removed)| !**removed && !other.may_be_copied());
        let open: Vec<OpenVolume> = open
            .map(|(other, _)| &***other)
            .chain(std::iter::once(volume))
            .map(|open| OpenVolume { id: open.id(), blocks: self.blocks_of(open) })
            .collect();
        let mut contents = vec![0; movable.len() * block_bytes];
        let read = self.read_blocks(volume.id(), &movable, contents.chunks_exact_mut(block_bytes));
        let blocks = movable.iter().zip(contents.chunks_exact(block_bytes)).zip(&read);
        let good = blocks.filter(|(_, read)| read.is_ok()).map(|(block, _)| block);
        let (good, contents): (Vec<Wanted>, Vec<&[u8]>) = good.unzip();
        let least = self.run_blocks() as usize;
        let Some(Places { pbns, taken: _taken }) = room.take(self, &contents, least)? else {
            arranged.report.is_short_of_room = true;
            arranged.is_left = true;
            return Ok(());
        };
        assert_eq!(pbns.len(), good.len(), "each block that is moved has a new place");
        let mut moves: Vec<Move> = good
            .into_iter()
            .zip(pbns)
            .map(|(from, to)| Move { from, to, state: MoveState::Planned })
            .collect();
        self.write_moves(&mut moves, &contents);
        let settled = self
            .log
            .warm(volume.id(), stretch.first, stretch.end)
            .and_then(|()| self.warm_others(references.of_all(volume.id(), &movable), &open))
            .and_then(|()| self.settle_moves(volume, &mut moves, (references, &open)));
        // In a pool that has stopped it is unknown whether durable metadata refer to these blocks.
        if !self.health.is_stopped() {
            let unused = moves.iter().filter(|one| one.state != MoveState::Made);
            self.data.give_back(unused.map(|one| one.to).collect());
        }
        settled?;
        arranged.is_left |= moves.iter().any(|one| one.state == MoveState::Failed);
        let moved = moves.iter().filter(|one| one.state == MoveState::Made).count() as u64;
        arranged.report.moved_blocks = moved;
        arranged.report.overtaken_blocks = movable.len() as u64 - moved;
        Ok(())
    }

    /// Writes the contents to their new places.
    pub(super) fn write_moves(&self, moves: &mut [Move], contents: &[&[u8]]) {
        assert_eq!(moves.len(), contents.len(), "each block that is moved has a content");
        let pairs = moves.iter().zip(contents);
        let pairs = pairs.filter(|(one, _)| !self.data.is_written(one.to));
        let mut writes: Vec<ContentWrite<'_>> =
            pairs.map(|(one, content)| ContentWrite::new(one.to, content)).collect();
        self.data.write(&mut writes);
        let written = moves.iter_mut().filter(|one| !self.data.is_written(one.to));
        for (one, write) in written.zip(writes) {
            if write.outcome.is_err() {
                one.state = MoveState::Failed;
            }
        }
    }

    /// Changes the map entries that still refer to the blocks that were read.
    /// Blocks with references in volumes that are not `open` stay.
    fn settle_moves(
        &self,
        volume: &VolumeShared,
        moves: &mut [Move],
        (references, open): (&References, &[OpenVolume]),
    ) -> Result<()> {
        for part in moves.chunks_mut(SETTLED_BLOCKS) {
            let mut state = self.state_to_change();
            let lbns: Vec<Lbn> = part.iter().map(|one| one.from.lbn).collect();
            let pbns: Vec<Pbn> = part.iter().map(|one| one.from.pbn).collect();
            let (mut places, mut records) = (Vec::new(), Vec::new());
            state.backend().look_up(volume.id(), &lbns, &mut places)?;
            state.backend().records(&pbns, &mut records)?;
            assert_eq!((places.len(), records.len()), (part.len(), part.len()), "all are there");
            for (one, (place, record)) in part.iter_mut().zip(places.iter().zip(&records)) {
                let Wanted { lbn, pbn, checksum } = one.from;
                let is_same = *place == MapEntry::Stored(pbn, checksum);
                if one.state != MoveState::Planned
                    || !is_same
                    || !is_movable(&state, volume.id(), lbn, record)
                {
                    continue;
                }
                let others = match record.references {
                    1 => Some(&[][..]),
                    count => references.others(pbn, (volume.id(), lbn), count),
                };
                if let Some(others) = others
                    && others_are_same(&state, (others, open), one.from)?
                {
                    self.settle_move(&mut state, volume.id(), one, record.fingerprint)?;
                    self.settle_others(&mut state, others, one)?;
                }
            }
        }
        Ok(())
    }

    /// Lets the other references of a block follow it. The last one frees the old place.
    pub(super) fn settle_others(
        &self,
        state: &mut State,
        others: &[Reference],
        one: &Move,
    ) -> Result<()> {
        for Reference { volume, lbn, .. } in others.iter().copied() {
            let checksum = one.from.checksum;
            self.log.apply(state, &Change::Share { volume, lbn, pbn: one.to, checksum })?;
        }
        Ok(())
    }

    /// Reads what changes of other references will need, before any thread has to wait for it.
    pub(super) fn warm_others<'r>(
        &self,
        others: impl Iterator<Item = &'r Reference>,
        open: &[OpenVolume],
    ) -> Result<()> {
        for other in others.filter(|other| open.iter().any(|open| open.has(other))) {
            self.log.warm(other.volume, other.lbn.0, other.lbn.0 + 1)?;
        }
        Ok(())
    }

    pub(super) fn settle_move(
        &self,
        state: &mut State,
        volume: VolumeId,
        one: &mut Move,
        fingerprint: Fingerprint,
    ) -> Result<()> {
        let Wanted { lbn, checksum, .. } = one.from;
        let change = Change::Store { volume, lbn, pbn: one.to, fingerprint, checksum };
        self.log.apply(state, &change)?;
        one.state = MoveState::Made;
        Ok(())
    }
}

/// Returns whether all these references are in volumes that are open and still to the same block.
pub(super) fn others_are_same(
    state: &State,
    (others, open): (&[Reference], &[OpenVolume]),
    from: Wanted,
) -> Result<bool> {
    let mut places = Vec::with_capacity(1);
    for other in others {
        // The volume of one that is not open may have been removed.
        if !open.iter().any(|open| open.has(other)) {
            return Ok(false);
        }
        let Reference { volume, lbn, .. } = other;
        places.clear();
        state.backend().look_up(*volume, &[*lbn], &mut places)?;
        let is_same = places == [MapEntry::Stored(from.pbn, from.checksum)];
        if !is_same || state.backend().is_in_shared_part(*volume, *lbn) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The means by which chunks are arranged one after another.
#[derive(Debug, Default)]
pub(super) struct Means {
    pub(super) room: Room,
    /// The references of shared blocks, if they are to be moved.
    pub(super) references: References,
}

/// A volume whose gate is entered, so that it keeps its size.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenVolume {
    pub(super) id: VolumeId,
    pub(super) blocks: u64,
}

impl OpenVolume {
    /// Returns whether a reference is in the volume, and not beyond its end.
    pub(super) fn has(&self, reference: &Reference) -> bool {
        reference.volume == self.id && reference.lbn.0 < self.blocks
    }
}

/// A block, and the PBN that it is moved to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Move {
    pub(super) from: Wanted,
    pub(super) to: Pbn,
    pub(super) state: MoveState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MoveState {
    /// The content is at its new place, and the map entry is the old one.
    Planned,
    /// The content could not be written to its new place.
    Failed,
    /// The map entry refers to the new place.
    Made,
}

/// Returns whether an error means that there is no space, which may change.
pub(super) const fn is_full(error: &VolumeError) -> bool {
    matches!(error, VolumeError::NoSpace { .. })
}
