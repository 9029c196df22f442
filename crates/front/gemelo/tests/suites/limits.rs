//! Tests of the limits of volumes: rates, quota and reservation.

use crate::common::gemelo;
use crate::served::{TestPool, done, noise, refused};
use gemelo_nbd::client::{Client, Submission};
use gemelo_nbd::wire::ErrorCode;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
const BLOCK: usize = 4096;

fn connect(pool: &TestPool, name: &str) -> Client {
    Client::connect(&pool.uri(name).parse().unwrap(), 64, PATIENCE).unwrap()
}

fn write(client: &mut Client, block: u64, data: &[u8]) -> ErrorCode {
    let write = Submission::Write { offset: block * BLOCK as u64, data, durable: false };
    client.run(write, |done| done.error).unwrap()
}

#[test]
fn a_volume_does_as_many_operations_a_second_as_it_may_and_others_are_free() {
    let pool = TestPool::new(&[]);
    for name in ["slow", "free"] {
        done(&["volume", "create", &pool.volume(name), "--size", "8m"]);
    }
    let slow = pool.volume("slow");
    let said = done(&["volume", "set", &slow, "--iops", "500", "--burst", "100ms"]);
    assert!(said.contains("iops 500"), "{said}");
    let served = pool.serve(&[]);
    let mut client = connect(&pool, "slow");
    let began = Instant::now();
    for block in 0..300 {
        assert!(write(&mut client, block, &noise(block, BLOCK)).is_none());
    }
    let took = began.elapsed();
    // 50 are free after a pause.
    assert!(took >= Duration::from_millis(480), "{took:?}");
    let mut other = connect(&pool, "free");
    let began = Instant::now();
    for block in 0..300 {
        assert!(write(&mut other, block, &noise(block, BLOCK)).is_none());
    }
    eprintln!("limited {took:?}, free {:?}", began.elapsed());
    assert!(pool.stat("/volumes/1/stat/paced_batches").as_u64().unwrap() > 0);
    assert_eq!(pool.stat("/volumes/0/stat/paced_batches"), 0);
    // The limit goes while the volume is served, and is no reason to wait at the end.
    done(&["volume", "set", &slow, "--iops", "1"]);
    let began = Instant::now();
    for block in 0..3 {
        client.submit(block, Submission::Read { offset: 0, length: 4096 }).unwrap();
    }
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(served.stop(), (0, String::new()));
    assert!(began.elapsed() < Duration::from_secs(2), "a stop waits for rates");
    let stat = done(&["volume", "stat", &slow]);
    assert!(stat.contains("operations a second") && stat.contains("100 ms"), "{stat}");
    done(&["volume", "set", &slow, "--iops", "default"]);
    let stat = done(&["volume", "stat", &slow]);
    assert!(!stat.contains("operations a second"), "{stat}");
}

#[test]
fn bytes_are_limited_for_one_volume_and_for_all() {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("a"), "--size", "8m"]);
    for (of_volume, of_server) in [
        (&["--bytes-per-second", "4m", "--burst", "1ms"][..], &[][..]),
        (&["--bytes-per-second", "0"], &["--bytes-per-second", "4m", "--burst", "1ms"]),
        (&["--bytes-per-second", "0"], &["--iops", "16", "--burst", "1ms"]),
    ] {
        done(&[&["volume", "set", &pool.volume("a")], of_volume].concat());
        let served = pool.serve(of_server);
        let mut client = connect(&pool, "a");
        let began = Instant::now();
        for part in 0..8 {
            assert!(write(&mut client, part * 64, &noise(part, 64 * BLOCK)).is_none());
        }
        // Two MiB in eight parts, of which the first one begins at once.
        assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
        assert_eq!(served.stop(), (0, String::new()));
    }
}

#[test]
fn a_quota_counts_the_blocks_of_a_volume_whether_they_are_shared_or_not() {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("a"), "--size", "8m"]);
    done(&["volume", "set", &pool.volume("a"), "--quota", "40k"]);
    let served = pool.serve(&[]);
    let mut client = connect(&pool, "a");
    // The same content ten times.
    for block in 0..10 {
        assert!(write(&mut client, block, &noise(1, BLOCK)).is_none());
    }
    assert_eq!(write(&mut client, 10, &noise(1, BLOCK)), ErrorCode::NO_SPACE);
    // What is there can be replaced, zeros take nothing, and a trim makes room.
    assert!(write(&mut client, 3, &noise(2, BLOCK)).is_none());
    assert!(write(&mut client, 11, &[0; BLOCK]).is_none());
    done(&["volume", "snapshot", &pool.volume("a"), "s"]);
    let trim = Submission::Trim { offset: 0, length: BLOCK as u32, durable: false };
    assert!(client.run(trim, |done| done.error).unwrap().is_none());
    // A write that fits in part fails, and takes no more than there is.
    assert_eq!(write(&mut client, 20, &noise(9, 2 * BLOCK)), ErrorCode::NO_SPACE);
    let mapped = pool.stat("/volumes/0/mapped_blocks").as_u64().unwrap();
    assert!(mapped <= 10, "{mapped}");
    done(&["volume", "set", &pool.volume("a"), "--quota", "0"]);
    assert!(write(&mut client, 30, &noise(7, 4 * BLOCK)).is_none());
    assert_eq!(served.stop(), (0, String::new()));
    pool.assert_clean();
}

