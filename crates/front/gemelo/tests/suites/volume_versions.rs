//! Tests of snapshots of one moment, the way back to a snapshot, and holds, on idle and on served
//! pools, and of servers that are killed meanwhile.

use crate::common::gemelo;
use crate::served::{TestPool, done, noise, refused};
use crate::support::setting;
use gemelo_base::random::Random;
use gemelo_nbd::client::{Client, Submission};
use gemelo_vhost::{Driver, DriverQueue, DriverRequest};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
const BLOCK: usize = 4096;
const BLOCKS: usize = 256;

/// Fills a volume, which is made if it is not there.
fn fill(pool: &TestPool, name: &str, seed: u64, blocks: usize) -> Vec<u8> {
    let (raw, bytes) = (pool.file("raw"), noise(seed, blocks * BLOCK));
    fs::write(&raw, &bytes).unwrap();
    done(&["volume", "import", &raw, &pool.volume(name), "--force"]);
    bytes
}

fn read(pool: &TestPool, name: &str) -> Vec<u8> {
    let back = pool.file("back");
    done(&["volume", "export", &pool.volume(name), &back, "--force"]);
    fs::read(back).unwrap()
}

fn idle_and_served(test: impl Fn(&TestPool)) {
    for is_served in [false, true] {
        let pool = TestPool::new(&[]);
        let served = is_served.then(|| pool.serve(&[]));
        test(&pool);
        if let Some(served) = served {
            assert_eq!(served.stop(), (0, String::new()));
        }
        pool.assert_clean();
    }
}

#[test]
fn a_volume_goes_back_to_each_of_its_snapshots() {
    idle_and_served(|pool| {
        let (web, path) = (pool.volume("web"), pool.path());
        let first = fill(pool, "web", 1, BLOCKS);
        done(&["volume", "snapshot", &web, "monday"]);
        done(&["volume", "resize", &web, "--size", "2m"]);
        let second = fill(pool, "web", 2, 2 * BLOCKS);
        done(&["volume", "snapshot", &web, "tuesday"]);
        done(&["volume", "rename", &web, "site"]);
        let site = pool.volume("site");
        let said = done(&["volume", "rollback", &site, "monday"]);
        assert!(said.contains("has the contents of monday again"), "{said}");
        assert!(read(pool, "site") == first && read(pool, "monday") == first);
        // A later snapshot stays, and can be returned to.
        // A snapshot may be named as commands print it.
        done(&["volume", "rollback", &site, &pool.volume("tuesday")]);
        assert!(read(pool, "site") == second && read(pool, "monday") == first);
        let names = done(&["volume", "ls", &path]);
        assert_eq!(names.lines().count(), 4, "{names}");
        // The clone of a snapshot goes back to it; a volume does not go to a stranger's.
        done(&["volume", "clone", &pool.volume("monday"), "copy"]);
        fill(pool, "copy", 3, BLOCKS);
        done(&["volume", "rollback", &pool.volume("copy"), "monday"]);
        assert!(read(pool, "copy") == first);
        fill(pool, "db", 4, BLOCKS);
        for (volume, snapshot, part) in [
            ("db", "monday", "'monday' is no snapshot of volume 'db'"),
            ("monday", "tuesday", "'monday' is a snapshot"),
            ("site", "db", "'db' is no snapshot"),
            ("site", "none", "there is no volume 'none'"),
        ] {
            let said = refused(&["volume", "rollback", &pool.volume(volume), snapshot]);
            assert!(said.contains(part), "{said}");
        }
    });
}

#[test]
fn a_rollback_is_refused_while_a_client_is_connected_unless_it_is_forced() {
    let pool = TestPool::new(&[]);
    let first = fill(&pool, "web", 1, BLOCKS);
    done(&["volume", "snapshot", &pool.volume("web"), "monday"]);
    let served = pool.serve(&[]);
    let second = fill(&pool, "web", 2, BLOCKS);
    let mut client = Client::connect(&pool.uri("web").parse().unwrap(), 8, PATIENCE).unwrap();
    let rollback = ["volume", "rollback", &pool.volume("web"), "monday"];
    let said = refused(&rollback);
    assert!(said.contains("1 connected client") && said.contains("--force"), "{said}");
    assert!(read(&pool, "web") == second);
    done(&[&rollback[..], &["--force"]].concat());
    // The client sees nothing of the other contents: it is disconnected.
    let began = Instant::now();
    loop {
        let submission = Submission::Read { offset: 0, length: BLOCK as u32 };
        let mut saw = false;
        let outcome = client.run(submission, |completion| saw = completion.error.is_none());
        assert!(!saw);
        if outcome.is_err() {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "the client is still connected");
    }
    assert!(read(&pool, "web") == first);
    assert_eq!(served.stop().0, 0);
    pool.assert_clean();
}

