//! Members of a domain on a Ceph cluster: commands, a standby that takes over from a process that
//! was killed or stopped, a storage server that dies under load, and a planned hand-over.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a test tells what it measured, and which program it lacks")]

#[path = "../../objects/tests/conformance/ceph.rs"]
#[expect(dead_code, reason = "other tests use the rest of the module")]
mod ceph;
mod common;
mod schema;

use ceph::Ceph;
use common::Ran;
use gemelo_device::{BlockDevice, DeviceError, Durability, Operation, Request};
use gemelo_nbd::client::connect_device;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The lease where a fail-over is waited for.
const LEASE: &str = "4s";
/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const BLOCK: usize = 4096;
const MEMBER: &str = "rados:gemelo/members/one";

/// A cluster, and a directory of a host.
struct Place<'c> {
    ceph: &'c Ceph,
    host: tempfile::TempDir,
}

impl Place<'_> {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gemelo"));
        command.args(words).env("CEPH_CONF", self.configuration());
        command.env("GEMELO_RUNTIME_DIR", self.host.path().join("run"));
        command
    }

    fn configuration(&self) -> PathBuf {
        self.ceph.directory().join("ceph.conf")
    }

    fn run(&self, words: &[&str]) -> Ran {
        let output = self.command(words).stdin(Stdio::null()).output().unwrap();
        Ran {
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    fn done(&self, words: &[&str]) -> String {
        let Ran { status, out, err } = self.run(words);
        assert_eq!((status, err.as_str()), (0, ""), "{words:?}: {out}");
        out
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.host.path().join(name)
    }

    /// Starts a server that listens at a socket of this name when it has the member.
    fn serve(&self, socket: &str, options: &[&str]) -> Server {
        let listen = format!("unix:{}", self.socket(socket).display());
        let words = [&["serve", MEMBER, "--listen", &listen], options].concat();
        let mut command = self.command(&words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Server { child: command.spawn().unwrap(), socket: self.socket(socket) }
    }

    fn ceph(&self, words: &[&str]) {
        let conf = self.configuration();
        let output = Command::new("ceph").arg("--conf").arg(conf).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    }

    fn assert_clean(&self) {
        let text = self.done(&["pool", "check", MEMBER, "--data"]);
        assert!(text.contains("the pool is what it should be"), "{text}");
    }
}

struct Server {
    child: Child,
    socket: PathBuf,
}

impl Server {
    /// Waits until clients can connect.
    fn wait_until_it_serves(&mut self) {
        let mut line = String::new();
        BufReader::new(self.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("listening"), "{line}{}", self.errors());
    }

    fn errors(&mut self) -> String {
        let mut text = String::new();
        self.child.stderr.as_mut().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    fn volume(&self) -> Arc<dyn BlockDevice> {
        let began = Instant::now();
        loop {
            let stream = UnixStream::connect(&self.socket);
            let connected = stream.map(|stream| connect_device(stream, "disk"));
            match connected {
                Ok(Ok(device)) => return device,
                other => assert!(began.elapsed() < PATIENCE, "{:?}", other.map(|it| it.is_ok())),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn wait(&mut self) -> i32 {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(began.elapsed() < PATIENCE, "the server does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn execute(device: &dyn BlockDevice, operation: Operation<'_>) -> Result<(), DeviceError> {
    let mut batch = [Request { operation, outcome: Ok(()) }];
    device.execute(&mut batch);
    let [Request { outcome, .. }] = batch;
    outcome
}

/// Contents that name their block and their generation.
fn content(block: u64, generation: u8) -> Vec<u8> {
    let mut bytes = vec![generation; BLOCK];
    bytes[..8].copy_from_slice(&block.to_le_bytes());
    bytes
}

fn write(device: &dyn BlockDevice, blocks: std::ops::Range<u64>, generation: u8) {
    for block in blocks {
        let (offset, durability) = (block * BLOCK as u64, Durability::Flushed);
        let data = &content(block, generation);
        execute(device, Operation::Write { offset, data, durability }).unwrap();
    }
    execute(device, Operation::Flush).unwrap();
}

fn read(device: &dyn BlockDevice, block: u64) -> Result<Vec<u8>, DeviceError> {
    let mut bytes = vec![0; BLOCK];
    execute(device, Operation::Read { offset: block * BLOCK as u64, buffer: &mut bytes })?;
    Ok(bytes)
}

fn assert_written(device: &dyn BlockDevice, blocks: std::ops::Range<u64>, generation: u8) {
    for block in blocks {
        assert!(read(device, block).unwrap() == content(block, generation), "block {block}");
    }
}

#[test]
fn a_member_of_a_domain_on_ceph_is_served_by_one_host_at_a_time() {
    let Some(ceph) = Ceph::start() else { return };
    let place = Place { ceph: &ceph, host: tempfile::tempdir().unwrap() };
    commands(&place);
    let standby = a_killed_process(&place);
    let mut server = a_stopped_process(&place, standby);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.errors());
    place.assert_clean();
    let server = a_storage_server_dies(&place);
    a_planned_hand_over(&place, server);
    place.assert_clean();
    removal(&place);
    contents_in_an_erasure_coded_pool(&place);
}

/// The commands work on a member that nobody serves.
fn commands(place: &Place<'_>) {
    let domain = "rados:gemelo/members";
    let missing = place.run(&["domain", "ls", domain]);
    assert_eq!(missing.status, 2, "{}", missing.err);
    assert!(missing.err.contains("gemelo domain create"), "{}", missing.err);
    place.done(&["domain", "create", domain, "--shards", "4"]);
    let again = place.run(&["domain", "create", domain, "--shards", "4"]);
    assert!(again.status == 2 && again.err.contains("exists"), "{}", again.err);
    let nobody = place.run(&["volume", "ls", MEMBER]);
    assert!(nobody.status == 2 && nobody.err.contains("no member 'one'"), "{}", nobody.err);
    let refused = place.run(&["pool", "create", MEMBER, "--block-size", "8k"]);
    assert!(refused.status == 2 && refused.err.contains("--block-size"), "{}", refused.err);
    place.done(&["pool", "create", MEMBER, "--capacity", "1g", "--commit-interval", "1s"]);
    let volume = format!("{MEMBER}/disk");
    place.done(&["volume", "create", &volume, "--size", "64m"]);
    let target = format!("pool:{volume}");
    let bench = ["bench", "--target", &target, "--operation", "write", "--bytes", "1m"];
    place.done(&[&bench[..], &["--verify", "final", "--force"]].concat());
    let text = place.done(&["pool", "stat", MEMBER]);
    assert!(text.contains("1.00 MiB"), "{text}");
    for kind in ["ls", "stat"] {
        let json = place.done(&["domain", kind, domain, "--json", "-"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let schema = schema::schema_of(json["schema"].as_str().unwrap());
        assert_eq!(schema::misfits(&schema, &json), [""; 0]);
    }
    for words in [&["pool", "gc", MEMBER][..], &["pool", "scrub", MEMBER], &["pool", "find", MEMBER]] {
        place.done(words);
    }
    place.done(&["pool", "grow", MEMBER, "--capacity", "2g"]);
    let converted = place.run(&["pool", "convert", MEMBER]);
    assert_eq!(converted.status, 2, "{}", converted.err);
    place.assert_clean();
}

/// A process is killed, and its standby serves every flushed byte.
fn a_killed_process(place: &Place<'_>) -> Server {
    let mut server = place.serve("a", &["--lease", LEASE]);
    server.wait_until_it_serves();
    let standby = place.serve("b", &["--lease", LEASE, "--standby"]);
    // The host's own commands ask the server; another server is refused.
    let text = place.done(&["pool", "stat", MEMBER]);
    assert!(text.contains("process"), "{text}");
    let second = place.run(&["serve", MEMBER, "--listen", "unix:x", "--lease", LEASE]);
    assert_eq!(second.status, 3, "{}", second.err);
    write(&*server.volume(), 0..2000, 1);
    assert!(!place.socket("b").exists(), "a standby does not listen");
    let began = Instant::now();
    server.child.kill().unwrap();
    let volume = standby.volume();
    assert_written(&*volume, 0..1, 1);
    eprintln!("from the kill to the first byte with a lease of {LEASE}: {:?}", began.elapsed());
    assert_written(&*volume, 0..2000, 1);
    standby
}

/// A process is stopped for longer than its lease. When it goes on, another one serves, and the
/// stopped one neither answers nor writes.
fn a_stopped_process(place: &Place<'_>, mut stopped: Server) -> Server {
    let volume = stopped.volume();
    write(&*volume, 0..500, 2);
    // These are acknowledged and not flushed: they are written later, if ever.
    let (data, durability) = (&content(600, 3), Durability::Flushed);
    let offset = 600 * BLOCK as u64;
    execute(&*volume, Operation::Write { offset, data, durability }).unwrap();
    stopped.signal(Signal::STOP);
    let standby = place.serve("c", &["--lease", LEASE, "--standby"]);
    let taken = standby.volume();
    write(&*taken, 0..500, 4);
    let asked = std::thread::spawn(move || read(&*volume, 0));
    std::thread::sleep(Duration::from_millis(200));
    stopped.signal(Signal::CONT);
    assert!(asked.join().unwrap().is_err(), "a process without its lease has answered");
    assert_eq!(stopped.wait(), 7, "displaced");
    let errors = stopped.errors();
    assert!(errors.contains("lease") || errors.contains("fenced"), "{errors}");
    assert_written(&*taken, 0..500, 4);
    assert_written(&*taken, 500..600, 1);
    standby
}

/// One of three storage servers is killed and started again while blocks are written.
fn a_storage_server_dies(place: &Place<'_>) -> Server {
    let mut server = place.serve("d", &[]);
    server.wait_until_it_serves();
    let volume = server.volume();
    let ends = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut generation = 10;
            while !ends.load(Ordering::Relaxed) {
                generation += 1;
                write(&*volume, 1000..1200, generation);
                assert_written(&*volume, 1000..1200, generation);
            }
            generation
        });
        let file = place.ceph.directory().join("osd.0.pid");
        let number: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        kill_process(Pid::from_raw(number).unwrap(), Signal::KILL).unwrap();
        wait_for_end(number);
        place.ceph(&["osd", "down", "0"]);
        std::thread::sleep(Duration::from_secs(2));
        let conf = place.configuration();
        let mut osd = Command::new("ceph-osd");
        osd.arg("--conf").arg(conf).args(["--id", "0"]).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(osd.status().unwrap().success());
        std::thread::sleep(Duration::from_secs(3));
        ends.store(true, Ordering::Relaxed);
        load.join().unwrap()
    });
    eprintln!("{} rounds of 200 blocks while a storage server was down and back", rounds - 10);
    assert_written(&*volume, 1000..1200, rounds);
    server
}

/// Waits until a killed process has ended. Nobody may ask for its status, and it stays as a zombie.
fn wait_for_end(number: i32) {
    let status = Path::new("/proc").join(number.to_string()).join("status");
    let runs = |text: String| {
        let state = text.lines().find(|line| line.starts_with("State:")).unwrap_or_default();
        !state.contains('Z') && !state.contains('X')
    };
    while std::fs::read_to_string(&status).is_ok_and(runs) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A member is handed over to a standby at once, long before the lease ends.
fn a_planned_hand_over(place: &Place<'_>, mut server: Server) {
    let volume = server.volume();
    write(&*volume, 0..100, 5);
    drop(volume);
    let mut standby = place.serve("e", &["--standby"]);
    let began = Instant::now();
    place.done(&["pool", "hand-over", MEMBER]);
    assert_eq!(server.wait(), 0, "{}", server.errors());
    let volume = standby.volume();
    assert_written(&*volume, 0..100, 5);
    eprintln!("from the hand-over to the first byte: {:?}", began.elapsed());
    drop(volume);
    standby.signal(Signal::TERM);
    assert_eq!(standby.wait(), 0, "{}", standby.errors());
}

fn removal(place: &Place<'_>) {
    let refused = place.run(&["pool", "rm", MEMBER]);
    assert_eq!(refused.status, 2, "{}", refused.err);
    place.done(&["pool", "rm", MEMBER, "--yes"]);
    let text = place.done(&["domain", "ls", "rados:gemelo/members"]);
    assert!(!text.contains("one"), "{text}");
}

/// Contents lie in an erasure-coded pool, which must allow overwrites and cannot hold the index.
fn contents_in_an_erasure_coded_pool(place: &Place<'_>) {
    let profile = ["k=2", "m=1", "crush-failure-domain=osd"];
    place.ceph(&[&["osd", "erasure-code-profile", "set", "three"], &profile[..]].concat());
    place.ceph(&["osd", "pool", "create", "coded", "4", "4", "erasure", "three"]);
    let create = ["domain", "create", "rados:gemelo/coded", "--shards", "1", "--data-pool", "coded"];
    let refused = place.run(&create);
    assert_eq!(refused.status, 2, "{}", refused.err);
    assert!(refused.err.contains("allow_ec_overwrites"), "{}", refused.err);
    place.ceph(&["osd", "pool", "set", "coded", "allow_ec_overwrites", "true"]);
    let refused = place.run(&["domain", "create", "rados:coded/index", "--shards", "1"]);
    assert_eq!(refused.status, 2, "{}", refused.err);
    assert!(refused.err.contains("replicated"), "{}", refused.err);
    place.done(&create);
    let member = "rados:gemelo/coded/one";
    place.done(&["pool", "create", member, "--capacity", "64m"]);
    let input = place.host.path().join("input");
    std::fs::write(&input, content(7, 7).repeat(100)).unwrap();
    let volume = format!("{member}/disk");
    place.done(&["volume", "import", input.to_str().unwrap(), &volume]);
    let output = place.host.path().join("output");
    place.done(&["volume", "export", &volume, output.to_str().unwrap()]);
    assert!(std::fs::read(&input).unwrap() == std::fs::read(&output).unwrap());
    let text = place.done(&["pool", "check", member, "--data"]);
    assert!(text.contains("the pool is what it should be"), "{text}");
}

#[test]
fn a_cluster_that_cannot_be_reached_and_a_wrong_name_are_named() {
    let refused = |words: &[&str]| {
        let ran = common::gemelo(words);
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{words:?}: {}", ran.err);
        ran.err
    };
    let text = refused(&["pool", "stat", "rados:pool/namespace"]);
    assert!(text.contains("rados:POOL/NAMESPACE/MEMBER"), "{text}");
    let text = refused(&["volume", "ls", "rados:"]);
    assert!(text.contains("rados:POOL/NAMESPACE/MEMBER"), "{text}");
    let text = refused(&["domain", "ls", "somewhere"]);
    assert!(text.contains("rados:POOL/NAMESPACE"), "{text}");
    let text = refused(&["pool", "stat", "rados:a/b/c:conf=/nowhere/ceph.conf"]);
    assert!(text.contains("/nowhere/ceph.conf") || text.contains("librados2"), "{text}");
    let text = refused(&["serve", "pool", "--lease", "5s", "--listen", "unix:x"]);
    assert!(text.contains("--lease"), "{text}");
}
