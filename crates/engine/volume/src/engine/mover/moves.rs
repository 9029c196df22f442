//! Carries moves out: changes the map entries that still refer to contents that were stored again.

use super::chunk::Visited;
use super::order::Stretch;
use super::references::Reference;
use crate::engine::catalogue::Catalogue;
use crate::engine::data::{DataPath, NewPlace, Pin, StoredContents};
use crate::engine::health::Health;
use crate::engine::log::Log;
use crate::engine::parts::Common;
use crate::engine::{State, VolumeShared};
use crate::error::{Result, VolumeError};
use crate::pool::Tuning;
use gemelo_format::{Change, Checksum, Lbn, MapEntry, Pbn, Superblock, VolumeId};
use gemelo_metadata::{HeldPages, Record};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Pages of a map that a reference to a moved block may have written anew.
const PAGES_OF_REFERENCE: u64 = 5;
/// Contents whose map entries are changed in one hold of the state's lock: some 100 µs.
pub(super) const SETTLED_BLOCKS: usize = 64;
/// References that are this near each other need the same pages of a map, mostly.
const NEAR_LBNS: u64 = 256;

/// The references that follow a content.
#[derive(Debug, Clone, Copy)]
pub(super) enum Followers<'r> {
    /// These are all that it has, and their map entries change one by one.
    These { first: Reference, others: &'r [Reference] },
    /// All that it has, by one change of its block. This was their number when it was looked at.
    All(u32),
}

/// A content that is to move.
#[derive(Debug, Clone, Copy)]
pub(super) struct Content<'r> {
    pub(super) pbn: Pbn,
    pub(super) checksum: Checksum,
    pub(super) followers: Followers<'r>,
}

impl Content<'_> {
    /// The references whose map entries change.
    pub(super) fn references(&self) -> impl Iterator<Item = &Reference> {
        let (first, others) = match &self.followers {
            Followers::These { first, others } => (Some(first), *others),
            Followers::All(_) => (None, &[][..]),
        };
        first.into_iter().chain(others)
    }

    /// The number of changes if it moves.
    pub(super) const fn changes(&self) -> usize {
        match self.followers {
            Followers::These { others, .. } => 1 + others.len(),
            Followers::All(_) => 1,
        }
    }

    /// Pages of maps that the next checkpoint may write anew if it moves, beside those that its
    /// changes name.
    const fn more_pages(&self) -> u64 {
        match self.followers {
            Followers::These { .. } => 0,
            Followers::All(count) => count as u64 * PAGES_OF_REFERENCE,
        }
    }
}

/// The outcome for a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MoveState {
    /// The content could not be written to its new place.
    Failed,
    /// A reference has changed since it was found, or may not be changed now.
    Overtaken,
    /// All references lead to the new place.
    Made,
}

/// Volumes whose gates are entered, so that they keep their sizes: their ids and blocks.
#[derive(Debug, Default)]
pub(super) struct OpenVolumes(Vec<(VolumeId, u64)>);

impl OpenVolumes {
    /// Returns whether a reference is in one of the volumes, and not beyond its end. A volume that
    /// is not open may have been removed.
    pub(super) fn have(&self, reference: &Reference) -> bool {
        let has =
            |(id, blocks): &(VolumeId, u64)| reference.volume == *id && reference.lbn.0 < *blocks;
        self.0.iter().any(has)
    }
}

/// Does something with the first of some LBNs, and returns the LBN at which it goes on.
type ChunkStep<'s, R> = &'s mut dyn FnMut(Stretch, &Visited) -> Result<(R, u64)>;

/// The way in which gates are entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entering {
    /// Waits for changes of whole volumes.
    Waits,
    /// Leaves volumes out whose gates are closed. The caller may be in a request.
    Tries,
}

