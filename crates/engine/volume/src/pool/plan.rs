//! The choices of a repair, and its losses.

use super::past_loss::RenamedVolume;
use gemelo_format::LostHistory;
use schemars::JsonSchema;
use serde::Serialize;

/// The treatment of a lost commit of the journal, where later commits can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossChoice {
    /// Keeps the later commits. Blocks that only the lost commit changed show their content before
    /// it, or give an error. The pool as a whole never was in this state.
    Skip,
    /// Gives up the later commits. The pool goes back to the state before the lost commit.
    RollBack,
}

/// The choices of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepairOptions {
    /// Read and judge all contents.
    pub data: bool,
    /// Treatment of a lost commit. It makes no difference where no later commit can be read.
    pub choice: LossChoice,
}

/// The blocks of a volume that a repair gives up.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct RepairCost {
    /// The name of the volume.
    pub volume: String,
    /// Blocks that give an error afterwards, because their content is lost.
    pub lost_blocks: u64,
    /// Blocks that go back to an older content, because a commit that changed them, or one before
    /// it, is lost. Blocks that only a lost commit changed are not known and not counted.
    pub undone_blocks: u64,
}

/// The losses and changes of a repair.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema, Serialize)]
pub struct RepairPlan {
    /// The volumes that lose blocks.
    pub costs: Vec<RepairCost>,
    /// Changes of commits after a lost one that are left out, because they rest on changes that
    /// only the lost commit made.
    pub left_out_changes: u64,
    /// Volumes that get another name. The lost commit removed or renamed them, and their names were
    /// given to other volumes later.
    pub renamed: Vec<RenamedVolume>,
    /// Damaged blocks of the data store that are written again from another copy of their contents,
    /// in order.
    pub healed_blocks: Vec<u64>,
}

/// The losses of each choice of a repair.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema, Serialize)]
pub struct RepairOutlook {
    /// The history that is missing in the journal.
    pub lost_history: Option<LostHistory>,
    /// The repair that keeps no commit after a lost one.
    pub roll_back: RepairPlan,
    /// The repair that keeps the commits after a lost one, where there are any.
    pub skip: Option<RepairPlan>,
    /// The reason why no repair is possible, if none is.
    pub refusal: Option<String>,
}

impl RepairOutlook {
    /// Returns the losses of a repair with this choice.
    #[must_use]
    pub fn plan(&self, choice: LossChoice) -> &RepairPlan {
        match (choice, &self.skip) {
            (LossChoice::Skip, Some(plan)) => plan,
            _ => &self.roll_back,
        }
    }
}
