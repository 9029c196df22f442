//! A member with its volumes, and the two processes of which one serves it.

use super::seen::{BLOCKS, Seen};
use crate::members::contents::BLOCK;
use crate::members::host::{Host, LEASE, PATIENCE, Server};
use gemelo_base::random::Random;
use gemelo_device::{BlockDevice, DeviceError};
use rustix::process::Signal;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The exit status of a process that may not act for its member any more.
const DISPLACED: i32 = 7;
/// Most snapshots and clones of a member.
const MAX_COPIES: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    ProcessKilled,
    ProcessStopped,
    HandedOver,
    StorageServerDies,
    StorageServerStops,
    VolumeCopied,
}

impl Fault {
    pub(super) fn draw(random: &mut Random) -> Self {
        match random.below(8) {
            0 | 1 => Self::ProcessKilled,
            2 => Self::ProcessStopped,
            3 => Self::HandedOver,
            4 => Self::StorageServerDies,
            5 => Self::StorageServerStops,
            _ => Self::VolumeCopied,
        }
    }
}

struct Volume {
    name: String,
    seen: Seen,
    is_writable: bool,
}

pub(super) struct Member<'h, 'c> {
    host: &'h Host<'c>,
    name: String,
    /// The process that serves, as far as is known, and the one that stands by.
    processes: [Server; 2],
    started: u32,
    volumes: Vec<Volume>,
    copies: u32,
    /// Blocks that were read back.
    pub(super) verified: u64,
    /// Processes that ended because the busy cluster did not renew their lease in time.
    pub(super) lost_leases: u64,
}

impl<'h, 'c> Member<'h, 'c> {
    /// Creates a member with one volume, and starts both processes.
    pub(super) fn create(host: &'h Host<'c>, name: &str) -> Self {
        host.done(&["pool", "create", name, "--capacity", "1g", "--commit-interval", "1s"]);
        let size = (BLOCKS * BLOCK as u64).to_string();
        host.done(&["volume", "create", &format!("{name}/disk"), "--size", &size]);
        let processes = [0, 1].map(|number| start(host, name, number));
        let volumes =
            vec![Volume { name: "disk".to_owned(), seen: Seen::empty(), is_writable: true }];
        let name = name.to_owned();
        let (started, copies, verified, lost_leases) = (2, 0, 0, 0);
        Self { host, name, processes, started, volumes, copies, verified, lost_leases }
    }

    /// Replaces the process that serves, which has ended, by the other one and a new standby.
    fn replace(&mut self) {
        self.processes.swap(0, 1);
        self.processes[1] = start(self.host, &self.name, self.started);
        self.started += 1;
    }

