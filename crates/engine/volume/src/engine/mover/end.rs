//! The policy of the end: empties the last blocks of the store, which becomes smaller.
//!
//! 1. The blocks are barred (`data/space/barred.rs`): none of them is given out any more.
//! 2. A walk over all maps collects the contents there, each with the checksum that its map
//!    expects. What a map shares with that of the volume before it is not looked at.
//! 3. Contents that pass their checksums are stored elsewhere. One change for each moves it with
//!    all of its references, however many there are and whoever shares them.
//! 4. All begins again until no barred block is in use: a write that had taken one before may have
//!    stored there meanwhile.
//!
//! A barred block is unused when the checkpoint after the moves is durable.

use super::Mover;
use super::moves::{Content, Followers, MoveState, OpenVolumes};
use crate::engine::damage::Healer;
use crate::engine::data::{FormRoom, GoodForm, StoredContents};
use crate::error::{Result, VolumeError};
use gemelo_format::{
    Checksum, Compression, DiskRole, Lbn, MAX_VOLUME_BLOCKS, MapEntry, Pbn, PoolSeed, VolumeId,
};
use gemelo_metadata::{Differences, HeldPages, Record};
use gemelo_store::{Compressed, ContentRead};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Contents that are collected in a walk: 64 MiB. Further ones are left to the next walk.
const MAX_FOUND: usize = 4 << 20;
/// Leaves of maps that are compared in one hold of the state's lock.
const LEAVES_AT_ONCE: usize = 64;
/// Bytes that are read, moved and written together.
const BYTES_AT_ONCE: usize = 1 << 20;
/// Walks that find nothing to move before blocks that are in use count as left, and the pause
/// before each: requests that were under way have ended by then.
const MAX_FUTILE_WALKS: u32 = 100;
const FUTILE_PAUSE: Duration = Duration::from_millis(20);

/// A content as a map expects it.
type MappedContent = (Pbn, Checksum);

/// The outcome for some contents.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    moved: u64,
    /// Contents that cannot be moved, because they are damaged.
    damaged: u64,
}

/// Contents that pass their checksums, and their bytes as the store has them.
struct GoodContents {
    contents: Vec<Content<'static>>,
    forms: Vec<Vec<u8>>,
}

/// Empties the end of the store; see the module.
pub(crate) struct Shrinker {
    mover: Arc<Mover>,
    healer: Arc<Healer>,
}

impl Shrinker {
    pub(in crate::engine) const fn new(mover: Arc<Mover>, healer: Arc<Healer>) -> Self {
        Self { mover, healer }
    }

    /// Moves all contents out of these blocks, which are barred and the last of the store, until
    /// `each` returns an error. It is called with the contents that were moved since the last call.
    /// `fixed` of the blocks have no content and are not given back.
    pub(crate) fn empty(
        &self,
        (blocks, fixed): (Range<u64>, u64),
        each: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        let (mut total, mut futile) = (Part::default(), 0);
        let at_once = (BYTES_AT_ONCE / self.mover.data.block_bytes()).max(1);
        loop {
            let found = self.contents_from(blocks.start, MAX_FOUND, &mut || each(0))?;
            let mut round = Part::default();
            for some in found.chunks(at_once) {
                let part = self.move_contents(some)?;
                round.moved += part.moved;
                round.damaged += part.damaged;
                each(part.moved)?;
            }
            total.moved += round.moved;
            self.mover.free_old_places()?;
            if self.mover.data.allocator.parked_blocks() + fixed == blocks.end - blocks.start {
                return Ok(total.moved);
            }
            futile = if round.moved > 0 { 0 } else { futile + 1 };
            if futile > MAX_FUTILE_WALKS || futile > 1 && round.damaged > 0 {
                return Err(still_used(round.damaged));
            }
            if futile > 0 {
                gemelo_base::pause(FUTILE_PAUSE);
            }
        }
    }

