//! Moves the contents of a window to other blocks, in the form that they have.

use super::best::{Best, Cost, best_part};
use super::pass::Step;
use crate::counters::add;
use crate::engine::data::Window;
use crate::engine::layout::SpaceCleaner;
use crate::engine::layout::chunk::is_movable;
use crate::engine::layout::moves::{Move, MoveState, OpenVolume, SETTLED_BLOCKS, others_are_same};
use crate::engine::layout::references::{Reference, References};
use crate::engine::{State, VolumeShared, Wanted};
use crate::error::Result;
use gemelo_format::{MapEntry, PackedPlace, Pbn};
use gemelo_store::Compressed;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Chooses contents among those that can be moved: from the blocks that they keep from being free,
/// what each costs, and the runs of the room with the length that these should have. [`None`] waits
/// for more room.
type Choose<'c> = &'c mut dyn FnMut(&[u32], &[Cost], (&[u64], u64)) -> Option<Best>;

/// The outcome of moving a part of a window.
pub(super) enum Emptied {
    /// These contents were moved, unless there are none.
    Part(Best),
    /// There is no room for them before the moves so far are durable.
    NoRoom,
    /// Some contents were asked for, and have to come back first.
    Asked,
}

/// A content of a window, and its form.
struct Content<'r> {
    from: Wanted,
    /// All references; the first of them is that of `from`.
    references: &'r [Reference],
    form: Vec<u8>,
}

/// The contents of a window. Those without a reference are about to be free.
#[derive(Default)]
struct Movable<'r> {
    /// Contents that can be moved, without their forms.
    movable: Vec<Content<'r>>,
    /// Contents that stay.
    left: Vec<Pbn>,
    /// Those of them that could be moved if the domain did not know them.
    kept: Vec<Pbn>,
}

impl SpaceCleaner {
    /// Empties the blocks of a window, as far as their contents can be moved and that saves space.
    pub(super) fn empty_window(&self, window: Window, references: &References) -> Result<Step> {
        let block_bytes = self.data.block_bytes();
        let emptied = self.empty_part(window, references, &mut |blocks, costs, (runs, goal)| {
            let (best, is_cut) = best_part(blocks, costs, (block_bytes, runs, goal));
            (!is_cut || runs.iter().sum::<u64>() >= goal).then_some(best)
        })?;
        // A longer run of the reserve counts as well, because other windows may save space then.
        Ok(match emptied {
            Emptied::Part(best) if best.blocks == 0 => Step::Saved(0),
            Emptied::Part(best) => Step::Saved((best.saved * block_bytes as u64).max(1)),
            Emptied::NoRoom => Step::NoRoom,
            Emptied::Asked => Step::Asked,
        })
    }

