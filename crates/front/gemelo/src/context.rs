//! The environment of every command: printing, progress, clocks, and the flag that Ctrl-C raises.

use crate::exit::{OrFailed as _, OrFailure as _};
use crate::files::NewFiles;
use crate::pools;
use crate::progress::TerminalMonitor;
use gemelo_base::units::format_lines;
use gemelo_base::{AtOnce, Monitor, StopFlag, SystemClock, WallClock};
use gemelo_job::JobEnvironment;
use gemelo_target::Targets;
use std::io::Write;
use std::sync::Arc;
use std::time::SystemTime;

/// The amount of text that a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Results as text, and progress on a terminal.
    Usual,
    /// Warnings and errors only.
    Quiet,
}

pub(crate) struct Context {
    verbosity: Verbosity,
    /// Prints progress and warnings on standard error.
    pub(crate) monitor: Arc<dyn Monitor>,
    /// The first Ctrl-C or SIGTERM raises it. The second one ends the process at once.
    pub(crate) stop: StopFlag,
    /// The clock that measures all runs.
    pub(crate) clock: SystemClock,
    /// The kinds of storage that load can run against.
    pub(crate) targets: Targets,
    /// The time at which the command began.
    pub(crate) started_at: SystemTime,
}

impl Context {
    pub(crate) fn new(verbosity: Verbosity) -> crate::Result<Self> {
        let stop = StopFlag::new();
        let monitor = Arc::new(TerminalMonitor::new(verbosity));
        let (raised, told) = (stop.clone(), Arc::clone(&monitor));
        ctrlc::set_handler(move || {
            if raised.is_raised() {
                std::process::exit(130);
            }
            raised.raise();
            told.tell_stopping();
        })
        .or_failed()
        .with_context(|| {
            let remedy = gemelo_base::threads::REFUSED;
            format!("cannot start a thread that listens for Ctrl-C: {remedy}")
        })?;
        Ok(Self {
            verbosity,
            monitor,
            stop,
            clock: SystemClock::new(),
            targets: pools::targets(),
            started_at: SystemClock::new().date(),
        })
    }

    /// Returns the environment in which jobs run.
    pub(crate) fn job_environment(&self) -> JobEnvironment<'_> {
        JobEnvironment {
            targets: &self.targets,
            clock: &self.clock,
            monitor: self.monitor.as_ref(),
            stop: &self.stop,
            start: &AtOnce,
            outputs: &NewFiles,
        }
    }

    /// Prints lines to standard output, unless the command is quiet, and escapes control characters
    /// other than line ends. Callers pass names through `format_line`, which escapes line ends as
    /// well.
    pub(crate) fn print(&self, text: &str) -> crate::Result<()> {
        self.monitor.finish();
        if self.verbosity == Verbosity::Quiet {
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        let text = format_lines(text);
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .context("cannot write to standard output")
    }

    /// Prints to standard error, unless the command is quiet, for commands that write data to
    /// standard output.
    pub(crate) fn print_beside(&self, text: &str) -> crate::Result<()> {
        self.monitor.finish();
        if self.verbosity == Verbosity::Quiet {
            return Ok(());
        }
        std::io::stderr()
            .write_all(format_lines(text).as_bytes())
            .context("cannot write to standard error")
    }
}
