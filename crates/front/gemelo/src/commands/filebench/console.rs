//! The console of a script. Each line begins with the seconds since the start, as in Filebench.

use gemelo_base::units::format_lines;
use gemelo_base::{Clock, Monitor, SystemClock};
use gemelo_filebench::Console;
use std::io::Write;
use std::sync::Arc;

pub(super) struct Lines {
    /// Measures the time since the start.
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
        // An error means that the reader has closed the output. The run continues.
        let _ = if self.to_stderr {
            std::io::stderr().lock().write_all(line.as_bytes())
        } else {
            std::io::stdout().lock().write_all(line.as_bytes())
        };
    }
}
