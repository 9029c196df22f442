//! Tests of the places of pools: permissions, leftovers of failed commands, directories that cannot
//! be written, and figures of a pool that another command uses.

use crate::common::{Ran, gemelo};
use crate::served::{Served, TestPool, done, in_use, noise, refused};
use gemelo_nbd::client::Client;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest time that a command may take to reach the state that a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Something mounted, until it is dropped.
struct Mount(PathBuf);

impl Mount {
    /// Without the right to mount the test says so and is over.
    fn new(place: &Path, words: &[&str]) -> Option<Self> {
        fs::create_dir_all(place).unwrap();
        let ran = Command::new("mount").args(words).arg(place).output();
        if ran.is_ok_and(|ran| ran.status.success()) {
            return Some(Self(place.to_owned()));
        }
        gemelo_tools::missing("root, for mounting");
        None
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn mode(path: &str) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_new_pool_is_its_owners_alone_whatever_the_umask() {
    let directory = tempfile::tempdir().unwrap();
    let pool = directory.path().join("pool").to_str().unwrap().to_owned();
    let script = format!(
        "umask 0; exec {} pool create {pool} --capacity 16m --commit-interval 1s",
        env!("CARGO_BIN_EXE_gemelo")
    );
    assert!(
        Command::new("sh").args(["-c", &script]).stdout(Stdio::null()).status().unwrap().success()
    );
    assert_eq!(mode(&pool), 0o700);
    for name in ["data", "metadata", "settings.toml"] {
        assert_eq!(mode(&format!("{pool}/{name}")), 0o600, "{name}");
    }
}

#[test]
fn a_pool_that_cannot_be_written_is_read_by_all_commands_that_only_read() {
    let pool = TestPool::new(&[]);
    fs::write(pool.file("raw"), noise(1, 1 << 20)).unwrap();
    done(&["volume", "import", &pool.file("raw"), &pool.volume("a")]);
    let place = pool.file("mounted");
    let Some(_mount) = Mount::new(Path::new(&place), &["-o", "bind,ro", &pool.path()]) else {
        return;
    };
    let volume = format!("{place}/a");
    let read_all = |state: &str| {
        assert!(done(&["pool", "stat", &place]).contains("1 volume"));
        assert!(done(&["pool", "ls", &place]).contains(state));
        assert!(done(&["volume", "ls", &place]).contains("1.00 MiB"));
        assert!(done(&["volume", "stat", &volume]).contains("1.00 MiB"));
        assert!(done(&["pool", "check", &place, "--data"]).contains("256 contents"));
        let back = pool.file("back");
        done(&["volume", "export", &volume, &back, "--force"]);
        assert!(fs::read(back).unwrap() == noise(1, 1 << 20));
    };
    read_all("idle");
    for words in [&["volume", "rm", &volume, "--force"][..], &["pool", "gc", &place]] {
        let said = refused(words);
        assert!(said.contains("Read-only file system"), "{said}");
    }
    // Two that only read share the pool, with each other and with the commands.
    let serve = |name: &str| {
        let listen = format!("unix:{}", pool.file(name));
        Served::start(&["serve", &place, "--read-only", "--listen", &listen])
    };
    let (one, two) = (serve("one"), serve("two"));
    read_all("idle");
    for served in [one, two] {
        let (status, said) = served.stop();
        assert_eq!(status, 0, "{said}");
        assert!(said.contains("commands cannot ask this server"), "{said}");
    }
    let left: Vec<_> =
        fs::read_dir(pool.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "only the disks: {left:?}");
}

#[test]
fn a_pool_that_does_not_fit_leaves_nothing_and_can_be_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let full = directory.path().join("full");
    let Some(_mount) = Mount::new(&full, &["-t", "tmpfs", "-o", "size=1m", "none"]) else { return };
    let place = |name: &str| full.join(name).to_str().unwrap().to_owned();
    let elsewhere = directory.path().join("data").to_str().unwrap().to_owned();
    fs::write(&elsewhere, "").unwrap();
    fs::create_dir(place("there")).unwrap();
    let names = || fs::read_dir(&full).unwrap().count();
    for words in [
        &["pool", "create", &place("new")][..],
        &["pool", "create", &place("there"), "--data", &elsewhere],
    ] {
        let Ran { status, err, .. } = gemelo(words);
        assert_eq!(status, 5, "{err}");
        assert!(err.contains("no space is left in the metadata disk"), "{err}");
        assert_eq!(names(), 1, "only the directory that was there");
        assert_eq!(fs::read_dir(place("there")).unwrap().count(), 0);
        assert_eq!(fs::metadata(&elsewhere).unwrap().len(), 0);
    }
    let remount = ["-o", "remount,size=64m", full.to_str().unwrap()];
    assert!(Command::new("mount").args(remount).status().unwrap().success());
    done(&["pool", "create", &place("new"), "--capacity", "16m"]);
    done(&["pool", "create", &place("there"), "--data", &elsewhere, "--capacity", "16m"]);
}

#[test]
fn settings_of_an_earlier_pool_do_not_become_those_of_a_new_one() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("settings.toml"), "verify-reads = true").unwrap();
    let path = directory.path().to_str().unwrap();
    assert!(refused(&["pool", "create", path]).contains("settings.toml' exists already"));
    assert_eq!(fs::read_dir(path).unwrap().count(), 1, "nothing was made beside it");
}

