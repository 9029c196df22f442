//! Makes the data store smaller, while the pool is served.
//!
//! 1. The blocks beyond the new end are barred and emptied (`engine/mover/end.rs`).
//! 2. A checkpoint: no map and no commit of the journal names them any more.
//! 3. If the copy of the store's header lies there, its label is written to the new last block,
//!    and the superblock, which names it, is written again.
//! 4. The space of the blocks is given back, the size is changed, and another checkpoint written.
//!    Only then does nothing durable say that the store was larger, and a file becomes shorter.
//!
//! A crash in between leaves the store as large as it was, or a file that is longer than its store,
//! without space there. If the command fails or is stopped before the third step, the barred blocks
//! are given out again.

use crate::engine::{Engine, Pace};
use crate::error::{Result, VolumeError};
use gemelo_base::units::format_exact_size;
use gemelo_base::{Monitor, StopFlag, Unit};
use gemelo_disk::Disk;
use gemelo_format::{Change, Pbn, move_header_copy, read_superblock};
use gemelo_store::ContentRead;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// This part of the new store stays free for writes.
const KEPT_PART: u64 = 64;
/// Bytes of contents that are read to estimate the time.
const SAMPLED_BYTES: usize = 16 << 20;
/// The time of a move to that of a read: contents are written as well.
const MOVE_PER_READ: f64 = 2.0;

/// The way of a shrink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShrinkOptions {
    /// Most bytes a second that are moved; [`None`] for no limit.
    pub max_bytes_per_s: Option<u64>,
    /// `true` to look only what has to be moved.
    pub is_dry: bool,
}

/// The outcome of a shrink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShrinkReport {
    /// Blocks beyond the new end that had to be emptied.
    pub used_blocks: u64,
    /// Contents that were moved. A block may have several.
    pub moved_contents: u64,
    /// The time that the moves are going to take, if that was asked for.
    pub estimated_s: Option<u64>,
}

/// A smaller store.
struct Smaller {
    /// The blocks that it has.
    data_blocks: u64,
    /// The blocks that have to be empty before.
    emptied: Range<u64>,
    /// The old and the new place of the copy of the header, if it has to move.
    header: Option<(Pbn, Pbn)>,
}

/// A pool whose store becomes smaller.
struct StoreCut<'p> {
    engine: &'p Engine,
    metadata: &'p dyn Disk,
}

/// Makes the store smaller; see [`super::Pool::shrink`].
pub(super) fn shrink(
    (engine, metadata): (&Engine, &dyn Disk),
    capacity_bytes: u64,
    options: ShrinkOptions,
    watch: (&dyn Monitor, &StopFlag),
) -> Result<ShrinkReport> {
    StoreCut { engine, metadata }.shrink(capacity_bytes, options, watch)
}