/// Writes to the first block as a virtual machine. Returns whether that was done.
fn write_as_machine(queue: &mut DriverQueue, data: &[u8]) -> bool {
    let mut is_done = false;
    let submitted = queue.submit(0, DriverRequest::Write { offset: 0, data });
    let finished = submitted
        .and_then(|()| queue.notify())
        .and_then(|()| queue.reap(Some(Some(PATIENCE)), |one| is_done = one.is_done));
    finished.is_ok() && is_done
}

#[test]
fn a_virtual_machine_counts_as_a_client_of_a_rollback() {
    let pool = TestPool::new(&[]);
    let first = fill(&pool, "vm", 1, BLOCKS);
    done(&["volume", "snapshot", &pool.volume("vm"), "monday"]);
    let sockets = pool.file("sockets");
    fs::create_dir(&sockets).unwrap();
    let served = pool.serve(&["--vhost-user", &sockets]);
    let socket = Path::new(&sockets).join("vm.sock");
    let rollback = ["volume", "rollback", &pool.volume("vm"), "monday"];
    // It comes again, as QEMU does. The socket was once gone for good after some rollbacks.
    for _ in 0..5 {
        let began = Instant::now();
        let driver = loop {
            match Driver::connect(&socket) {
                Ok(driver) => break driver,
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
            }
        };
        let mut queue = driver.start(1, 1 << 16).unwrap();
        assert!(write_as_machine(&mut queue, &noise(2, BLOCK)));
        let said = refused(&rollback);
        assert!(said.contains("1 connected client") && said.contains("--force"), "{said}");
        assert!(read(&pool, "vm") != first);
        done(&[&rollback[..], &["--force"]].concat());
        assert!(!write_as_machine(&mut queue, &noise(3, BLOCK)), "it writes on");
        assert!(read(&pool, "vm") == first);
    }
    assert_eq!(served.stop().0, 0);
    pool.assert_clean();
}

#[test]
fn a_held_snapshot_stays_until_the_last_hold_is_released() {
    idle_and_served(|pool| {
        fill(pool, "web", 1, BLOCKS);
        done(&["volume", "snapshot", &pool.volume("web"), "monday"]);
        let monday = pool.volume("monday");
        let remove = ["volume", "rm", &monday, "--force"];
        done(&["volume", "hold", &monday]);
        done(&["volume", "hold", &monday, "--tag", "backup"]);
        let stat = done(&["volume", "stat", &monday]);
        assert!(stat.contains("backup, keep"), "{stat}");
        let said = refused(&remove);
        assert!(said.contains("held (backup, keep)") && said.contains("release"), "{said}");
        done(&["volume", "release", &monday]);
        assert!(refused(&remove).contains("held (backup)"));
        let said = refused(&["volume", "release", &monday]);
        assert!(said.contains("no hold 'keep'"), "{said}");
        for tag in ["a", "b", "c"] {
            done(&["volume", "hold", &monday, "--tag", tag]);
        }
        assert!(refused(&["volume", "hold", &monday, "--tag", "d"]).contains("at most 4"));
        let long = "x".repeat(33);
        assert!(refused(&["volume", "hold", &monday, "--tag", ""]).contains("1 to 32 bytes"));
        done(&["volume", "release", &monday, "--tag", "a"]);
        assert!(refused(&["volume", "hold", &monday, "--tag", &long]).contains("1 to 32 bytes"));
        for tag in ["backup", "b", "c"] {
            done(&["volume", "release", &monday, "--tag", tag]);
        }
        assert!(refused(&["volume", "hold", &pool.volume("web")]).contains("is no snapshot"));
        done(&remove);
    });
}

