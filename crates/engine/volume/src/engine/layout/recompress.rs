//! Stores contents again in the form in which their volume compresses at present.
//!
//! A volume's compression may be changed while it has contents. The command goes through all maps
//! and reads the stored forms. A content whose form would be another one is compressed anew and
//! moved, by the same change as a move of the arranger, so the same holds for races and crashes. A
//! content with several references moves with all of them, where the first of them is, so the
//! compression of that volume applies. What was moved needs nothing more, so a run that was stopped
//! is continued by the next one.

use super::arrange::is_full;
use super::chunk::Chunk;
use super::marks::Stretch;
use super::moves::MoveState;
use super::references::References;
use super::room::Places;
use crate::engine::catalogue::Catalogue;
use crate::engine::data::DataPath;
use crate::engine::health::Health;
use crate::engine::layout::Mover;
use crate::engine::log::Log;
use crate::engine::parts::Common;
use crate::engine::{VolumeShared, Wanted};
use crate::error::Result;
use gemelo_format::{Compression, Lbn, Pbn, PoolSeed, SLOT_HEAD_BYTES};
use gemelo_store::Compressed;
use serde::{Deserialize, Serialize};
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
    /// Blocks that were not read, because they cannot be moved: they have too many references, are
    /// in a part of a map that snapshots share, wait for the finder, or are known to be damaged.
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
    from: Wanted,
    content: Vec<u8>,
    bytes: (u64, u64),
}

/// Writes contents in another compression.
pub(crate) struct Recompressor {
    mover: Arc<Mover>,
    data: Arc<DataPath>,
    log: Arc<Log>,
    catalogue: Arc<Catalogue>,
    health: Arc<Health>,
    seed: PoolSeed,
}

impl Recompressor {
    pub(in crate::engine) fn new(common: &Common, mover: &Arc<Mover>) -> Self {
        Self {
            mover: Arc::clone(mover),
            data: Arc::clone(&common.data),
            log: Arc::clone(&common.log),
            catalogue: Arc::clone(&common.catalogue),
            health: Arc::clone(&common.health),
            seed: common.seed,
        }
    }

    /// Compresses the contents of all volumes again that have another form than their volumes ask
    /// for, until `each` returns an error.
    pub(crate) fn recompress_all(
        &self,
        mut each: impl FnMut(&RecompressReport) -> Result<()>,
    ) -> Result<RecompressReport> {
        self.data.check_compresses()?;
        let mut total = RecompressReport::default();
        let references =
            self.mover.shared_references(&mut || each(&RecompressReport::default()))?;
        for volume in self.catalogue.all().into_values() {
            self.recompress_volume(&volume, &references, &mut |report| {
                total.add(*report);
                each(report)
            })?;
        }
        Ok(total)
    }

    fn recompress_volume(
        &self,
        volume: &VolumeShared,
        references: &References,
        each: &mut dyn FnMut(&RecompressReport) -> Result<()>,
    ) -> Result<()> {
        let (mut next, mut asks) = (Lbn(0), self.data.has_free_veto());
        loop {
            let step = {
                let removed = volume.enter();
                let end = Lbn(volume.blocks());
                // A clone would keep the old places.
                if *removed || volume.is_in_change() {
                    return Ok(());
                }
                let mapped = self.log.next_mapped(volume.id(), next, end)?;
                let Some(first) = mapped else { return Ok(()) };
                let end = end.0.min(first.0 + self.mover.chunk_blocks());
                let stretch = Stretch { first: first.0, end };
                let step = self.recompress_with_room(volume, stretch, (references, asks))?;
                assert!(step.is_none_or(|(_, done)| done > first.0), "each step goes on");
                step
            };
            match step {
                Some((report, done)) => {
                    (next, asks) = (Lbn(done), self.data.has_free_veto());
                    each(&report)?;
                }
                // What has not come back then stays as it is.
                None => {
                    asks = false;
                    self.data.await_coming_back();
                }
            }
        }
    }

