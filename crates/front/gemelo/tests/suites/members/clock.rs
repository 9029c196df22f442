//! Steps of the clock of a host, by `libfaketime`: what the C library and librados take for the
//! time of day jumps by days, while a member is served and taken over.

use super::contents::{assert_written, write};
use super::host::{Host, LEASE, Server};
use gemelo_tools::has_tool;
use rustix::process::Signal;
use std::fs;
use std::process::Command;
use std::time::Duration;

const DOMAIN: &str = "rados:gemelo/clocks";
const MEMBER: &str = "rados:gemelo/clocks/one";
/// Longer than a lease that is not renewed lasts.
const SEVERAL_LEASES: Duration = Duration::from_secs(6);

pub(crate) fn has_faketime() -> bool {
    has_tool("faketime")
}

/// The clock of a host.
struct HostClock<'h, 'c> {
    host: &'h Host<'c>,
    name: &'static str,
}

impl HostClock<'_, '_> {
    /// Sets how far the clock is ahead, as `faketime` writes it. A running process sees it at once.
    fn step(&self, ahead: &str) {
        // A file that is read while it is written must not be empty.
        let new = self.host.file("new");
        fs::write(&new, format!("{ahead}\n")).unwrap();
        fs::rename(new, self.host.file(self.name)).unwrap();
    }

    fn serve(&self, socket: &str) -> Server {
        let file = self.host.file(self.name);
        let options = ["--lease", LEASE, "--standby"];
        self.host.serve_by(MEMBER, socket, &options, |command: &mut Command| {
            command.env("LD_PRELOAD", library()).env("FAKETIME_TIMESTAMP_FILE", file);
            command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        })
    }
}

/// Returns the library that `faketime` has its command load.
fn library() -> String {
    let output =
        Command::new("faketime").args(["-m", "-f", "+1d", "printenv", "LD_PRELOAD"]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let library = text.trim();
    assert!(library.ends_with(".so.1"), "{text}");
    library.to_owned()
}

pub(crate) fn run(host: &Host<'_>) {
    host.done(&["domain", "create", DOMAIN, "--shards", "1"]);
    host.done(&["pool", "create", MEMBER, "--capacity", "1g", "--commit-interval", "1s"]);
    host.done(&["volume", "create", &format!("{MEMBER}/disk"), "--size", "16m"]);
    the_clock_is_what_the_library_says();
    let clock = HostClock { host, name: "clock" };
    clock.step("+0");
    let mut server = clock.serve("stepped");
    server.wait_until_it_serves();
    let other = HostClock { host, name: "other" };
    other.step("+3d");
    let mut standby = other.serve("waiting");
    steps_do_not_end_the_lease(&clock, &mut server, &mut standby);
    steps_do_not_prolong_it(&clock, server, &standby);
    standby.end();
    host.json(&["domain", "check", DOMAIN]);
    host.assert_clean(MEMBER);
}

/// Without this the test would pass where the library has no effect.
fn the_clock_is_what_the_library_says() {
    let mut date = Command::new("date");
    let date = date.arg("+%s").env("LD_PRELOAD", library()).env("FAKETIME", "+3d");
    let text = String::from_utf8(date.output().unwrap().stdout).unwrap();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert!(text.trim().parse::<u64>().unwrap() > now + 200_000, "{text}");
}

/// The process whose clock jumps serves on, and the standby, whose clock is days ahead and jumps as
/// well, does not take the member.
fn steps_do_not_end_the_lease(
    clock: &HostClock<'_, '_>,
    server: &mut Server,
    standby: &mut Server,
) {
    let other = HostClock { host: clock.host, name: "other" };
    let volume = server.volume();
    for (generation, (ahead, others)) in
        (1..).zip([("+1d", "-3d"), ("-1d", "+3d"), ("+400d", "-400d")])
    {
        clock.step(ahead);
        other.step(others);
        let began = std::time::Instant::now();
        while began.elapsed() < SEVERAL_LEASES {
            write(&*volume, 0..200, generation);
            assert_written(&*volume, 0..200, generation);
            std::thread::sleep(Duration::from_millis(200));
        }
        assert!(server.is_running() && standby.is_running(), "a clock {ahead}: {generation}");
        assert!(!standby.socket.exists(), "a clock {others} took the member");
    }
}

/// A process that was stopped for longer than its lease has lost it, although its clock went back.
fn steps_do_not_prolong_it(clock: &HostClock<'_, '_>, mut server: Server, standby: &Server) {
    server.signal(Signal::STOP);
    clock.step("-2d");
    let volume = standby.volume();
    write(&*volume, 0..200, 9);
    server.signal(Signal::CONT);
    assert_eq!(server.wait(), 7, "displaced: {}", server.errors());
    assert_written(&*volume, 0..200, 9);
}
