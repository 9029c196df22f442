//! Tests of what a user types wrong, and of what the program says then.

use crate::common::{Ran, gemelo, gemelo_reading};
use crate::served::{Served, TestPool, done, refused};
use gemelo_nbd::client::Client;
use gemelo_tools::has_tool;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

/// Runs gemelo as a user without rights; [`None`] if this process may not become one.
fn as_nobody(words: &[&str]) -> Option<Output> {
    if !gemelo_tools::is_root("a user without rights") || !has_tool("setpriv") {
        return None;
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    Some(command.arg(env!("CARGO_BIN_EXE_gemelo")).args(words).output().unwrap())
}

#[test]
fn an_empty_stream_is_not_imported() {
    let pool = TestPool::new(&[]);
    let a = pool.volume("a");
    let Ran { status, out, err } = gemelo_reading("", &["volume", "import", "-", &a]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert_eq!(err, "gemelo: standard input is empty: there is nothing to import\n");
    assert_eq!(pool.stat("/pool/volumes"), 0);
    // An existing volume keeps its content.
    assert_eq!(gemelo_reading("precious", &["volume", "import", "-", &a]).status, 0);
    assert_eq!(gemelo_reading("", &["volume", "import", "--force", "-", &a]).status, 2);
    let exported = gemelo(&["volume", "export", &a, "-"]).out;
    assert!(exported == "precious", "{exported:.20}");
}

#[test]
fn what_a_user_may_not_read_is_an_error_and_not_an_empty_list() {
    let pool = TestPool::new(&[]);
    let directory = pool.directory.path();
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    let closed = pool.file("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let path = directory.to_str().unwrap();
    let Some(listed) = as_nobody(&["pool", "ls", path]) else { return };
    let said = String::from_utf8(listed.stderr).unwrap();
    assert_eq!(listed.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot look into") && said.contains("/pool: Permission"), "{said}");
    assert_eq!(as_nobody(&["pool", "ls", &closed]).unwrap().status.code(), Some(2));
    let stat = as_nobody(&["pool", "stat", &pool.path()]).unwrap();
    let said = String::from_utf8(stat.stderr).unwrap();
    assert_eq!(stat.status.code(), Some(2), "{said}");
    assert!(said.contains("Permission denied") && !said.contains("correct the file"), "{said}");
}

#[test]
fn a_file_that_is_not_a_socket_is_no_place_to_listen_and_stays() {
    let pool = TestPool::new(&[]);
    let file = pool.file("file");
    fs::write(&file, "precious").unwrap();
    let said = refused(&["serve", &pool.path(), "--listen", &format!("unix:{file}")]);
    assert!(said.contains("not a socket") && said.contains("name another"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn pools_have_any_name_that_a_directory_can_have() {
    let directory = tempfile::tempdir().unwrap();
    let name = |end: &[u8]| -> OsString {
        let bytes = [directory.path().as_os_str().as_bytes(), b"/p\xff", end].concat();
        OsStr::from_bytes(&bytes).to_owned()
    };
    let run = |words: &[&OsStr]| {
        let Ran { status, out, err } = gemelo(words);
        assert_eq!((status, err.as_str()), (0, ""), "{words:?}");
        out
    };
    let of = |word: &'static str| OsStr::new(word);
    run(&[of("pool"), of("create"), &name(b""), of("--capacity"), of("64m")]);
    run(&[of("volume"), of("create"), &name(b"/a"), of("--size"), of("1m")]);
    for words in [[of("pool"), of("stat")], [of("pool"), of("ls")], [of("volume"), of("ls")]] {
        let json = run(&[words[0], words[1], &name(b""), of("--json"), of("-")]);
        assert!(json.contains(r#"/p\\xff""#), "{json}");
    }
    assert!(run(&[of("volume"), of("stat"), &name(b"/a")]).starts_with("a\n"));
    run(&[of("volume"), of("rm"), &name(b"/a")]);
    let wrong = gemelo(&[of("volume"), of("rm"), &name(b"/\xff")]);
    assert!(wrong.status == 2 && wrong.err.contains("give POOL/NAME"), "{}", wrong.err);
}

#[test]
fn wrong_values_are_called_wrong_and_advice_makes_sense() {
    let bench = ["bench", "--target", "null:", "--file-size", "64k"];
    for (words, part) in [
        (["--rate", "-1"], "the rate is -1; it must be above 0"),
        (["--read-rate", "-1"], "--write-rate"),
        (["--bytes", "-1"], "'-1' is not a size"),
        (["--pattern", "random"], "random is called uniform here"),
        (["--pattern", "zipfian"], "zipfian is called zipf:0.99 here"),
    ] {
        let said = refused(&[&bench[..], &words].concat());
        assert!(said.contains(part) && !said.contains("-- -1"), "{words:?}: {said}");
    }
    let pool = TestPool::new(&[]);
    let serve = ["serve", &pool.path(), "--metrics", "localhost"];
    assert!(refused(&serve).contains("give HOST:PORT, such as 127.0.0.1:9809"));
    assert!(!gemelo(&["serve", "--help"]).out.contains("Turns the behaviour"));
}

#[test]
fn misspelt_kinds_of_targets_and_workloads_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("plan.toml");
    let of = |target: &str, workload: &str| {
        let text = format!(
            "[campaign]\nname = 'x'\n[[target]]\nname = 'a'\n{target}\n[[workload]]\nname = 'w'\n\
             {workload}\n"
        );
        fs::write(&plan, text).unwrap();
        refused(&["campaign", "run", plan.to_str().unwrap(), "--plan"])
    };
    let said = of("directry = {}", "command = 'true'");
    assert!(said.contains("has no key 'directry'; a similar key is 'directory'"), "{said}");
    let said = of("directory = {}", "comand = 'true'");
    assert!(said.contains("has no key 'comand'; a similar key is 'command'"), "{said}");
    let said = of("description = 'x'", "command = 'true'");
    assert!(said.contains("exactly one of the keys directory, device"), "{said}");
}

#[test]
fn a_report_is_made_of_a_campaign_and_its_runs_are_told_one_by_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let plan = "[campaign]\nname = 'x'\nrepetitions = 2\n[[target]]\nname = 'a'\ndirectory = {}\n\
                [[workload]]\nname = 'w'\ncommand = 'true'\n";
    fs::write(path("plan.toml"), plan).unwrap();
    let ran = gemelo(&["campaign", "run", &path("plan.toml"), "--out", &path("out")]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let lines: Vec<&str> = ran.err.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ran.err);
    assert!(lines[0].starts_with("gemelo: run 1 of 2: w on a: done, about "), "{}", lines[0]);
    assert_eq!(lines[1], "gemelo: run 2 of 2: w on a: done");
    // A run that was complete before is not told again, and a quiet command tells nothing.
    let resumed = ["campaign", "run", &path("plan.toml"), "--out", &path("out"), "--resume"];
    assert_eq!(gemelo(&resumed).err, "");
    let quiet = ["-q", "campaign", "run", &path("plan.toml"), "--out", &path("quiet")];
    assert_eq!(gemelo(&quiet).err, "");
    done(&["report", &path("out"), "--output", &path("page.html")]);
    assert!(fs::read_to_string(path("page.html")).unwrap().contains("<html"));
    let said = refused(&["report", &path("out"), &path("plan.toml"), "--output", &path("x")]);
    assert!(said.contains("the directory of one campaign"), "{said}");
    let said = refused(&["report", directory.path().to_str().unwrap(), "--output", &path("x")]);
    assert!(said.contains("campaign"), "{said}");
}

/// Starts a standby of a served pool with this socket. Returns it standing by, and what it says
/// from then on.
fn standby(pool: &TestPool, socket: &str) -> (Child, BufReader<ChildStderr>) {
    let mut standby = Command::new(env!("CARGO_BIN_EXE_gemelo"))
        .args(["serve", &pool.path(), "--standby", "--listen", &format!("unix:{socket}")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut stderr = BufReader::new(standby.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    assert!(said.contains("standing by"), "{said}");
    (standby, stderr)
}

#[test]
fn a_standby_that_is_told_to_end_has_done_its_work() {
    let pool = TestPool::new(&[]);
    let served = pool.serve(&[]);
    let (standby, mut stderr) = standby(&pool, &pool.file("other"));
    let process = rustix::process::Pid::from_child(&standby);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    let output = standby.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stdout, b"stopped\n");
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
    assert_eq!(Served::stop(served), (0, String::new()));
}

/// It had those of its own start, and `pool get` showed the others.
#[test]
fn a_standby_serves_with_the_settings_that_the_pool_has_then() {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("a"), "--size", "1m"]);
    let served = pool.serve(&[]);
    let other = pool.file("other");
    let (mut standby, _stderr) = standby(&pool, &other);
    done(&["pool", "set", &pool.path(), "--max-connections", "1"]);
    assert_eq!(served.stop().0, 0);
    let mut said = String::new();
    BufReader::new(standby.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("listening"), "{said}");
    let uri = format!("nbd+unix:///a?socket={other}").parse().unwrap();
    let connect = || Client::connect(&uri, 1, Duration::from_secs(20));
    let first = connect().unwrap();
    assert!(connect().is_err(), "one client at a time");
    drop(first);
    let process = rustix::process::Pid::from_child(&standby);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert_eq!(standby.wait().unwrap().code(), Some(0));
}

#[test]
fn a_data_set_that_is_too_small_is_told_once_at_the_end_and_only_of_a_success() {
    const WARNING: &str = "are too little data for the distribution";
    let bench = ["bench", "--target", "null:", "--processes", "1"];
    let small = [&bench[..], &["--file-size", "64k", "--sweep", "processes=1,2"]].concat();
    let ran = gemelo(&small);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(!ran.out.contains(WARNING));
    assert!(ran.err.matches(WARNING).count() >= 1, "{}", ran.err);
    let mut lines: Vec<&str> = ran.err.lines().collect();
    lines.dedup();
    assert_eq!(lines.len(), ran.err.lines().count(), "{}", ran.err);
    // Nothing comes before a refusal, and a large data set is no reason.
    let nowhere = ["bench", "--target", "/nowhere/file", "--file-size", "64k"];
    assert!(!refused(&nowhere).contains(WARNING));
    let large = [&bench[..], &["--file-size", "64m"]].concat();
    assert_eq!(gemelo(&large).err, "");
}

#[test]
fn an_option_that_is_meant_for_a_file_gives_up_no_data() {
    let pool = TestPool::new(&[]);
    let json = pool.file("check.json");
    let check = ["pool", "check", &pool.path(), "--json", &json];
    done(&check);
    assert!(refused(&check).contains("--force"));
    done(&[&check[..], &["--force"]].concat());
    let said = refused(&[&check[..], &["--repair", "--force"]].concat());
    assert!(said.contains("name another file"), "{said}");
}

#[test]
fn words_of_other_programs_are_answered_with_those_of_this_one() {
    for (line, here) in [
        ("pool find p", "gemelo pool dedup"),
        ("-q pool find p", "gemelo pool dedup"),
        ("find p", "gemelo pool dedup"),
        ("pool arrange p", "gemelo pool defrag"),
        ("destroy p", "gemelo pool rm, or gemelo volume rm"),
        ("pool destroy p", "gemelo pool rm"),
        ("volume destroy p/a", "gemelo volume rm"),
        ("rollback p/a", "gemelo volume rollback"),
        ("pool rollback p", "gemelo volume rollback"),
        ("pool resize p", "gemelo pool grow, or gemelo pool shrink"),
        ("volume set p/a --limit 500", "--iops COUNT"),
        ("pool add-device p /dev/x", "nothing: a pool has one device. Put it on LVM or md"),
        ("volume shrink p/a", "gemelo volume resize --size SIZE --force"),
        ("list", "gemelo pool ls DIRECTORY, or gemelo volume ls POOL"),
        ("pool list", "gemelo pool ls"),
        ("volume list p", "gemelo volume ls POOL"),
        ("bench --target null: --rw=randread", "--operation write, read or mixed"),
        ("bench --target null: --bs 4k", "--request-size SIZE"),
        ("bench --iodepth=4 --target null:", "--queue-depth N"),
        ("bench --target null: --numjobs 4", "--processes N"),
        ("bench --target null: --size=1g", "--file-size SIZE"),
    ] {
        let said = refused(&line.split(' ').collect::<Vec<_>>());
        assert!(said.contains(&format!("\nhere: {here}")), "{line}: {said}");
        assert!(!said.contains("-- --"), "it is no value: {said}");
    }
}

#[test]
fn the_help_has_the_commands_in_groups() {
    let help = done(&["--help"]);
    let group = |heading: &str| {
        let (_, below) = help.split_once(&format!("\nCommands {heading}:\n")).unwrap();
        below.split("\n\n").next().unwrap().to_owned()
    };
    for (heading, names) in [
        ("to analyse", &["scan", "distribution", "trace"][..]),
        ("to load", &["generate", "bench", "suite", "replay", "filebench", "verify"]),
        ("to compare", &["compare", "campaign", "report"]),
        ("to store", &["pool", "volume", "serve", "attach", "domain"]),
    ] {
        let group = group(heading);
        for name in names {
            assert!(group.lines().any(|line| line.starts_with(&format!("  {name} "))), "{help}");
        }
    }
}