#[test]
fn devices_that_are_not_there_are_not_made_as_files() {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("a"), "--size", "1m"]);
    let typo = "/dev/no-such-disk";
    let other = pool.file("other");
    for words in [
        &["pool", "create", &other, "--data", typo, "--force"][..],
        &["pool", "create", &other, "--metadata", typo],
        &["volume", "export", &pool.volume("a"), typo],
        &["volume", "export", &pool.volume("a"), typo, "--force"],
        &["bench", "--target", typo, "--bytes", "1m", "--force"],
    ] {
        assert!(refused(words).contains("there is no device '/dev/no-such-disk'"), "{words:?}");
        assert!(!Path::new(typo).exists() && !Path::new(&other).exists());
    }
}

#[test]
fn directories_are_no_names_of_volumes() {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("a"), "--size", "1m"]);
    for name in [".", ".."] {
        for words in [
            &["volume", "create", &pool.volume(name), "--size", "1m"][..],
            &["volume", "rename", &pool.volume("a"), name],
            &["volume", "clone", &pool.volume("a"), name],
        ] {
            let said = refused(words);
            assert!(said.contains(&format!("invalid volume name '{name}'")), "{said}");
        }
    }
}

/// A command that has the pool until it is told to go on.
struct Busy {
    child: Child,
}

impl Busy {
    fn start(pool: &TestPool, words: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gemelo"));
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut busy = Self { child: command.spawn().unwrap() };
        // An import opens the pool when its first byte is there.
        busy.child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        let look = pool.file("pool/look");
        gemelo_tools::wait_until("the command opens the pool", || Path::new(&look).exists());
        busy
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// Commands that only show figures succeed, and name the process that has the pool.
fn assert_can_be_looked_at(pool: &TestPool, busy: &Busy) {
    let begun = Instant::now();
    let holder = format!("in use by process {}", busy.child.id());
    assert!(done(&["pool", "ls", &pool.path()]).contains(&holder));
    let text = done(&["pool", "stat", &pool.path()]);
    assert!(text.contains(&format!("In use by process {}", busy.child.id())), "{text}");
    assert!(done(&["volume", "ls", &pool.path()]).contains("inline"));
    assert!(done(&["volume", "stat", &pool.volume("disk")]).contains("inline"));
    assert_eq!(pool.stat("/holder_process_id"), busy.child.id());
    assert!(begun.elapsed() < PATIENCE, "they do not wait for the command");
}

#[test]
fn a_pool_that_a_command_has_can_be_looked_at() {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("disk"), "--size", "4m"]);
    let mut busy = Busy::start(&pool, &["volume", "import", "-", &pool.volume("new")]);
    busy.child.stdin.as_mut().unwrap().write_all(&noise(1, 100_000)).unwrap();
    assert_can_be_looked_at(&pool, &busy);
    // A command that wants more than figures waits, and says for which process.
    for words in [
        &["volume", "create", &pool.volume("b"), "--size", "1m"][..],
        &["volume", "export", &pool.volume("disk"), &pool.file("back")],
    ] {
        let said = in_use(words);
        assert!(
            said.contains(&format!("the pool is in use by process {} (gemelo)", busy.child.id())),
            "{said}"
        );
    }
    busy.end();
    assert!(done(&["pool", "ls", &pool.path()]).contains("idle"));
    assert!(!Path::new(&pool.file("pool/look")).exists());
    pool.assert_clean();
}

