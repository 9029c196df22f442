//! A campaign that is killed at many points: cleaning leaves nothing, and resuming finishes it.

use super::{Place, can_mount, leftovers};
use crate::common::gemelo;
use gemelo_base::random::Random;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Targets with directories, servers, processes of the user, and mounts if the test may mount.
fn plan(mounts: bool) -> String {
    let mut text = "[campaign]\nname = 'x'\nrepetitions = 2\n\
        [[target]]\nname = 'directory'\ndirectory = {}\n\
        [[target]]\nname = 'volume'\nvolume = { size = '16m', access = 'nbd' }\n\
        [[target]]\nname = 'mine'\n[target.commands]\n\
        make = 'touch made; sleep 1000 & sleep 0.02'\nunmake = 'rm -f made'\n\
        [[workload]]\nname = 'write'\nbench = { bytes = '1m', file-size = '1m' }\n\
        [[workload]]\nname = 'script'\ncommand = 'sleep 0.05'\n"
        .to_owned();
    if mounts {
        text += "[[target]]\nname = 'loop'\nloop = { file-system = 'ext4', size = '32m' }\n";
    }
    text
}

fn start(place: &Place, more: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_gemelo"))
        .args(["campaign", "run"])
        .arg(place.plan())
        .arg("--out")
        .arg(place.out())
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn done(place: &Place) -> usize {
    place.records().iter().filter(|record| record["outcome"]["kind"] == "done").count()
}

fn clean(place: &Place) {
    let ran = gemelo(&["campaign", "clean", place.out().to_str().unwrap()]);
    assert_eq!(ran.status, 0, "{}{}", ran.out, ran.err);
    assert_eq!(leftovers(place), [""; 0]);
    assert!(!place.path("made").exists(), "the command that gives back did not run");
    assert_eq!(fs::read_to_string(place.out().join("journal.jsonl")).unwrap_or_default(), "");
}

#[test]
fn a_campaign_that_is_killed_anywhere_is_cleaned_and_resumed() {
    let mounts = can_mount();
    let place = Place::with(&plan(mounts));
    let runs = if mounts { 16 } else { 12 };
    let seed = 11;
    let mut random = Random::new(seed);
    let mut kills = 0;
    while !place.out().join("campaign.json").exists() || done(&place) < runs {
        let resume: &[&str] =
            if place.out().join("campaign.json").exists() { &["--resume"] } else { &[] };
        let mut child = start(&place, resume);
        // The delay grows, so that the campaign ends whatever the speed of the machine.
        let max_ms = 60 + 25 * kills;
        std::thread::sleep(Duration::from_millis(random.below(max_ms)));
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        assert!(kills < 200, "no progress with seed {seed}");
        if place.out().join("campaign.json").exists() {
            clean(&place);
        }
    }
    println!("{kills} kills");
    assert!(kills > 5, "{kills} kills only");
    let ran = place.run(&["--resume"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_eq!(leftovers(&place), [""; 0]);
    assert_eq!(done(&place), runs);
}

#[test]
fn a_resumed_campaign_cleans_first_by_itself() {
    let place = Place::with(&plan(false));
    let mut child = start(&place, &[]);
    while !place.path("made").exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let ran = place.run(&["--resume"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_eq!((done(&place), leftovers(&place).len()), (12, 0));
}

#[test]
fn ctrl_c_ends_a_campaign_in_good_order() {
    let place = Place::with(&plan(false).replace("sleep 0.05", "sleep 1000"));
    let mut child = start(&place, &[]);
    let is_sleeping = || {
        let runs = fs::read_dir(place.out().join("runs")).into_iter().flatten().flatten();
        runs.map(|run| run.path()).any(|run| {
            run.to_str().unwrap().contains("-script-") && run.join("measure.out").exists()
        })
    };
    while !is_sleeping() {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(leftovers(&place), [""; 0]);
    let interrupted = |record: &&serde_json::Value| record["outcome"]["kind"] == "interrupted";
    assert_eq!(place.records().iter().filter(interrupted).count(), 1);
}

#[test]
fn two_processes_do_not_share_a_campaign() {
    let place = Place::with(&plan(false).replace("sleep 0.05", "sleep 1000"));
    let mut child = start(&place, &[]);
    while !place.out().join("runs").exists() || !place.out().join("campaign.json").exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let ran = place.run(&["--resume"]);
    assert_eq!((ran.status, ran.err.contains("another process")), (3, true), "{}", ran.err);
    let ran = gemelo(&["campaign", "clean", place.out().to_str().unwrap()]);
    assert_eq!(ran.status, 3, "{}", ran.err);
    child.kill().unwrap();
    child.wait().unwrap();
    clean(&place);
}
