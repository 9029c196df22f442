//! A member whose contents lie in an erasure-coded pool: slow storage servers under load, and a
//! fail-over under QEMU, which connects again by itself.

use super::contents::content;
use super::host::{Host, LEASE};
use super::sharing::Load;
use gemelo_tools::has_tool;
use rustix::process::Signal;
use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const DOMAIN: &str = "rados:gemelo/coded";
const MEMBER: &str = "rados:gemelo/coded/one";
/// The erasure-coded pool.
pub(crate) const POOL: &str = "coded";
/// The time for which a storage server does not answer.
const STOPPED: Duration = Duration::from_secs(1);

pub(crate) fn run(host: &Host<'_>) {
    create(host);
    an_import_is_exported(host);
    host.done(&["volume", "create", &format!("{MEMBER}/disk"), "--size", "64m"]);
    slow_storage_servers(host);
    if has_tool("qemu-io") {
        a_fail_over_under_qemu(host);
    }
    host.json(&["domain", "check", DOMAIN]);
    host.assert_clean(MEMBER);
}

/// Creates an erasure-coded pool. It does not allow overwrites yet.
pub(crate) fn create_pool(host: &Host<'_>) {
    let profile = ["k=2", "m=1", "crush-failure-domain=osd"];
    host.ceph(&[&["osd", "erasure-code-profile", "set", "three"], &profile[..]].concat());
    host.ceph(&["osd", "pool", "create", POOL, "4", "4", "erasure", "three"]);
}

pub(crate) fn allow_overwrites(host: &Host<'_>) {
    host.ceph(&["osd", "pool", "set", POOL, "allow_ec_overwrites", "true"]);
}

/// The pool for contents must allow overwrites, and cannot hold the index.
fn create(host: &Host<'_>) {
    create_pool(host);
    let create = ["domain", "create", DOMAIN, "--shards", "1", "--data-pool", POOL];
    let refused = host.run(&create);
    assert_eq!(refused.status, 2, "{}", refused.err);
    assert!(refused.err.contains("allow_ec_overwrites"), "{}", refused.err);
    allow_overwrites(host);
    let refused = host.run(&["domain", "create", "rados:coded/index", "--shards", "1"]);
    assert_eq!(refused.status, 2, "{}", refused.err);
    assert!(refused.err.contains("replicated"), "{}", refused.err);
    host.done(&create);
    host.done(&["pool", "create", MEMBER, "--capacity", "256m"]);
}

fn an_import_is_exported(host: &Host<'_>) {
    let input = host.file("input");
    std::fs::write(&input, content(7, 7).repeat(100)).unwrap();
    let volume = format!("{MEMBER}/imported");
    host.done(&["volume", "import", input.to_str().unwrap(), &volume]);
    let output = host.file("output");
    host.done(&["volume", "export", &volume, output.to_str().unwrap()]);
    assert!(std::fs::read(&input).unwrap() == std::fs::read(&output).unwrap());
}

/// Requests wait while a storage server does not answer. None fails, and nothing is lost.
fn slow_storage_servers(host: &Host<'_>) {
    let mut server = host.serve(MEMBER, "slow", &[]);
    server.wait_until_it_serves();
    let (load, volume) = (Load::new(), server.volume());
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| load.run(&*volume));
        // It ends the load also if it panics.
        let slowed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            host.slow_down_storage_servers(0..3, STOPPED);
        }));
        load.end();
        (writer.join().unwrap(), slowed.is_ok())
    });
    assert!(matches!(written, (Ok(()), true)), "{written:?}");
    load.assert_kept(&*volume);
    drop(volume);
    server.end();
}

/// QEMU connects again and repeats what was not answered. It assumes that answered writes are in
/// the server's cache, so the server must not have one: it writes through.
fn a_fail_over_under_qemu(host: &Host<'_>) {
    // Nothing is durable by itself before the kill.
    let options = ["--lease", LEASE, "--write-through", "on", "--commit-interval", "1m"];
    let mut server = host.serve(MEMBER, "qemu", &options);
    server.wait_until_it_serves();
    let standby = host.serve(MEMBER, "qemu", &[&options[..], &["--standby"]].concat());
    let socket = host.file("qemu");
    let image = format!(
        "driver=nbd,server.type=unix,server.path={},export=disk,reconnect-delay=60",
        socket.display()
    );
    let printed = host.file("printed");
    let mut command = Command::new("qemu-io");
    command.args(["-t", "writeback", "--image-opts", &image]).stdin(Stdio::piped());
    let file = File::create(&printed).unwrap();
    command.stdout(file.try_clone().unwrap()).stderr(file);
    let mut qemu = command.spawn().unwrap();
    let mut input = qemu.stdin.take().unwrap();
    // QEMU reads one line when there is input, and prints late.
    for line in ["write -P 1 0 1M\n", "flush\n"] {
        input.write_all(line.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(1500));
    }
    // The pool has committed once more because it was idle, and does not before the kill.
    input.write_all(b"write -P 2 1M 64k\n").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    server.signal(Signal::KILL);
    let began = Instant::now();
    input.write_all(b"write -P 3 2M 64k\nflush\n").unwrap();
    input.write_all(b"read -P 1 0 1M\nread -P 2 1M 64k\nread -P 3 2M 64k\nquit\n").unwrap();
    drop(input);
    let status = qemu.wait().unwrap();
    let text = std::fs::read_to_string(&printed).unwrap();
    assert!(status.success() && !text.contains("failed"), "{status}: {text}");
    let count = |what: &str| text.matches(what).count();
    assert_eq!((count("wrote "), count("read ")), (3, 3), "{text}");
    eprintln!("QEMU goes on after a kill with a lease of {LEASE}: {:?}", began.elapsed());
    standby.end();
}
