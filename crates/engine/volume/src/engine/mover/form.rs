//! The policy of form: stores contents again in the form in which their volume compresses at
//! present.
//!
//! A volume's compression may be changed while it has contents. The command goes through all maps
//! and reads the stored forms. A content whose form would be another one is compressed anew and
//! moved. A content with several references moves with all of them, where the first of them is
//! ([`super::chunk`]), so the compression of that volume applies. What was moved needs nothing
//! more, so a run that was stopped is continued by the next one.

use super::Mover;
use super::chunk::{Chunk, Visited};
use super::moves::{Content, MoveState};
use super::order::Stretch;
use crate::engine::VolumeShared;
use crate::engine::data::{FormRoom, GoodForm};
use crate::error::Result;
use gemelo_format::{Compression, SLOT_HEAD_BYTES};
use gemelo_store::Compressed;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::sync::Arc;

/// A form by the same algorithm is worth writing if it saves this part of a block: another level
/// saves little of most contents.
const MIN_SAVED_PART: usize = 32;

/// Counts of what was compressed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RecompressReport {
    /// Stored blocks of the volumes that were looked at.
    pub examined_blocks: u64,
    /// Contents that have another form now.
    pub moved_blocks: u64,
    /// Contents that need another form and have the old one, because a request changed them
    /// meanwhile, or because they could not be read or written.
    pub left_blocks: u64,
    /// Blocks that were not read, because they cannot be moved: they wait for the finder, are known
    /// to be damaged, or other members may use them.
    pub fixed_blocks: u64,
    /// Bytes that the moved contents took before.
    pub bytes_before: u64,
    /// Bytes that they take now.
    pub bytes_after: u64,
    /// `true` if contents were left because the store has too little free space.
    pub is_short_of_room: bool,
}

impl RecompressReport {
    /// Adds another's counts.
    pub fn add(&mut self, other: Self) {
        self.examined_blocks += other.examined_blocks;
        self.moved_blocks += other.moved_blocks;
        self.left_blocks += other.left_blocks;
        self.fixed_blocks += other.fixed_blocks;
        self.bytes_before += other.bytes_before;
        self.bytes_after += other.bytes_after;
        self.is_short_of_room |= other.is_short_of_room;
    }
}

/// A content, the bytes that it takes, and those that it would take.
struct Again {
    content: Content<'static>,
    bytes: Vec<u8>,
    /// Stored before and after.
    stored: (u64, u64),
}

/// Writes contents in another compression.
pub(crate) struct Recompressor {
    mover: Arc<Mover>,
}

impl Recompressor {
    pub(in crate::engine) const fn new(mover: Arc<Mover>) -> Self {
        Self { mover }
    }

    /// Compresses the contents of all volumes again that have another form than their volumes ask
    /// for, until `each` returns an error.
    pub(crate) fn recompress_all(
        &self,
        mut each: impl FnMut(&RecompressReport) -> Result<()>,
    ) -> Result<RecompressReport> {
        self.mover.data.check_compresses()?;
        let mut total = RecompressReport::default();
        let mut visited = Visited::default();
        for volume in self.mover.volumes() {
            let asks = Cell::new(self.mover.data.has_free_veto());
            let mut step = |left: Stretch, visited: &Visited| {
                let end = left.end.min(left.first + self.mover.chunk_blocks());
                let stretch = Stretch { end, ..left };
                let rule = (visited, asks.get());
                let part = self.recompress_with_room(&volume, stretch, rule)?;
                assert!(part.is_none_or(|(_, done)| done > left.first), "each step goes on");
                let next = part.map_or(left.first, |(_, done)| done);
                Ok((part.map(|(report, _)| report), next))
            };
            self.mover.each_chunk((&volume, &mut visited), &mut step, &mut |report| {
                asks.set(report.is_some() && self.mover.data.has_free_veto());
                let Some(report) = report else {
                    // What has not come back then stays as it is.
                    self.mover.data.await_coming_back();
                    return Ok(());
                };
                total.add(report);
                each(&report)
            })?;
        }
        self.mover.settle_old_places()?;
        Ok(total)
    }

    /// Compresses the first contents of a stretch again. Without room it makes the moves so far
    /// durable, which frees the old places, and then tries fewer contents. Returns the LBN after
    /// them; [`None`] if some were asked for and have to come back first.
    fn recompress_with_room(
        &self,
        volume: &VolumeShared,
        mut stretch: Stretch,
        rule: (&Visited, bool),
    ) -> Result<Option<(RecompressReport, u64)>> {
        let mut has_flushed = false;
        loop {
            let Some(report) = self.recompress_part(volume, stretch, rule)? else {
                return Ok(None);
            };
            let part = (report, stretch.end);
            let blocks = stretch.end - stretch.first;
            if !report.is_short_of_room || has_flushed && blocks == 1 {
                return Ok(Some(part));
            }
            if !has_flushed && !self.mover.free_old_places()? {
                return Ok(Some(part));
            }
            has_flushed = true;
            stretch.end = stretch.first + (blocks / 2).max(1);
        }
    }

