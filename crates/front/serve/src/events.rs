//! Events of a served pool: each has an identifier that stays the same, is a line of the log, and
//! goes to a command of the user, if there is one.
//!
//! The command cannot stop or slow the server: it runs beside it, one at a time, for ten seconds at
//! most. While it runs, a few events wait; further ones are only in the log.

use gemelo_base::background::{StopSignal, Worker};
use gemelo_base::{Clock, Monitor, SystemClock, Unit};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Events that wait for the command.
const MAX_WAITING: usize = 64;
/// Longest time that the command may take, also at the end of the server.
const LONGEST_NS: u64 = 10_000_000_000;
/// Interval between two looks at the command and at the signal to stop.
const LOOKED_EVERY: Duration = Duration::from_millis(50);

/// An event that somebody may have to act on, or that ends an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    ReadOnly,
    DirectoryLost,
    DamageFound,
    Healed,
    /// The pool is full by so many per cent.
    Full(u8),
    TaskFails,
    TaskWorks,
}

impl Event {
    /// The identifier, which stays the same.
    pub(crate) fn identifier(self) -> String {
        match self {
            Self::ReadOnly => "read-only".to_owned(),
            Self::DirectoryLost => "directory-lost".to_owned(),
            Self::DamageFound => "damage-found".to_owned(),
            Self::Healed => "healed".to_owned(),
            Self::Full(percent) => format!("full-{percent}"),
            Self::TaskFails => "task-fails".to_owned(),
            Self::TaskWorks => "task-works".to_owned(),
        }
    }

    const fn is_good(self) -> bool {
        matches!(self, Self::Healed | Self::TaskWorks)
    }
}

/// Tells of events.
pub(crate) struct Events {
    monitor: Arc<dyn Monitor>,
    waiting: Option<SyncSender<(Event, String)>>,
    /// The thread that runs the command. It ends after the sender.
    _worker: Option<Worker>,
}

impl Events {
    /// Starts the thread for the command, if there is one.
    ///
    /// # Errors
    /// Fails if the system starts no thread.
    pub(crate) fn start(
        monitor: Arc<dyn Monitor>,
        pool: String,
        command: Option<PathBuf>,
    ) -> io::Result<Self> {
        let Some(program) = command else {
            return Ok(Self { monitor, waiting: None, _worker: None });
        };
        let (waiting, received) = sync_channel(MAX_WAITING);
        let hook = Hook { program, pool, monitor: Arc::clone(&monitor) };
        // A pool is served also without the command. The panic hook reports a panic.
        let worker = Worker::start("gemelo-events", |_| {}, move |stop| hook.work(&received, stop));
        Ok(Self { monitor, waiting: Some(waiting), _worker: Some(worker?) })
    }

    /// Tells of an event.
    pub(crate) fn tell(&self, event: Event, message: &str) {
        let line = format!("{message} [{}]", event.identifier());
        if event.is_good() {
            self.monitor.log(&line);
        } else {
            self.monitor.warn(&line);
        }
        if let Some(waiting) = &self.waiting {
            // The event is in the log. A slow command is the user's.
            let _ = waiting.try_send((event, message.to_owned()));
        }
    }
}

/// What tells that a task fails or works again has these events.
impl Monitor for Events {
    fn begin(&self, _phase: &str, _unit: Unit, _total: Option<u64>) {}
    fn set_total(&self, _total: u64) {}
    fn advance(&self, _amount: u64) {}
    fn finish(&self) {}

    fn warn(&self, message: &str) {
        self.tell(Event::TaskFails, message);
    }

    fn log(&self, message: &str) {
        self.tell(Event::TaskWorks, message);
    }
}

/// The command of the user.
struct Hook {
    program: PathBuf,
    pool: String,
    monitor: Arc<dyn Monitor>,
}

