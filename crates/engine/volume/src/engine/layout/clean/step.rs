//! The steps of a pass.

use super::pass::{Cleaner, Effort, Moving, Stage, Step};
use crate::engine::Engine;
use crate::error::Result;

/// A pass that moved nothing is not repeated before this part of the contents was freed.
const FREED_PART: u64 = 1024;

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
                (cleaner.saved_bytes, cleaner.has_asked) = (0, false);
                let stage = match effort {
                    Effort::Sliding => self.begin_sliding(),
                    _ => Stage::Choosing(self.begin_choosing(effort, wanted)),
                };
                (effort, stage)
            }
        };
        let (next, step) = match stage {
            Stage::Choosing(choosing) => (self.choose_windows(choosing), Step::Saved(0)),
            Stage::Finding(finding) => (Some(self.find_references(finding)?), Step::Saved(0)),
            Stage::Moving(moving) => self.move_next(moving)?,
            Stage::Sliding(sliding) => self.slide(sliding)?,
        };
        match step {
            Step::Saved(bytes) => cleaner.saved_bytes += bytes,
            Step::Asked => cleaner.has_asked = true,
            _ => {}
        }
        if next.is_none() {
            let has_saved = cleaner.saved_bytes > 0;
            let waits = !has_saved && cleaner.has_asked;
            let (released, _) = self.data.released_and_used();
            cleaner.futile = (!has_saved && !waits).then_some((of, released));
            return Ok(if waits { Step::Waits } else { Step::End(has_saved) });
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
        let step = self.empty_window(window, &moving.references)?;
        if step == Step::NoRoom {
            moving.windows.push_front(window);
        }
        Ok((Some(Stage::Moving(moving)), step))
    }
}
