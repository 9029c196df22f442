//! Runs that a limit of threads ends.

use std::fs;
use std::path::Path;
use std::process::Command;

const GEMELO: &str = env!("CARGO_BIN_EXE_gemelo");
/// A user that has no other processes, so that a limit counts those of the test alone.
const NOBODY_ELSE: &str = "764321";

/// Runs the program as a user that may have this number of threads. Returns status and messages.
fn limited(threads: u32, words: &[&str], directory: &Path) -> (i32, String) {
    let limit = format!("--nproc={threads}");
    let ran = Command::new("timeout")
        .args([
            "--signal=KILL",
            "60",
            "setpriv",
            "--reuid",
            NOBODY_ELSE,
            "--clear-groups",
            "prlimit",
            &limit,
        ])
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
    if !gemelo_tools::is_root("a limit of threads")
        || !gemelo_tools::all_there(&["setpriv", "prlimit"])
    {
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
    // The words of the system alone, "Resource temporarily unavailable", name no limit.
    let (status, said) = limited(1, &["generate", "data", "--bytes", "8m"], path);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("listens for Ctrl-C") && said.contains("ulimit -u"), "{said}");
    assert!(said.contains("TasksMax="), "{said}");
    // A pool and a server say it of each set of threads that they need.
    let pool = ["pool", "create", "p", "--capacity", "16m"];
    assert_eq!(limited(64, &pool, path).0, 0);
    let is_refused = |threads: u32, words: &[&str]| {
        let (status, said) = limited(threads, words, path);
        let is_told = said.contains("ulimit -u") && !said.contains("panicked");
        assert!(status == 0 || is_told, "{threads}, {words:?}: {status} {said}");
        status != 0
    };
    let refused = (1..60).take_while(|threads| is_refused(*threads, &["pool", "scrub", "p"]));
    let refused: Vec<u32> = refused.collect();
    assert!((4..59).contains(&refused.len()), "{refused:?}");
    // It needs more.
    let serve = ["serve", "p", "--listen", "unix:s"];
    assert!(refused.iter().all(|threads| is_refused(*threads, &serve)));
    // Work for any number of threads is done by those that start.
    for words in [&["generate", "data", "--bytes", "8m"][..], &["trace", "stat", "trace"]] {
        let (status, said) = limited(2, words, path);
        assert_eq!(status, 0, "{words:?}: {said}");
    }
}