    /// Moves the contents of a window that are chosen.
    pub(super) fn empty_part(
        &self,
        window: Window,
        references: &References,
        choose: Choose<'_>,
    ) -> Result<Emptied> {
        self.health.check_writable()?;
        self.log.bound_open_commit()?;
        self.log.reserve_slots()?;
        // The pin keeps all blocks that are looked up here from being reused before the end.
        let _pin = self.data.pin();
        let all = self.data.contents_of_blocks(window.first..window.end);
        let volumes = self.open_volumes(&all, references);
        let gates: Vec<_> =
            volumes.iter().filter_map(|volume| Some((volume, volume.try_enter()?))).collect();
        let open: Vec<OpenVolume> = gates
            .iter()
            .filter(|(volume, is_removed)| !**is_removed && !volume.is_in_change())
            .map(|(volume, _)| OpenVolume { id: volume.id(), blocks: volume.blocks() })
            .collect();
        let Movable { movable, left, kept } = self.movable_contents(&all, (references, &open))?;
        if self.data.want_back(&kept) {
            return Ok(Emptied::Asked);
        }
        let (mut part, left) = self.with_forms(movable, left);
        let mut blocks = emptied_blocks(window, &part, &left);
        part.retain(|content| has_part_in(content.from.pbn, &blocks));
        let nothing = Ok(Emptied::Part(Best::default()));
        let Some(mut compressed) = compressed_of(&part) else { return nothing };
        let costs = part.iter().zip(compressed.parts()).map(|(content, part)| Cost {
            first: PackedPlace::of(content.from.pbn).block,
            changes: content.references.len(),
            bytes: part.map(|(_, bytes)| bytes.len()),
        });
        let costs: Vec<Cost> = costs.collect();
        let (runs, goal) = self.data.reserved_runs();
        let Some(best) = choose(&blocks, &costs, (&runs, goal)) else {
            return Ok(Emptied::NoRoom);
        };
        if best.contents == 0 || best.blocks == 0 {
            return nothing;
        }
        part.truncate(best.contents);
        compressed.retain(|number| number < best.contents);
        blocks.truncate(best.blocks);
        let Some((pbns, _taken)) = self.data.take_reserved(&compressed)? else {
            return Ok(Emptied::NoRoom);
        };
        self.data.expect_emptied(&blocks);
        assert_eq!(pbns.len(), part.len(), "each content that is moved has a new place");
        let planned = |(content, to): (&Content<'_>, Pbn)| Move {
            from: content.from,
            to,
            state: MoveState::Planned,
        };
        let mut moves: Vec<Move> = part.iter().zip(pbns).map(planned).collect();
        // The form of a content that fills its block is that content.
        self.mover
            .write_moves(&mut moves, &part.iter().map(|one| &*one.form).collect::<Vec<&[u8]>>());
        let all_references = || part.iter().flat_map(|content| content.references);
        let settled = self
            .mover
            .warm_others(all_references(), &open)
            .and_then(|()| self.settle_contents(&mut moves, &part, &open));
        // In a pool that has stopped it is unknown whether durable metadata refer to these blocks.
        if !self.health.is_stopped() {
            let unused = moves.iter().filter(|one| one.state != MoveState::Made);
            self.data.give_back(unused.map(|one| one.to).collect());
        }
        settled?;
        let moved = moves.iter().filter(|one| one.state == MoveState::Made).count();
        add(&self.counters.cleaner_moved_blocks, moved as u64);
        add(&self.counters.cleaner_moved_bytes, compressed.stored_bytes(self.data.block_bytes()));
        if moved < moves.len() {
            return nothing;
        }
        add(&self.counters.cleaned_blocks, blocks.len() as u64);
        Ok(Emptied::Part(best))
    }

    /// The volumes that refer to these contents, in the order of their ids.
    fn open_volumes(&self, pbns: &[Pbn], references: &References) -> Vec<Arc<VolumeShared>> {
        let ids: BTreeSet<_> = pbns
            .iter()
            .flat_map(|pbn| references.of(*pbn))
            .map(|reference| reference.volume)
            .collect();
        let mut volumes: Vec<Arc<VolumeShared>> = self.catalogue.all().into_values().collect();
        volumes.retain(|volume| ids.contains(&volume.id()));
        volumes.sort_unstable_by_key(|volume| volume.id());
        volumes
    }

