//! Moves the contents of a window to other blocks, in the form that they have.

use super::best::{Cost, best_part};
use crate::counters::add;
use crate::engine::data::Window;
use crate::engine::layout::chunk::is_movable;
use crate::engine::layout::moves::{Move, MoveState, OpenVolume, SETTLED_BLOCKS, others_are_same};
use crate::engine::layout::references::{Reference, References};
use crate::engine::{Engine, State, VolumeShared, Wanted};
use crate::error::Result;
use gemelo_format::{MapEntry, PackedPlace, Pbn};
use gemelo_store::Compressed;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A content of a window, and its form.
struct Content<'r> {
    from: Wanted,
    /// All references; the first of them is that of `from`.
    references: &'r [Reference],
    form: Vec<u8>,
}

impl Engine {
    /// Empties the blocks of a window, as far as their contents can be moved and that saves space.
    /// Returns the bytes of blocks that are saved; [`None`] if there is no room for the contents.
    pub(super) fn empty_window(
        &self,
        window: Window,
        references: &References,
    ) -> Result<Option<u64>> {
        self.check_writable()?;
        self.log.bound_open_commit()?;
        self.log.reserve_slots()?;
        // The pin keeps all blocks that are looked up here from being reused before the end.
        let _pin = self.pin();
        let all = self.data.contents_of_blocks(window.first..window.end);
        let volumes = self.open_volumes(&all, references);
        let gates: Vec<_> =
            volumes.iter().filter_map(|volume| Some((volume, volume.try_enter()?))).collect();
        let open: Vec<OpenVolume> = gates
            .iter()
            .filter(|(volume, is_removed)| !**is_removed && !volume.may_be_copied())
            .map(|(volume, _)| OpenVolume { id: volume.id(), blocks: self.blocks_of(volume) })
            .collect();
        let (movable, left) = self.movable_contents(&all, (references, &open))?;
        let (mut part, left) = self.with_forms(movable, left);
        let mut blocks = emptied_blocks(window, &part, &left);
        part.retain(|content| has_part_in(content.from.pbn, &blocks));
        let Some(mut compressed) = compressed_of(&part) else { return Ok(Some(0)) };
        let (runs, goal) = self.data.reserved_runs();
        let costs = part.iter().zip(compressed.parts()).map(|(content, part)| Cost {
            first: PackedPlace::of(content.from.pbn).block,
            changes: content.references.len(),
            bytes: part.map(|(_, bytes)| bytes.len()),
        });
        let (best, is_cut) = best_part(&blocks, costs, (self.block_bytes(), &runs, goal));
        if is_cut && runs.iter().sum::<u64>() < goal {
            return Ok(None);
        }
        if best.blocks == 0 {
            return Ok(Some(0));
        }
        part.truncate(best.contents);
        compressed.retain(|number| number < best.contents);
        blocks.truncate(best.blocks);
        let Some((pbns, _taken)) = self.data.take_reserved(&compressed)? else { return Ok(None) };
        self.data.expect_emptied(&blocks);
        assert_eq!(pbns.len(), part.len(), "each content that is moved has a new place");
        let planned = |(content, to): (&Content<'_>, Pbn)| Move {
            from: content.from,
            to,
            state: MoveState::Planned,
        };
        let mut moves: Vec<Move> = part.iter().zip(pbns).map(planned).collect();
        // The form of a content that fills its block is that content.
        self.write_moves(&mut moves, &part.iter().map(|one| &*one.form).collect::<Vec<&[u8]>>());
        let all_references = || part.iter().flat_map(|content| content.references);
        let settled = self
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
        let block_bytes = self.block_bytes();
        add(&self.counters.cleaner_moved_bytes, compressed.stored_bytes(block_bytes));
        let is_whole = moved == moves.len();
        add(&self.counters.cleaned_blocks, if is_whole { blocks.len() as u64 } else { 0 });
        // A longer run of the reserve counts as well, because other windows may save space then.
        Ok(Some(if is_whole { (best.saved * block_bytes as u64).max(1) } else { 0 }))
    }

    /// The volumes that refer to these contents, in the order of their ids.
    fn open_volumes(&self, pbns: &[Pbn], references: &References) -> Vec<Arc<VolumeShared>> {
        let ids: BTreeSet<_> = pbns
            .iter()
            .flat_map(|pbn| references.of(*pbn))
            .map(|reference| reference.volume)
            .collect();
        let mut volumes: Vec<Arc<VolumeShared>> = self.volumes().into_values().collect();
        volumes.retain(|volume| ids.contains(&volume.id()));
        volumes.sort_unstable_by_key(|volume| volume.id());
        volumes
    }

    /// The contents whose references are all known and can be changed, without their forms, and
    /// those that stay. Contents without a reference are neither: they are about to be free.
    fn movable_contents<'r>(
        &self,
        pbns: &[Pbn],
        (references, open): (&'r References, &[OpenVolume]),
    ) -> Result<(Vec<Content<'r>>, Vec<Pbn>)> {
        let (mut movable, mut left, mut records) = (Vec::new(), Vec::new(), Vec::new());
        let state = self.state();
        state.backend().records(pbns, &mut records)?;
        for (pbn, record) in pbns.iter().zip(&records).filter(|(_, record)| record.references > 0) {
            let known = references.of(*pbn);
            let is_complete = known.len() == record.references as usize;
            let can_be_freed = !record.is_suspect && !self.data.is_kept(*pbn);
            match self.wanted_by(&state, *pbn, (known, open))? {
                Some(from) if is_complete && can_be_freed => {
                    movable.push(Content { from, references: known, form: Vec::new() });
                }
                _ => left.push(*pbn),
            }
        }
        Ok((movable, left))
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
            let mut state = self.state_to_change();
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
                    self.settle_move(&mut state, first.volume, one, record.fingerprint)?;
                }
                self.settle_others(&mut state, others, one)?;
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
