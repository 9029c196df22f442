//! Runs that are killed: what they wrote can be checked, because what a check needs is written when
//! they begin.

use crate::common::gemelo;
use crate::schema::{misfits, read, schema_of};
use gemelo_tools::wait_until;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const GEMELO: &str = env!("CARGO_BIN_EXE_gemelo");

/// A run without an end, which ends with its test.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts jobs that write until they are killed, and kills them when this many jobs or hosts have
/// begun. Nothing removes their files.
fn killed(words: &[&str], target: &Path, json: &Path, begun: usize) {
    let load = Command::new(GEMELO)
        .args(words)
        .args(["--file-size", "4m", "--time", "1h", "-q", "--keep"])
        .args(["--processes", "2", "--queue-depth", "4", "--distribution", "personal"])
        .arg("--target")
        .arg(target)
        .arg("--json")
        .arg(json)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut load = Load(load);
    wait_until("what a check needs is there from the start", || {
        fs::read_to_string(json).is_ok_and(|text| {
            text.contains("bench-begun/1") && text.matches("\"in_flight\"").count() >= begun
        })
    });
    std::thread::sleep(Duration::from_millis(500));
    load.0.kill().unwrap();
    load.0.wait().unwrap();
    let file = read(json);
    assert_eq!(misfits(&schema_of("gemelo.bench-begun/1"), &file), [""; 0]);
}

/// Copies some blocks over others in the first file of a target.
fn damage(target: &Path) {
    let mut files: Vec<PathBuf> = match fs::read_dir(target) {
        Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
        Err(_) => vec![target.to_owned()],
    };
    files.sort();
    let mut bytes = fs::read(&files[0]).unwrap();
    let (head, tail) = bytes.split_at_mut(1 << 20);
    tail[..64 << 10].copy_from_slice(&head[..64 << 10]);
    fs::write(&files[0], &bytes).unwrap();
}

fn verified(json: &Path, more: &[String]) -> crate::common::Ran {
    gemelo(&[&["verify".to_owned(), json.to_str().unwrap().to_owned()], more].concat())
}

