//! Runs that a limit of threads or a kill ends.

use crate::common::{gemelo, has_tool};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const GEMELO: &str = env!("CARGO_BIN_EXE_gemelo");
/// A user that has no other processes, so that a limit counts those of the test alone.
const NOBODY_ELSE: &str = "764321";

/// Runs the program as a user that may have this number of threads. Returns status and messages.
fn limited(threads: u32, words: &[&str], directory: &Path) -> (i32, String) {
    let limit = format!("--nproc={threads}");
    let ran = Command::new("timeout")
        .args(["60", "setpriv", "--reuid", NOBODY_ELSE, "--clear-groups", "prlimit", &limit])
        .arg(GEMELO)
        .args(words)
        .current_dir(directory)
        .output()
        .unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    (ran.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
}

/// `replay --processes 64` panicked and waited at its barrier for ever.
#[test]
fn sets_of_threads_start_whole_or_not_at_all() {
    if !rustix::process::geteuid().is_root() || !has_tool("setpriv") || !has_tool("prlimit") {
        eprintln!("skipped: a limit of threads needs root, setpriv and prlimit");
        return;
    }
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    let path = directory.path();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(path.join("trace"), "0,8,4096,W,0.0\n0,16,4096,R,0.1\n").unwrap();
    let script = format!(
        "define file name=f,path={},size=64k,prealloc,paralloc\n\
         define process name=p,instances=64 {{\n\
         thread name=t,memsize=1m {{ flowop read name=r,filename=f,iosize=4k }} }}\nrun 1\n",
        path.join("d").display()
    );
    fs::write(path.join("s.f"), script).unwrap();
    let (status, said) =
        limited(12, &["replay", "trace", "--target", "null:", "--processes", "64"], path);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("of 64 on this machine"), "{said}");
    let bench = ["bench", "--target", "x", "--file-size", "1m", "--bytes", "1m"];
    let (status, said) = limited(12, &[&bench[..], &["--processes", "64"]].concat(), path);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("start a thread"), "{said}");
    let (status, said) = limited(12, &["filebench", "s.f", "--dir", "d"], path);
    assert_eq!(status, 1, "{said}");
    assert!(!said.contains("panicked") && !path.join("d").exists(), "{said}");
    // Work for any number of threads is done by those that start.
    for words in [&["generate", "data", "--bytes", "8m"][..], &["trace", "stat", "trace"]] {
        let (status, said) = limited(2, words, path);
        assert_eq!(status, 0, "{words:?}: {said}");
    }
}

/// Starts a job that writes until it is killed, and kills it.
fn killed(path: &Path, json: &Path) {
    let mut load = Command::new(GEMELO)
        .args(["bench", "--operation", "write", "--file-size", "4m", "--time", "1h", "-q"])
        .args(["--processes", "2", "--queue-depth", "4", "--distribution", "personal"])
        .arg("--target")
        .arg(path)
        .arg("--json")
        .arg(json)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let has_begun = || fs::read_to_string(json).is_ok_and(|text| text.contains("bench-begun/1"));
    while !has_begun() && begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(has_begun(), "what a check needs is there from the start");
    std::thread::sleep(Duration::from_millis(500));
    load.kill().unwrap();
    load.wait().unwrap();
}

/// The result file of a killed run did not exist, so nothing could check what it wrote.
#[test]
fn what_a_killed_run_wrote_can_be_checked() {
    let directory = tempfile::tempdir().unwrap();
    let (target, json) = (directory.path().join("load"), directory.path().join("r.json"));
    killed(&target, &json);
    let verify = ["verify", json.to_str().unwrap()].map(str::to_owned);
    let ran = gemelo(&verify);
    assert_eq!(ran.status, 0, "{} {}", ran.out, ran.err);
    assert!(ran.err.contains("the run was killed"), "{}", ran.err);
    assert!(ran.out.contains("0 wrong") || ran.out.contains("2,048"), "{}", ran.out);
    // Other commands do not take it for a result.
    let report = gemelo(&["compare", &verify[1], &verify[1]].map(str::to_owned));
    assert_eq!(report.status, 2, "{}", report.err);
    // Blocks that hold what the run never wrote there are wrong.
    let file = if target.is_dir() {
        fs::read_dir(&target).unwrap().next().unwrap().unwrap().path()
    } else {
        target
    };
    let mut bytes = fs::read(&file).unwrap();
    let (head, tail) = bytes.split_at_mut(1 << 20);
    tail[..64 << 10].copy_from_slice(&head[..64 << 10]);
    fs::write(&file, &bytes).unwrap();
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
