//! A copy that was broken off goes on where it was: only the rest moves. `GEMELO_KILLS` sets the
//! number of kills.

use super::exchanged::{assert_holds, import};
use crate::common::{Ran, gemelo};
use crate::served::{TestPool, done, noise, refused};
use crate::support::setting;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

const MIB: usize = 1 << 20;
const KILLS: u64 = 8;

/// A program that does what this one does, with a filter before what `receive` gets.
pub(super) fn filtering(pool: &TestPool, name: &str, filter: &str) -> String {
    let (program, own) = (pool.file(name), env!("CARGO_BIN_EXE_gemelo"));
    let script = format!(
        "#!/bin/sh\ncase $2 in receive) {filter} {own} \"$@\";; *) exec {own} \"$@\";; esac\n"
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

pub(super) fn words(from: &TestPool, name: &str, to: &TestPool, program: &str) -> Vec<String> {
    let words = ["volume", "copy", &from.volume(name), &format!("host:{}", to.volume(name))];
    let more = ["--connect", "sh -c", "--program", program];
    words.into_iter().chain(more).map(str::to_owned).collect()
}

fn copy(from: &TestPool, name: &str, to: &TestPool, program: &str) -> Ran {
    let words = words(from, name, to, program);
    gemelo(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Copies to the end, and returns the bytes of the stream.
pub(super) fn finished(from: &TestPool, name: &str, to: &TestPool) -> usize {
    let stream = to.file("stream");
    let program = filtering(to, "keeping", &format!("tee {stream} |"));
    let Ran { status, err, .. } = copy(from, name, to, &program);
    assert_eq!((status, err.as_str()), (0, ""));
    fs::metadata(stream).unwrap().len() as usize
}

/// Waits until the process is gone whose number the file has.
fn wait_for_end(pid: &str) {
    let number = fs::read_to_string(pid).unwrap_or_default();
    let process = format!("/proc/{}/fd", number.trim());
    gemelo_tools::wait_until("the receiver ends with its sender", || {
        number.is_empty() || fs::read_dir(&process).is_err()
    });
}

fn cut_off(from: &TestPool, name: &str, to: &TestPool, bytes: usize) {
    let program = filtering(to, "cutting", &format!("stdbuf -o0 head -c {bytes} |"));
    let Ran { status, err, .. } = copy(from, name, to, &program);
    assert!(status == 1 && err.contains("cut off at byte"), "{status}: {err}");
}

#[test]
fn a_copy_that_was_cut_off_moves_only_the_rest() {
    let image = [noise(1, 6 * MIB), vec![0; MIB], noise(2, 3 * MIB)].concat();
    let mut next = image.clone();
    next[..5 * MIB].copy_from_slice(&noise(3, 5 * MIB));
    for is_served in [false, true] {
        let (from, to) = (TestPool::new(&[]), TestPool::new(&[]));
        import(&from, "v", &image);
        done(&["volume", "snapshot", &from.volume("v"), "one"]);
        import(&from, "v", &next);
        done(&["volume", "snapshot", &from.volume("v"), "two"]);
        let servers = is_served.then(|| [from.serve(&[]), to.serve(&[])]);
        cut_off(&from, "one", &to, 4 * MIB);
        let listed = done(&["volume", "ls", &to.path()]);
        let about = "\nunfinished copy 'one': 3.00 MiB of 10.00 MiB, kept until 20";
        assert!(listed.contains(about) && !listed.contains("\none"), "{listed}");
        let json = done(&["volume", "ls", &to.path(), "--json", "-"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["result"]["volumes"], serde_json::json!([]));
        let copy = &json["result"]["unfinished_copies"][0];
        assert_eq!(copy["name"], "one");
        assert_eq!(
            (&copy["received_bytes"], &copy["is_receiving"]),
            (&(3 * MIB).into(), &false.into())
        );
        cut_off(&from, "one", &to, 2 * MIB);
        let moved = finished(&from, "one", &to);
        // Frames have a MiB of contents, and one that is cut off is sent again.
        assert!((3 * MIB..6 * MIB).contains(&moved), "{moved} after 4 and 2 MiB of 9");
        assert_holds(&to, "one", &image);
        cut_off(&from, "two", &to, 3 * MIB);
        let moved = finished(&from, "two", &to);
        assert!((2 * MIB..4 * MIB).contains(&moved), "{moved} after 3 MiB of 5");
        assert_holds(&to, "two", &next);
        for server in servers.into_iter().flatten() {
            assert_eq!(server.stop(), (0, String::new()));
        }
        to.assert_clean();
    }
}

#[test]
fn what_was_broken_off_is_removed_on_demand_and_by_another_copy() {
    let (from, to) = (TestPool::new(&[]), TestPool::new(&[]));
    let image = noise(1, 6 * MIB);
    import(&from, "v", &image);
    done(&["volume", "snapshot", &from.volume("v"), "s"]);
    let is_empty = || {
        done(&["pool", "gc", &to.path()]);
        to.stat("/pool/logical_blocks") == 0
    };
    cut_off(&from, "s", &to, 4 * MIB);
    assert!(!is_empty(), "it is kept");
    done(&["volume", "rm", &to.volume("s")]);
    assert!(!done(&["volume", "ls", &to.path()]).contains("unfinished"));
    assert!(is_empty());
    assert!(refused(&["volume", "rm", &to.volume("s")]).contains("no volume 's'"));
    // A stream from a file begins anew.
    cut_off(&from, "s", &to, 4 * MIB);
    let whole = from.file("whole");
    let own = env!("CARGO_BIN_EXE_gemelo");
    let script = format!(
        "{own} volume send {} > {whole} && {own} volume receive {} < {whole}",
        from.volume("s"),
        to.volume("s")
    );
    assert!(
        Command::new("sh").args(["-c", &script]).stdout(Stdio::null()).status().unwrap().success()
    );
    assert_holds(&to, "s", &image);
    done(&["volume", "rm", "--force", &to.volume("s")]);
    assert!(is_empty(), "nothing is left of what was broken off");
    to.assert_clean();
}

/// Neither side is told that the other one dies.
#[test]
fn copies_go_on_after_kills_of_either_side() {
    let from = TestPool::new(&[]);
    let image = noise(1, 30 * MIB);
    import(&from, "v", &image);
    done(&["volume", "snapshot", &from.volume("v"), "s"]);
    for kills_receiver in [true, false] {
        let to = TestPool::new(&[]);
        let pid = to.file("pid");
        let program = filtering(&to, "noting", &format!("echo $$ > {pid}; exec"));
        let mut is_whole = false;
        for kill in 0..setting("GEMELO_KILLS", KILLS) {
            let words = words(&from, "s", &to, &program);
            let mut command = Command::new(env!("CARGO_BIN_EXE_gemelo"));
            command.args(&words).args(["--rate", "20m"]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let _ = fs::remove_file(&pid);
            let mut sender = command.spawn().unwrap();
            std::thread::sleep(Duration::from_millis(200 + 170 * kill));
            if kills_receiver {
                let receiver =
                    fs::read_to_string(&pid).ok().and_then(|text| text.trim().parse().ok());
                let receiver = receiver.and_then(rustix::process::Pid::from_raw);
                if let Some(receiver) = receiver {
                    let _ = rustix::process::kill_process(receiver, rustix::process::Signal::KILL);
                }
            } else {
                sender.kill().unwrap();
            }
            sender.wait().unwrap();
            wait_for_end(&pid);
            to.assert_clean();
            is_whole = done(&["volume", "ls", &to.path()]).contains("\ns ");
            if is_whole {
                break;
            }
        }
        let moved = if is_whole { 0 } else { finished(&from, "s", &to) };
        eprintln!("receiver {kills_receiver}: the rest had {moved} bytes");
        assert!(moved < 22 * MIB, "it went on: {moved}");
        assert_holds(&to, "s", &image);
        to.assert_clean();
    }
}
