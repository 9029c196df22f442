//! The cleaner: empties blocks of a store that compresses of which a part was freed.
//!
//! A packed block is used again when all of its contents are freed. The cleaner moves the contents
//! of blocks that have few to fresh blocks, where they lie densely. It works in passes, each in
//! small steps: it chooses windows of blocks by the bits of their slots ([`choose`]), finds all
//! references of their contents by a walk over the maps ([`find`]), and then moves the contents of
//! one window after another ([`empty`]), those that cost the least first. Each move is the same
//! change as a move by the arranger, so the same holds for races and crashes.
//!
//! A thread does so when few blocks are free. A write that finds no free block does the same steps
//! itself before it fails. One of them works at a time, and goes on where the other stopped.

mod choose;
mod empty;
mod find;
mod work;

pub(in crate::engine) use work::work as clean;

use super::references::References;
use super::{Engine, Move, MoveState, OpenVolume, is_movable, others_are_same};
use crate::engine::data::Window;
use crate::error::Result;
use choose::Choosing;
use find::Finding;
use std::collections::VecDeque;

/// A pass that moved nothing is not repeated before this part of the contents was freed.
const FREED_PART: u64 = 1024;

/// The rule by which a pass chooses blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engine) enum Effort {
    /// Blocks that cost little.
    Background,
    /// All blocks that save any space, because a write would fail.
    Full,
}

/// The blocks that a pass is going to empty.
struct Moving {
    windows: VecDeque<Window>,
    references: References,
}

/// The stage of a pass.
enum Stage {
    Choosing(Choosing),
    Finding(Finding),
    Moving(Moving),
}

/// The work of the cleaner.
#[derive(Default)]
pub(in crate::engine) struct Cleaner {
    pass: Option<(Effort, Stage)>,
    /// Blocks that this pass has saved. A block that was emptied counts once, and a content that
    /// was moved as its part of a block.
    saved_bytes: u64,
    /// The number of freed contents when a pass of this effort last moved nothing.
    futile: Option<(Effort, u64)>,
}

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Step {
    /// There is more to do. Bytes of blocks that the step has saved.
    Saved(u64),
    /// There is no room to move contents to before the moves so far are durable.
    NoRoom,
    /// The pass is over. `false` if it has saved nothing.
    End(bool),
    /// A pass would move nothing, as the last one.
    Futile,
}

impl Cleaner {
    /// Leaves out the window that is next.
    pub(in crate::engine) fn skip_window(&mut self) {
        if let Some((_, Stage::Moving(moving))) = &mut self.pass {
            moving.windows.pop_front();
        }
    }

    /// Ends a pass before its time.
    fn forget(&mut self) {
        self.pass = None;
    }
}

impl Engine {
    /// Makes a step of a pass. `wanted` is the number of blocks that a new pass aims at.
    pub(in crate::engine) fn clean_step(
        &self,
        cleaner: &mut Cleaner,
        effort: Effort,
        wanted: u64,
    ) -> Result<Step> {
        let (of, stage) = match cleaner.pass.take() {
            Some(pass) => pass,
            None if self.is_futile(cleaner, effort) => return Ok(Step::Futile),
            None => {
                cleaner.saved_bytes = 0;
                (effort, Stage::Choosing(self.begin_choosing(effort, wanted)))
            }
        };
        let (next, step) = match stage {
            Stage::Choosing(choosing) => (self.choose_windows(choosing), Step::Saved(0)),
            Stage::Finding(finding) => (Some(self.find_references(finding)?), Step::Saved(0)),
            Stage::Moving(moving) => self.move_next(moving)?,
        };
        if let Step::Saved(bytes) = step {
            cleaner.saved_bytes += bytes;
        }
        if next.is_none() {
            let has_saved = cleaner.saved_bytes > 0;
            let (released, _) = self.data.released_and_used();
            cleaner.futile = (!has_saved).then_some((of, released));
            return Ok(Step::End(has_saved));
        }
        cleaner.pass = next.map(|stage| (of, stage));
        Ok(step)
    }

    /// Returns whether a pass of this effort would move nothing.
    fn is_futile(&self, cleaner: &Cleaner, effort: Effort) -> bool {
        let (released, used) = self.data.released_and_used();
        let is_same = |(of, at): &(Effort, u64)| {
            *of >= effort && released.saturating_sub(*at) <= used / FREED_PART
        };
        !self.data.is_packed() || cleaner.futile.as_ref().is_some_and(is_same)
    }

    /// Empties the next window.
    fn move_next(&self, mut moving: Moving) -> Result<(Option<Stage>, Step)> {
        let Some(window) = moving.windows.pop_front() else { return Ok((None, Step::Saved(0))) };
        let Some(saved) = self.empty_window(window, &moving.references)? else {
            moving.windows.push_front(window);
            return Ok((Some(Stage::Moving(moving)), Step::NoRoom));
        };
        Ok((Some(Stage::Moving(moving)), Step::Saved(saved)))
    }
}
