//! Lines with the seconds since the start in front, as the original prints them.

use gemelo_base::Monitor;
use gemelo_base::units::format_lines;
use gemelo_filebench::Console;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

pub(super) struct Lines {
    began: Instant,
    to_stderr: bool,
    monitor: Arc<dyn Monitor>,
}

impl Lines {
    pub(super) fn new(to_stderr: bool, monitor: Arc<dyn Monitor>) -> Self {
        Self { began: Instant::now(), to_stderr, monitor }
    }
}

impl Console for Lines {
    fn line(&self, text: &str) {
        self.monitor.finish();
        let line = format!("{:.3}: {}\n", self.began.elapsed().as_secs_f64(), format_lines(text));
        // Nobody may be reading any more; the run goes on.
        let _ = if self.to_stderr {
            std::io::stderr().lock().write_all(line.as_bytes())
        } else {
            std::io::stdout().lock().write_all(line.as_bytes())
        };
    }
}
