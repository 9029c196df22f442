//! The state that all processes of a replay share.

use crate::contents::ReplayContents;
use crate::options::ReplayOptions;
use crate::plan::ReplayPlan;
use gemelo_base::StopFlag;
use gemelo_base::live::TotalProgress;
use gemelo_load::Environment;
use gemelo_target::QueueOptions;

/// State shared by all processes.
pub(crate) struct Shared<'a> {
    pub(crate) plan: &'a ReplayPlan,
    pub(crate) contents: &'a ReplayContents,
    pub(crate) environment: &'a Environment<'a>,
    /// The first failure raises this flag.
    pub(crate) halt: &'a StopFlag,
    pub(crate) options: &'a ReplayOptions,
    pub(crate) queue: QueueOptions,
    pub(crate) progress: TotalProgress,
    /// `true` if the contents that the target holds at the end are counted.
    pub(crate) counts_contents: bool,
}
