//! Child processes: starting them, waiting for them with a limit, ending them and all they started.
//!
//! Each child is the leader of a process group, so that Ctrl-C reaches the campaign alone, which
//! then ends its children in order. Each has the mark of its run in its environment, and hands it
//! on to its own children, so that those of a killed campaign can be found.

use crate::error::StepError;
use crate::system::program_path;
use gemelo_base::{Clock, StopFlag, SystemClock, text_of_name};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Variable of the environment that has the mark of a run.
const MARK_VARIABLE: &str = "GEMELO_CAMPAIGN";

/// Time that a process has to end after SIGTERM. A server flushes and closes its pool meanwhile.
const TERM_PATIENCE: Duration = Duration::from_secs(30);

/// Time that the kernel has to end a process after SIGKILL. A process in a disk sleep takes long.
const KILL_PATIENCE: Duration = Duration::from_secs(30);

/// Time that the rest of a process group has to end after SIGKILL. Processes that have ended and
/// that nobody waits for stay in their group, so this does not wait for them.
const GROUP_PATIENCE: Duration = Duration::from_secs(2);

/// Pause between looks at a process that is not a child of this one.
const END_PAUSE: Duration = Duration::from_millis(5);

/// Pause between looks at the stop flag while a child runs.
const STOP_PAUSE: Duration = Duration::from_millis(100);

/// Most output of a program that is kept in memory, in bytes.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// Most bytes of a program's errors that go into a message.
const MAX_MESSAGE_BYTES: usize = 600;

/// A process that cannot be confused with a later one of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    pub(crate) pid: u32,
    /// Start of the process, in clock ticks since the system started (proc(5)).
    pub(crate) start_ticks: u64,
}

/// The fields of `/proc/PID/stat` after the name of the program, from the state on.
pub(crate) fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain blanks and parentheses.
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

impl ProcessId {
    pub(crate) fn of(pid: u32) -> Option<Self> {
        // Field 22 of stat(5); the first after the name is field 3.
        let start_ticks = stat_fields(pid)?.get(19)?.parse().ok()?;
        Some(Self { pid, start_ticks })
    }

    /// Returns whether the process runs. A child that has ended is reaped.
    pub(crate) fn is_running(&self) -> bool {
        if Self::of(self.pid) != Some(*self) {
            return false;
        }
        let is_zombie =
            stat_fields(self.pid).is_none_or(|fields| fields.first().is_some_and(|s| s == "Z"));
        if is_zombie && let Some(pid) = self.raw() {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
        !is_zombie
    }

    fn raw(&self) -> Option<Pid> {
        i32::try_from(self.pid).ok().and_then(Pid::from_raw)
    }

    fn signal(&self, signal: Signal) {
        let Some(pid) = self.raw() else { return };
        let _ = if self.is_leader() {
            rustix::process::kill_process_group(pid, signal)
        } else {
            rustix::process::kill_process(pid, signal)
        };
    }

    fn ends_within(&self, patience: Duration) -> bool {
        let clock = SystemClock::new();
        let deadline_ns = nanoseconds(patience);
        while self.is_running() {
            if clock.now_ns() >= deadline_ns {
                return false;
            }
            gemelo_base::pause(END_PAUSE);
        }
        true
    }

    /// Ends the process: first by SIGTERM, then by SIGKILL. If it leads a process group, the rest
    /// of the group ends with it.
    pub(crate) fn end(&self) -> Result<(), &'static str> {
        if !self.is_running() {
            return Ok(());
        }
        let is_leader = self.is_leader();
        self.signal(Signal::TERM);
        if !self.ends_within(TERM_PATIENCE) {
            self.signal(Signal::KILL);
            if !self.ends_within(KILL_PATIENCE) {
                return Err("it does not end after SIGKILL");
            }
        }
        if is_leader {
            self.end_group();
        }
        Ok(())
    }

    fn is_leader(&self) -> bool {
        Groups::of(self.pid).is_some_and(|groups| groups.process_group == self.pid)
    }

    /// Ends what is left of the group of a process that has ended.
    fn end_group(&self) {
        let Some(pid) = self.raw() else { return };
        let clock = SystemClock::new();
        while rustix::process::kill_process_group(pid, Signal::KILL).is_ok()
            && clock.now_ns() < nanoseconds(GROUP_PATIENCE)
        {
            gemelo_base::pause(END_PAUSE);
        }
    }

