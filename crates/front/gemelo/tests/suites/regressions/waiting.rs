//! A copy whose other side is silent ends at the first SIGTERM, and what was received stays.

use super::exchanged::{assert_holds, import};
use super::resumed::{filtering, finished, words};
use crate::served::{TestPool, done, noise};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

fn sender() -> TestPool {
    let from = TestPool::new(&[]);
    import(&from, "v", &noise(1, 9 * MIB));
    done(&["volume", "snapshot", &from.volume("v"), "s"]);
    from
}

fn start(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gemelo"));
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Lets it wait, and ends it as systemd does.
fn end(child: &mut Child) {
    std::thread::sleep(Duration::from_millis(1500));
    assert!(child.try_wait().unwrap().is_none(), "it waits");
    kill_process(Pid::from_child(child), Signal::TERM).unwrap();
    until_it_ends(|| child.try_wait().unwrap().is_none());
}

/// Waits until something that is to end soon does not wait any more.
fn until_it_ends(mut it_waits: impl FnMut() -> bool) {
    let began = Instant::now();
    while it_waits() {
        assert!(began.elapsed() < Duration::from_secs(8), "it goes on waiting");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ended(mut child: Child) -> Output {
    end(&mut child);
    child.wait_with_output().unwrap()
}

/// Returns whether a process has open files, as one that has ended has not.
fn is_there(process: i32) -> bool {
    fs::read_dir(format!("/proc/{process}/fd")).is_ok_and(|mut files| files.next().is_some())
}

fn assert_stopped(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("stopped before the end"), "{said}");
}

#[test]
fn senders_and_receivers_that_wait_end_when_they_are_asked_to() {
    for is_served in [false, true] {
        let (from, to) = (sender(), TestPool::new(&[]));
        let _servers = is_served.then(|| [from.serve(&[]), to.serve(&[])]);
        let (snapshot, copy) = (from.volume("s"), to.volume("s"));
        // Nobody reads, and nobody writes.
        let mut sending = start(&["volume", "send", &snapshot]).spawn().unwrap();
        let unread = sending.stdout.take();
        assert_stopped(&ended(sending));
        let mut exporting = start(&["volume", "export", &snapshot, "-"]).spawn().unwrap();
        let unread = (unread, exporting.stdout.take());
        assert_stopped(&ended(exporting));
        for words in [["receive", &copy].as_slice(), &["import", "-", &copy]] {
            let words = [&["volume"], words].concat();
            let mut waiting = start(&words).spawn().unwrap();
            let unwritten = waiting.stdin.take();
            assert_stopped(&ended(waiting));
            drop(unwritten);
        }
        drop(unread);
        assert!(!done(&["volume", "ls", &to.path()]).contains("\ns "));
    }
}

/// A filter that lets 4 MiB through, and then nothing until there is a file of this name.
fn hang_until(file: &str) -> String {
    let all = 4 * MIB;
    format!("(stdbuf -o0 head -c {all}; until test -e {file}; do sleep 0.1; done) |")
}

/// The receiver gets a part, and then nothing: as over a network that broke.
#[test]
fn a_copy_whose_connection_hangs_ends_and_goes_on_later() {
    for (is_served, stops_receiver) in [(false, false), (true, false), (false, true), (true, true)]
    {
        let (from, to) = (sender(), TestPool::new(&[]));
        let _servers = is_served.then(|| [from.serve(&[]), to.serve(&[])]);
        let (pid, mended) = (to.file("pid"), to.file("mended"));
        let hang = match stops_receiver {
            true => format!("{} sh -c 'echo $$ >{pid}; exec \"$0\" \"$@\"'", hang_until(&mended)),
            false => hang_until(&mended),
        };
        let program = filtering(&to, "hanging", &hang);
        let words = words(&from, "s", &to, &program);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut child = start(&words).spawn().unwrap();
        if stops_receiver {
            std::thread::sleep(Duration::from_millis(1500));
            let receiver = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
            kill_process(Pid::from_raw(receiver).unwrap(), Signal::TERM).unwrap();
            until_it_ends(|| is_there(receiver));
        } else {
            end(&mut child);
        }
        fs::write(&mended, "").unwrap();
        assert_stopped(&child.wait_with_output().unwrap());
        let began = Instant::now();
        while done(&["volume", "ls", &to.path()]).contains("being received") {
            assert!(began.elapsed() < Duration::from_secs(30), "the receiver goes on");
            std::thread::sleep(Duration::from_millis(100));
        }
        let listed = done(&["volume", "ls", &to.path()]);
        assert!(
            listed.contains("unfinished copy 's': ") && listed.contains(" MiB of 9"),
            "{listed}"
        );
        let moved = finished(&from, "s", &to);
        assert!(moved < 9 * MIB, "{moved} of 9 MiB after up to 3");
        assert_holds(&to, "s", &noise(1, 9 * MIB));
    }
}

/// The sender waits for answers, and the receiver for the sender.
#[test]
fn a_receiver_ends_when_the_server_of_its_pool_dies() {
    let (from, to) = (sender(), TestPool::new(&[]));
    let server = to.serve(&[]);
    let pid = to.file("pid");
    let mended = to.file("mended");
    let hang = format!("{} sh -c 'echo $$ >{pid}; exec \"$0\" \"$@\"'", hang_until(&mended));
    let words = words(&from, "s", &to, &filtering(&to, "hanging", &hang));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let copying = start(&words).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let receiver = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    assert!(is_there(receiver), "it waits");
    server.kill();
    until_it_ends(|| is_there(receiver));
    fs::write(&mended, "").unwrap();
    assert!(!copying.wait_with_output().unwrap().status.success());
    assert!((3 * MIB..10 * MIB).contains(&finished(&from, "s", &to)));
    assert_holds(&to, "s", &noise(1, 9 * MIB));
}