/// The result file of a killed run did not exist, so nothing could check what it wrote.
#[test]
fn what_a_killed_run_wrote_can_be_checked() {
    let directory = tempfile::tempdir().unwrap();
    let (target, json) = (directory.path().join("load"), directory.path().join("r.json"));
    killed(&["bench", "--operation", "write"], &target, &json, 1);
    let verify = ["verify", json.to_str().unwrap()].map(str::to_owned);
    let ran = gemelo(&verify);
    assert_eq!(ran.status, 0, "{} {}", ran.out, ran.err);
    assert!(ran.err.contains("the run was killed"), "{}", ran.err);
    assert!(ran.out.contains("0 wrong") || ran.out.contains("2,048"), "{}", ran.out);
    let on_hosts = verified(&json, &reach(directory.path()));
    assert_eq!(on_hosts.status, 2, "{}", on_hosts.out);
    assert!(on_hosts.err.contains("on one host that was killed: leave out"), "{}", on_hosts.err);
    // Other commands do not take it for a result.
    let report = gemelo(&["compare", &verify[1], &verify[1]].map(str::to_owned));
    assert_eq!(report.status, 2, "{}", report.err);
    // Blocks that hold what the run never wrote there are wrong.
    damage(&target);
    let ran = gemelo(&verify);
    assert_eq!(ran.status, 1, "{} {}", ran.out, ran.err);
    // The result of a run that ends replaces the file.
    let words = format!(
        "bench --target {} --file-size 1m --bytes 1m --operation write --json {} --force -q",
        directory.path().join("other").display(),
        json.display()
    );
    let ran = gemelo(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(fs::read_to_string(&json).unwrap().contains("\"gemelo.bench/1\""));
}

/// The file was written for `bench` on one host and without repetitions alone.
#[test]
fn what_killed_suites_and_repetitions_wrote_can_be_checked() {
    let directory = tempfile::tempdir().unwrap();
    for (at, words) in [
        &["suite"][..],
        &["bench", "--operation", "write", "--repetitions", "3"],
        &["bench", "--operation", "write", "--repetitions", "3", "--warm-up-runs", "0"],
    ]
    .into_iter()
    .enumerate()
    {
        let [target, json] =
            ["load", "r.json"].map(|name| directory.path().join(format!("{at}{name}")));
        killed(words, &target, &json, 1);
        let ran = verified(&json, &[]);
        assert_eq!(ran.status, 0, "{words:?}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains("the run was killed"), "{}", ran.err);
        damage(&target);
        assert_eq!(verified(&json, &[]).status, 1, "{words:?}");
    }
}

/// A run that ends with an error before it wrote leaves no file of a run that lasts, and one that
/// ends replaces it.
#[test]
fn the_result_of_repetitions_and_hosts_replaces_what_was_written_when_they_began() {
    let directory = tempfile::tempdir().unwrap();
    let (reach, path) = (reach(directory.path()), |name: &str| directory.path().join(name));
    let load = ["bench", "--operation", "write", "--file-size", "64k", "--bytes", "64k"];
    let repeated = ["--repetitions", "2"].map(str::to_owned).to_vec();
    for (kind, more) in [("bench-repetitions/1", repeated), ("bench/1", reach)] {
        let json = path(&kind.replace('/', "-"));
        let target = path(kind.split_once('/').unwrap().0);
        fs::create_dir(&target).unwrap();
        let place = ["--target", target.to_str().unwrap()];
        let output = ["--json", json.to_str().unwrap()];
        let words = [&load[..], &place, &output].concat();
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let ran = gemelo(&[words, more].concat());
        assert_eq!(ran.status, 0, "{kind}: {}", ran.err);
        assert_eq!(read(&json)["schema"], format!("gemelo.{kind}"));
    }
}

/// Words that reach two hosts of this machine.
fn reach(directory: &Path) -> Vec<String> {
    let connect = directory.join("connect");
    fs::write(&connect, format!("#!/bin/sh\nexec {GEMELO} host\n")).unwrap();
    fs::set_permissions(&connect, fs::Permissions::from_mode(0o755)).unwrap();
    ["--hosts", "x,y", "--connect", connect.to_str().unwrap()].map(str::to_owned).to_vec()
}

#[test]
fn what_each_host_of_a_killed_run_wrote_can_be_checked() {
    let directory = tempfile::tempdir().unwrap();
    let (target, json) = (directory.path().join("load"), directory.path().join("r.json"));
    fs::create_dir(&target).unwrap();
    let reach = reach(directory.path());
    let words: Vec<&str> = reach.iter().map(String::as_str).collect();
    killed(&[&["bench", "--operation", "write"], &words[..]].concat(), &target, &json, 2);
    // The far sides stop when their coordinator is gone, and leave their files.
    let sizes = || -> Vec<_> {
        let files = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
        files.map(|metadata| metadata.modified().unwrap()).collect()
    };
    let mut last = sizes();
    wait_until("the hosts stop", || {
        std::thread::sleep(Duration::from_millis(300));
        let now = sizes();
        std::mem::replace(&mut last, now.clone()) == now
    });
    for more in [&reach[..], &[]] {
        let ran = verified(&json, more);
        assert_eq!(ran.status, 0, "{}{}", ran.out, ran.err);
        assert_eq!(ran.out.matches("all as written").count(), 2, "{}", ran.out);
    }
    damage(&target);
    for more in [&reach[..], &[]] {
        let ran = verified(&json, more);
        assert_eq!(ran.status, 1, "{}{}", ran.out, ran.err);
    }
    let one_more = reach.iter().map(|word| word.replace("x,y", "x,y,z")).collect::<Vec<_>>();
    assert_eq!(verified(&json, &one_more).status, 2);
}
