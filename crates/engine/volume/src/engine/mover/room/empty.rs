//! Moves the contents of a window to other blocks, in the form that they have.

use super::best::{Best, Cost, best_part};
use super::pass::Step;
use crate::counters::add;
use crate::engine::State;
use crate::engine::data::{FormRoom, GoodForm, Window};
use crate::engine::mover::SpaceCleaner;
use crate::engine::mover::moves::{
    Content, Entering, Followers, MoveState, OpenVolumes, is_as_found, leads_to,
};
use crate::engine::mover::references::{MAX_OF_BLOCK, Reference, References};
use crate::error::Result;
use gemelo_format::{MapEntry, PackedPlace, Pbn};
use gemelo_metadata::Record;
use gemelo_store::Compressed;
use std::collections::BTreeSet;

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

/// The contents of a window. Those without a reference are about to be free.
#[derive(Default)]
struct Movable<'r> {
    /// Contents that can be moved.
    movable: Vec<Content<'r>>,
    /// Contents that stay.
    left: Vec<Pbn>,
    /// Those of them that could be moved if the domain did not know them.
    kept: Vec<Pbn>,
}

/// Contents with their forms, in the order of their blocks.
type Formed<'r> = Vec<(Content<'r>, Vec<u8>)>;

impl SpaceCleaner {
    /// Empties the blocks of a window, as far as their contents can be moved and that saves space.
    pub(super) fn empty_window(&self, window: Window, references: &References) -> Result<Step> {
        let block_bytes = self.data().block_bytes();
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
        let _pin = self.mover.begin()?;
        let all = self.data().allocator.contents_of_blocks(window.first..window.end);
        let known = all.iter().flat_map(|pbn| references.of(*pbn));
        self.mover.with_open(known, Entering::Tries, |open| {
            let contents = self.movable_contents(&all, (references, open))?;
            self.empty_contents((window, contents), open, choose)
        })
    }

    /// Moves those of the contents of a window that are chosen.
    fn empty_contents(
        &self,
        (window, Movable { movable, left, kept }): (Window, Movable<'_>),
        open: &OpenVolumes,
        choose: Choose<'_>,
    ) -> Result<Emptied> {
        let (data, allocator) = (self.data(), &self.data().allocator);
        if data.want_back(&kept) {
            return Ok(Emptied::Asked);
        }
        let (mut part, left) = self.with_forms(movable, left);
        let mut blocks = emptied_blocks(window, &part, &left);
        part.retain(|(content, _)| has_part_in(content.pbn, &blocks));
        let nothing = Ok(Emptied::Part(Best::default()));
        let forms = part.iter().map(|(content, form)| (content.pbn, &**form));
        let Some(mut compressed) = Compressed::of_forms(forms) else { return nothing };
        let costs = part.iter().zip(compressed.parts()).map(|((content, _), part)| Cost {
            first: PackedPlace::of(content.pbn).block,
            changes: content.changes(),
            bytes: part.map(|(_, bytes)| bytes.len()),
        });
        let costs: Vec<Cost> = costs.collect();
        let (runs, goal) = allocator.reserved_runs();
        let Some(best) = choose(&blocks, &costs, (&runs, goal)) else {
            return Ok(Emptied::NoRoom);
        };
        if best.contents == 0 || best.blocks == 0 {
            return nothing;
        }
        part.truncate(best.contents);
        compressed.retain(|number| number < best.contents);
        blocks.truncate(best.blocks);
        let contents: Vec<Content<'_>> = part.iter().map(|(content, _)| *content).collect();
        self.mover.reserve_slots(&contents)?;
        let forms: Vec<&[u8]> = part.iter().map(|(_, form)| &**form).collect();
        let stored = data.store_forms(&forms, &compressed, FormRoom::Cleaner)?;
        let Some(stored) = stored else { return Ok(Emptied::NoRoom) };
        allocator.expect_emptied(&blocks);
        let states = self.mover.carry_out(&contents, stored, open)?;
        let moved = states.iter().filter(|state| **state == MoveState::Made).count();
        add(&self.counters.cleaner_moved_blocks, moved as u64);
        add(&self.counters.cleaner_moved_bytes, compressed.stored_bytes(data.block_bytes()));
        if moved < states.len() {
            return nothing;
        }
        add(&self.counters.cleaned_blocks, blocks.len() as u64);
        Ok(Emptied::Part(best))
    }

    /// Finds the contents whose references can follow.
    fn movable_contents<'r>(
        &self,
        pbns: &[Pbn],
        (references, open): (&'r References, &OpenVolumes),
    ) -> Result<Movable<'r>> {
        self.mover.log.look(|state| {
            let (mut found, records) = (Movable::default(), state.records(pbns)?);
            let used = pbns.iter().zip(&records).filter(|(_, record)| record.references > 0);
            for (pbn, record) in used {
                let content = content_of(state, references.of(*pbn), (record, open))?;
                let is_kept = content.is_some() && self.data().is_kept(*pbn);
                match content.filter(|_| !is_kept) {
                    Some(content) => found.movable.push(content),
                    None => found.left.push(*pbn),
                }
                found.kept.extend(is_kept.then_some(*pbn));
            }
            Ok(found)
        })
    }