#[test]
fn a_pool_that_a_benchmark_has_can_be_looked_at() {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("disk"), "--size", "4m"]);
    let target = format!("pool:{}", pool.volume("disk"));
    let words =
        ["bench", "--target", &target, "--file-size", "4m", "--time", "60s", "--rate", "100"];
    let busy = Busy::start(&pool, &words);
    assert_can_be_looked_at(&pool, &busy);
    let process = rustix::process::Pid::from_child(&busy.child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    let mut busy = busy;
    busy.child.wait().unwrap();
    assert!(!Path::new(&pool.file("pool/look")).exists());
    pool.assert_clean();
}

#[test]
fn a_benchmark_opens_a_pool_with_the_pools_settings() {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("disk"), "--size", "4m"]);
    fs::write(pool.file("pool/settings.toml"), "io = \"fast\"\n").unwrap();
    let target = format!("pool:{}", pool.volume("disk"));
    let words = ["bench", "--target", &target, "--distribution", "unique", "--bytes", "64k"];
    let text = refused(&words);
    assert!(text.contains("settings.toml: line 1: io: 'fast' is none of \"direct\""), "{text}");
    fs::write(pool.file("pool/settings.toml"), "io = \"buffered\"\n").unwrap();
    done(&words);
    pool.assert_clean();
}

#[test]
fn a_dead_commands_socket_is_nobodys() {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("disk"), "--size", "4m"]);
    let mut busy = Busy::start(&pool, &["volume", "import", "-", &pool.volume("new")]);
    busy.child.kill().unwrap();
    busy.child.wait().unwrap();
    assert!(Path::new(&pool.file("pool/look")).exists());
    assert!(done(&["pool", "ls", &pool.path()]).contains("idle"));
    done(&["volume", "create", &pool.volume("b"), "--size", "1m"]);
    assert!(!Path::new(&pool.file("pool/look")).exists());
}

#[test]
fn load_is_not_written_over_the_disks_of_an_open_pool() {
    let pool = TestPool::new(&[]);
    let served = pool.serve(&[]);
    for name in ["pool/data", "pool/metadata"] {
        let words = ["bench", "--target", &pool.file(name), "--bytes", "64k", "--force"];
        assert!(refused(&words).contains("is in the directory of the pool"), "{name}");
    }
    served.stop();
    pool.assert_clean();
}

#[test]
fn who_changes_a_volume_under_its_clients_is_told() {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("a"), "--size", "1m"]);
    fs::write(pool.file("raw"), noise(1, 65_536)).unwrap();
    let import = ["volume", "import", &pool.file("raw"), &pool.volume("a"), "--force"];
    let resize = |size| {
        ["volume", "resize", &pool.volume("a"), "--size", size, "--force"].map(str::to_owned)
    };
    let _served = pool.serve(&[]);
    done(&import);
    done(&resize("2m").each_ref().map(String::as_str));
    let uri = pool.uri("a").parse().unwrap();
    let clients = [(); 2].map(|()| Client::connect(&uri, 1, PATIENCE).unwrap());
    for words in [import.map(str::to_owned).to_vec(), resize("1m").to_vec()] {
        let Ran { status, err, .. } = gemelo(&words);
        assert!(status == 0 && err.contains("2 connected clients"), "{err}");
    }
    let [one, other] = clients;
    drop(other);
    let begun = Instant::now();
    while pool.stat("/server/connections") != 1 {
        assert!(begun.elapsed() < PATIENCE, "the client is gone");
    }
    let Ran { status, err, .. } = gemelo(&import);
    assert!(status == 0 && err.ends_with("1 connected client\n"), "{err}");
    drop(one);
}