    /// Connects to a volume at the process that serves.
    fn connect(&mut self, volume: &str) -> Arc<dyn BlockDevice> {
        let began = Instant::now();
        loop {
            for number in 0..2 {
                if let Some(device) = self.processes[number].try_volume(volume) {
                    self.processes.swap(0, number);
                    return device;
                }
                if !self.processes[number].is_running() {
                    self.processes.swap(0, number);
                    self.expect_lost_lease();
                }
            }
            assert!(began.elapsed() < PATIENCE, "{} is served by nobody", self.name);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A request to the process that serves has failed, which only the end of its lease excuses.
    fn expect_lost_lease(&mut self) {
        let process = &mut self.processes[0];
        let status = process.wait();
        assert_eq!(status, DISPLACED, "{}: {}", self.name, process.errors());
        self.lost_leases += 1;
        self.replace();
    }

    /// Changes volumes for a time.
    pub(super) fn load(&mut self, random: &mut Random, span: Duration) {
        let began = Instant::now();
        while began.elapsed() < span {
            let writable: Vec<usize> =
                (0..self.volumes.len()).filter(|at| self.volumes[*at].is_writable).collect();
            let at = writable[random.below(writable.len() as u64) as usize];
            let name = self.volumes[at].name.clone();
            let device = self.connect(&name);
            let changed: Result<(), DeviceError> = (0..1 + random.below(5))
                .try_for_each(|_| self.volumes[at].seen.change(&*device, random));
            if changed.is_err() {
                self.expect_lost_lease();
                // Later flushes say nothing about what failed.
                self.verify();
            }
        }
    }

    /// Reads all volumes.
    pub(super) fn verify(&mut self) {
        for at in 0..self.volumes.len() {
            let name = self.volumes[at].name.clone();
            loop {
                let device = self.connect(&name);
                if let Ok(blocks) = self.volumes[at].seen.verify(&*device) {
                    self.verified += blocks;
                    break;
                }
                self.expect_lost_lease();
            }
        }
    }

    pub(super) fn suffer(&mut self, fault: Fault, random: &mut Random) {
        // This finds out which process serves.
        drop(self.connect("disk"));
        match fault {
            Fault::ProcessKilled => {
                self.processes[0].signal(Signal::KILL);
                self.processes[0].wait();
                self.replace();
            }
            Fault::ProcessStopped => self.stop(),
            Fault::HandedOver => {
                if self.runs(&["pool", "hand-over", &self.name.clone()]) {
                    let process = &mut self.processes[0];
                    assert_eq!(process.wait(), 0, "{}: {}", self.name, process.errors());
                    self.replace();
                }
            }
            Fault::VolumeCopied => self.copy(random.below(2) == 0),
            Fault::StorageServerDies | Fault::StorageServerStops => {
                unreachable!("a fault of all members")
            }
        }
    }

    /// The process that serves is stopped until the standby has taken the member, and goes on then.
    fn stop(&mut self) {
        self.processes[0].signal(Signal::STOP);
        self.processes.swap(0, 1);
        let standby = &self.processes[0];
        drop(standby.volume());
        self.processes[1].signal(Signal::CONT);
        let stopped = &mut self.processes[1];
        assert_eq!(stopped.wait(), DISPLACED, "{}: {}", self.name, stopped.errors());
        self.processes[1] = start(self.host, &self.name, self.started);
        self.started += 1;
    }

    /// Makes a snapshot or a clone of a volume, and removes the oldest of many.
    fn copy(&mut self, is_writable: bool) {
        self.copies += 1;
        let (name, action) =
            (format!("copy-{}", self.copies), if is_writable { "clone" } else { "snapshot" });
        let disk = format!("{}/disk", self.name);
        // The volume has what was flushed, unless its process has ended meanwhile.
        if self.runs(&["volume", action, &disk, &name]) {
            let seen = self.volumes[0].seen.clone();
            self.volumes.push(Volume { name, seen, is_writable });
        }
        if self.volumes.len() > MAX_COPIES {
            let oldest = self.volumes.remove(1);
            let volume = format!("{}/{}", self.name, oldest.name);
            self.runs(&["volume", "rm", &volume, "--force"]);
        }
    }

    /// Runs a command of the process that serves. Returns `false` if it failed because the process
    /// has lost its lease; its outcome is unknown then.
    fn runs(&mut self, words: &[&str]) -> bool {
        let ran = self.host.run(words);
        if ran.status != 0 {
            eprintln!("{words:?}: {}", ran.err);
            self.expect_lost_lease();
        }
        ran.status == 0
    }

    /// Ends both processes: first the standby, so that it does not take the member. The member is
    /// given up in order, by others if its server has lost the lease.
    pub(super) fn end(mut self) {
        loop {
            drop(self.connect("disk"));
            let [serving, standby] = &mut self.processes;
            standby.signal(Signal::KILL);
            standby.wait();
            serving.signal(Signal::TERM);
            let status = serving.wait();
            if status == 0 {
                return;
            }
            assert_eq!(status, DISPLACED, "{}: {}", self.name, serving.errors());
            self.processes =
                [0, 1].map(|number| start(self.host, &self.name, self.started + number));
            self.started += 2;
        }
    }
}

/// Starts a process that serves the member, or stands by.
fn start(host: &Host<'_>, name: &str, number: u32) -> Server {
    let socket = format!("{}-{number}", name.rsplit('/').next().unwrap());
    host.serve(name, &socket, &["--lease", LEASE, "--standby"])
}