/// Moves contents to other PBNs, with all references to them; see [`super`].
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

    /// Begins to look at blocks that may move. The pin keeps all that are looked up from being
    /// reused before the end.
    pub(super) fn begin(&self) -> Result<Pin<'_>> {
        self.health.check_writable()?;
        self.log.bound_open_commit()?;
        Ok(self.data.pin())
    }

    /// All volumes, in the order of their ids.
    pub(super) fn volumes(&self) -> Vec<Arc<VolumeShared>> {
        let mut volumes: Vec<_> = self.catalogue.all().into_values().collect();
        volumes.sort_unstable_by_key(|volume| volume.id());
        volumes
    }

    /// Goes through the mapped LBNs of a volume. Calls `step` with those that are left, whose gate
    /// is entered, for what it has done and where it goes on, and then `after` without the gate.
    pub(super) fn each_chunk<R>(
        &self,
        (volume, visited): (&VolumeShared, &mut Visited),
        step: ChunkStep<'_, R>,
        after: &mut dyn FnMut(R) -> Result<()>,
    ) -> Result<()> {
        let mut next = Lbn(0);
        loop {
            let is_removed = volume.enter();
            let end = volume.blocks();
            if *is_removed {
                return Ok(());
            }
            let mapped = self.log.next_mapped(volume.id(), next, Lbn(end))?;
            let Some(Lbn(first)) = mapped else { return Ok(()) };
            let (done, following) = step(Stretch { first, end }, visited)?;
            let stretch = Stretch { first, end: following.min(end) };
            visited.note(&self.log, volume.id(), stretch)?;
            drop(is_removed);
            next = Lbn(following);
            after(done)?;
        }
    }

    /// Calls with the volumes of these references, whose gates are entered in the order of their
    /// ids.
    pub(super) fn with_open<'r, T>(
        &self,
        references: impl Iterator<Item = &'r Reference>,
        entering: Entering,
        act: impl FnOnce(&OpenVolumes) -> Result<T>,
    ) -> Result<T> {
        let ids: BTreeSet<VolumeId> = references.map(|reference| reference.volume).collect();
        let mut volumes = if ids.is_empty() { Vec::new() } else { self.volumes() };
        volumes.retain(|volume| ids.contains(&volume.id()));
        let mut gates = Vec::with_capacity(volumes.len());
        for volume in &volumes {
            let gate = match entering {
                Entering::Waits => Some(volume.enter()),
                Entering::Tries => volume.try_enter(),
            };
            gates.push((volume, gate));
        }
        let is_open =
            |gate: &Option<_>| gate.as_deref().is_some_and(|is_removed: &bool| !is_removed);
        let open = gates.iter().filter(|(_, gate)| is_open(gate));
        let open = open.map(|(volume, _)| volume);
        act(&OpenVolumes(open.map(|volume| (volume.id(), volume.blocks())).collect()))
    }

    /// Allocates the slots that the moves of these contents may need.
    pub(super) fn reserve_slots(&self, contents: &[Content<'_>]) -> Result<()> {
        self.log.reserve_slots_for(contents.iter().map(Content::more_pages).sum())
    }

    /// Moves contents of a volume whose gate is entered, if `store` finds room for them. The caller
    /// holds a pin since it looked them up.
    pub(super) fn move_of<'e>(
        &'e self,
        volume: &VolumeShared,
        contents: &[Content<'_>],
        store: impl FnOnce() -> Result<Option<StoredContents<'e>>>,
    ) -> Result<Option<Vec<MoveState>>> {
        self.reserve_slots(contents)?;
        let open = OpenVolumes(vec![(volume.id(), volume.blocks())]);
        store()?.map(|stored| self.carry_out(contents, stored, &open)).transpose()
    }

    /// Lets the references of contents follow to the places where these were stored. The caller
    /// holds a pin since it looked them up, and slots are reserved. Places that nothing refers to
    /// are given back.
    pub(super) fn carry_out(
        &self,
        contents: &[Content<'_>],
        stored: StoredContents<'_>,
        open: &OpenVolumes,
    ) -> Result<Vec<MoveState>> {
        let StoredContents { places, taken: _taken } = stored;
        assert_eq!(places.len(), contents.len(), "each content that moves has a new place");
        let mut states = vec![MoveState::Overtaken; contents.len()];
        let _held = HeldPages::hold();
        let pbns: Vec<Pbn> = contents.iter().map(|content| content.pbn).collect();
        let references = contents.iter().flat_map(Content::references);
        let settled = self
            .log
            .records(&pbns)
            .and_then(|_| self.warm(references.filter(|reference| open.have(reference))))
            .and_then(|()| self.settle((contents, &places), open, &mut states));
        let made = places.iter().zip(&states);
        self.give_back(
            made.filter(|(_, state)| **state != MoveState::Made).map(|(place, _)| place),
        );
        settled.map(|()| states)
    }

    /// Gives places back that nothing refers to, unless the pool has stopped: it is unknown then
    /// whether durable metadata refer to them.
    pub(super) fn give_back<'p>(&self, unused: impl Iterator<Item = &'p NewPlace>) {
        if !self.health.is_stopped() {
            self.data.allocator.give_back(unused.map(|place| place.pbn).collect());
        }
    }

    /// Reads what changes of these references will need, before any thread has to wait for it.
    pub(super) fn warm<'r>(&self, references: impl Iterator<Item = &'r Reference>) -> Result<()> {
        let mut lbns: Vec<(VolumeId, Lbn)> =
            references.map(|reference| (reference.volume, reference.lbn)).collect();
        lbns.sort_unstable();
        let is_near = |one: &(VolumeId, Lbn), next: &(VolumeId, Lbn)| {
            one.0 == next.0 && next.1.0 - one.1.0 < NEAR_LBNS
        };
        for near in lbns.chunk_by(is_near) {
            if let (Some((volume, first)), Some((_, last))) = (near.first(), near.last()) {
                self.log.warm(*volume, first.0, last.0 + 1)?;
            }
        }
        Ok(())
    }

    /// Changes the references of those contents that are as they were found.
    fn settle(
        &self,
        (contents, places): (&[Content<'_>], &[NewPlace]),
        open: &OpenVolumes,
        states: &mut [MoveState],
    ) -> Result<()> {
        let mut all = contents.iter().zip(places).zip(states).peekable();
        while all.peek().is_some() {
            let mut state = self.log.write();
            let mut records = Vec::with_capacity(1);
            for ((content, place), made) in all.by_ref().take(SETTLED_BLOCKS) {
                if place.outcome.is_err() {
                    *made = MoveState::Failed;
                    continue;
                }
                records.clear();
                state.backend().records(&[content.pbn], &mut records)?;
                for record in &records {
                    if is_as_found(&state, content, record, open)? {
                        self.follow(&mut state, (content, place.pbn), record)?;
                        *made = MoveState::Made;
                    }
                }
            }
        }
        Ok(())
    }

    /// Changes all references of a content. The last one frees the old place.
    fn follow(
        &self,
        state: &mut State,
        (content, pbn): (&Content<'_>, Pbn),
        record: &Record,
    ) -> Result<()> {
        let Content { pbn: from, checksum, followers } = *content;
        let fingerprint = record.fingerprint;
        let Followers::These { first: Reference { volume, lbn, .. }, others } = followers else {
            self.log.apply(state, &Change::Move { from, to: pbn, checksum })?;
            if self.data.has_free_veto() && !fingerprint.is_none() {
                // The domain learns of the new place.
                self.log.apply(state, &Change::Identify { pbn, fingerprint })?;
            }
            return Ok(());
        };
        self.log.apply(state, &Change::Store { volume, lbn, pbn, fingerprint, checksum })?;
        for Reference { volume, lbn, .. } in others.iter().copied() {
            self.log.apply(state, &Change::Share { volume, lbn, pbn, checksum })?;
        }
        Ok(())
    }

    /// Writes a checkpoint if contents have moved by their blocks, so that their old places are
    /// free. Without room for it they are free after a later one.
    pub(super) fn settle_old_places(&self) -> Result<()> {
        match self.log.settle_moves() {
            Err(VolumeError::NoSpace { .. }) => Ok(()),
            other => other,
        }
    }

    /// Makes the moves so far durable, and waits until their old places are free. Returns `false`
    /// if there is no room for that.
    pub(super) fn free_old_places(&self) -> Result<bool> {
        match self.log.flush().and_then(|()| self.log.settle_moves()) {
            Err(VolumeError::NoSpace { .. }) => return Ok(false),
            other => other?,
        }
        self.data.await_retired();
        Ok(true)
    }
}

/// Returns whether a block is intact, and its references can follow: all by one change, or one by
/// one, if it has no others than these, in volumes that are open and in no part of a map that
/// volumes share. A block with references has the content that it had when it was pinned.
pub(super) fn is_as_found(
    state: &State,
    content: &Content<'_>,
    record: &Record,
    open: &OpenVolumes,
) -> Result<bool> {
    if record.is_suspect || record.references == 0 {
        return Ok(false);
    }
    let Followers::These { others, .. } = content.followers else { return Ok(true) };
    if record.references as usize != 1 + others.len() {
        return Ok(false);
    }
    for reference in content.references() {
        let Reference { volume, lbn, .. } = *reference;
        if !open.have(reference)
            || state.backend().is_in_shared_part(volume, lbn)
            || !leads_to(state, *reference, content.checksum)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether a reference still leads to the block with this content.
pub(super) fn leads_to(
    state: &State,
    Reference { pbn, volume, lbn }: Reference,
    checksum: Checksum,
) -> Result<bool> {
    Ok(state.places(volume, &[lbn])? == [MapEntry::Stored(pbn, checksum)])
}
