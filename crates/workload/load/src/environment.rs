//! The parts of a run that the caller gives: time, progress, interruption and the start.

use gemelo_base::{Clock, Monitor, StartLine, StopFlag};

/// The caller's clock, monitor, stop flag and start line for a run.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    /// Clock for all times of the run.
    pub clock: &'a dyn Clock,
    /// Monitor that receives progress.
    pub monitor: &'a dyn Monitor,
    /// Flag that ends the run early when raised.
    pub stop: &'a StopFlag,
    /// Holds the processes of the run back until it starts.
    pub start: &'a dyn StartLine,
}
