//! Progress bars on a terminal. Without a terminal, warnings, log lines and milestones are printed.

use crate::context::Verbosity;
use gemelo_base::units::format_line;
use gemelo_base::{Monitor, Unit};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::HashSet;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::Duration;

/// Interval at which a bar is redrawn without progress.
const TICK: Duration = Duration::from_millis(200);

/// Most warnings that are remembered. Further warnings are printed each time, repeated or not.
const MAX_WARNINGS_REMEMBERED: usize = 1000;

/// Shows phases as progress bars on standard error.
pub(crate) struct TerminalMonitor {
    /// `true` on a terminal, unless the command is quiet.
    shows_bars: bool,
    /// `true` without bars, unless the command is quiet.
    tells_milestones: bool,
    bar: Mutex<Option<ProgressBar>>,
    /// Name of the phase of the bar.
    phase: Mutex<String>,
    /// Warnings that were printed. Several jobs on the same contents give the same warnings.
    warned: Mutex<HashSet<String>>,
}

impl TerminalMonitor {
    pub(crate) fn new(verbosity: Verbosity) -> Self {
        let (is_usual, is_terminal) =
            (verbosity == Verbosity::Usual, std::io::stderr().is_terminal());
        Self {
            shows_bars: is_usual && is_terminal,
            tells_milestones: is_usual && !is_terminal,
            bar: Mutex::new(None),
            phase: Mutex::default(),
            warned: Mutex::default(),
        }
    }

    /// Says on a terminal that the command stops at the next good moment. It may wait for the other
    /// end of a pipe, which can take for ever.
    pub(crate) fn tell_stopping(&self) {
        if self.shows_bars {
            self.print("gemelo: stopping; press Ctrl-C again to end at once");
        }
    }

    fn with_bar(&self, act: impl FnOnce(&ProgressBar)) {
        if let Ok(bar) = self.bar.lock()
            && let Some(bar) = bar.as_ref()
        {
            act(bar);
        }
    }

    /// Prints a line on standard error, above the bar if there is one.
    fn print(&self, line: &str) {
        let mut printed = false;
        self.with_bar(|bar| {
            bar.suspend(|| write_line(&mut std::io::stderr(), line));
            printed = true;
        });
        if !printed {
            write_line(&mut std::io::stderr(), line);
        }
    }
}

/// Writes a line as a whole: standard output, or another process, may go to the same file.
fn write_line(to: &mut dyn Write, line: &str) {
    // A user who has closed standard error wants no lines.
    let _ = to.write_all(format!("{line}\n").as_bytes());
}

fn style(unit: Unit, total_known: bool) -> ProgressStyle {
    let template = match (unit, total_known) {
        (Unit::Bytes, true) => {
            "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta} left"
        }
        (Unit::Bytes, false) => "{spinner} {msg} {binary_bytes} {binary_bytes_per_sec}",
        (Unit::Items, true) => "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta} left",
        (Unit::Items, false) => "{spinner} {msg} {human_pos} {per_sec}",
        (Unit::Nanoseconds, true) => "{msg} {wide_bar} {percent} % {eta} left",
        (Unit::Nanoseconds, false) => "{spinner} {msg} {elapsed}",
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Monitor for TerminalMonitor {
    fn begin(&self, phase: &str, unit: Unit, total: Option<u64>) {
        self.finish();
        if !self.shows_bars {
            return;
        }
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        bar.set_style(style(unit, total.is_some()));
        bar.set_message(phase.to_owned());
        if let Ok(mut name) = self.phase.lock() {
            phase.clone_into(&mut name);
        }
        bar.enable_steady_tick(TICK);
        if let Ok(mut slot) = self.bar.lock() {
            *slot = Some(bar);
        }
    }

    fn set_total(&self, total: u64) {
        self.with_bar(|bar| {
            if bar.length().is_none() {
                bar.set_style(style(Unit::Bytes, true));
            }
            bar.set_length(total);
        });
    }

    fn show(&self, figures: &str) {
        let phase = self.phase.lock().map(|phase| phase.clone()).unwrap_or_default();
        self.with_bar(|bar| bar.set_message(format!("{phase}: {figures}")));
    }

    fn advance(&self, amount: u64) {
        self.with_bar(|bar| bar.inc(amount));
    }

    fn milestone(&self, message: &str) {
        if self.tells_milestones {
            self.print(&format!("gemelo: {}", format_line(message)));
        }
    }

    fn warn(&self, message: &str) {
        if let Ok(mut warned) = self.warned.lock()
            && warned.len() < MAX_WARNINGS_REMEMBERED
            && !warned.insert(message.to_owned())
        {
            return;
        }
        self.print(&format!("gemelo: warning: {}", format_line(message)));
    }

    fn log(&self, message: &str) {
        self.print(&format!("gemelo: {}", format_line(message)));
    }

    fn finish(&self) {
        if let Ok(mut slot) = self.bar.lock()
            && let Some(bar) = slot.take()
        {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    /// Keeps what each call has written.
    #[derive(Default)]
    struct Writes(Vec<Vec<u8>>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_written_at_once_so_that_no_other_output_comes_in_between() {
        let mut writes = Writes::default();
        write_line(&mut writes, "gemelo: warning: a disk is full");
        assert_eq!(writes.0, [b"gemelo: warning: a disk is full\n"]);
    }
}