    /// Collects contents of blocks from this one on, at most `most`, in the order of their PBNs.
    pub(crate) fn contents_from(
        &self,
        first: u64,
        most: usize,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<MappedContent>> {
        let ids: Vec<VolumeId> = {
            let volumes = self.mover.log.read().backend().volumes();
            volumes.iter().map(|volume| volume.id).collect()
        };
        let (mut found, mut before) = (Vec::new(), None);
        for id in ids {
            let mut next = Lbn(0);
            while next < Lbn(MAX_VOLUME_BLOCKS) && found.len() < most {
                go_on()?;
                let Some(part) = self.differences((id, before), next)? else { break };
                let own = part.entries.iter().filter_map(|entry| match entry.own {
                    MapEntry::Stored(pbn, checksum) => Some((pbn, checksum)),
                    _ => None,
                });
                let kind = self.mover.superblock.store;
                found.extend(own.filter(|(pbn, _)| kind.last_block(*pbn) >= first));
                next = part.end;
            }
            before = Some(id);
        }
        found.sort_unstable();
        found.dedup_by_key(|(pbn, _)| *pbn);
        Ok(found)
    }

    /// Compares the map of a volume from an LBN on with that of another one, if both are there.
    fn differences(
        &self,
        (id, before): (VolumeId, Option<VolumeId>),
        from: Lbn,
    ) -> Result<Option<Differences>> {
        let _held = HeldPages::hold();
        self.mover.log.look(|state| {
            let backend = state.backend();
            let is_there = |id: &VolumeId| backend.description(*id).is_some();
            if !is_there(&id) {
                return Ok(None);
            }
            let lbns = from..Lbn(MAX_VOLUME_BLOCKS);
            let before = before.filter(is_there);
            Ok(Some(backend.differences(id, before, lbns, LEAVES_AT_ONCE)?))
        })
    }

    fn move_contents(&self, found: &[MappedContent]) -> Result<Part> {
        let _pin = self.mover.begin()?;
        let pbns: Vec<Pbn> = found.iter().map(|(pbn, _)| *pbn).collect();
        let records = self.mover.log.records(&pbns)?;
        let used = found.iter().zip(&records).filter(|(_, record)| record.references > 0);
        let (intact, suspect): (Vec<_>, Vec<_>) = used.partition(|(_, record)| !record.is_suspect);
        let content = |((pbn, checksum), record): (&MappedContent, &Record)| Content {
            pbn: *pbn,
            checksum: *checksum,
            followers: Followers::All(record.references),
        };
        let wanted: Vec<Content<'_>> = intact.into_iter().map(content).collect();
        self.mover.reserve_slots(&wanted)?;
        let good = self.read(&wanted);
        let damaged = (suspect.len() + wanted.len() - good.contents.len()) as u64;
        let mut passed = good.contents.iter().map(|content| content.pbn).peekable();
        for Content { pbn, .. } in wanted {
            if passed.next_if_eq(&pbn).is_none() {
                // The next write of such a content heals it.
                self.healer.suspect(pbn);
            }
        }
        if good.contents.is_empty() {
            return Ok(Part { moved: 0, damaged });
        }
        let stored = self.store(&good)?.ok_or(VolumeError::NoSpace { disk: DiskRole::Data })?;
        let states = self.mover.carry_out(&good.contents, stored, &OpenVolumes::default())?;
        let moved = states.iter().filter(|state| **state == MoveState::Made).count() as u64;
        Ok(Part { moved, damaged })
    }

    /// Reads contents, and leaves out those that do not pass their checksums.
    fn read(&self, wanted: &[Content<'static>]) -> GoodContents {
        let data = &self.mover.data;
        let pairs: Vec<(Content<'static>, Vec<u8>)> = if data.has_forms() {
            let mapped: Vec<MappedContent> =
                wanted.iter().map(|content| (content.pbn, content.checksum)).collect();
            let forms = wanted.iter().zip(data.read_good_forms(&mapped));
            forms
                .filter_map(|(one, form)| Some((*one, form.map(|GoodForm { form, .. }| form)?)))
                .collect()
        } else {
            let mut contents = vec![vec![0; data.block_bytes()]; wanted.len()];
            let buffers = contents.iter_mut().map(Vec::as_mut_slice);
            let mut reads: Vec<ContentRead<'_>> = wanted
                .iter()
                .zip(buffers)
                .map(|(one, buffer)| ContentRead::new(one.pbn, 0, buffer).compared())
                .collect();
            data.read(&mut reads);
            let outcomes: Vec<bool> = reads.iter().map(|read| read.outcome.is_ok()).collect();
            let seed = PoolSeed::of(&self.mover.superblock);
            let read = wanted.iter().copied().zip(contents).zip(outcomes);
            let is_good =
                |(one, content): &(Content<'_>, Vec<u8>)| seed.of_content(content) == one.checksum;
            read.filter(|(one, is_read)| *is_read && is_good(one)).map(|(one, _)| one).collect()
        };
        let (contents, forms) = pairs.into_iter().unzip();
        GoodContents { contents, forms }
    }

    /// Stores contents unchanged in other blocks; [`None`] if there is too little room.
    fn store(
        &self,
        GoodContents { contents, forms }: &GoodContents,
    ) -> Result<Option<StoredContents<'_>>> {
        let data = &self.mover.data;
        let bytes: Vec<&[u8]> = forms.iter().map(Vec::as_slice).collect();
        if !data.has_forms() {
            return data.store_new(&bytes, Compression::Off, (&[], false));
        }
        let pairs = contents.iter().zip(&bytes).map(|(one, form)| (one.pbn, *form));
        let Some(compressed) = Compressed::of_forms(pairs) else { return Ok(None) };
        data.store_forms(&bytes, &compressed, FormRoom::Any)
    }
}

/// The error for blocks that could not be emptied.
fn still_used(damaged: u64) -> VolumeError {
    let rule = match damaged {
        0 => "blocks beyond it stay in use: try again when less is written".to_owned(),
        _ => format!(
            "{damaged} contents beyond it are damaged and cannot be moved: 'gemelo pool scrub' \
             heals or lists them"
        ),
    };
    VolumeError::BadOption { what: "the new capacity".to_owned(), rule }
}
