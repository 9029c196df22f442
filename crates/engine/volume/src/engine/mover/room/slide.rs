//! The last resort of a small store: all contents are moved, one after another.
//!
//! A window saves whole blocks alone. In a store of few blocks the cleaner's own ones, and so the
//! windows, are few, and a window of 14 blocks that are filled to nine tenths saves one at best.
//! Here the next contents fill the cleaner's blocks to the last one. The block at which they end is
//! emptied in part, and the next ones begin with its rest, so that what each leaves free adds up.

use super::best::filling_part;
use super::empty::Emptied;
use super::pass::{Effort, Finding, Sliding, Stage, Step};
use crate::engine::data::Window;
use crate::engine::mover::SpaceCleaner;
use crate::engine::mover::references::References;
use crate::error::Result;

/// Blocks that are looked at for the contents of one block of the cleaner.
const LOOKED_AT: u32 = 4;
/// A pass ends when it has filled this many blocks more than it has emptied: the contents are dense
/// already, and each end of a run wastes a part of a block.
const MAX_LOSS: i64 = 2;

impl Sliding {
    /// Begins with the first block of these windows.
    pub(super) fn over(windows: &[Window], references: References) -> Self {
        let next = windows.first().map_or(0, |window| window.first);
        let end = windows.last().map_or(0, |window| window.end);
        Self { next, end, gain: 0, most: 0, is_short: false, references }
    }
}

impl SpaceCleaner {
    /// Begins with the search for the references of all contents.
    pub(super) fn begin_sliding(&self) -> Stage {
        self.data().allocator.begin_cleaning();
        let (_, blocks) = self.data().allocator.free_of_all();
        let whole = Window { first: 1, end: blocks as u32, used: 0, contents: 0 };
        Stage::Finding(Finding::new(self.mover.volumes(), vec![whole], Effort::Sliding))
    }

    /// Moves the next contents.
    pub(super) fn slide(&self, mut sliding: Sliding) -> Result<(Option<Stage>, Step)> {
        let Sliding { next: first, end, .. } = sliding;
        if first >= end || sliding.gain + MAX_LOSS <= sliding.most {
            return Ok((None, Step::Saved(0)));
        }
        let (_, goal) = self.data().allocator.reserved_runs();
        let looked_at = LOOKED_AT.saturating_mul(goal as u32);
        let window_end = end.min(first.saturating_add(looked_at));
        let window = Window { first, end: window_end, used: 0, contents: 0 };
        let (mut next, mut gained) = (window_end, 0);
        let (block_bytes, is_short) = (self.data().block_bytes(), sliding.is_short);
        let references = &sliding.references;
        let emptied = self.empty_part(window, references, &mut |blocks, costs, (runs, goal)| {
            if runs.iter().sum::<u64>() < goal && !is_short {
                return None;
            }
            let room = runs.first().copied().unwrap_or(0);
            let (part, gain) = filling_part(blocks, costs, (block_bytes, room));
            next = costs.get(part.contents).map_or(window_end, |content| content.first);
            gained = gain;
            Some(part)
        })?;
        let emptied = match emptied {
            Emptied::Part(part) => part,
            Emptied::NoRoom => return Ok((Some(Stage::Sliding(sliding)), Step::NoRoom)),
            Emptied::Asked => {
                sliding.next = window_end;
                return Ok((Some(Stage::Sliding(sliding)), Step::Asked));
            }
        };
        (sliding.next, sliding.is_short) = (next.max(first + 1), false);
        let has_moved = emptied.contents > 0;
        sliding.gain += if has_moved { gained } else { 0 };
        let saved = u64::try_from(sliding.gain - sliding.most).unwrap_or(0);
        sliding.most = sliding.most.max(sliding.gain);
        let step = match saved {
            0 if has_moved => Step::Moved,
            blocks => Step::Saved(blocks * block_bytes as u64),
        };
        Ok((Some(Stage::Sliding(sliding)), step))
    }
}
