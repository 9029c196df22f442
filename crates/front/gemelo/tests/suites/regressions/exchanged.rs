//! A copy moves only contents that the other pool does not have, whatever volume has them there.

use crate::common::{Ran, gemelo};
use crate::served::{TestPool, done, noise};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::{Command, Stdio};

const BLOCK: usize = 4096;
const MIB: usize = 1 << 20;

pub(super) fn import(pool: &TestPool, name: &str, bytes: &[u8]) {
    let raw = pool.file("raw");
    fs::write(&raw, bytes).unwrap();
    done(&["volume", "import", &raw, &pool.volume(name), "--force"]);
}

pub(super) fn assert_holds(pool: &TestPool, name: &str, data: &[u8]) {
    let back = pool.file("back");
    done(&["volume", "export", &pool.volume(name), &back, "--force"]);
    assert!(fs::read(&back).unwrap() == data, "{name}");
}

/// A program that does as this one does, and keeps the stream that it gets.
fn keeping(pool: &TestPool) -> (String, String) {
    let (program, stream) = (pool.file("program"), pool.file("stream"));
    let own = env!("CARGO_BIN_EXE_gemelo");
    let script = format!(
        "#!/bin/sh\ncase $2 in receive) tee {stream} | {own} \"$@\";; *) exec {own} \"$@\";; esac\n"
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (program, stream)
}

/// Copies a snapshot, and returns the bytes that went.
fn copied(from: &TestPool, name: &str, to: &TestPool) -> usize {
    let (program, stream) = keeping(to);
    let there = format!("host:{}", to.volume(name));
    let connect = ["--connect", "sh -c", "--program", &program];
    done(&[&["volume", "copy", &from.volume(name), &there], &connect[..]].concat());
    fs::metadata(stream).unwrap().len() as usize
}

/// Three MiB of contents, a MiB of zeros and a MiB of contents twice.
fn image() -> Vec<u8> {
    [noise(1, 3 * MIB), vec![0; MIB], noise(2, MIB), noise(2, MIB)].concat()
}

fn sender(options: &[&str]) -> TestPool {
    let from = TestPool::new(options);
    import(&from, "v", &image());
    done(&["volume", "snapshot", &from.volume("v"), "s"]);
    from
}

#[test]
fn only_contents_travel_that_the_other_pool_does_not_have() {
    let known = [noise(2, MIB), noise(1, 2 * MIB)].concat();
    for (options, is_served) in [(&[][..], false), (&["--compression", "lz4"], true)] {
        let (from, to) = (sender(options), TestPool::new(&[]));
        let servers = is_served.then(|| [from.serve(&[]), to.serve(&[])]);
        import(&to, "other", &known);
        let moved = copied(&from, "s", &to);
        assert!((MIB..MIB + 32 * BLOCK).contains(&moved), "{moved}");
        // What the copy needs is its own, whatever happens to the volume that had it.
        done(&["volume", "rm", "--force", &to.volume("other")]);
        done(&["pool", "gc", &to.path()]);
        assert_holds(&to, "s", &image());
        // Nothing but questions travels now.
        let third = TestPool::new(&[]);
        import(&third, "other", &image());
        let said = done(&["volume", "copy", &from.volume("s"), &third.volume("s")]);
        assert!(said.contains(", without 4.00 MiB that were there"), "{said}");
        assert!(said.contains("a stream of 1") || said.contains("a stream of 2"), "{said}");
        assert_holds(&third, "s", &image());
        third.assert_clean();
        for server in servers.into_iter().flatten() {
            assert_eq!(server.stop(), (0, String::new()));
        }
        to.assert_clean();
    }
}

#[test]
fn pools_that_do_not_tell_or_cannot_know_get_all_contents() {
    let from = sender(&[]);
    for options in [
        &["--fingerprint", "xxh3+compare"][..],
        &["--fingerprint", "sha1"],
        &["--block-size", "8k"],
    ] {
        let to = TestPool::new(options);
        import(&to, "other", &image());
        assert!(copied(&from, "s", &to) > 4 * MIB, "{options:?}");
        assert_holds(&to, "s", &image());
    }
    for setting in [["--exchange", "off"], ["--verify-bytes", "on"]] {
        let to = TestPool::new(&[]);
        import(&to, "other", &image());
        done(&[&["pool", "set", &to.path()], &setting[..]].concat());
        assert!(copied(&from, "s", &to) > 4 * MIB, "{setting:?}");
        assert_holds(&to, "s", &image());
        done(&["volume", "rm", "--force", &to.volume("s")]);
        done(&[&["pool", "set", &to.path()], &[setting[0], "default"][..]].concat());
        assert!(copied(&from, "s", &to) < MIB, "{setting:?}");
    }
    let to = TestPool::new(&["--fingerprint", "sha256"]);
    import(&to, "other", &image());
    assert!(copied(&from, "s", &to) < MIB);
}

#[test]
fn a_content_that_rots_there_is_sent_again() {
    let (from, to) = (sender(&[]), TestPool::new(&[]));
    import(&to, "other", &image());
    let path = format!("{}/data", to.path());
    let (data, content) = (fs::read(&path).unwrap(), &image()[7 * BLOCK..8 * BLOCK]);
    let at = data.chunks(BLOCK).position(|block| block == content).unwrap() * BLOCK;
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[!content[0]], at as u64).unwrap();
    let healthy = TestPool::new(&[]);
    import(&healthy, "other", &image());
    let (moved, usual) = (copied(&from, "s", &to), copied(&from, "s", &healthy));
    assert!((BLOCK..BLOCK + 99).contains(&(moved - usual)), "{moved}, and {usual} without rot");
    assert_holds(&to, "s", &image());
}

#[test]
fn a_part_of_a_conversation_is_no_stream_for_a_file() {
    let (from, to) = (sender(&[]), TestPool::new(&[]));
    copied(&from, "s", &to);
    let other = TestPool::new(&[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_gemelo"));
    command.args(["volume", "receive", &other.volume("s")]).stdout(Stdio::null());
    command.stdin(File::open(to.file("stream")).unwrap()).stderr(Stdio::piped());
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2), "{error}");
    assert!(error.contains("only 'gemelo volume copy' can have it"), "{error}");
    assert!(!done(&["volume", "ls", &other.path()]).contains("\ns "));
}

/// A receiver that dies, or that is no gemelo, is named, and nobody waits for ever.
#[test]
fn a_receiver_that_does_not_answer_ends_the_copy() {
    let from = sender(&[]);
    for is_served in [false, true] {
        let server = is_served.then(|| from.serve(&[]));
        for (program, why) in [("true", "does not answer"), ("cat >&2; echo", "host host")] {
            let words = ["volume", "copy", &from.volume("s"), "host:/nowhere/s", "--since", "none"];
            let connect = ["--connect", "sh -c", "--program", program];
            let Ran { status, err, .. } = gemelo(&[&words[..], &connect[..]].concat());
            assert!(status == 1 && !err.is_empty(), "{program} {why}: {status}: {err}");
        }
        drop(server);
    }
}
