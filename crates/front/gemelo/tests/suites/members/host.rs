//! A host of members: its commands and its servers.

use crate::ceph::Ceph;
use crate::common::Ran;
use gemelo_device::BlockDevice;
use gemelo_nbd::client::connect_device;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The lease where a fail-over is waited for.
pub(crate) const LEASE: &str = "4s";
/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
/// The volume of each member.
const VOLUME: &str = "disk";

/// A host with a directory of its own.
pub(crate) struct Host<'c> {
    ceph: &'c Ceph,
    directory: tempfile::TempDir,
}

impl<'c> Host<'c> {
    pub(crate) fn new(ceph: &'c Ceph) -> Self {
        Self { ceph, directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gemelo"));
        command.args(words);
        self.set_up(&mut command);
        command
    }

    /// Has a program use the cluster, and the sockets of this host.
    pub(crate) fn set_up(&self, command: &mut Command) {
        command.env("CEPH_CONF", self.configuration());
        command.env("GEMELO_RUNTIME_DIR", self.file("run"));
    }

    fn configuration(&self) -> PathBuf {
        self.cluster_file("ceph.conf")
    }

    /// A file in the directory of the cluster. The keys of users are there.
    pub(crate) fn cluster_file(&self, name: &str) -> PathBuf {
        self.ceph.directory().join(name)
    }

    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        let output = self.command(words).stdin(Stdio::null()).output().unwrap();
        Ran {
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs a command that must succeed without a warning.
    pub(crate) fn done(&self, words: &[&str]) -> String {
        let Ran { status, out, err } = self.run(words);
        assert_eq!((status, err.as_str()), (0, ""), "{words:?}: {out}");
        out
    }

    /// Returns the result of a command as JSON.
    pub(crate) fn json(&self, words: &[&str]) -> serde_json::Value {
        let text = self.done(&[words, &["--json", "-"]].concat());
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let schema = crate::schema::schema_of(json["schema"].as_str().unwrap());
        assert_eq!(crate::schema::misfits(&schema, &json), [""; 0]);
        json
    }

    /// Starts a server of a member. It listens at a socket of this name when it has the member.
    pub(crate) fn serve(&self, member: &str, socket: &str, options: &[&str]) -> Server {
        self.serve_by(member, socket, options, |_| {})
    }

    /// Does the same with a command that is changed before it is run.
    pub(crate) fn serve_by(
        &self,
        member: &str,
        socket: &str,
        options: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> Server {
        let listen = format!("unix:{}", self.file(socket).display());
        let words = [&["serve", member, "--listen", &listen], options].concat();
        let mut command = self.command(&words);
        change(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Server { child: command.spawn().unwrap(), socket: self.file(socket) }
    }

    /// Runs a command of Ceph, and returns what it prints.
    pub(crate) fn ceph(&self, words: &[&str]) -> String {
        self.program_of_ceph("ceph", words)
    }

    /// Runs a command of Ceph for objects, and returns what it prints.
    pub(crate) fn rados(&self, words: &[&str]) -> String {
        self.program_of_ceph("rados", words)
    }

    fn program_of_ceph(&self, program: &str, words: &[&str]) -> String {
        let conf = self.configuration();
        let output = Command::new(program).arg("--conf").arg(conf).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the bytes of one copy of a pool of Ceph, as Ceph counts them every few seconds.
    pub(crate) fn stored_bytes(&self, pool: &str) -> u64 {
        let text = self.ceph(&["df", "--format", "json"]);
        let pools: serde_json::Value = serde_json::from_str(&text).unwrap();
        let pools = pools["pools"].as_array().unwrap();
        let pool = pools.iter().find(|one| one["name"] == pool).unwrap();
        pool["stats"]["stored"].as_u64().unwrap()
    }

    fn storage_server(&self, number: u32) -> Pid {
        let file = self.ceph.directory().join(format!("osd.{number}.pid"));
        let process: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        Pid::from_raw(process).unwrap()
    }

    /// Stops storage servers for this time, one after another. Nobody takes them for dead.
    pub(crate) fn slow_down_storage_servers(&self, numbers: Range<u32>, span: Duration) {
        for number in numbers {
            let process = self.storage_server(number);
            kill_process(process, Signal::STOP).unwrap();
            std::thread::sleep(span);
            kill_process(process, Signal::CONT).unwrap();
        }
    }

    pub(crate) fn kill_storage_server(&self, number: u32) {
        let process = self.storage_server(number);
        kill_process(process, Signal::KILL).unwrap();
        wait_for_end(process.as_raw_nonzero().get());
        // The others would notice it after 20 seconds.
        self.ceph(&["osd", "down", &number.to_string()]);
    }

    pub(crate) fn start_storage_server(&self, number: u32) {
        let conf = self.configuration();
        let mut osd = Command::new("ceph-osd");
        osd.arg("--conf").arg(conf).args(["--id", &number.to_string()]);
        assert!(osd.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success());
    }

    /// Returns whether all storage servers have all data that they should have.
    pub(crate) fn has_all_copies(&self) -> bool {
        let text = self.ceph(&["status", "--format", "json"]);
        let status: serde_json::Value = serde_json::from_str(&text).unwrap();
        let servers = &status["osdmap"];
        let states = status["pgmap"]["pgs_by_state"].as_array().unwrap();
        servers["num_up_osds"] == servers["num_osds"]
            && matches!(states.as_slice(), [only] if only["state_name"] == "active+clean")
    }

    /// Checks the pool of a member that nobody serves, with all contents.
    pub(crate) fn assert_clean(&self, member: &str) {
        let text = self.done(&["pool", "check", member, "--data"]);
        assert!(text.contains("the pool is what it should be"), "{text}");
    }
}

/// Waits until a killed process has ended. Nobody may ask for its status, and it stays as a zombie.
fn wait_for_end(process: i32) {
    let status = Path::new("/proc").join(process.to_string()).join("status");
    let runs = |text: String| {
        let state = text.lines().find(|line| line.starts_with("State:")).unwrap_or_default();
        !state.contains('Z') && !state.contains('X')
    };
    while std::fs::read_to_string(&status).is_ok_and(runs) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process that serves a member, or stands by.
pub(crate) struct Server {
    child: Child,
    pub(crate) socket: PathBuf,
}

impl Server {
    /// Waits until clients can connect.
    pub(crate) fn wait_until_it_serves(&mut self) {
        let mut line = String::new();
        BufReader::new(self.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("listening"), "{line}{}", self.errors());
    }

    /// Returns what it has printed to standard error, when it has ended.
    pub(crate) fn errors(&mut self) -> String {
        let mut text = String::new();
        self.child.stderr.as_mut().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    /// Connects to a volume, if the process serves.
    pub(crate) fn try_volume(&self, name: &str) -> Option<Arc<dyn BlockDevice>> {
        connect_device(UnixStream::connect(&self.socket).ok()?, name).ok()
    }

    /// Connects to the volume, as soon as it is served.
    pub(crate) fn volume(&self) -> Arc<dyn BlockDevice> {
        let began = Instant::now();
        loop {
            let stream = UnixStream::connect(&self.socket);
            let connected = stream.map(|stream| connect_device(stream, VOLUME));
            match connected {
                Ok(Ok(device)) => return device,
                other => assert!(began.elapsed() < PATIENCE, "{:?}", other.map(|it| it.is_ok())),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns whether it has not ended.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for the end, and returns the status.
    pub(crate) fn wait(&mut self) -> i32 {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(began.elapsed() < PATIENCE, "the server does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it in order, which gives the member up.
    pub(crate) fn end(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.wait(), 0, "{}", self.errors());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