    /// Returns whether the process is a program that a campaign has started and waits for: it leads
    /// its process group, and is no daemon, which leads its session.
    fn is_step(&self) -> bool {
        Groups::of(self.pid)
            .is_some_and(|groups| groups.process_group == self.pid && groups.session != self.pid)
    }
}

/// The process group and the session of a process, as the numbers of their leaders. A number is 0
/// if the leader is outside of this process's PID namespace, as in many containers.
#[derive(Debug, PartialEq, Eq)]
struct Groups {
    process_group: u32,
    session: u32,
}

impl Groups {
    /// Reads them from `/proc`. The system calls for them (`getpgid`, `getsid`) return 0 for a
    /// leader outside of the namespace, which `rustix` takes for impossible.
    fn of(pid: u32) -> Option<Self> {
        // Fields 5 and 6 of stat(5).
        let fields = stat_fields(pid)?;
        let number = |index: usize| fields.get(index)?.parse().ok();
        Some(Self { process_group: number(2)?, session: number(3)? })
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the processes whose environment has a mark, without this one.
pub(crate) fn marked(mark: &str) -> Vec<ProcessId> {
    let wanted = format!("{MARK_VARIABLE}={mark}");
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_mark = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let others = pids.filter(|pid| *pid != std::process::id()).filter(has_mark);
    others.filter_map(ProcessId::of).filter(ProcessId::is_running).collect()
}

/// Ends the programs with a mark that a killed campaign was waiting for. One of them could still
/// make what its campaign was about to make. `known` are processes that are given back in order.
pub(crate) fn end_steps(mark: &str, known: &[ProcessId]) -> Result<(), &'static str> {
    let steps = marked(mark).into_iter().filter(ProcessId::is_step);
    steps.filter(|step| !known.contains(step)).try_for_each(|step| step.end())
}

/// Gives a command the mark, the search path, and a process group of its own.
pub(crate) fn prepare(command: &mut Command, mark: &str) {
    command.env(MARK_VARIABLE, mark);
}

/// Starts a child.
pub(crate) fn start(command: &mut Command) -> Result<Child, StepError> {
    command.env("PATH", program_path()).stdin(Stdio::null()).process_group(0);
    command.spawn().map_err(|source| StepError::Start { program: name_of(command), source })
}

/// Returns the name of a command's program and its first argument, for messages.
pub(crate) fn name_of(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let program = text_of_name(program.file_name().unwrap_or(command.get_program()));
    match command.get_args().next().map(text_of_name) {
        Some(word) if program == "gemelo" => format!("{program} {word}"),
        _ => program,
    }
}

/// Waits until a child ends, the time is over, or the flag is raised. It is ended in the latter
/// two cases.
pub(crate) fn wait(
    child: &mut Child,
    program: &str,
    limit: Duration,
    stop: Option<&StopFlag>,
) -> Result<ExitStatus, StepError> {
    let cannot =
        |error: Errno| StepError::io("wait for the process", program.to_owned())(error.into());
    let clock = SystemClock::new();
    let pidfd = rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty());
    let pidfd = pidfd.map_err(cannot)?;
    loop {
        if let Some(status) = child.try_wait().map_err(StepError::io("wait for", program))? {
            return Ok(status);
        }
        let is_stopped = stop.is_some_and(StopFlag::is_raised);
        if is_stopped || clock.now_ns() >= nanoseconds(limit) {
            if let Some(process) = ProcessId::of(child.id()) {
                let _ = process.end();
            }
            let _ = child.wait();
            let program = program.to_owned();
            let over = StepError::TooLong { program, limit };
            return Err(if is_stopped { StepError::Interrupted } else { over });
        }
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(STOP_PAUSE.subsec_nanos()) };
        let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout));
    }
}

/// Makes an unnamed file in memory, for the output of a program. A file never makes a program wait,
/// unlike a pipe.
fn memory_file() -> Result<File, StepError> {
    let file = rustix::fs::memfd_create("output", MemfdFlags::CLOEXEC);
    file.map(File::from).map_err(|error| StepError::io("create", "a file in memory")(error.into()))
}

