//! The bounds of a check: its memory, its monitor, and the flag that stops it.

use crate::CheckError;
use gemelo_base::{Monitor, Silent, StopFlag, Unit};

/// What a part of a check needs for long work.
#[derive(Clone, Copy)]
pub(crate) struct Work<'w> {
    /// Bytes for what is compared at once.
    pub(crate) memory_bytes: u64,
    monitor: &'w dyn Monitor,
    stop: &'w StopFlag,
}

impl<'w> Work<'w> {
    pub(crate) const fn new(
        memory_bytes: u64,
        monitor: &'w dyn Monitor,
        stop: &'w StopFlag,
    ) -> Self {
        Self { memory_bytes, monitor, stop }
    }

    /// Begins a pass over so many pages or contents, one of several.
    pub(crate) fn begin(&self, what: &str, (number, of): (usize, usize), items: u64) {
        let phase = if of > 1 { format!("{what}, pass {number} of {of}") } else { what.to_owned() };
        self.monitor.begin(&phase, Unit::Items, (items > 0).then_some(items));
    }

    /// Notes that so much of the pass is done. Fails if the check was stopped.
    pub(crate) fn go_on(&self, items: u64) -> Result<(), CheckError> {
        self.monitor.advance(items);
        if self.stop.is_raised() { Err(CheckError::Interrupted) } else { Ok(()) }
    }

    /// The same bounds, for what is a part of the pass and tells of no progress.
    pub(crate) const fn silent(self) -> Self {
        Self { monitor: &Silent, ..self }
    }

    pub(crate) fn finish(&self) {
        self.monitor.finish();
    }
}