impl Hook {
    fn work(&self, received: &Receiver<(Event, String)>, stop: &StopSignal) {
        let clock = SystemClock::new();
        let (mut has_failed, mut ends_ns) = (false, u64::MAX);
        while clock.now_ns() < ends_ns {
            if stop.is_raised() {
                ends_ns = ends_ns.min(clock.now_ns().saturating_add(LONGEST_NS));
            }
            match received.recv_timeout(LOOKED_EVERY) {
                Ok((event, message)) => {
                    let failed = self.run(event, &message).err();
                    if let (Some(error), false) = (&failed, has_failed) {
                        self.monitor.warn(&format!("the command for events: {error}"));
                    }
                    has_failed = failed.is_some();
                }
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) if stop.is_raised() => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Runs the command, and ends it if it takes too long.
    fn run(&self, event: Event, message: &str) -> io::Result<()> {
        let mut child = Command::new(&self.program)
            .arg(event.identifier())
            .arg(message)
            .env("GEMELO_EVENT", event.identifier())
            .env("GEMELO_POOL", &self.pool)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let ended = wait(&mut child)?;
        match ended {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(io::Error::other(format!("it ended with {status}"))),
            None => Err(io::Error::other("it took longer than 10 s and was killed")),
        }
    }
}

/// Waits for a command, which is killed after its time. Returns its status if it ended by itself.
fn wait(child: &mut Child) -> io::Result<Option<std::process::ExitStatus>> {
    let clock = SystemClock::new();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if clock.now_ns() >= LONGEST_NS {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        gemelo_base::pause(LOOKED_EVERY);
    }
}

/// Returns why a file cannot be the command for events, if it cannot.
#[must_use]
pub fn unfit_for_events(program: &Path) -> Option<String> {
    use std::os::unix::fs::PermissionsExt as _;
    if !program.is_absolute() {
        return Some("give its absolute path".to_owned());
    }
    match std::fs::metadata(program) {
        Err(error) => Some(error.to_string()),
        Ok(status) if !status.is_file() => Some("it is no file".to_owned()),
        Ok(status) if status.permissions().mode() & 0o111 == 0 => {
            Some("it may not be executed".to_owned())
        }
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::Recorder;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn script(directory: &Path, text: &str) -> PathBuf {
        let path = directory.join("command");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn each_event_is_a_line_of_the_log_and_a_run_of_the_command() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("out");
        let text = format!("echo \"$1|$2|$GEMELO_EVENT|$GEMELO_POOL\" >>{}", out.display());
        let command = script(directory.path(), &text);
        assert_eq!(unfit_for_events(&command), None);
        let recorder = Arc::new(Recorder::new());
        let events = Events::start(recorder.clone(), "vms".into(), Some(command)).unwrap();
        events.tell(Event::Full(90), "more than 90 % is in use");
        events.tell(Event::Healed, "all is well");
        drop(events);
        assert_eq!(recorder.warnings(), ["more than 90 % is in use [full-90]"]);
        assert_eq!(recorder.logged(), ["all is well [healed]"]);
        let expected =
            "full-90|more than 90 % is in use|full-90|vms\nhealed|all is well|healed|vms\n";
        assert_eq!(fs::read_to_string(out).unwrap(), expected);
    }

    #[test]
    fn a_command_that_fails_is_told_of_once_and_a_slow_one_delays_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let command = script(directory.path(), "sleep 0.02; exit 3");
        let recorder = Arc::new(Recorder::new());
        let events = Events::start(recorder.clone(), "vms".into(), Some(command)).unwrap();
        let clock = SystemClock::new();
        (0..200).for_each(|_| events.tell(Event::TaskWorks, "it works"));
        assert!(clock.now_ns() < 2_000_000_000, "nobody waits for the command");
        assert_eq!(recorder.logged().len(), 200);
        drop(events);
        assert_eq!(recorder.warnings().len(), 1, "{:?}", recorder.warnings());
    }

    #[test]
    fn what_cannot_be_run_is_refused_before() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("text");
        fs::write(&file, "").unwrap();
        for (path, told) in [
            (Path::new("relative"), "absolute"),
            (directory.path(), "no file"),
            (&*file, "executed"),
            (Path::new("/nowhere/at/all"), "No such file"),
        ] {
            assert!(unfit_for_events(path).unwrap().contains(told), "{}", path.display());
        }
    }
}