fn text_of(mut file: File) -> String {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes));
    read.map(|_| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Returns the last part of what a program has said, for messages.
pub(crate) fn end_of(text: &str) -> String {
    let text = text.trim();
    let from = text.len().saturating_sub(MAX_MESSAGE_BYTES);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.get(from..).unwrap_or_default().to_owned()
}

/// Runs a program to its end and returns what it has written to standard output. A failure states
/// the last lines of standard error.
pub(crate) fn output(
    command: &mut Command,
    limit: Duration,
    stop: Option<&StopFlag>,
) -> Result<String, StepError> {
    let (out, err) = (memory_file()?, memory_file()?);
    let cannot = |source| StepError::Io { action: "use", path: "a file in memory".into(), source };
    command.stdout(out.try_clone().map_err(cannot)?).stderr(err.try_clone().map_err(cannot)?);
    let mut child = start(command)?;
    let program = name_of(command);
    let status = wait(&mut child, &program, limit, stop)?;
    if status.success() {
        return Ok(text_of(out));
    }
    Err(StepError::Program { program, status: status.to_string(), output: end_of(&text_of(err)) })
}

/// Runs a check of the user. Returns the reason why it failed: the last line that it has printed.
pub(crate) fn check(command: &mut Command, limit: Duration) -> Option<String> {
    let out = match memory_file() {
        Ok(out) => out,
        Err(error) => return Some(error.reason()),
    };
    let Ok(twin) = out.try_clone() else { return Some("the check cannot be started".to_owned()) };
    let mut child = match start(command.stdout(twin).stderr(Stdio::null())) {
        Ok(child) => child,
        Err(error) => return Some(error.reason()),
    };
    match wait(&mut child, "check", limit, None) {
        Ok(status) if status.success() => None,
        Ok(status) => {
            let text = text_of(out);
            let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
            Some(last.map_or_else(|| format!("its check ended with {status}"), str::to_owned))
        }
        Err(error) => Some(error.reason()),
    }
}

/// Runs a program that nothing interrupts, for giving things back. Its mark tells it apart if this
/// process is killed meanwhile.
pub(crate) fn quick(
    command: &mut Command,
    mark: &str,
    limit: Duration,
) -> Result<String, StepError> {
    prepare(command, mark);
    output(command, limit, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_failing_program_says_why() {
        assert_eq!(quick(&mut shell("echo yes"), "test", LONG).unwrap(), "yes\n");
        let error = quick(&mut shell("echo no >&2; exit 3"), "test", LONG).unwrap_err().to_string();
        assert_eq!(error, "'sh' ended with exit status: 3: no");
    }

    #[test]
    fn programs_of_a_killed_campaign_are_ended() {
        let mark = format!("test-{}", gemelo_base::random::fresh_word());
        let mut command = shell("sleep 1000");
        prepare(&mut command, &mark);
        let mut child = start(command.stdout(Stdio::null())).unwrap();
        gemelo_tools::wait_until("the program is there", || !marked(&mark).is_empty());
        end_steps(&mark, &marked(&mark)).unwrap();
        assert!(child.try_wait().unwrap().is_none(), "a known process is left alone");
        end_steps(&mark, &[]).unwrap();
        assert_eq!(marked(&mark), []);
        let _ = child.wait();
    }

    /// In a PID namespace, as in a container, the session of a process can have a leader outside.
    #[test]
    fn programs_are_ended_inside_a_pid_namespace() {
        let namespace = |program: &std::path::Path| {
            let mut command = Command::new("unshare");
            command.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]);
            command.arg(program);
            command
        };
        if quick(&mut namespace("true".as_ref()), "test", LONG).is_err() {
            gemelo_tools::skip!("root, for a PID namespace");
        }
        let mut command = namespace(&std::env::current_exe().unwrap());
        command.args(["--exact", "process::tests::programs_of_a_killed_campaign_are_ended"]);
        let said = quick(&mut command, "test", LONG).unwrap();
        assert!(said.contains("1 passed"), "{said}");
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended_with_its_children() {
        let mark = format!("test-{}", gemelo_base::random::fresh_word());
        let mut command = shell("sleep 1000 & sleep 1000");
        prepare(&mut command, &mark);
        let error = output(&mut command, Duration::from_millis(100), None).unwrap_err();
        assert!(matches!(error, StepError::TooLong { .. }), "{error}");
        assert_eq!(marked(&mark), []);
    }

    #[test]
    fn processes_are_found_by_their_mark_and_ended() {
        let mark = format!("test-{}", gemelo_base::random::fresh_word());
        let mut command = shell("sleep 1000");
        prepare(&mut command, &mark);
        let mut child = start(command.stdout(Stdio::null())).unwrap();
        gemelo_tools::wait_until("the program is there", || !marked(&mark).is_empty());
        marked(&mark).iter().for_each(|process| process.end().unwrap());
        assert_eq!(marked(&mark), []);
        let _ = child.wait();
    }
}
