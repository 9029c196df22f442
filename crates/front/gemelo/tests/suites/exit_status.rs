//! Tests of the exit status of every command on a pool, for the kinds of failures that
//! `docs/reference/exit-status.md` lists: a pool that is in use, damaged or full.

use crate::common::gemelo;
use crate::support::{MIB, TestPool, small};
use gemelo::list::COMMANDS;
use gemelo_base::SystemClock;
use gemelo_format::DedupMode;
use gemelo_volume::{Pool, Tuning};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Every call that opens a pool, with `POOL`, `FILE` (data), `TRACE` and `OUT` in the place of
/// paths.
fn on_pools() -> Vec<Vec<&'static str>> {
    let calls = COMMANDS.iter();
    let calls = calls.flat_map(|command| command.on_pools.iter().map(|one| command.words(one)));
    calls.collect()
}

const TRACE: &str = "1 7 p 8 8 W 6 0 0123456789abcdef0123456789abcdef\n";

fn pool() -> TestPool {
    let pool = TestPool::new(&small(64 * MIB), &[("a", MIB, DedupMode::Inline)]);
    fs::write(pool.file("data"), crate::support::bytes(1, 1 << 16)).unwrap();
    fs::write(pool.file("trace"), TRACE).unwrap();
    pool
}

fn words(pool: &TestPool, words: &[&str]) -> Vec<String> {
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let fill = |word: &&str| {
        word.replace("POOL", &text(&pool.path()))
            .replace("FILE", &text(&pool.file("data")))
            .replace("TRACE", &text(&pool.file("trace")))
            .replace("OUT", &text(&pool.file("out")))
    };
    words.iter().map(fill).collect()
}

fn ends_with(pool: &TestPool, command: &[&str], status: i32) {
    let ran = gemelo(&words(pool, command));
    assert_eq!(ran.status, status, "{command:?}: {}{}", ran.out, ran.err);
    assert!(!pool.file("out").exists(), "{command:?}");
}

#[test]
fn a_pool_in_use_is_status_3_for_every_command() {
    let pool = pool();
    let held = Pool::open(&pool.path(), Tuning::default(), Arc::new(SystemClock::new())).unwrap();
    // All at once, as each of them waits for some seconds.
    std::thread::scope(|scope| {
        for command in on_pools() {
            let pool = &pool;
            scope.spawn(move || ends_with(pool, &command, 3));
        }
    });
    held.close().unwrap();
}

#[test]
fn a_pool_whose_metadata_are_damaged_is_status_4_for_every_command() {
    let pool = pool();
    // The superblocks stay, so that it is known for a pool; the roots and their copies go.
    let metadata = fs::File::options().write(true).open(pool.path().join("metadata")).unwrap();
    for head in [0, 512] {
        metadata.write_all_at(&[0xaa; 2 * 4096], (head + 1) * 4096).unwrap();
    }
    for command in on_pools() {
        ends_with(&pool, &command, 4);
    }
}

/// No check and no repair can begin, so none is advised.
#[test]
fn a_pool_whose_heads_are_lost_is_status_4_and_only_a_backup_is_named() {
    for (name, heads) in [("metadata", &[0, 512 * 4096][..]), ("data", &[0])] {
        let pool = pool();
        let disk = fs::File::options().write(true).open(pool.path().join(name)).unwrap();
        for head in heads {
            disk.write_all_at(&[0xaa; 4096], *head).unwrap();
        }
        if name == "data" {
            disk.set_len(4096).unwrap();
        }
        let path = pool.path().to_str().unwrap().to_owned();
        for command in [&["pool", "stat"][..], &["pool", "check"], &["pool", "gc"]] {
            let ran = gemelo(&[command, &[&path]].concat());
            assert_eq!(ran.status, 4, "{command:?}: {}{}", ran.out, ran.err);
            assert!(ran.err.contains("from a backup"), "{}", ran.err);
            assert!(!ran.err.contains("gemelo pool check"), "{}", ran.err);
        }
    }
}

#[test]
fn a_full_pool_and_a_full_disk_are_status_5() {
    let pool = TestPool::new(&small(MIB), &[("a", 4 * MIB, DedupMode::Inline)]);
    fs::write(pool.file("data"), crate::support::bytes(1, 3 << 20)).unwrap();
    for command in [
        &["volume", "import", "FILE", "POOL/new"][..],
        &["pool", "stat", "POOL", "--json", "/dev/full"],
        &["generate", "--bytes", "16m", "/dev/full"],
    ] {
        let ran = gemelo(&words(&pool, command));
        assert_eq!(ran.status, 5, "{command:?}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn an_address_in_use_is_status_3() {
    let pool = pool();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", taken.local_addr().unwrap());
    let ran = gemelo(&["serve", pool.path().to_str().unwrap(), "--listen", &address]);
    assert_eq!(ran.status, 3, "{}", ran.err);
}