#[test]
fn snapshots_of_several_volumes_are_all_made_or_none() {
    idle_and_served(|pool| {
        let (log, data) = (pool.volume("log"), pool.volume("data"));
        let bytes = [fill(pool, "log", 1, BLOCKS), fill(pool, "data", 2, BLOCKS)];
        done(&["volume", "snapshot", &log, "log-1", &data, "data-1"]);
        fill(pool, "log", 3, BLOCKS);
        assert!(read(pool, "log-1") == bytes[0] && read(pool, "data-1") == bytes[1]);
        let other = TestPool::new(&[]);
        for (words, part) in [
            (vec![&*log, "log-2", &*data, "log-1"], "'log-1' exists already"),
            (vec![&*log, "log-2", &*data, "log-2"], "'log-2' exists already"),
            (vec![&*log, "log-2", &other.volume("x"), "y"], "is of another pool"),
            (vec![&*log, "log-2", &*data], "NEW"),
        ] {
            let said = refused(&[&["volume", "snapshot"], &words[..]].concat());
            assert!(said.contains(part), "{said}");
        }
        let list = done(&["volume", "ls", &pool.path()]);
        assert!(!list.contains("log-2"), "{list}");
    });
}

/// A writer counts up in the block of one volume, flushes, and then does so in that of the other
/// one. A snapshot of both never has the second count ahead of the first, nor far behind.
#[test]
fn snapshots_of_several_volumes_are_of_one_moment() {
    let pool = TestPool::new(&[]);
    fill(&pool, "log", 1, 1);
    fill(&pool, "data", 1, 1);
    let served = pool.serve(&[]);
    let connect = |name| Client::connect(&pool.uri(name).parse().unwrap(), 2, PATIENCE).unwrap();
    let (mut log, mut data) = (connect("log"), connect("data"));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for count in 1u64.. {
                for client in [&mut log, &mut data] {
                    let bytes = count.to_le_bytes().repeat(BLOCK / 8);
                    let write = Submission::Write { offset: 0, data: &bytes, durable: false };
                    client.run(write, |completion| assert!(completion.error.is_none())).unwrap();
                }
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
            }
        });
        for number in 0..20 {
            let (one, two) = (format!("log-{number}"), format!("data-{number}"));
            done(&["volume", "snapshot", &pool.volume("log"), &one, &pool.volume("data"), &two]);
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(served.stop(), (0, String::new()));
    let count_of = |name: &str| u64::from_le_bytes(read(&pool, name)[..8].try_into().unwrap());
    for number in 1..20 {
        let (log, data) = (count_of(&format!("log-{number}")), count_of(&format!("data-{number}")));
        assert!(log == data || log == data + 1, "snapshot {number}: {log} and {data}");
    }
    pool.assert_clean();
}

/// The server is killed at any time while a volume that a client writes is rolled back. Afterwards
/// it has the contents of the snapshot, or those that were flushed before.
#[test]
fn a_rollback_survives_kills_as_a_whole() {
    let seed = setting("GEMELO_KILL_SEED", 1);
    eprintln!("GEMELO_KILL_SEED={seed}");
    let mut random = Random::new(seed);
    let pool = TestPool::new(&[]);
    let first = fill(&pool, "web", 1, BLOCKS);
    done(&["volume", "snapshot", &pool.volume("web"), "monday"]);
    let mut outcomes = [0, 0];
    for kill in 0..setting("GEMELO_KILLS", 12) {
        let later = fill(&pool, "web", 100 + kill, BLOCKS);
        fill(&pool, "load", 200 + kill, BLOCKS);
        let served = pool.serve(&[]);
        let mut load = Client::connect(&pool.uri("load").parse().unwrap(), 8, PATIENCE).unwrap();
        let wait = Duration::from_micros(random.below(30_000));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let bytes = noise(300 + kill, BLOCK);
                for block in (0..BLOCKS as u64).cycle() {
                    let offset = block * BLOCK as u64;
                    let write =
                        Submission::Write { offset, data: &bytes, durable: block % 16 == 0 };
                    if load.run(write, |_| ()).is_err() {
                        return;
                    }
                }
            });
            let rollback =
                scope.spawn(|| gemelo(&["volume", "rollback", &pool.volume("web"), "monday"]));
            std::thread::sleep(wait);
            served.kill();
            let is_acknowledged = rollback.join().unwrap().status == 0;
            let now = read(&pool, "web");
            assert!(now == first || now == later, "kill {kill}: neither the one nor the other");
            assert!(!is_acknowledged || now == first, "kill {kill}: a rollback was lost");
            outcomes[usize::from(now == first)] += 1;
        });
        pool.assert_clean();
    }
    eprintln!("{outcomes:?}: kept, rolled back");
}
