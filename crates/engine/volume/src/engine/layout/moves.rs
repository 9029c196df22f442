//! Moves contents to other PBNs: writes them there, and changes the map entries that still refer to
//! the old ones.

use super::chunk::is_movable;
use super::marks::Stretch;
use super::references::{Reference, References};
use super::room::Places;
use crate::engine::catalogue::Catalogue;
use crate::engine::data::DataPath;
use crate::engine::health::Health;
use crate::engine::log::Log;
use crate::engine::parts::Common;
use crate::engine::{State, VolumeShared, Wanted};
use crate::error::Result;
use crate::pool::Tuning;
use gemelo_format::{Change, Fingerprint, Lbn, MapEntry, Pbn, Superblock, VolumeId};
use gemelo_metadata::HeldPages;
use gemelo_store::ContentWrite;
use std::sync::Arc;

/// Blocks whose map entries are changed in one hold of the state's lock: some 100 µs.
pub(super) const SETTLED_BLOCKS: usize = 64;

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

/// Moves contents to other PBNs, with all references to them; see the module.
pub(crate) struct Mover {
    pub(super) data: Arc<DataPath>,
    pub(super) log: Arc<Log>,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) health: Arc<Health>,
    pub(super) superblock: Superblock,
    pub(super) tuning: Tuning,
}

impl Mover {
    pub(in crate::engine) fn new(common: &Common) -> Self {
        Self {
            data: Arc::clone(&common.data),
            log: Arc::clone(&common.log),
            catalogue: Arc::clone(&common.catalogue),
            health: Arc::clone(&common.health),
            superblock: common.superblock.clone(),
            tuning: common.tuning,
        }
    }

    /// Moves blocks of a stretch, whose contents were read, to the places that `take` gives them,
    /// with all of their references. Returns the moves; [`None`] if there is no room. The caller
    /// has entered the volume's gate, and holds a pin since it looked the blocks up.
    pub(super) fn move_contents<'e>(
        &'e self,
        volume: &VolumeShared,
        (stretch, blocks): (Stretch, &[Wanted]),
        contents: &[&[u8]],
        references: &References,
        take: impl FnOnce() -> Result<Option<Places<'e>>>,
    ) -> Result<Option<Vec<Move>>> {
        let others = self.volumes_of(references.of_all(volume.id(), blocks), volume.id());
        // The gates keep these volumes from being removed. The first reference of a block has the
        // least id, so gates are entered in the order of the ids.
        let gates: Vec<_> = others.iter().map(|other| (other, other.enter())).collect();
        let open = gates.iter().filter(|(other, removed)| !**removed && !other.is_in_change());
        let open: Vec<OpenVolume> = open
            .map(|(other, _)| &***other)
            .chain(std::iter::once(volume))
            .map(|open| OpenVolume { id: open.id(), blocks: open.blocks() })
            .collect();
        let Some(Places { pbns, taken: _taken }) = take()? else { return Ok(None) };
        assert_eq!(pbns.len(), blocks.len(), "each block that is moved has a new place");
        let planned =
            |(from, to): (&Wanted, Pbn)| Move { from: *from, to, state: MoveState::Planned };
        let mut moves: Vec<Move> = blocks.iter().zip(pbns).map(planned).collect();
        self.write_moves(&mut moves, contents);
        let _held = HeldPages::hold();
        let settled = self
            .log
            .warm(volume.id(), stretch.first, stretch.end)
            .and_then(|()| self.warm_others(references.of_all(volume.id(), blocks), &open))
            .and_then(|()| self.settle_moves(volume, &mut moves, (references, &open)));
        // In a pool that has stopped it is unknown whether durable metadata refer to these blocks.
        if !self.health.is_stopped() {
            let unused = moves.iter().filter(|one| one.state != MoveState::Made);
            self.data.give_back(unused.map(|one| one.to).collect());
        }
        settled.map(|()| Some(moves))
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
            let mut state = self.log.write();
            let lbns: Vec<Lbn> = part.iter().map(|one| one.from.lbn).collect();
            let pbns: Vec<Pbn> = part.iter().map(|one| one.from.pbn).collect();
            let (places, records) = (state.places(volume.id(), &lbns)?, state.records(&pbns)?);
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