    fn recompress_part(
        &self,
        volume: &VolumeShared,
        stretch: Stretch,
        rule: (&Visited, bool),
    ) -> Result<Option<RecompressReport>> {
        let _pin = self.mover.begin()?;
        let chunk = self.mover.whole_chunk(volume, stretch, rule)?;
        let mut report = RecompressReport {
            examined_blocks: chunk.blocks(),
            fixed_blocks: chunk.fixed,
            ..RecompressReport::default()
        };
        let (again, compressed) = self.other_forms(&chunk, volume.compression(), &mut report);
        let contents: Vec<Content<'_>> = again.iter().map(|one| one.content).collect();
        let pbns: Vec<_> = contents.iter().map(|content| content.pbn).collect();
        if self.mover.data.want_back(&pbns) {
            return Ok(None);
        }
        if !again.is_empty() {
            let bytes: Vec<&[u8]> = again.iter().map(|one| &*one.bytes).collect();
            let store = || self.mover.data.store_forms(&bytes, &compressed, FormRoom::Any);
            let states = self.mover.move_of(volume, &contents, store)?;
            report.is_short_of_room = states.is_none();
            let pairs = states.iter().flatten().zip(&again);
            for (_, one) in pairs.filter(|(state, _)| **state == MoveState::Made) {
                report.moved_blocks += 1;
                report.bytes_before += one.stored.0;
                report.bytes_after += one.stored.1;
            }
            report.left_blocks += again.len() as u64 - report.moved_blocks;
        }
        Ok(Some(report))
    }

    /// The contents of a chunk that need another form, and these forms.
    fn other_forms(
        &self,
        chunk: &Chunk,
        compression: Compression,
        report: &mut RecompressReport,
    ) -> (Vec<Again>, Compressed) {
        let data = &self.mover.data;
        let movable = chunk.movable();
        let wanted: Vec<_> = movable.iter().map(|(one, _)| (one.pbn, one.checksum)).collect();
        let forms = movable.iter().zip(data.read_good_forms(&wanted));
        let good: Vec<(Content<'static>, GoodForm)> =
            forms.filter_map(|((content, _), form)| Some((*content, form?))).collect();
        report.left_blocks += (movable.len() - good.len()) as u64;
        let old = Compressed::of_forms(good.iter().map(|(one, good)| (one.pbn, &*good.form)));
        let Some(old) = old else { return (Vec::new(), Compressed::default()) };
        let contents: Vec<&[u8]> = good.iter().map(|(_, good)| &*good.content).collect();
        let mut new = data.compress(&contents, compression);
        let block_bytes = data.block_bytes();
        let change = |(old, new): (Form<'_>, Form<'_>)| {
            let stored = (bytes_of(old, block_bytes), bytes_of(new, block_bytes));
            needs_change(compression, (old, new), block_bytes).then_some(stored)
        };
        let changes: Vec<Option<(u64, u64)>> = old.parts().zip(new.parts()).map(change).collect();
        assert_eq!(changes.len(), good.len(), "each content has an old and a new form");
        new.retain(|number| changes.get(number).is_some_and(Option::is_some));
        let again = |((content, good), stored): ((Content<'static>, GoodForm), Option<_>)| {
            Some(Again { content, bytes: good.content, stored: stored? })
        };
        (good.into_iter().zip(changes).filter_map(again).collect(), new)
    }
}

/// The algorithm and the bytes of a content; [`None`] for one that fills its block.
type Form<'f> = Option<(u8, &'f [u8])>;

fn bytes_of(form: Form<'_>, block_bytes: usize) -> u64 {
    form.map_or(block_bytes, |(_, bytes)| SLOT_HEAD_BYTES + bytes.len()) as u64
}

/// Returns whether a content is written in its new form. One that would not shrink any more stays
/// as it is.
fn needs_change(
    compression: Compression,
    (old, new): (Form<'_>, Form<'_>),
    block_bytes: usize,
) -> bool {
    match (old, new) {
        (None, new) => new.is_some(),
        (Some(_), None) => compression == Compression::Off,
        (Some((of, old)), Some((to, new))) => {
            of != to || new.len() + block_bytes / MIN_SAVED_PART <= old.len()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_changed_for_another_algorithm_or_for_less_space() {
        let (lz4, zstd) = (Compression::Lz4, Compression::Zstd(9));
        let bytes = vec![0; 4096];
        let form = |of: Compression, length: usize| Some((of.algorithm(), &bytes[..length]));
        for (compression, old, new, expected) in [
            (lz4, None, form(lz4, 3000), true),
            (lz4, None, None, false),
            (lz4, form(zstd, 2000), form(lz4, 2500), true),
            (zstd, form(zstd, 2000), form(zstd, 1900), false),
            (zstd, form(zstd, 2000), form(zstd, 1872), true),
            (zstd, form(lz4, 3000), None, false),
            (Compression::Off, form(lz4, 3000), None, true),
            (Compression::Off, None, None, false),
        ] {
            let needs = needs_change(compression, (old, new), 4096);
            assert_eq!(needs, expected, "{compression} {:?}", (old.is_some(), new.is_some()));
        }
    }
}
