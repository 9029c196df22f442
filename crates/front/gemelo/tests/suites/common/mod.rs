//! Running the built binary in tests.

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// The outcome of a run.
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: &Output) -> Self {
        Self {
            status: output.status.code().expect("ended by itself"),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs gemelo with these arguments and nothing on standard input.
pub(crate) fn gemelo<Word: AsRef<OsStr>>(arguments: &[Word]) -> Ran {
    gemelo_reading("", arguments)
}

/// Runs gemelo with this text on standard input.
pub(crate) fn gemelo_reading<Word: AsRef<OsStr>>(input: &str, arguments: &[Word]) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gemelo"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    // A command that does not read closes the pipe early.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    Ran::of(&child.wait_with_output().expect("the binary ran"))
}

/// Waits until each of these processes has done some of its reads and writes.
pub(crate) fn until_at_work(processes: &[u32]) {
    let before: Vec<u64> = processes.iter().map(|process| calls(*process)).collect();
    for (process, before) in processes.iter().zip(before) {
        gemelo_tools::wait_until("a process is at its load", || calls(*process) > before + 80);
    }
}

/// The reads and writes that a process has asked the kernel for.
fn calls(process: u32) -> u64 {
    let told = std::fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    let count = |line: &str| {
        let (name, count) = line.split_once(": ")?;
        ["syscr", "syscw"].contains(&name).then(|| count.parse::<u64>().expect("a number"))
    };
    told.lines().filter_map(count).sum()
}

/// The names of the commands in a help text. The program has its commands in groups.
pub(crate) fn commands_in(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| !line.starts_with("Commands"));
    let lines = lines.take_while(|line| !line.starts_with("Options:") && *line != "Arguments:");
    // Longer descriptions go on deeper.
    let lines = lines.filter(|line| line.starts_with(' ') && !line.starts_with("   "));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}
