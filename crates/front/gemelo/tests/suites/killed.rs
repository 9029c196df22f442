//! Tests of servers that are killed while clients write. After a restart, flushed data is there,
//! and every other sector is old or new. `GEMELO_KILLS` sets the number of kills, and
//! `GEMELO_KILL_SEED` their times.

#[path = "history/writer.rs"]
mod writer;

use crate::history::{History, SECTOR};
use crate::support::{MIB, Served, TestPool, setting, small};
use gemelo_base::random::Random;
use gemelo_format::{DedupMode, Policy};
use gemelo_nbd::client::Submission;
use gemelo_tools::{all_of, fio_with_nbd, run, tool};
use gemelo_volume::PoolOptions;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use writer::Writer;

/// Number of kills of the server.
const KILLS: u64 = 24;
/// The longest that clients write before that, in milliseconds.
const LONGEST_RUN_MS: u64 = 400;
const VOLUME_BYTES: u64 = 4 * MIB;
const VOLUMES: [(&str, u64, DedupMode); 3] = [
    ("inline", VOLUME_BYTES, DedupMode::Inline),
    ("off", VOLUME_BYTES, DedupMode::Off),
    ("offline", VOLUME_BYTES, DedupMode::Offline),
];

fn read_all(pool: &TestPool, volume: &str) -> Vec<u8> {
    let mut client = pool.client(volume, 1);
    let mut all = Vec::new();
    while (all.len() as u64) < VOLUME_BYTES {
        let read = Submission::Read { offset: all.len() as u64, length: MIB as u32 };
        client
            .run(read, |completion| {
                assert!(completion.error.is_none(), "{}", completion.error);
                all.extend_from_slice(completion.data);
            })
            .unwrap();
    }
    all
}

/// Writers on all volumes, two to each, until the server is killed.
fn write_until_killed(
    pool: &TestPool,
    server: Served,
    histories: &[Mutex<History>; 3],
    random: &mut Random,
    (kill, resizes): (u64, Option<&AtomicU64>),
) -> u64 {
    // A command that moves contents takes a while.
    let longest_ms = if resizes.is_some() { 4 * LONGEST_RUN_MS } else { LONGEST_RUN_MS };
    let run_for = Duration::from_millis(5 + random.below(longest_ms));
    let is_killed = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut writers = Vec::new();
        for (place, ((volume, size, _), history)) in VOLUMES.iter().zip(histories).enumerate() {
            let sectors = (size / SECTOR as u64) as usize;
            for (half, range) in [0..sectors / 2, sectors / 2..sectors].into_iter().enumerate() {
                let unique = (kill + 1) << 32 | (place as u64 * 2 + half as u64) << 24;
                let (client, random) = (pool.client(volume, 16), Random::new(random.next_u64()));
                writers.push(
                    scope.spawn(move || Writer::new(client, history, range, random, unique).run()),
                );
            }
        }
        let seed = random.next_u64();
        resizes.map(|moves| scope.spawn(move || resize(pool, seed, (moves, is_killed))));
        std::thread::sleep(run_for);
        server.kill();
        is_killed.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    })
}

/// Makes the pool smaller and larger until its server is gone. Counts the commands that have moved
/// contents.
fn resize(pool: &TestPool, seed: u64, (moves, is_killed): (&AtomicU64, &AtomicBool)) {
    let (mut random, path) = (Random::new(seed), pool.path());
    let run = |command: &str, mebibytes: u64| {
        let mut resize = std::process::Command::new(env!("CARGO_BIN_EXE_gemelo"));
        resize.args(["pool", command]).arg(&path);
        all_of(&resize.args(["--capacity", &format!("{mebibytes}m")]).output().unwrap())
    };
    while !is_killed.load(Ordering::Relaxed) {
        // Either is refused if the kill came right after the other.
        run("grow", 64);
        let said = run("shrink", 17 + random.below(8));
        eprintln!("{said}");
        let has_moved = said.contains(" moved") && !said.contains(" 0 contents");
        moves.fetch_add(u64::from(has_moved), Ordering::Relaxed);
    }
}

