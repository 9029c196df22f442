//! Hosts and coordinators that go away during a run: the others keep what they have, and nothing
//! goes on.

use super::*;
use rustix::process::Signal;
use std::process::{Child, Command, Stdio};

#[test]
fn the_others_are_stopped_when_a_host_dies_and_keep_what_they_have() {
    let directory = tempfile::tempdir().unwrap();
    let run = Run::long(directory.path(), "x,y,z");
    let mut all = Vec::new();
    let finished = run.with_processes(|processes| {
        all.extend(processes);
        signal(processes[1], Signal::KILL);
    });
    let died = "its connection ended (signal: 9 (SIGKILL))".to_owned();
    assert_eq!(ends(&finished), [Ok(false), Err(died), Ok(false)]);
    run.assert_gone(&all, &[1]);
}

#[test]
fn the_others_go_on_when_a_host_dies_on_which_they_do_not_depend() {
    let directory = tempfile::tempdir().unwrap();
    let run = Run { goes_on: true, ..Run::long(directory.path(), "x,y,z") };
    let finished = run.with_processes(|processes| {
        signal(processes[1], Signal::KILL);
        wait_until("the host is gone", || !is_alive(processes[1]));
        run.let_end();
    });
    let ends = ends(&finished);
    assert_eq!((&ends[0], &ends[2]), (&Ok(true), &Ok(true)));
    assert!(ends[1].is_err(), "{ends:?}");
}

#[test]
fn a_host_that_falls_silent_is_given_up_and_ended() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = Run::long(directory.path(), "x,y,z");
    run.timeout = IMPATIENCE;
    let mut all = Vec::new();
    let finished = run.with_processes(|processes| {
        all.extend(processes);
        signal(processes[1], Signal::STOP);
    });
    let silent = "it has said nothing for 4 s".to_owned();
    assert_eq!(ends(&finished), [Ok(false), Err(silent), Ok(false)]);
    run.assert_gone(&all, &[1]);
}

#[test]
fn a_host_that_does_not_stop_is_given_up_and_ended() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = Run::long(directory.path(), "x,y");
    run.timeout = IMPATIENCE;
    run.tasks[1]["deaf"] = json!(true);
    let mut all = Vec::new();
    let finished = run.with_processes(|processes| {
        all.extend(processes);
        run.stop.raise();
    });
    let deaf = "it did not stop within 4 s".to_owned();
    assert_eq!(ends(&finished), [Ok(false), Err(deaf)]);
    run.assert_gone(&all, &[1]);
}

/// Set in the process of a coordinator: the directory of its run.
const DIRECTORY: &str = "GEMELO_TEST_COORDINATOR";

/// The run of a coordinator that the tests kill or stop.
fn coordinated(directory: &Path) -> Run {
    let run = Run::long(directory, "x,y");
    Run { timeout: IMPATIENCE, ..run }
}

/// A coordinator of the other tests; nothing where it is called as a test.
#[test]
fn coordinator() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let mut run = coordinated(Path::new(&directory));
        run.tasks[1]["deaf"] = json!(Path::new(&directory).join("deaf").exists());
        drop(run.result());
    }
}

/// Starts a coordinator whose hosts are at work, and returns their processes with it.
fn start(run: &Run) -> (Child, Vec<i32>) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "gone::coordinator"])
        .env(DIRECTORY, &run.directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    (child, run.processes())
}

#[test]
fn hosts_end_when_their_coordinator_is_killed_by_force_if_need_be() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("deaf"), "").unwrap();
    let run = coordinated(directory.path());
    let (mut coordinator, all) = start(&run);
    coordinator.kill().unwrap();
    coordinator.wait().unwrap();
    run.assert_gone(&all, &[1]);
}

#[test]
fn hosts_end_when_their_coordinator_falls_silent() {
    let directory = tempfile::tempdir().unwrap();
    let run = coordinated(directory.path());
    let (mut coordinator, all) = start(&run);
    signal(i32::try_from(coordinator.id()).unwrap(), Signal::STOP);
    wait_until("the hosts have removed their files", || {
        (0..all.len()).all(|number| !run.file(number).exists())
    });
    run.assert_gone(&all, &[]);
    coordinator.kill().unwrap();
    coordinator.wait().unwrap();
}
