//! The parts of a run that the caller gives: time, progress and interruption.

use gemelo_base::{Clock, Monitor, StopFlag};

/// The caller's clock, monitor and stop flag for a run.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    /// Clock for all times of the run.
    pub clock: &'a dyn Clock,
    /// Monitor that receives progress.
    pub monitor: &'a dyn Monitor,
    /// Flag that ends the run early when raised.
    pub stop: &'a StopFlag,
}
