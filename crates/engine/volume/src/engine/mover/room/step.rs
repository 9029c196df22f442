//! The steps of a pass.
//!
//! Windows of blocks that are worth emptying are chosen, and the references of their contents are
//! found by a walk over all maps.

use super::pass::{Choosing, Cleaner, Effort, Finding, Moving, Sliding, Stage, Step};
use crate::counters::PoolCounters;
use crate::engine::VolumeShared;
use crate::engine::data::{CONTENT, DataPath, Rule, Window};
use crate::engine::locks::{OrderedMutex, Rank};
use crate::engine::mover::Mover;
use crate::engine::mover::references::{MAX_OF_BLOCK, MAX_REFERENCES, References, Sought};
use crate::engine::parts::Common;
use crate::error::Result;
use gemelo_format::{Lbn, PackedPlace, Pbn};
use std::sync::Arc;

/// A pass that moved nothing is not repeated before this part of the contents was freed.
const FREED_PART: u64 = 1024;
/// The unit of the costs.
const COST_OF_BLOCK: u64 = 256;
/// Pieces of the store that are looked at in one step.
const PIECES_CHOSEN: u32 = 16;
/// Contents of a pass: at least this many, so that a walk over the maps pays, and more of a large
/// store.
const MIN_CONTENTS: u64 = 1 << 16;
const CONTENTS_PART: u64 = 8;
/// Pieces of a map that are looked at in one step: 16,384 LBNs.
const PIECES_SEARCHED: u32 = 256;

/// The cleaner of an open pool; see [`super`].
pub(crate) struct SpaceCleaner {
    pub(super) mover: Arc<Mover>,
    pub(super) counters: Arc<PoolCounters>,
    pub(in crate::engine) pass: OrderedMutex<Cleaner>,
}

impl SpaceCleaner {
    pub(in crate::engine) fn new(common: &Common, mover: &Arc<Mover>) -> Self {
        Self {
            mover: Arc::clone(mover),
            counters: Arc::clone(&common.counters),
            pass: OrderedMutex::new(Rank::Cleaning, &common.health, Cleaner::default()),
        }
    }

