//! One member: commands, a standby that takes over from a process that was killed or stopped, a
//! storage server that dies under load, and a planned hand-over.

use super::contents::{BLOCK, assert_written, content, execute, read, write};
use super::host::{Host, LEASE, Server};
use gemelo_device::{Durability, Operation};
use rustix::process::Signal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MEMBER: &str = "rados:gemelo/members/one";
const DOMAIN: &str = "rados:gemelo/members";

pub(crate) fn run(host: &Host<'_>) {
    commands(host);
    let standby = a_killed_process(host);
    a_stopped_process(host, standby).end();
    host.assert_clean(MEMBER);
    let server = a_storage_server_dies(host);
    a_planned_hand_over(host, server);
    host.assert_clean(MEMBER);
    removal(host);
}

/// The commands work on a member that nobody serves.
fn commands(host: &Host<'_>) {
    let domain = DOMAIN;
    let missing = host.run(&["domain", "ls", domain]);
    assert_eq!(missing.status, 2, "{}", missing.err);
    assert!(missing.err.contains("gemelo domain create"), "{}", missing.err);
    host.done(&["domain", "create", domain, "--shards", "4"]);
    let again = host.run(&["domain", "create", domain, "--shards", "4"]);
    assert!(again.status == 2 && again.err.contains("exists"), "{}", again.err);
    let nobody = host.run(&["volume", "ls", MEMBER]);
    assert!(nobody.status == 2 && nobody.err.contains("no member 'one'"), "{}", nobody.err);
    let refused = host.run(&["pool", "create", MEMBER, "--block-size", "8k"]);
    assert!(refused.status == 2 && refused.err.contains("--block-size"), "{}", refused.err);
    host.done(&["pool", "create", MEMBER, "--capacity", "1g", "--commit-interval", "1s"]);
    let volume = format!("{MEMBER}/disk");
    host.done(&["volume", "create", &volume, "--size", "64m"]);
    let target = format!("pool:{volume}");
    let bench = ["bench", "--target", &target, "--operation", "write", "--bytes", "1m"];
    // It warns that the contents are few.
    let ran = host.run(&[&bench[..], &["--verify", "final", "--force"]].concat());
    assert_eq!(ran.status, 0, "{}", ran.err);
    let text = host.done(&["pool", "stat", MEMBER]);
    assert!(text.contains("1.00 MiB"), "{text}");
    for kind in ["ls", "stat"] {
        host.json(&["domain", kind, domain]);
    }
    for words in
        [&["pool", "gc", MEMBER][..], &["pool", "scrub", MEMBER], &["pool", "dedup", MEMBER]]
    {
        host.done(words);
    }
    host.done(&["pool", "grow", MEMBER, "--capacity", "2g"]);
    host.assert_clean(MEMBER);
}

/// A process is killed, and its standby serves every flushed byte.
fn a_killed_process(host: &Host<'_>) -> Server {
    let mut server = host.serve(MEMBER, "a", &["--lease", LEASE]);
    server.wait_until_it_serves();
    let standby = host.serve(MEMBER, "b", &["--lease", LEASE, "--standby"]);
    // The host's own commands ask the server; another server is refused.
    let text = host.done(&["pool", "stat", MEMBER]);
    assert!(text.contains("process"), "{text}");
    let second = host.run(&["serve", MEMBER, "--listen", "unix:x", "--lease", LEASE]);
    assert_eq!(second.status, 3, "{}", second.err);
    write(&*server.volume(), 0..2000, 1);
    assert!(!host.file("b").exists(), "a standby does not listen");
    let began = Instant::now();
    server.signal(Signal::KILL);
    let volume = standby.volume();
    assert_written(&*volume, 0..1, 1);
    eprintln!("from the kill to the first byte with a lease of {LEASE}: {:?}", began.elapsed());
    assert_written(&*volume, 0..2000, 1);
    standby
}