impl StoreCut<'_> {
    fn shrink(
        &self,
        capacity_bytes: u64,
        options: ShrinkOptions,
        (monitor, stop): (&dyn Monitor, &StopFlag),
    ) -> Result<ShrinkReport> {
        let engine = self.engine;
        engine.health.check_writable()?;
        // A change of the size that is under way ends before.
        let change = engine.catalogue.change();
        let _shrinking = engine.data.begin_shrinking()?;
        drop(change);
        let block_bytes = u64::from(engine.superblock.block_bytes);
        let smaller = self.smaller(capacity_bytes / block_bytes)?;
        let used_blocks = check_room(engine, &smaller)?;
        let report = ShrinkReport { used_blocks, ..ShrinkReport::default() };
        let mut pace = Pace::new(engine, options.max_bytes_per_s, stop);
        if options.is_dry {
            let s = estimated_s(engine, &smaller, (used_blocks, options), &mut pace)?;
            return Ok(ShrinkReport { estimated_s: Some(s), ..report });
        }
        monitor.begin("Emptying the end of the store", Unit::Items, None);
        let mut moved_contents = 0;
        if !smaller.emptied.is_empty() {
            moved_contents = self.cut(&smaller, &mut |moved| {
                monitor.advance(moved);
                pace.go_on(moved)
            })?;
        }
        monitor.finish();
        Ok(ShrinkReport { moved_contents, ..report })
    }

    fn smaller(&self, data_blocks: u64) -> Result<Smaller> {
        let engine = self.engine;
        let now = engine.log.read().backend().totals().data_blocks;
        let size =
            |blocks: u64| format_exact_size(blocks * u64::from(engine.superblock.block_bytes));
        let refuse = |rule: String| {
            Err(VolumeError::BadOption { what: format!("capacity {}", size(data_blocks)), rule })
        };
        if engine.data.has_free_veto() {
            return refuse(
                "a member of a domain keeps its size, because others name its blocks".to_owned(),
            );
        }
        if data_blocks > now {
            let has = size(now);
            return refuse(format!("the pool has {has}: 'gemelo pool grow' makes it larger"));
        }
        // The superblock that the engine was opened with has an earlier place after a shrink.
        let superblock = read_superblock(self.metadata, &mut Vec::new())?;
        let least = superblock.reserved_blocks() + 1;
        if data_blocks < least {
            return refuse(format!("a pool has {} at least", size(least)));
        }
        let last = Pbn::new(data_blocks - 1);
        let copy = superblock.header_copy.filter(|copy| copy.number() >= data_blocks);
        let header = copy.zip(last);
        let first = data_blocks - u64::from(header.is_some());
        let emptied = if data_blocks == now { now..now } else { first..now };
        Ok(Smaller { data_blocks, emptied, header })
    }

    /// Empties the end of the store and cuts it off. Returns the number of contents that were
    /// moved.
    fn cut(&self, smaller: &Smaller, each: &mut dyn FnMut(u64) -> Result<()>) -> Result<u64> {
        let engine = self.engine;
        let Smaller { data_blocks, emptied, header } = smaller;
        engine.data.bar(emptied.clone());
        let fixed = u64::from(header.is_some());
        let moved = engine.volumes.clearer.clear_hidden(&|| false).and_then(|()| {
            let moved = engine.shrinker.empty((emptied.clone(), fixed), each)?;
            // What the journal has of these blocks must not be written there again.
            engine.log.checkpoint_surely().map(|()| moved)
        });
        let moved = match moved {
            Ok(moved) => moved,
            Err(error) => {
                engine.data.unbar();
                // Without room for a checkpoint, the old places are free after a later one.
                let _ = engine.log.settle_moves();
                return Err(error);
            }
        };
        if let Some((from, to)) = header {
            self.move_header(*from, *to)?;
        }
        let cut_off = *data_blocks..emptied.end;
        engine.data.discard_parked(&cut_off);
        engine.log.change(&Change::Cut { data_blocks: *data_blocks })?;
        engine.data.cut(*data_blocks);
        engine.log.checkpoint_surely()?;
        engine.data.cut_store(cut_off)?;
        Ok(moved)
    }

    /// Copies the header of the data store to another block, and has the superblock name it. The
    /// block is free from then on that had the copy.
    fn move_header(&self, from: Pbn, to: Pbn) -> Result<()> {
        let engine = self.engine;
        engine.data.move_header(from, to)?;
        Ok(move_header_copy(self.metadata, to)?)
    }
}

/// Fails if the contents have too little room in a smaller store. Returns the blocks that have to
/// be emptied.
fn check_room(engine: &Engine, smaller: &Smaller) -> Result<u64> {
    let allocator = &engine.data.allocator;
    let fixed = u64::from(smaller.header.is_some());
    let (free, free_in_end) = (allocator.free_blocks(), allocator.free_in(&smaller.emptied));
    let all = smaller.emptied.end - smaller.emptied.start;
    let used = all.saturating_sub(free_in_end + fixed);
    let kept = smaller.data_blocks / KEPT_PART;
    let room = free.saturating_sub(free_in_end);
    if used == 0 || used + kept <= room {
        return Ok(used);
    }
    let size = |blocks: u64| format_exact_size(blocks * u64::from(engine.superblock.block_bytes));
    Err(VolumeError::BadOption {
        what: format!("capacity {}", size(smaller.data_blocks)),
        rule: format!(
            "{} beyond it are in use, and {} before it are free, of which {} stay free for writes",
            size(used),
            size(room),
            size(kept)
        ),
    })
}

/// The seconds that the moves are going to take, by the time in which a sample of the contents is
/// read.
fn estimated_s(
    engine: &Engine,
    smaller: &Smaller,
    (blocks, options): (u64, ShrinkOptions),
    pace: &mut Pace<'_>,
) -> Result<u64> {
    let (go_on, block_bytes) = (&mut || pace.go_on(0), engine.data.block_bytes());
    let most = (SAMPLED_BYTES / block_bytes).max(1);
    let found = engine.shrinker.contents_from(smaller.emptied.start, most, go_on)?;
    let sampled = found.len().min(most);
    let mut contents = vec![0; sampled * block_bytes];
    let buffers = contents.chunks_exact_mut(block_bytes);
    let mut reads: Vec<ContentRead<'_>> = found
        .iter()
        .zip(buffers)
        .map(|((pbn, _), buffer)| ContentRead::new(*pbn, 0, buffer))
        .collect();
    let began_ns = engine.clock.now_ns();
    // One that cannot be read takes its time as well.
    engine.data.read_medium(&mut reads);
    let took_s = (engine.clock.now_ns() - began_ns) as f64 / 1e9;
    let per_block_s = MOVE_PER_READ * took_s / sampled.max(1) as f64;
    let moves_s = per_block_s * blocks as f64;
    let rate_s = options
        .max_bytes_per_s
        .map_or(0.0, |rate| (blocks * block_bytes as u64) as f64 / rate.max(1) as f64);
    Ok(moves_s.max(rate_s).ceil() as u64)
}