    pub(super) fn data(&self) -> &DataPath {
        &self.mover.data
    }

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
            let (released, _) = self.data().allocator.released_and_used();
            cleaner.futile = (!has_saved && !waits).then_some((of, released));
            return Ok(if waits { Step::Waits } else { Step::End(has_saved) });
        }
        cleaner.pass = next.map(|stage| (of, stage));
        Ok(step)
    }

    /// Returns whether a pass of this effort would move nothing.
    fn is_futile(&self, cleaner: &Cleaner, effort: Effort) -> bool {
        let (released, used) = self.data().allocator.released_and_used();
        let is_same = |(of, at): &(Effort, u64)| {
            *of >= effort && released.saturating_sub(*at) <= used / FREED_PART
        };
        !self.data().is_packed() || cleaner.futile.as_ref().is_some_and(is_same)
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

/// The blocks that may be written for 256 that are emptied, from the cheapest windows to those that
/// are worth it in the background.
const COSTS: [u64; 4] = [96, 160, 208, 232];
/// Without these a write would fail. At 248, a window of 64 blocks saves 2.
const FULL_COSTS: [u64; 2] = [242, 248];

/// The rule by which the blocks of a window that are written again cost this much.
fn rule_of(per_block: u64, cost: u64) -> Rule {
    Rule { per_block, worth: per_block * cost / COST_OF_BLOCK }
}

impl SpaceCleaner {
    pub(super) fn begin_choosing(&self, effort: Effort, wanted: u64) -> Choosing {
        self.data().allocator.begin_cleaning();
        let per_block = self.data().contents_per_block();
        let mut rules: Vec<Rule> = COSTS.into_iter().map(|cost| rule_of(per_block, cost)).collect();
        if effort == Effort::Full {
            rules.extend(FULL_COSTS.into_iter().map(|cost| rule_of(per_block, cost)));
            // Contents differ, and their number tells little of their bytes.
            rules.push(Rule::any(per_block));
        }
        rules.reverse();
        Choosing { effort, wanted, per_block, rules, next: 0, windows: Vec::new() }
    }

    /// Looks at the next blocks by the present rule. Returns [`None`] if no rule finds any.
    pub(super) fn choose_windows(&self, mut choosing: Choosing) -> Option<Stage> {
        let rule = *choosing.rules.last()?;
        let (_, used) = self.data().allocator.released_and_used();
        let most = (used / CONTENTS_PART).clamp(MIN_CONTENTS, MAX_REFERENCES as u64);
        for _ in 0..PIECES_CHOSEN {
            let allocator = &self.data().allocator;
            let next = allocator.windows(choosing.next, rule, &mut choosing.windows);
            choosing.windows.retain(|window| self.has_movable(*window));
            let contents: u64 = choosing.windows.iter().map(|one| one.contents / CONTENT).sum();
            match next.filter(|_| contents < most) {
                Some(next) => choosing.next = next,
                None => return self.end_of_rule(choosing),
            }
        }
        Some(Stage::Choosing(choosing))
    }

    /// Returns whether a content of a window may be moved, at once or when it has come back. Others
    /// that the veto keeps stay.
    fn has_movable(&self, window: Window) -> bool {
        let data = self.data();
        let may_move = |pbn| !data.is_kept(pbn) || data.may_come_back(pbn);
        let contents = || data.allocator.contents_of_blocks(window.first..window.end);
        !data.has_free_veto() || contents().into_iter().any(may_move)
    }

    /// Goes on with the windows if they save enough, or with the next rule.
    fn end_of_rule(&self, mut choosing: Choosing) -> Option<Stage> {
        choosing.rules.pop();
        let saved = choosing.windows.iter().map(|window| choosing.saved(*window)).sum::<u64>();
        if choosing.rules.is_empty() || saved >= choosing.wanted * CONTENT {
            if choosing.windows.is_empty() {
                return None;
            }
            let Choosing { effort, mut windows, .. } = choosing;
            windows.sort_unstable_by_key(|window| window.first);
            return Some(Stage::Finding(Finding::new(self.mover.volumes(), windows, effort)));
        }
        choosing.windows.clear();
        choosing.next = 0;
        Some(Stage::Choosing(choosing))
    }
}

impl Choosing {
    /// The blocks that a window probably saves, in units of which a block has [`CONTENT`].
    fn saved(&self, window: Window) -> u64 {
        let moved = CONTENT * window.contents / self.per_block;
        (CONTENT * u64::from(window.used)).saturating_sub(moved)
    }
}

impl Finding {
    pub(super) fn new(
        volumes: Vec<Arc<VolumeShared>>,
        windows: Vec<Window>,
        effort: Effort,
    ) -> Self {
        Self { effort, windows, volumes: volumes.into(), next: Lbn(0), found: Vec::new() }
    }
}

/// Returns whether a content has a part in one of these windows, which are in order.
fn is_in(windows: &[Window], pbn: Pbn) -> bool {
    let place = PackedPlace::of(pbn);
    let last = place.block + u32::from(place.is_spanning());
    let after = windows.partition_point(|window| window.end <= place.block);
    windows.get(after).is_some_and(|window| window.first <= last)
}

impl SpaceCleaner {
    /// Looks at the next part of the maps.
    pub(super) fn find_references(&self, mut finding: Finding) -> Result<Stage> {
        for _ in 0..PIECES_SEARCHED {
            let Some(volume) = finding.volumes.front().cloned() else {
                return Ok(finding.end());
            };
            let next = self.look_up_references(&volume, &mut finding)?;
            match next.filter(|_| finding.found.len() < MAX_REFERENCES) {
                Some(next) => finding.next = next,
                None => {
                    finding.volumes.pop_front();
                    finding.next = Lbn(0);
                }
            }
        }
        Ok(Stage::Finding(finding))
    }

    /// Looks at a piece of a map.
    fn look_up_references(
        &self,
        volume: &VolumeShared,
        finding: &mut Finding,
    ) -> Result<Option<Lbn>> {
        let Some(is_removed) = volume.try_enter() else { return Ok(None) };
        if *is_removed {
            return Ok(None);
        }
        let Finding { effort, windows, found, next, .. } = finding;
        let is_looked_at = |pbn| is_in(windows, pbn);
        let takes_all = *effort > Effort::Background;
        let is_wanted = |count, is_in_part: bool| {
            takes_all || !is_in_part && (1..=MAX_OF_BLOCK).contains(&count)
        };
        let sought = Sought { is_looked_at: &is_looked_at, is_wanted: &is_wanted };
        self.mover.add_references((volume, *next), sought, found)
    }
}

impl Finding {
    /// Takes the cheapest windows first.
    fn end(self) -> Stage {
        let references = References::new(self.found);
        if self.effort == Effort::Sliding {
            return Stage::Sliding(Sliding::over(&self.windows, references));
        }
        let mut windows = self.windows;
        windows.sort_by(|one, other| {
            let cost = |window: &Window, of: &Window| window.contents * u64::from(of.used);
            cost(one, other).cmp(&cost(other, one))
        });
        Stage::Moving(Moving { windows: windows.into(), references })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_looked_up_by_the_blocks_that_have_a_part_of_them() {
        let windows =
            [(5, 7), (9, 10)].map(|(first, end)| Window { first, end, used: 1, contents: 1 });
        let is_within = |block, slot| is_in(&windows, PackedPlace { block, slot }.pbn().unwrap());
        assert!(is_within(5, 1) && is_within(6, 7) && is_within(9, 2) && is_within(4, 7));
        assert!(is_within(8, 7), "it goes on in block 9");
        assert!(!is_within(4, 1) && !is_within(7, 1) && !is_within(8, 1) && !is_within(10, 7));
        assert!(is_within(5, 0) && !is_within(8, 0));
    }
}