    /// Reads contents, and brings them into the order of their blocks. A damaged one is left where
    /// it is, because its new place would count as good.
    fn with_forms<'r>(
        &self,
        mut movable: Vec<Content<'r>>,
        mut left: Vec<Pbn>,
    ) -> (Formed<'r>, Vec<Pbn>) {
        movable.sort_unstable_by_key(|content| {
            let place = PackedPlace::of(content.pbn);
            (place.block, place.slot)
        });
        let wanted: Vec<_> = movable.iter().map(|one| (one.pbn, one.checksum)).collect();
        let mut formed = Vec::with_capacity(movable.len());
        for (content, form) in movable.into_iter().zip(self.data().read_good_forms(&wanted)) {
            match form {
                Some(GoodForm { form, .. }) => formed.push((content, form)),
                None => left.push(content.pbn),
            }
        }
        (formed, left)
    }
}

/// Returns a content, if its references can follow: these, if they are all that it has and can be
/// changed one by one, or all by one change.
fn content_of<'r>(
    state: &State,
    references: &'r [Reference],
    (record, open): (&Record, &OpenVolumes),
) -> Result<Option<Content<'r>>> {
    let Some((first, others)) = references.split_first() else { return Ok(None) };
    if !open.have(first) {
        return Ok(None);
    }
    let place = state.places(first.volume, &[first.lbn])?;
    let [MapEntry::Stored(_, checksum)] = *place else { return Ok(None) };
    let followers = Followers::These { first: *first, others };
    let content = Content { pbn: first.pbn, checksum, followers };
    let has_few = record.references <= MAX_OF_BLOCK;
    if has_few && is_as_found(state, &content, record, open)? {
        return Ok(Some(content));
    }
    let is_in_part = |one: &Reference| state.backend().is_in_shared_part(one.volume, one.lbn);
    let must_follow_at_once = !has_few || references.iter().any(is_in_part);
    let content = Content { followers: Followers::All(record.references), ..content };
    let can_follow = must_follow_at_once
        && leads_to(state, *first, checksum)?
        && is_as_found(state, &content, record, open)?;
    Ok(can_follow.then_some(content))
}

/// The blocks that have a part of a content.
fn parts_of(pbn: Pbn) -> [Option<u32>; 2] {
    let place = PackedPlace::of(pbn);
    [Some(place.block), place.is_spanning().then_some(place.block + 1)]
}

/// The blocks of a window that the movable contents keep from being free.
fn emptied_blocks(window: Window, movable: &[(Content<'_>, Vec<u8>)], left: &[Pbn]) -> Vec<u32> {
    let blocks_of = |pbn: Pbn| parts_of(pbn).into_iter().flatten();
    let left: BTreeSet<u32> = left.iter().flat_map(|pbn| blocks_of(*pbn)).collect();
    let emptied = movable.iter().flat_map(|(content, _)| blocks_of(content.pbn));
    let emptied: BTreeSet<u32> = emptied.collect();
    let in_window = emptied.range(window.first..window.end).copied();
    in_window.filter(|block| !left.contains(block)).collect()
}

fn has_part_in(pbn: Pbn, blocks: &[u32]) -> bool {
    parts_of(pbn).into_iter().flatten().any(|block| blocks.binary_search(&block).is_ok())
}
