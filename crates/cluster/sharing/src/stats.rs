//! Counts of what a member has shared.

use gemelo_base::StatTable;
use gemelo_domain::{Action, Effect, Intent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counts of a member's blocks.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize, StatTable,
)]
#[stat(gauge)]
pub struct BlockStats {
    /// Blocks with a ledger record.
    pub kept: u64,
    /// Blocks whose contents lie at other places.
    pub borrowed: u64,
    /// Blocks that other members use, and this one does not.
    pub lent: u64,
    /// Identified blocks that wait for being published.
    pub waiting: u64,
    /// Blocks whose references wait for being released.
    pub due: u64,
    /// Memory of the tables in bytes.
    pub memory_bytes: u64,
}

/// Counts since the member was opened.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize, StatTable,
)]
#[stat(counter)]
pub struct Stats {
    /// Contents that this member has published first.
    pub published: u64,
    /// Contents that the index had already.
    pub shared: u64,
    /// Shared contents that were not borrowed, because their bytes differ or cannot be read.
    pub refused: u64,
    /// Contents of homes that were read before an own block was given up for them.
    pub checked: u64,
    /// Own blocks that were damaged and were written again from the copy of another member.
    pub healed: u64,
    /// Contents that are not shared at present, because their homes have found them damaged, or
    /// because their values in the index are damaged.
    pub set_aside: u64,
    /// References that were given up.
    pub released: u64,
    /// Own contents that were taken out of the index.
    pub withdrawn: u64,
    /// References that the index did not have. It is 0 unless index or ledger are damaged.
    pub lost: u64,
    /// Intents that met changes of other members, and were planned again.
    pub void: u64,
}

impl Stats {
    pub(crate) fn count(&mut self, intent: &Intent, is_applied: bool) {
        if !is_applied {
            self.void += 1;
            return;
        }
        for (change, effect) in intent.effects() {
            let counter = match (change.action, effect) {
                (_, Effect::Published(_)) => &mut self.published,
                (_, Effect::Shared(..)) => &mut self.shared,
                (_, Effect::Released { .. }) => &mut self.released,
                (_, Effect::Withdrawn(_)) => &mut self.withdrawn,
                (Action::Release, Effect::Nothing) => &mut self.lost,
                // The content was taken up again, or its letter came twice.
                (_, Effect::Nothing | Effect::Marked) => continue,
                // They are counted where they are set aside.
                (_, Effect::Refused { .. } | Effect::Undecided) => continue,
            };
            *counter += 1;
        }
    }
}