/// Virtual machines reach a volume by shared memory, and meet the same limits.
#[test]
fn a_virtual_machine_does_as_much_as_its_volume_may() {
    let pool = TestPool::new(&[]);
    let volume = pool.volume("vm");
    done(&["volume", "create", &volume, "--size", "8m"]);
    done(&["volume", "set", &volume, "--iops", "200", "--burst", "100ms"]);
    let sockets = pool.file("sockets");
    std::fs::create_dir(&sockets).unwrap();
    let served = pool.serve(&["--vhost-user", &sockets]);
    let target = format!("vhost-user:{sockets}/vm.sock");
    let load = ["bench", "--target", &target, "--bytes", "1m", "--queue-depth", "8", "--force"];
    let began = Instant::now();
    assert_eq!(gemelo(&load).status, 0);
    // Of 256 writes, 20 are free.
    assert!(began.elapsed() >= Duration::from_millis(1100), "{:?}", began.elapsed());
    done(&["volume", "set", &volume, "--iops", "default", "--quota", "1m"]);
    let more = [&load[..3], &["--bytes", "8m", "--pattern", "uniform", "--force"]].concat();
    let ran = gemelo(&more);
    // virtio-blk has one error for all.
    assert!(ran.status != 0 && ran.out.contains("the device failed it"), "{}", ran.out);
    assert_eq!(served.stop().0, 0);
    pool.assert_clean();
}

#[test]
fn a_reservation_is_left_by_others_and_there_when_it_is_needed() {
    let pool = TestPool::new(&[]);
    for name in ["greedy", "modest"] {
        done(&["volume", "create", &pool.volume(name), "--size", "64m"]);
    }
    done(&["volume", "set", &pool.volume("modest"), "--reserve", "16m"]);
    let said = refused(&["volume", "set", &pool.volume("greedy"), "--reserve", "60m"]);
    assert!(said.contains("free and not reserved"), "{said}");
    let served = pool.serve(&[]);
    let mut greedy = connect(&pool, "greedy");
    let mut written = 0;
    while written < 16_384 && write(&mut greedy, written, &noise(written, 64 * BLOCK)).is_none() {
        written += 64;
    }
    // Of some 64 MiB, 16 are left.
    assert!((10_000..=12_288).contains(&written), "{written}");
    let mut modest = connect(&pool, "modest");
    for part in 0..64 {
        let data = noise(1 << 40 | part, 64 * BLOCK);
        assert!(write(&mut modest, part * 64, &data).is_none(), "part {part}");
    }
    assert_eq!(served.stop().0, 0);
    pool.assert_clean();
}

#[test]
fn limits_are_asked_for_and_not_inherited() {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("a"), "--size", "8m"]);
    let said = refused(&["volume", "set", &pool.volume("a")]);
    assert!(said.contains("nothing to set"), "{said}");
    let said = refused(&["volume", "set", &pool.volume("a"), "--reserve", "9m"]);
    assert!(said.contains("has 8 MiB"), "{said}");
    done(&["volume", "set", &pool.volume("a"), "--quota", "4m", "--iops", "7"]);
    done(&["volume", "clone", &pool.volume("a"), "b"]);
    done(&["volume", "snapshot", &pool.volume("a"), "s"]);
    done(&["volume", "rollback", &pool.volume("a"), "s"]);
    assert!(done(&["volume", "stat", &pool.volume("a")]).contains("quota"));
    let got = done(&["volume", "get", &pool.volume("a"), "iops", "quota", "burst"]);
    let got: Vec<Vec<&str>> = got.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(got[0][..3], ["iops", "7", "volume"], "{got:?}");
    assert_eq!(got[1][..2], ["burst", "1s"], "{got:?}");
    assert_eq!(got[2].first(), Some(&"quota"), "{got:?}");
    // No burst was the usual one.
    done(&["volume", "set", &pool.volume("a"), "--burst", "0s"]);
    assert_eq!(done(&["volume", "get", &pool.volume("a"), "burst"]), "burst  1ms  volume\n");
    assert!(!done(&["volume", "stat", &pool.volume("b")]).contains("quota"));
    assert_eq!(gemelo(&["volume", "set", "--help"]).status, 0);
}

#[test]
fn the_list_of_volumes_shows_limits_and_holds_where_there_are_any() {
    let pool = TestPool::new(&[]);
    for name in ["a", "b"] {
        done(&["volume", "create", &pool.volume(name), "--size", "8m"]);
    }
    let list = || done(&["volume", "ls", &pool.path()]);
    assert!(!list().contains("limits") && !list().contains("holds"), "{}", list());
    done(&["volume", "set", &pool.volume("a"), "--iops", "500", "--quota", "4m"]);
    assert!(list().contains("limits") && !list().contains("holds"), "{}", list());
    done(&["volume", "snapshot", &pool.volume("a"), "snapshot"]);
    done(&["volume", "hold", &pool.volume("snapshot"), "--tag", "backup"]);
    let text = list();
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().trim_end();
    assert!(line("a ").contains("500 operations/s, quota 4.00 MiB"), "{text}");
    assert!(line("a ").ends_with('-') && line("b ").ends_with('-'), "{text}");
    assert!(line("snapshot ").ends_with("backup"), "{text}");
    let json = done(&["volume", "ls", &pool.path(), "--json", "-"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = json.pointer("/result/volumes").unwrap_or(&json["result"]);
    assert_eq!(rows[0]["limits"]["operations_per_s"], 500);
    assert_eq!(rows[0]["limits"]["quota_bytes"], 4 << 20);
    assert_eq!(rows[1]["limits"]["quota_bytes"], serde_json::Value::Null);
    assert_eq!(rows[2]["holds"], serde_json::json!(["backup"]));
}