/// A process is stopped for longer than its lease. When it goes on, another one serves, and the
/// stopped one neither answers nor writes.
fn a_stopped_process(host: &Host<'_>, mut stopped: Server) -> Server {
    let volume = stopped.volume();
    write(&*volume, 0..500, 2);
    // These are acknowledged and not flushed: they are written later, if ever.
    let (data, durability) = (&content(600, 3), Durability::Flushed);
    let offset = 600 * BLOCK as u64;
    execute(&*volume, Operation::Write { offset, data, durability }).unwrap();
    stopped.signal(Signal::STOP);
    let standby = host.serve(MEMBER, "c", &["--lease", LEASE, "--standby"]);
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
fn a_storage_server_dies(host: &Host<'_>) -> Server {
    let mut server = host.serve(MEMBER, "d", &[]);
    server.wait_until_it_serves();
    let volume = server.volume();
    let ends = AtomicBool::new(false);
    let (rounds, generation) = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut rounds = 0u32;
            for generation in (0..u8::MAX).cycle() {
                write(&*volume, 1000..1200, generation);
                assert_written(&*volume, 1000..1200, generation);
                rounds += 1;
                if ends.load(Ordering::Relaxed) {
                    return (rounds, generation);
                }
            }
            unreachable!("a cycle has no end")
        });
        host.kill_storage_server(0);
        std::thread::sleep(Duration::from_secs(2));
        host.start_storage_server(0);
        std::thread::sleep(Duration::from_secs(3));
        ends.store(true, Ordering::Relaxed);
        load.join().unwrap()
    });
    eprintln!("{rounds} rounds of 200 blocks while a storage server was down and back");
    assert_written(&*volume, 1000..1200, generation);
    server
}

/// A member is handed over to a standby at once, long before the lease ends.
fn a_planned_hand_over(host: &Host<'_>, mut server: Server) {
    let volume = server.volume();
    write(&*volume, 0..100, 5);
    drop(volume);
    let standby = host.serve(MEMBER, "e", &["--standby"]);
    // The advice to those for whom nobody may serve the member.
    let refused = host.run(&["domain", "check", DOMAIN, "--repair"]);
    assert!(refused.err.contains("'gemelo pool hand-over'"), "{}", refused.err);
    let began = Instant::now();
    host.done(&["pool", "hand-over", MEMBER]);
    assert_eq!(server.wait(), 0, "{}", server.errors());
    let volume = standby.volume();
    assert_written(&*volume, 0..100, 5);
    eprintln!("from the hand-over to the first byte: {:?}", began.elapsed());
    drop(volume);
    standby.end();
    host.done(&["domain", "check", DOMAIN, "--repair"]);
}

fn removal(host: &Host<'_>) {
    let refused = host.run(&["pool", "rm", MEMBER, "--force"]);
    assert!(refused.status == 3 && refused.err.contains("pool gc"), "{}", refused.err);
    host.done(&["volume", "rm", &format!("{MEMBER}/disk"), "--force"]);
    host.done(&["pool", "gc", MEMBER]);
    let refused = host.run(&["pool", "rm", MEMBER]);
    assert_eq!(refused.status, 2, "{}", refused.err);
    let refused = host.run(&["domain", "rm", DOMAIN]);
    assert!(refused.status == 2 && refused.err.contains("'gemelo pool rm'"), "{}", refused.err);
    host.done(&["pool", "rm", MEMBER, "--force"]);
    let text = host.done(&["domain", "ls", DOMAIN]);
    assert!(!text.contains("one"), "{text}");
    the_domain_goes(host);
}

/// The domain is removed with all of its objects, and nothing else that is in its namespace.
fn the_domain_goes(host: &Host<'_>) {
    let objects = || host.rados(&["--pool", "gemelo", "--namespace", "members", "ls"]);
    host.rados(&["--pool", "gemelo", "--namespace", "members", "create", "of-another-program"]);
    assert!(objects().contains("index.00"), "{}", objects());
    let text = host.done(&["domain", "rm", DOMAIN]);
    assert!(text.contains("removed"), "{text}");
    assert_eq!(objects(), "of-another-program\n");
    for command in ["rm", "ls"] {
        let refused = host.run(&["domain", command, DOMAIN]);
        assert!(refused.status == 2 && refused.err.contains("no domain"), "{}", refused.err);
    }
    host.done(&["domain", "create", DOMAIN, "--shards", "4"]);
    host.done(&["domain", "rm", DOMAIN]);
}
