//! Lines with the seconds since the start in front, as the original prints them.

use gemelo_base::units::format_lines;
use gemelo_base::{Clock, Monitor, SystemClock};
use gemelo_filebench::Console;
use std::io::Write;
use std::sync::Arc;

pub(super) struct Lines {
    /// Counts from the start.
    clock: SystemClock,
    to_stderr: bool,
    monitor: Arc<dyn Monitor>,
}

impl Lines {
    pub(super) fn new(to_stderr: bool, monitor: Arc<dyn Monitor>) -> Self {
        Self { clock: SystemClock::new(), to_stderr, monitor }
    }
}

impl Console for Lines {
    fn line(&self, text: &str) {
        self.monitor.finish();
        let line = format!("{:.3}: {}\n", self.clock.now_ns() as f64 / 1e9, format_lines(text));
        // Nobody may be reading any more; the run goes on.
        let _ = if self.to_stderr {
            std::io::stderr().lock().write_all(line.as_bytes())
        } else {
            std::io::stdout().lock().write_all(line.as_bytes())
        };
    }
}