    /// Compresses the first contents of a stretch again. Without room it makes the moves so far
    /// durable, which frees the old places, and then tries fewer contents. Returns the LBN after
    /// them; [`None`] if some were asked for and have to come back first.
    fn recompress_with_room(
        &self,
        volume: &VolumeShared,
        mut stretch: Stretch,
        references: (&References, bool),
    ) -> Result<Option<(RecompressReport, u64)>> {
        let mut has_flushed = false;
        loop {
            let Some(part) = self.recompress_part(volume, stretch, references)? else {
                return Ok(None);
            };
            let blocks = stretch.end - stretch.first;
            if !part.0.is_short_of_room || has_flushed && blocks == 1 {
                return Ok(Some(part));
            }
            if !has_flushed {
                match self.log.flush() {
                    Err(error) if is_full(&error) => return Ok(Some(part)),
                    other => other?,
                }
                self.data.await_retired();
                has_flushed = true;
            }
            stretch.end = stretch.first + (blocks / 2).max(1);
        }
    }

    fn recompress_part(
        &self,
        volume: &VolumeShared,
        stretch: Stretch,
        (references, asks): (&References, bool),
    ) -> Result<Option<(RecompressReport, u64)>> {
        self.health.check_writable()?;
        self.log.bound_open_commit()?;
        // The pin keeps all blocks that are looked up here from being reused before the end.
        let _pin = self.data.pin();
        let chunk = self.mover.whole_chunk(volume, stretch, (references, asks))?;
        let mut report = RecompressReport {
            examined_blocks: chunk.blocks.len() as u64,
            fixed_blocks: chunk.fixed,
            ..RecompressReport::default()
        };
        let (again, compressed) = self.other_forms(&chunk, volume.compression(), &mut report);
        let pbns: Vec<Pbn> = again.iter().map(|one| one.from.pbn).collect();
        if asks && self.data.want_back(&pbns) {
            return Ok(None);
        }
        if !again.is_empty() {
            self.log.reserve_slots()?;
            let blocks: Vec<Wanted> = again.iter().map(|one| one.from).collect();
            let contents: Vec<&[u8]> = again.iter().map(|one| &*one.content).collect();
            let take = || {
                let taken = self.data.take_for_forms(&compressed)?;
                Ok(taken.map(|(pbns, taken)| Places { pbns, taken: vec![taken] }))
            };
            let at = (chunk.stretch, &*blocks);
            let moves = self.mover.move_contents(volume, at, &contents, references, take)?;
            report.is_short_of_room = moves.is_none();
            let moves = moves.unwrap_or_default();
            let pairs = moves.iter().zip(&again);
            for (_, one) in pairs.filter(|(one, _)| one.state == MoveState::Made) {
                report.moved_blocks += 1;
                report.bytes_before += one.bytes.0;
                report.bytes_after += one.bytes.1;
            }
            report.left_blocks += again.len() as u64 - report.moved_blocks;
        }
        Ok(Some((report, chunk.stretch.end)))
    }

    /// The contents of a chunk that need another form, and these forms.
    fn other_forms(
        &self,
        chunk: &Chunk,
        compression: Compression,
        report: &mut RecompressReport,
    ) -> (Vec<Again>, Compressed) {
        let movable = chunk.movable();
        let pbns: Vec<_> = movable.iter().map(|wanted| wanted.pbn).collect();
        let forms = self.data.read_forms(&pbns);
        assert_eq!(forms.len(), movable.len(), "each content is read");
        let good = |(from, form): (&Wanted, Option<Vec<u8>>)| {
            let form = form?;
            let content = self.data.content_of_form(from.pbn, &form)?;
            (self.seed.of_content(&content) == from.checksum).then_some((*from, form, content))
        };
        let good: Vec<_> = movable.iter().zip(forms).filter_map(good).collect();
        report.left_blocks += (movable.len() - good.len()) as u64;
        let old = Compressed::of_forms(good.iter().map(|(from, form, _)| (from.pbn, &**form)));
        let Some(old) = old else { return (Vec::new(), Compressed::default()) };
        let contents: Vec<&[u8]> = good.iter().map(|(_, _, content)| &**content).collect();
        let mut new = self.data.compress(&contents, compression);
        let block_bytes = self.data.block_bytes();
        let change = |(old, new): (Form<'_>, Form<'_>)| {
            let bytes = (bytes_of(old, block_bytes), bytes_of(new, block_bytes));
            needs_change(compression, (old, new), block_bytes).then_some(bytes)
        };
        let changes: Vec<Option<(u64, u64)>> = old.parts().zip(new.parts()).map(change).collect();
        assert_eq!(changes.len(), good.len(), "each content has an old and a new form");
        new.retain(|number| changes.get(number).is_some_and(Option::is_some));
        let again = good
            .into_iter()
            .zip(changes)
            .filter_map(|((from, _, content), bytes)| Some(Again { from, content, bytes: bytes? }));
        (again.collect(), new)
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
