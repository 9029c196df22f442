//! Runs on several hosts. Most tests reach "hosts" of this machine through a shell; `ssh.rs` has a
//! real server, and networks with delay and loss.

mod gone;
mod refused;
mod replays;
mod results;
mod scans;
mod scripts;
mod ssh;

use crate::common::until_at_work;
use gemelo_tools::wait_until;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_gemelo");

/// A directory in which a fleet of this machine leaves its data and the numbers of its processes.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// The words that reach hosts of this machine. Each leaves the number of its process.
    fn reach(&self, hosts: &str) -> Vec<String> {
        let script = format!("echo $$ >{}/{{index}}.pid; exec {{command}}", self.text(""));
        self.reach_by(hosts, &["sh", "-c", &format!("'{script}'")].join(" "))
    }

    /// The same; the connection to the second host ends when it has begun with its task.
    fn reach_and_lose_the_second(&self, hosts: &str) -> Vec<String> {
        let until_it_begins = r#"/"say":"(piece|started)"/q; p"#;
        let second = format!("{PROGRAM} host | (sed -Eun '{until_it_begins}'; kill $$)");
        let script =
            format!("#!/bin/sh\ncase $1 in 1) {second} ;; *) exec {PROGRAM} host ;; esac\n");
        std::fs::write(self.path("connect"), script).unwrap();
        self.reach_by(hosts, &format!("sh {} {{index}} {{command}}", self.text("connect")))
    }

    fn reach_by(&self, hosts: &str, connect: &str) -> Vec<String> {
        ["--hosts", hosts, "--program", PROGRAM, "--connect", connect].map(str::to_owned).to_vec()
    }

    /// The number of the process of a host, once there is one.
    fn process_of(&self, index: usize) -> u32 {
        let read = || -> Option<u32> {
            let text = std::fs::read_to_string(self.path(&format!("{index}.pid"))).ok()?;
            text.trim().parse().ok()
        };
        wait_until(&format!("host {index} has started"), || read().is_some());
        read().unwrap()
    }
}

fn words(first: &[&str], more: &[String]) -> Vec<String> {
    first.iter().map(|word| (*word).to_owned()).chain(more.iter().cloned()).collect()
}

/// Starts a command whose output is not looked at.
fn start(arguments: &[String]) -> Child {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Waits for the end of a command; gives its status and what it said on standard error.
fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The hosts stand side by side in the report of a result file, and the slowest is named.
fn check_report(result: &str, hosts: &[&str]) {
    let page = format!("{result}.md");
    let made = crate::common::gemelo(&["report", result, "--output", &page]);
    assert_eq!(made.status, 0, "{}", made.err);
    let report = std::fs::read_to_string(page).unwrap();
    let slowest = read(Path::new(result))["slowest_host"].as_str().unwrap().to_owned();
    assert!(hosts.contains(&slowest.as_str()), "{slowest}");
    for (number, host) in hosts.iter().enumerate() {
        let row = format!("| {number} {host} | ");
        let rows: Vec<&str> = report.lines().filter(|line| line.starts_with(&row)).collect();
        assert!(rows.iter().any(|row| row.contains(" %")), "{row}: {report}");
        if *host == slowest {
            let sentence = format!("The slowest host is {number} {host}: ");
            assert!(report.contains(&sentence), "{sentence}: {report}");
        }
    }
}

/// Returns whether a process exists and is not a corpse.
fn is_alive(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or("Z").starts_with('Z'))
}

fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status();
    assert!(sent.unwrap().success());
}
