//! Copies of volumes of a tebibyte, and copies of pools whose clients have requests meanwhile.

use crate::common::Ran;
use crate::served::{TestPool, done, noise};
use gemelo_nbd::client::{Client, Submission};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;
const PATIENCE: Duration = Duration::from_secs(60);
/// Most memory of a process that copies.
const MAX_MEMORY: u64 = 64 * MIB;

/// A pool with a volume `v` of a tebibyte.
fn large_pool() -> TestPool {
    let pool = TestPool { directory: tempfile::tempdir().unwrap() };
    done(&["pool", "create", &pool.path(), "--capacity", "1g"]);
    done(&["volume", "create", &pool.volume("v"), "--size", "1t"]);
    pool
}

fn connect(pool: &TestPool, name: &str) -> Client {
    Client::connect(&pool.uri(name).parse().unwrap(), 64, PATIENCE).unwrap()
}

fn write(client: &mut Client, offset: u64, data: &[u8]) {
    let write = Submission::Write { offset, data, durable: false };
    assert!(client.run(write, |done| done.error).unwrap().is_none());
}

fn snapshot(pool: &TestPool, name: &str) {
    done(&["volume", "snapshot", &pool.volume("v"), name]);
}

fn gemelo(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gemelo"));
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn ended(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let said = Ran {
        status: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    assert_eq!((said.status, said.err.as_str()), (0, ""), "{}", said.out);
    said.out
}

/// The most memory that a process has had so far; 0 if it is gone.
fn peak_memory(process: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.map_or(0, |peak| peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10)
}

#[test]
fn a_copy_of_idle_pools_takes_little_memory_whatever_a_server_may_have() {
    let (from, to) = (large_pool(), large_pool());
    let served = from.serve(&[]);
    let mut client = connect(&from, "v");
    // With duplicates among what is new.
    for part in 0..160 {
        write(&mut client, part * (TIB / 160), &noise(part % 150, MIB as usize));
    }
    snapshot(&from, "s");
    client.disconnect().unwrap();
    assert_eq!(served.stop(), (0, String::new()));
    let (program, receiver) = (to.file("program"), to.file("receiver"));
    let own = env!("CARGO_BIN_EXE_gemelo");
    let script =
        format!("#!/bin/sh\n[ $2 != receive ] || echo $$ > {receiver}\nexec {own} \"$@\"\n");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let there = format!("host:{}", to.volume("s"));
    let words = ["volume", "copy", &from.volume("s"), &there];
    let far = ["--connect", "sh -c", "--program", &program];
    let mut copy = gemelo(&[&words[..], &far].concat()).spawn().unwrap();
    let mut peaks = [0; 2];
    while copy.try_wait().unwrap().is_none() {
        let receiver = fs::read_to_string(&receiver).unwrap_or_default();
        let now = [copy.id().to_string().as_str(), receiver.trim()].map(peak_memory);
        peaks = [0, 1].map(|side| peaks[side].max(now[side]));
        std::thread::sleep(Duration::from_millis(5));
    }
    let said = ended(copy);
    assert!(said.contains("a stream of 1"), "{said}");
    eprintln!("memory of the sender and the receiver: {peaks:?}");
    assert!(peaks.iter().all(|peak| (MIB..=MAX_MEMORY).contains(peak)), "{peaks:?}");
    let verified = done(&["volume", "verify", &from.volume("s"), &to.volume("s")]);
    assert!(!verified.is_empty());
}

/// Of each leaf of the map that changed, the old and the new version are read, and no other page.
#[test]
fn diff_reads_two_pages_for_each_leaf_that_changed() {
    const WRITTEN: u64 = 600;
    const CHANGED: u64 = 200;
    let pool = large_pool();
    let place = |number: u64| number * (TIB / WRITTEN) / BLOCK * BLOCK;
    let served = pool.serve(&[]);
    let mut client = connect(&pool, "v");
    (0..WRITTEN)
        .for_each(|number| write(&mut client, place(number), &noise(number, BLOCK as usize)));
    snapshot(&pool, "one");
    for number in (0..CHANGED).map(|number| number * (WRITTEN / CHANGED)) {
        write(&mut client, place(number), &noise(WRITTEN + number, BLOCK as usize));
    }
    snapshot(&pool, "two");
    client.disconnect().unwrap();
    assert_eq!(served.stop(), (0, String::new()));
    // Nothing is cached now but what an opening reads.
    let served = pool.serve(&[]);
    let pages = || pool.stat("/pool/metadata_cache/misses").as_u64().unwrap();
    let before = pages();
    let began = Instant::now();
    let words = ["volume", "diff", &pool.volume("one"), &pool.volume("two"), "--json", "-"];
    let found: Value = serde_json::from_str(&done(&words)).unwrap();
    let (took, pages) = (began.elapsed(), pages() - before);
    assert_eq!(found["result"]["ranges"].as_array().unwrap().len() as u64, CHANGED);
    assert_eq!(found["result"]["changed_bytes"], CHANGED * BLOCK);
    eprintln!("{pages} pages, {took:?}");
    assert!((CHANGED..=2 * CHANGED).contains(&pages), "{pages} pages for {CHANGED} leaves");
    assert_eq!(served.stop(), (0, String::new()));
}

/// A client that has one request at a time, until it is told to stop. Returns the latencies of its
/// requests in order of their length.
fn latencies(pool: &TestPool, stop: &AtomicBool) -> Vec<Duration> {
    let mut client = connect(pool, "load");
    let (mut took, started) = (Vec::new(), Instant::now());
    for number in 0.. {
        let began = Instant::now();
        write(&mut client, number % 500 * BLOCK, &noise(number, BLOCK as usize));
        took.push(began.elapsed());
        let is_over = stop.load(Ordering::Relaxed) && took.len() >= 100;
        if is_over || started.elapsed() > PATIENCE {
            break;
        }
    }
    took.sort_unstable();
    took
}

/// Does `work` beside such a client. Returns what it gives, and the 99th percentile.
fn beside_a_client<T>(pool: &TestPool, work: impl FnOnce() -> T) -> (T, Duration) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| latencies(pool, &stop));
        std::thread::sleep(Duration::from_millis(100));
        let done = work();
        stop.store(true, Ordering::Relaxed);
        let took = client.join().unwrap();
        (done, took[took.len() * 99 / 100])
    })
}

