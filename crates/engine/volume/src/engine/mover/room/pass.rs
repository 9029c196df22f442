//! A pass of the cleaner: its stages, and how far each of them has come.

use crate::engine::VolumeShared;
use crate::engine::data::{Rule, Window};
use crate::engine::mover::references::{Reference, References};
use gemelo_format::Lbn;
use std::collections::VecDeque;
use std::sync::Arc;

/// The rule by which a pass chooses blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engine) enum Effort {
    /// Blocks that cost little, without contents for which a checkpoint has to walk over all maps.
    Background,
    /// All blocks that save any space, because a write would fail.
    Full,
    /// All blocks of a small store, because none saves any by itself.
    Sliding,
}

/// The blocks that a pass is going to empty.
pub(super) struct Moving {
    pub(super) windows: VecDeque<Window>,
    pub(super) references: References,
}

/// The contents of a whole store, which are moved one after another.
pub(super) struct Sliding {
    /// The block at which the rest begins.
    pub(super) next: u32,
    pub(super) end: u32,
    /// Blocks that were emptied beyond those that were filled, and the most of them so far.
    pub(super) gain: i64,
    pub(super) most: i64,
    /// Goes on with less room than the cleaner should have.
    pub(super) is_short: bool,
    pub(super) references: References,
}

/// The stage of a pass.
pub(super) enum Stage {
    Choosing(Choosing),
    Finding(Finding),
    Moving(Moving),
    Sliding(Sliding),
}

/// The work of the cleaner.
#[derive(Default)]
pub(in crate::engine) struct Cleaner {
    pub(super) pass: Option<(Effort, Stage)>,
    /// Blocks that this pass has saved. A block that was emptied counts once, and a content that
    /// was moved as its part of a block.
    pub(super) saved_bytes: u64,
    /// This pass has asked for contents.
    pub(super) has_asked: bool,
    /// The number of freed contents when a pass of this effort last moved nothing.
    pub(super) futile: Option<(Effort, u64)>,
}

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Step {
    /// There is more to do. Bytes of blocks that the step has saved.
    Saved(u64),
    /// Contents were moved, and no block was saved yet.
    Moved,
    /// Contents that others may share were asked for.
    Asked,
    /// The pass is over and has saved nothing, and contents that were asked for may come back.
    Waits,
    /// There is no room to move contents to before the moves so far are durable.
    NoRoom,
    /// The pass is over. `false` if it has saved nothing.
    End(bool),
    /// A pass would move nothing, as the last one.
    Futile,
}

impl Cleaner {
    /// Leaves out the window that is next, or takes a smaller one.
    pub(in crate::engine) fn skip_window(&mut self) {
        match &mut self.pass {
            Some((_, Stage::Moving(moving))) => {
                moving.windows.pop_front();
            }
            Some((_, Stage::Sliding(sliding))) => sliding.is_short = true,
            _ => {}
        }
    }

    /// Ends a pass before its time.
    pub(super) fn forget(&mut self) {
        self.pass = None;
    }
}

/// The choice of windows, which is under way.
pub(super) struct Choosing {
    pub(super) effort: Effort,
    /// Blocks that the windows are to save.
    pub(super) wanted: u64,
    /// The contents of a full block, in the unit of [`CONTENT`].
    pub(super) per_block: u64,
    /// The rules that are tried, one after another, until the windows save enough.
    pub(super) rules: Vec<Rule>,
    /// The block at which the search goes on.
    pub(super) next: u32,
    pub(super) windows: Vec<Window>,
}

/// The walk, which is under way.
pub(super) struct Finding {
    pub(super) effort: Effort,
    /// In the order of the blocks.
    pub(super) windows: Vec<Window>,
    /// Volumes that are left.
    pub(super) volumes: VecDeque<Arc<VolumeShared>>,
    pub(super) next: Lbn,
    pub(super) found: Vec<Reference>,
}
