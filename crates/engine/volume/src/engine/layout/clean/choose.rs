//! Chooses the windows of blocks that are worth emptying.

use super::pass::{Choosing, Effort, Finding, Stage};
use crate::engine::Engine;
use crate::engine::data::{CONTENT, Rule, Window};
use crate::engine::layout::references::MAX_REFERENCES;

/// The blocks that may be written for 256 that are emptied, from the cheapest windows to those that
/// are worth it in the background.
const COSTS: [u64; 4] = [96, 160, 208, 232];
/// Without these a write would fail. At 248, a window of 64 blocks saves 2.
const FULL_COSTS: [u64; 2] = [242, 248];
/// The unit of the costs.
const COST_OF_BLOCK: u64 = 256;
/// Pieces of the store that are looked at in one step.
const PIECES: u32 = 16;
/// Contents of a pass: at least this many, so that a walk over the maps pays, and more of a large
/// store.
const MIN_CONTENTS: u64 = 1 << 16;
const CONTENTS_PART: u64 = 8;

/// The rule by which the blocks of a window that are written again cost this much.
fn rule_of(per_block: u64, cost: u64) -> Rule {
    Rule { per_block, worth: per_block * cost / COST_OF_BLOCK }
}

impl Engine {
    pub(super) fn begin_choosing(&self, effort: Effort, wanted: u64) -> Choosing {
        self.data.begin_cleaning();
        let per_block = self.data.contents_per_block();
        let mut rules: Vec<Rule> = COSTS.into_iter().map(|cost| rule_of(per_block, cost)).collect();
        if effort == Effort::Full {
            rules.extend(FULL_COSTS.into_iter().map(|cost| rule_of(per_block, cost)));
            // Contents differ, and their number tells little of their bytes.
            rules.push(Rule::any(per_block));
        }
        rules.reverse();
        Choosing { wanted, per_block, rules, next: 0, windows: Vec::new() }
    }

    /// Looks at the next blocks by the present rule. Returns [`None`] if no rule finds any.
    pub(super) fn choose_windows(&self, mut choosing: Choosing) -> Option<Stage> {
        let rule = *choosing.rules.last()?;
        let (_, used) = self.data.released_and_used();
        let most = (used / CONTENTS_PART).clamp(MIN_CONTENTS, MAX_REFERENCES as u64);
        for _ in 0..PIECES {
            let next = self.data.windows(choosing.next, rule, &mut choosing.windows);
            let contents: u64 = choosing.windows.iter().map(|one| one.contents / CONTENT).sum();
            match next.filter(|_| contents < most) {
                Some(next) => choosing.next = next,
                None => return self.end_of_rule(choosing),
            }
        }
        Some(Stage::Choosing(choosing))
    }

    /// Goes on with the windows if they save enough, or with the next rule.
    fn end_of_rule(&self, mut choosing: Choosing) -> Option<Stage> {
        choosing.rules.pop();
        let saved = choosing.windows.iter().map(|window| choosing.saved(*window)).sum::<u64>();
        if choosing.rules.is_empty() || saved >= choosing.wanted * CONTENT {
            if choosing.windows.is_empty() {
                return None;
            }
            choosing.windows.sort_unstable_by_key(|window| window.first);
            return Some(Stage::Finding(Finding::new(self.volumes(), choosing.windows, false)));
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
