//! Runs on several "hosts" of this machine. The program over there is this test program, which a
//! shell starts for the test [`far::far_side`] alone.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failure here is that of the test, which has no caller to tell"
)]

mod far;
mod gone;
mod refused;
mod together;

use gemelo_base::{Recorder, StopFlag};
use gemelo_fleet::{Agree, Done, Finished, FleetError, HostEnd, Hosts, Orders, Transport, run};
use gemelo_tools::wait_until;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// The version of the program here and over there.
const VERSION: &str = "1.2.3";
/// Longer than any sign of life takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Two signs of life, and the time in which a busy machine may not get to a third one.
const IMPATIENCE: Duration = Duration::from_secs(4);

/// A run on hosts of this machine. Each of them has a file with the number of its process for as
/// long as its task has something there.
struct Run {
    directory: PathBuf,
    hosts: Hosts,
    transport: Transport,
    timeout: Duration,
    tasks: Vec<Value>,
    goes_on: bool,
    stop: StopFlag,
    recorder: Recorder,
    /// The parts of files, with the number of the host.
    received: Mutex<Vec<(usize, Vec<u8>)>>,
}

impl Run {
    /// A run on these hosts. Their tasks are over at once.
    fn new(directory: &Path, hosts: &str) -> Self {
        let hosts = Hosts::parse(hosts).unwrap();
        let task = |number| json!({ "file": directory.join(format!("{number}.pid")) });
        Self {
            directory: directory.to_owned(),
            tasks: (0..hosts.names().len()).map(task).collect(),
            hosts,
            transport: Transport::new(Some(&by_shell(&far::command())), None).unwrap(),
            timeout: PATIENCE,
            goes_on: false,
            stop: StopFlag::new(),
            recorder: Recorder::new(),
            received: Mutex::default(),
        }
    }

    /// The same with tasks that last until [`Run::let_end`].
    fn long(directory: &Path, hosts: &str) -> Self {
        let mut run = Self::new(directory, hosts);
        let end = run.directory.join("end");
        run.tasks.iter_mut().for_each(|task| task["until"] = json!(end));
        run
    }

    fn let_end(&self) {
        fs::write(self.directory.join("end"), "").unwrap();
    }

    /// Runs it to its end.
    fn result(&self) -> Result<Vec<Finished>, FleetError> {
        self.result_if(&|_| Ok(()))
    }

    /// The same; `agree` compares what the hosts make of their tasks.
    fn result_if(&self, agree: Agree<'_>) -> Result<Vec<Finished>, FleetError> {
        let receive = |host: usize, bytes: &[u8]| {
            self.received.lock().unwrap().push((host, bytes.to_vec()));
            Ok(())
        };
        run(&Orders {
            hosts: &self.hosts,
            transport: &self.transport,
            version: VERSION,
            timeout: self.timeout,
            tasks: &self.tasks,
            agree,
            receive: &receive,
            goes_on: self.goes_on,
            monitor: &self.recorder,
            stop: &self.stop,
        })
    }

    /// Runs it in a thread, and does something with its processes once all hosts are at work.
    fn with_processes(&self, act: impl FnOnce(&[i32])) -> Vec<Finished> {
        std::thread::scope(|scope| {
            let running = scope.spawn(|| self.result().unwrap());
            let ends_on_panic = StopAtEnd(&self.stop);
            act(&self.processes());
            std::mem::forget(ends_on_panic);
            running.join().unwrap()
        })
    }

    /// The processes of the hosts, once all of them are at work.
    fn processes(&self) -> Vec<i32> {
        let files = (0..self.tasks.len()).map(|number| self.file(number));
        files
            .map(|file| {
                wait_until("a host is at work", || file.exists());
                fs::read_to_string(file).unwrap().parse().unwrap()
            })
            .collect()
    }

    fn file(&self, number: usize) -> PathBuf {
        self.directory.join(format!("{number}.pid"))
    }

    /// Nothing goes on over there, and nothing is left but the files of the hosts that died.
    fn assert_gone(&self, processes: &[i32], dead: &[usize]) {
        for process in processes {
            wait_until("the process of a host has ended", || !is_alive(*process));
        }
        for number in 0..self.tasks.len() {
            assert_eq!(self.file(number).exists(), dead.contains(&number), "host {number}");
        }
    }
}

/// Ends a run whose test has failed.
struct StopAtEnd<'a>(&'a StopFlag);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}

/// The template of a transport that starts this script. `$1` is the host.
fn by_shell(script: &str) -> String {
    format!("sh -c '{script}' sh {{host}}")
}

/// Returns whether a process exists and is not a corpse.
fn is_alive(process: i32) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or("Z").starts_with('Z'))
}

fn signal(process: i32, signal: rustix::process::Signal) {
    let process = rustix::process::Pid::from_raw(process).unwrap();
    rustix::process::kill_process(process, signal).unwrap();
}

/// The results of hosts that have one, and the reasons of the others.
fn ends(finished: &[Finished]) -> Vec<Result<bool, String>> {
    let end = |one: &Finished| match &one.end {
        HostEnd::Done(Done { is_complete, .. }) => Ok(*is_complete),
        HostEnd::Failed(refusal) => Err(refusal.message.clone()),
        HostEnd::Lost(reason) => Err(reason.clone()),
    };
    finished.iter().map(end).collect()
}
