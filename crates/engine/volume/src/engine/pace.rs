//! The rate of a command that goes through a pool, and its end when it is told to stop.

use super::Engine;
use crate::error::{Result, VolumeError};
use gemelo_base::StopFlag;

/// Longest sleep between looks at the stop flag.
const STOP_PAUSE_NS: u64 = 50_000_000;

/// Holds a command to its rate.
pub(crate) struct Pace<'e> {
    engine: &'e Engine,
    /// Most bytes a second; [`None`] for no limit.
    max_bytes_per_s: Option<u64>,
    stop: &'e StopFlag,
    /// Time at which the rate allows to go on.
    free_at_ns: u64,
}

impl<'e> Pace<'e> {
    pub(crate) const fn new(
        engine: &'e Engine,
        max_bytes_per_s: Option<u64>,
        stop: &'e StopFlag,
    ) -> Self {
        Self { engine, max_bytes_per_s, stop, free_at_ns: 0 }
    }

    /// Waits until the rate allows to go on after work on this many blocks.
    ///
    /// # Errors
    /// Fails if the command is told to stop.
    pub(crate) fn go_on(&mut self, blocks: u64) -> Result<()> {
        if let Some(rate) = self.max_bytes_per_s {
            let bytes = blocks.saturating_mul(self.engine.data.block_bytes() as u64);
            let took_ns = bytes.saturating_mul(1_000_000_000) / rate.max(1);
            self.free_at_ns =
                self.free_at_ns.max(self.engine.clock.now_ns()).saturating_add(took_ns);
        }
        loop {
            if self.stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
            let now_ns = self.engine.clock.now_ns();
            if now_ns >= self.free_at_ns {
                return Ok(());
            }
            self.engine.clock.sleep_until_ns(self.free_at_ns.min(now_ns + STOP_PAUSE_NS));
        }
    }
}
