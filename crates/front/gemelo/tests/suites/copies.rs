//! Tests of `gemelo volume send`, `receive` and `diff`, on idle and on served pools, and of the
//! metadata context by which clients of NBD learn what differs. `GEMELO_KILLS` sets the number of
//! kills.

use crate::common::Ran;
use crate::served::{Served, TestPool, done, noise, refused};
use crate::support::setting;
use gemelo_tools::{all_there, has_tool};
use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::time::Duration;

const MIB: usize = 1 << 20;
const BLOCK: usize = 4096;
/// Kills of a receiver.
const KILLS: u64 = 12;

fn run(words: &[&str], input: Stdio, output: Stdio) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gemelo"));
    let child = command.args(words).stdin(input).stdout(output).stderr(Stdio::piped()).spawn();
    let output = child.unwrap().wait_with_output().unwrap();
    Ran {
        status: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn send(words: &[&str], to: &str) {
    let words = [&["volume", "send"], words].concat();
    let Ran { status, err, .. } = run(&words, Stdio::null(), File::create(to).unwrap().into());
    assert_eq!((status, err.as_str()), (0, ""), "{words:?}");
}

fn receive(volume: &str, from: &str) -> Ran {
    run(&["volume", "receive", volume], File::open(from).unwrap().into(), Stdio::piped())
}

fn received(volume: &str, from: &str) {
    let Ran { status, out, err } = receive(volume, from);
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
}

fn not_received(volume: &str, from: &str, expected: &str) {
    let Ran { status, out, err } = receive(volume, from);
    assert!(status > 0 && out.is_empty() && err.contains(expected), "{status}: {err}");
}

fn assert_holds(pool: &TestPool, name: &str, data: &[u8]) {
    let back = pool.file("back");
    done(&["volume", "export", &pool.volume(name), &back, "--force"]);
    assert!(fs::read(&back).unwrap() == data, "{name}");
}

fn names(pool: &TestPool) -> Vec<String> {
    let volumes = pool.stat("/volumes");
    let name = |volume: &serde_json::Value| volume["name"].as_str().unwrap().to_owned();
    volumes.as_array().unwrap().iter().map(name).collect()
}

/// Two images: duplicates, text and zeros, and changes of all kinds.
fn images() -> [Vec<u8>; 2] {
    let one = [noise(1, 3 * MIB), noise(1, 3 * MIB), vec![b'a'; MIB], vec![0; 3 * MIB]].concat();
    let mut two = one.clone();
    two[5 * BLOCK..9 * BLOCK].copy_from_slice(&noise(2, 4 * BLOCK));
    two[MIB..MIB + 8 * BLOCK].fill(0);
    two[8 * MIB..8 * MIB + BLOCK].copy_from_slice(&noise(3, BLOCK));
    [one, two]
}

/// A pool with the snapshots "one" and "two" of these images.
fn sender(options: &[&str], images: &[Vec<u8>; 2]) -> TestPool {
    let pool = TestPool::new(options);
    let raw = pool.file("raw");
    for (image, name) in images.iter().zip(["one", "two"]) {
        fs::write(&raw, image).unwrap();
        done(&["volume", "import", &raw, &pool.volume("v"), "--force"]);
        done(&["volume", "snapshot", &pool.volume("v"), name]);
    }
    pool
}

/// Runs a test with a sending and a receiving pool, plain and compressed, idle and served.
fn for_each_pair(test: impl Fn(&TestPool, &TestPool, &[Vec<u8>; 2])) {
    let images = images();
    let packed = ["--compression", "zstd"];
    for (number, is_served) in [(0, false), (1, true), (2, true)] {
        let from = sender(if number == 1 { &packed } else { &[] }, &images);
        let to = TestPool::new(if number == 0 { &packed } else { &[] });
        let servers = is_served.then(|| [from.serve(&[]), to.serve(&[])]);
        test(&from, &to, &images);
        for server in servers.into_iter().flatten() {
            assert_eq!(server.stop(), (0, String::new()));
        }
        from.assert_clean();
        to.assert_clean();
    }
}

#[test]
fn a_snapshot_and_what_is_new_in_the_next_reach_another_pool() {
    for_each_pair(|from, to, images| {
        let (whole, new, back) = (from.file("whole"), from.file("new"), from.file("again"));
        send(&[&from.volume("one")], &whole);
        send(&[&from.volume("two"), "--since", &from.volume("one")], &new);
        let length = |path: &str| fs::metadata(path).unwrap().len() as usize;
        assert!(length(&whole) < 4 * MIB + MIB / 2, "each content once: {}", length(&whole));
        assert!(length(&new) < 6 * BLOCK, "{}", length(&new));
        not_received(&to.volume("two"), &new, "has no copy of the snapshot");
        received(&to.volume("one"), &whole);
        not_received(&to.volume("one"), &whole, "'one' is a copy of this snapshot already");
        not_received(&to.volume("other"), &whole, "'one' is a copy of this snapshot already");
        received(&to.volume("later"), &new);
        assert_eq!(names(to), ["later", "one"]);
        assert_holds(to, "one", &images[0]);
        assert_holds(to, "later", &images[1]);
        assert!(
            refused(&["volume", "resize", &to.volume("one"), "--size", "20m"])
                .contains("keeps its size")
        );
        // A copy is sent on as the snapshot that it is.
        send(&[&to.volume("later"), "--since", &to.volume("one")], &back);
        not_received(&from.volume("third"), &back, "'two' is a copy of this snapshot already");
    });
}

/// Blocks of which one byte was changed, beside new ones.
#[test]
fn a_compressed_stream_takes_few_bytes_of_what_is_nearly_as_it_was() {
    let (mut images, block) = (images(), 40 * BLOCK);
    images[1] = images[0].clone();
    images[1][..2 * MIB].iter_mut().step_by(BLOCK).for_each(|byte| *byte ^= 1);
    images[1][block + 5 * MIB..block + 6 * MIB].fill(b'b');
    let packed: &[&str] = &["--compression", "zstd"];
    for (number, is_served) in [(0, false), (1, true), (2, false)] {
        let from = sender(if number == 1 { packed } else { &[] }, &images);
        let to = TestPool::new(if number == 2 { packed } else { &[] });
        let (whole, new) = (from.file("whole"), from.file("new"));
        let servers = is_served.then(|| [from.serve(&[]), to.serve(&[])]);
        send(&[&from.volume("one"), "--compress", "1"], &whole);
        let since = [&from.volume("two"), "--since", &from.volume("one")];
        let length = |path: &str| fs::metadata(path).unwrap().len() as usize;
        send(&[&since[..], &["--compress", "3"]].concat(), &new);
        assert!(length(&new) < 30_000, "{}", length(&new));
        received(&to.volume("one"), &whole);
        received(&to.volume("later"), &new);
        assert_holds(&to, "later", &images[1]);
        send(&since, &new);
        assert!(length(&new) > 2 * MIB, "{}", length(&new));
        done(&["volume", "rm", "--force", &to.volume("later")]);
        let copied = ["volume", "copy", &from.volume("two"), &to.volume("two")];
        let said = done(&[&copied[..], &["--compress", "6"]].concat());
        assert!(said.contains("differs from one: a stream of"), "{said}");
        // The pool may still know contents of the copy that was removed, and tell so.
        let stream = said.split("a stream of ").nth(1).and_then(|said| said.split(',').next());
        assert!(!stream.unwrap().contains("MiB"), "{said}");
        assert_holds(&to, "two", &images[1]);
        for server in servers.into_iter().flatten() {
            assert_eq!(server.stop(), (0, String::new()));
        }
        to.assert_clean();
        for level in ["0", "7", "zstd"] {
            let error = refused(&[&copied[..], &["--compress", level]].concat());
            assert!(error.contains("--compress"), "{error}");
        }
    }
}

/// An idle pool that was only read decompressed all that it sent.
#[test]
fn a_compressed_pool_sends_contents_as_it_stores_them() {
    let mut image = noise(1, 4 * MIB);
    image.chunks_mut(BLOCK).for_each(|block| block[BLOCK / 4..].fill(b'a'));
    let from = TestPool::new(&["--compression", "zstd"]);
    let raw = from.file("raw");
    fs::write(&raw, &image).unwrap();
    done(&["volume", "import", &raw, &from.volume("v")]);
    done(&["volume", "snapshot", &from.volume("v"), "s"]);
    for is_served in [false, true] {
        let (to, stream) = (TestPool::new(&[]), from.file("stream"));
        let server = is_served.then(|| from.serve(&[]));
        send(&[&from.volume("s")], &stream);
        let length = fs::metadata(&stream).unwrap().len() as usize;
        assert!(length < 3 * MIB / 2, "{length}, served: {is_served}");
        received(&to.volume("s"), &stream);
        assert_holds(&to, "s", &image);
        let copied = TestPool::new(&[]);
        let said = done(&["volume", "copy", &from.volume("s"), &copied.volume("s")]);
        assert!(said.contains("a stream of 1."), "{said}");
        drop(server);
    }
}

#[test]
fn a_stream_that_is_not_whole_changes_nothing_and_the_message_says_where() {
    for_each_pair(|from, to, _| {
        let (whole, wrong) = (from.file("whole"), from.file("wrong"));
        send(&[&from.volume("one")], &whole);
        let stream = fs::read(&whole).unwrap();
        let half = stream.len() / 2;
        let put = |parts: &[&[u8]]| fs::write(&wrong, parts.concat()).unwrap();
        put(&[&stream[..half]]);
        not_received(&to.volume("a"), &wrong, &format!("cut off at byte {half}"));
        put(&[&stream[..half], b"x", &stream[half + 1..]]);
        not_received(&to.volume("a"), &wrong, "the stream is damaged between byte");
        put(&[&stream, &stream]);
        not_received(&to.volume("a"), &wrong, "there is more after its end");
        put(&[b"no stream at all"]);
        not_received(&to.volume("a"), &wrong, "no stream of 'gemelo volume send'");
        put(&[]);
        not_received(&to.volume("a"), &wrong, "no stream of 'gemelo volume send'");
        assert_eq!(names(to), Vec::<String>::new());
        assert_eq!(to.stat("/pool/logical_blocks"), 0, "what was given up is gone");
    });
}

#[test]
fn what_cannot_be_sent_is_refused_in_words() {
    for_each_pair(|from, to, _| {
        let send = |words: &[&str]| {
            let words = [&["volume", "send"], words].concat();
            let Ran { status, err, .. } = run(&words, Stdio::null(), Stdio::piped());
            assert_eq!(status, 2, "{err}");
            err
        };
        assert!(send(&[&from.volume("v")]).contains("'v' is no snapshot"));
        assert!(send(&[&from.volume("none")]).contains("there is no volume 'none'"));
        let since = ["--since", &to.volume("one")];
        assert!(send(&[&from.volume("two"), since[0], since[1]]).contains("another pool"));
        let since = ["--since", &from.volume("v")];
        assert!(send(&[&from.volume("two"), since[0], since[1]]).contains("'v' is no snapshot"));
    });
}

#[test]
fn diff_lists_what_changed_is_new_and_is_zero_now() {
    for_each_pair(|from, to, _| {
        let json =
            done(&["volume", "diff", &from.volume("one"), &from.volume("two"), "--json", "-"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let range = |offset: usize, length: usize, kind: &str| serde_json::json!({"offset_bytes": offset, "length_bytes": length, "kind": kind});
        let expected = [
            range(5 * BLOCK, 4 * BLOCK, "changed"),
            range(MIB, 8 * BLOCK, "zero"),
            range(8 * MIB, BLOCK, "new"),
        ];
        assert_eq!(json["result"]["ranges"], serde_json::json!(expected));
        let text = done(&["volume", "diff", &from.volume("two"), &from.volume("v")]);
        assert_eq!(text, "0 B changed, 0 B new, 0 B zero now, in 0 ranges\n");
        assert!(
            refused(&["volume", "diff", &from.volume("one"), &to.volume("one")])
                .contains("different pools")
        );
    });
}

#[test]
fn nbdinfo_maps_what_differs_from_a_snapshot() {
    if !has_tool("nbdinfo") {
        return;
    }
    let pool = sender(&[], &images());
    let server = pool.serve(&[]);
    let map = |name: &str, since: &str| {
        let map = format!("--map=gemelo:since={since}");
        let output =
            Command::new("nbdinfo").args([&map, "--json", &pool.uri(name)]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let rows: Vec<serde_json::Value> =
            serde_json::from_slice(&output.stdout).map_err(|_| error)?;
        let number = |row: &serde_json::Value, key: &str| row[key].as_u64().unwrap() as usize;
        let row = |row| (number(row, "offset"), number(row, "length"), number(row, "type"));
        Ok::<_, String>(rows.iter().map(row).collect::<Vec<_>>())
    };
    let expected = [
        (0, 5 * BLOCK, 0),
        (5 * BLOCK, 4 * BLOCK, 1),
        (9 * BLOCK, MIB - 9 * BLOCK, 0),
        (MIB, 8 * BLOCK, 3),
        (MIB + 8 * BLOCK, 7 * MIB - 8 * BLOCK, 0),
        (8 * MIB, BLOCK, 1),
        (8 * MIB + BLOCK, 2 * MIB - BLOCK, 0),
    ];
    for name in ["two", "v"] {
        assert_eq!(map(name, "one").unwrap(), expected, "{name}");
        assert_eq!(map(name, "two").unwrap(), [(0, 10 * MIB, 0)], "{name}");
    }
    assert!(map("two", "none").is_err() && map("two", "v").is_err(), "they are no snapshots");
    let told = Command::new("nbdinfo").arg(pool.uri("two")).output().unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("gemelo:since=one") && told.contains("base:allocation"), "{told}");
    assert_eq!(server.stop(), (0, String::new()));
}

#[test]
fn copies_go_to_pools_of_hosts_as_what_differs_from_what_they_have() {
    for_each_pair(|from, to, images| {
        // The program is run by a shell, as ssh does, and gets the words as that splits them.
        let program = env!("CARGO_BIN_EXE_gemelo");
        let copy = |name: &str, to: &str, more: &[&str]| {
            let connect = ["--connect", "sh -c", "--program", program];
            let connect: &[&str] = if to.starts_with("host:") { &connect } else { &[] };
            [&["volume", "copy", &from.volume(name), to], connect, more].concat().join("\n")
        };
        let words = |words: String| words.lines().map(str::to_owned).collect::<Vec<_>>();
        let run = |text: String| {
            let words = words(text);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            done(&words)
        };
        let there = |name: &str| format!("host:{}", to.volume(name));
        let said = run(copy("one", &there("one"), &[]));
        assert!(said.contains("a copy of") && !said.contains("differs from"), "{said}");
        let said = run(copy("two", &there("it's two"), &["--rate", "50m"]));
        assert!(said.contains("sent as what differs from one: a stream of 2"), "{said}");
        assert_holds(to, "one", &images[0]);
        assert_holds(to, "it's two", &images[1]);
        let again = words(copy("two", &there("again"), &[]));
        let again: Vec<&str> = again.iter().map(String::as_str).collect();
        let Ran { status, err, .. } = crate::common::gemelo(&again);
        assert!(status == 1 && err.contains("host host: "), "{err}");
        assert!(err.contains("is a copy of this snapshot already"), "{err}");
        // A pool of this host, from which it goes back.
        let third = TestPool::new(&[]);
        run(copy("two", &third.volume("two"), &["--since", "none"]));
        assert_holds(&third, "two", &images[1]);
        let back = ["volume", "copy", &third.volume("two"), &third.volume("x")];
        assert!(refused(&back).contains("is in the pool of the snapshot"));
        let of_volume = ["volume", "copy", &from.volume("v"), &third.volume("v")];
        assert!(refused(&of_volume).contains("make a snapshot with 'gemelo volume snapshot'"));
        let of_nothing = ["volume", "copy", &from.volume("none"), &third.volume("v")];
        assert!(refused(&of_nothing).contains("there is no such volume"));
    });
}

/// A receiver that is killed leaves the pool as it was, or with the whole snapshot.
#[test]
fn a_receiver_that_is_killed_leaves_all_or_nothing() {
    let images = images();
    let from = sender(&[], &images);
    let (whole, new) = (from.file("whole"), from.file("new"));
    send(&[&from.volume("one")], &whole);
    send(&[&from.volume("two"), "--since", &from.volume("one")], &new);
    for is_served in [false, true] {
        let to = TestPool::new(&[]);
        let mut whole_ones = 0;
        for kill in 0..setting("GEMELO_KILLS", KILLS) {
            let server = is_served.then(|| to.serve(&[]));
            let mut command = Command::new(env!("CARGO_BIN_EXE_gemelo"));
            command.args(["volume", "receive", &to.volume("one")]);
            command.stdin(File::open(&whole).unwrap()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut receiver = command.spawn().unwrap();
            std::thread::sleep(Duration::from_millis(2 + 5 * kill));
            match server {
                Some(server) if kill % 2 == 0 => Served::kill(server),
                other => {
                    receiver.kill().unwrap();
                    drop(other);
                }
            }
            receiver.wait().unwrap();
            let list = names(&to);
            if list.is_empty() {
                done(&["pool", "gc", &to.path()]);
                assert_eq!(to.stat("/pool/logical_blocks"), 0, "what was given up is gone");
                continue;
            }
            assert_eq!(list, ["one"]);
            assert_holds(&to, "one", &images[0]);
            to.assert_clean();
            done(&["volume", "rm", "--force", &to.volume("one")]);
            whole_ones += 1;
        }
        eprintln!("{whole_ones} whole copies");
        to.assert_clean();
        received(&to.volume("one"), &whole);
        received(&to.volume("two"), &new);
        assert_holds(&to, "two", &images[1]);
        to.assert_clean();
    }
}

/// `scripts/copy-kills.py` runs 200 kills unless it is told a number.
#[test]
fn copies_over_ssh_survive_kills_of_every_process() {
    if !all_there(&["python3", "sshd", "ssh", "ssh-keygen"]) {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scripts/copy-kills.py");
    let mut command = Command::new("python3");
    command.args([script, "4", "7"]).env("GEMELO", env!("CARGO_BIN_EXE_gemelo"));
    let said = gemelo_tools::run(&mut command);
    assert!(said.contains("4 kills (") && said.contains("all copies are equal"), "{said}");
}