/// Flushed data survives every kill, and every other sector is old or new. With `resizes`, the pool
/// becomes smaller and larger meanwhile, and that counts the times in which contents were moved.
fn survives_kills(policy: Policy, kills: u64, resizes: Option<&AtomicU64>) {
    let seed = setting("GEMELO_KILL_SEED", 1);
    eprintln!("GEMELO_KILL_SEED={seed}");
    let mut random = Random::new(seed);
    // A short journal, so that many kills fall into checkpoints.
    let options = PoolOptions { journal_bytes: Some(MIB), policy, ..small(64 * MIB) };
    let pool = TestPool::new(&options, &VOLUMES);
    let sectors = VOLUME_BYTES as usize / SECTOR;
    let histories = VOLUMES.map(|_| Mutex::new(History::new(sectors)));
    let (mut requests, mut doubtful, mut lost) = (0, 0, 0);
    for kill in 0..kills {
        if random.below(3) == 0 {
            // A recovery that does not get to its end.
            let half_started = Served::start(&pool.path(), &pool.socket());
            std::thread::sleep(Duration::from_millis(random.below(30)));
            half_started.kill();
        }
        if random.below(4) == 0 {
            pool.check();
        }
        let server = pool.serve();
        for ((volume, ..), history) in VOLUMES.iter().zip(&histories) {
            let recovered = history.lock().unwrap().recover(&read_all(&pool, volume));
            doubtful += recovered.doubtful;
            lost += recovered.lost;
        }
        requests += write_until_killed(&pool, server, &histories, &mut random, (kill, resizes));
    }
    pool.check();
    let server = pool.serve();
    for ((volume, ..), history) in VOLUMES.iter().zip(&histories) {
        history.lock().unwrap().recover(&read_all(&pool, volume));
    }
    server.stop();
    pool.check();
    eprintln!(
        "{requests} requests, {kills} kills, {doubtful} sectors in doubt, {lost} of them older"
    );
    assert!(requests > kills * 100, "the writers wrote: {requests} requests");
    assert!(doubtful > 0 && lost > 0, "kills came between writes and flushes: {doubtful}, {lost}");
}

fn kill_with(policy: Policy) {
    let part = match policy {
        Policy::Compact => 1,
        Policy::InRam => 3,
        Policy::Dtb | Policy::Cbt => 2,
    };
    survives_kills(policy, setting("GEMELO_KILLS", KILLS) / part, None);
}

gemelo_format::test_each_policy!(what_was_flushed_survives_kills, kill_with);

#[test]
fn what_was_flushed_survives_kills_while_the_pool_becomes_smaller() {
    let moves = AtomicU64::new(0);
    survives_kills(Policy::Compact, setting("GEMELO_KILLS", KILLS) / 2, Some(&moves));
    assert!(moves.into_inner() > 2, "contents were moved out of the end");
}

/// fio writes one half of a volume to the end and flushes it, then the other until the server is
/// killed. After a restart fio finds every block of the first half as it wrote it.
#[test]
fn fio_finds_what_it_flushed_after_every_kill() {
    if fio_with_nbd().is_none() {
        return;
    }
    let mut random = Random::new(2);
    let options = PoolOptions { journal_bytes: Some(MIB), ..small(256 * MIB) };
    let pool = TestPool::new(&options, &[("disk", 32 * MIB, DedupMode::Inline)]);
    let fio = |half: u64, seed: u64, more: &[&str]| {
        let mut fio = tool("fio").unwrap();
        fio.current_dir(pool.directory.path())
            .args([
                "--name=kill",
                "--ioengine=nbd",
                "--rw=randwrite",
                "--bssplit=512/10:4k/60:20k/20:128k/10",
            ])
            .args(["--iodepth=16", "--size=16m", "--verify=crc32c", "--verify_fatal=1"])
            .args(["--dedupe_percentage=40", "--fsync=64", "--end_fsync=1"])
            .arg(format!("--offset={}m", half * 16))
            .arg(format!("--randseed={seed}"))
            .arg(format!("--uri={}", pool.uri("disk")))
            .args(more);
        fio
    };
    for kill in 0..setting("GEMELO_KILLS", KILLS).div_ceil(6) {
        let (kept, broken) = (kill % 2, 1 - kill % 2);
        let server = pool.serve();
        run(&mut fio(kept, kill, &["--do_verify=1"]));
        let quiet = std::process::Stdio::null;
        let mut interrupted = fio(broken, kill + 1000, &["--verify_backlog=64"])
            .stdout(quiet())
            .stderr(quiet())
            .spawn()
            .unwrap();
        server.wait_for_clients(1);
        std::thread::sleep(Duration::from_millis(random.below(300)));
        server.kill();
        interrupted.wait().unwrap();
        let server = pool.serve();
        let verified = fio(kept, kill, &["--verify_only=1"]).output().unwrap();
        assert!(verified.status.success(), "kill {kill}: {}", all_of(&verified));
        server.stop();
        pool.check();
    }
}