#[test]
fn a_copy_gives_way_to_the_clients_of_both_pools() {
    let pools = [TestPool::new(&[]), TestPool::new(&[])];
    let [from, to] = &pools;
    fs::write(from.file("raw"), noise(1, 32 << 20)).unwrap();
    done(&["volume", "import", &from.file("raw"), &from.volume("v")]);
    snapshot(from, "s");
    let servers = [from.serve(&[]), to.serve(&[])];
    for pool in &pools {
        done(&["volume", "create", &pool.volume("load"), "--size", "2m"]);
    }
    let copy = |name: &str| done(&["volume", "copy", &from.volume("s"), &to.volume(name)]);
    let alone = copy("alone");
    assert!(!alone.contains("for clients"), "{alone}");
    done(&["volume", "rm", "--force", &to.volume("alone")]);
    let stream = from.file("stream");
    let send = || {
        let mut command = gemelo(&["volume", "send", &from.volume("s")]);
        ended(command.stdout(File::create(&stream).unwrap()).spawn().unwrap())
    };
    let (said, of_sender) = beside_a_client(from, || copy("beside"));
    assert!(said.contains(", and rests of ") && said.contains(" for clients"), "{said}");
    done(&["volume", "rm", "--force", &to.volume("beside")]);
    send();
    let (said, of_receiver) = beside_a_client(to, || {
        let mut command = gemelo(&["volume", "receive", &to.volume("received")]);
        ended(command.stdin(File::open(&stream).unwrap()).spawn().unwrap())
    });
    assert!(said.contains(", and rests of ") && said.contains(" for clients"), "{said}");
    eprintln!("99 % of a client's requests beside a copy: {of_sender:?}, {of_receiver:?}");
    let longest = of_sender.max(of_receiver);
    assert!(longest < Duration::from_millis(100), "{longest:?}");
    for server in servers {
        assert_eq!(server.stop(), (0, String::new()));
    }
}

#[test]
fn a_rate_bounds_the_bytes_of_a_stream_a_second() {
    let (from, to) = (TestPool::new(&[]), TestPool::new(&[]));
    fs::write(from.file("raw"), noise(1, 4 << 20)).unwrap();
    done(&["volume", "import", &from.file("raw"), &from.volume("v")]);
    snapshot(&from, "s");
    let began = Instant::now();
    done(&["volume", "copy", &from.volume("s"), &to.volume("s"), "--rate", "4m"]);
    let took = began.elapsed();
    assert!((Duration::from_millis(900)..PATIENCE).contains(&took), "{took:?}");
}
