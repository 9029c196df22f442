//! Moving the metadata to another backend, as a command.

use super::Pool;
use crate::engine::Pace;
use crate::error::Result;
use gemelo_base::{Monitor, StopFlag, Unit};
use gemelo_format::BackendKind;

impl Pool {
    /// Moves the metadata to another backend. Requests and commands go on meanwhile. A crash finds
    /// the pool with the old backend or with the new one.
    ///
    /// # Errors
    /// Fails if metadata cannot be read, if there is no space for both, or if the work was stopped.
    /// The pool keeps its backend then.
    pub fn convert(
        &self,
        backend: BackendKind,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<()> {
        let _watch = self.engine.watch();
        let engine = &self.engine;
        let mut pace = Pace::new(engine, None, stop);
        monitor.begin("Copying metadata", Unit::Items, None);
        engine.convert(backend, |blocks| {
            monitor.advance(blocks);
            pace.go_on(0)
        })?;
        monitor.finish();
        Ok(())
    }
}