    /// Finds the contents whose references are all known and can be changed.
    fn movable_contents<'r>(
        &self,
        pbns: &[Pbn],
        (references, open): (&'r References, &[OpenVolume]),
    ) -> Result<Movable<'r>> {
        self.log.look(|state| {
            let (mut found, records) = (Movable::default(), state.records(pbns)?);
            let used = pbns.iter().zip(&records).filter(|(_, record)| record.references > 0);
            for (pbn, record) in used {
                let known = references.of(*pbn);
                let is_complete = known.len() == record.references as usize;
                match self.wanted_by(state, *pbn, (known, open))? {
                    Some(from) if is_complete && !record.is_suspect => {
                        if self.data.is_kept(*pbn) {
                            found.kept.push(*pbn);
                            found.left.push(*pbn);
                        } else {
                            let content = Content { from, references: known, form: Vec::new() };
                            found.movable.push(content);
                        }
                    }
                    _ => found.left.push(*pbn),
                }
            }
            Ok(found)
        })
    }

    /// Returns a content with its checksum and its first reference, if all of these references are
    /// still to it and can be changed.
    fn wanted_by(
        &self,
        state: &State,
        pbn: Pbn,
        (references, open): (&[Reference], &[OpenVolume]),
    ) -> Result<Option<Wanted>> {
        let Some(first) = references.first() else { return Ok(None) };
        let mut places = Vec::new();
        if open.iter().any(|one| one.has(first)) {
            state.backend().look_up(first.volume, &[first.lbn], &mut places)?;
        }
        let Some(MapEntry::Stored(_, checksum)) = places.first().copied() else { return Ok(None) };
        let from = Wanted { lbn: first.lbn, pbn, checksum };
        Ok(others_are_same(state, (references, open), from)?.then_some(from))
    }

    /// Reads contents, and brings them into the order of their blocks. A damaged one is left where
    /// it is, because its new place would count as good.
    fn with_forms<'r>(
        &self,
        mut movable: Vec<Content<'r>>,
        mut left: Vec<Pbn>,
    ) -> (Vec<Content<'r>>, Vec<Pbn>) {
        movable.sort_unstable_by_key(|content| {
            let place = PackedPlace::of(content.from.pbn);
            (place.block, place.slot)
        });
        let pbns: Vec<Pbn> = movable.iter().map(|content| content.from.pbn).collect();
        let forms = self.data.read_forms(&pbns);
        let mut good = Vec::with_capacity(movable.len());
        for (mut content, form) in movable.into_iter().zip(forms) {
            let Wanted { pbn, checksum, .. } = content.from;
            let is_good = |form: &Vec<u8>| {
                let bytes = self.data.content_of_form(pbn, form);
                bytes.is_some_and(|bytes| self.seed.of_content(&bytes) == checksum)
            };
            match form.filter(is_good) {
                Some(form) => {
                    content.form = form;
                    good.push(content);
                }
                None => left.push(pbn),
            }
        }
        (good, left)
    }

    /// Changes the references that are still those that were found.
    fn settle_contents(
        &self,
        moves: &mut [Move],
        contents: &[Content<'_>],
        open: &[OpenVolume],
    ) -> Result<()> {
        for (moves, contents) in
            moves.chunks_mut(SETTLED_BLOCKS).zip(contents.chunks(SETTLED_BLOCKS))
        {
            let mut state = self.log.write();
            for (one, content) in moves.iter_mut().zip(contents) {
                let mut records = Vec::new();
                state.backend().records(&[one.from.pbn], &mut records)?;
                let Some((first, others)) = content.references.split_first() else { continue };
                let is_same = records.iter().all(|record| {
                    record.references as usize == content.references.len()
                        && is_movable(&state, first.volume, first.lbn, record)
                });
                let references = (content.references, open);
                if one.state != MoveState::Planned
                    || !is_same
                    || !others_are_same(&state, references, one.from)?
                {
                    continue;
                }
                for record in records {
                    self.mover.settle_move(&mut state, first.volume, one, record.fingerprint)?;
                }
                self.mover.settle_others(&mut state, others, one)?;
            }
        }
        Ok(())
    }
}

/// The blocks that have a part of a content.
fn parts_of(pbn: Pbn) -> [Option<u32>; 2] {
    let place = PackedPlace::of(pbn);
    [Some(place.block), place.is_spanning().then_some(place.block + 1)]
}

/// The blocks of a window that the movable contents keep from being free.
fn emptied_blocks(window: Window, movable: &[Content<'_>], left: &[Pbn]) -> Vec<u32> {
    let blocks_of = |pbn: Pbn| parts_of(pbn).into_iter().flatten();
    let left: BTreeSet<u32> = left.iter().flat_map(|pbn| blocks_of(*pbn)).collect();
    let emptied = movable.iter().flat_map(|content| blocks_of(content.from.pbn));
    let emptied: BTreeSet<u32> = emptied.collect();
    let in_window = emptied.range(window.first..window.end).copied();
    in_window.filter(|block| !left.contains(block)).collect()
}

fn compressed_of(contents: &[Content<'_>]) -> Option<Compressed> {
    Compressed::of_forms(contents.iter().map(|content| (content.from.pbn, &*content.form)))
}

fn has_part_in(pbn: Pbn, blocks: &[u32]) -> bool {
    parts_of(pbn).into_iter().flatten().any(|block| blocks.binary_search(&block).is_ok())
}
