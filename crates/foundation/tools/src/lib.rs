//! The programs and rights that tests need, and their waits, for development only.
//!
//! A test without what it needs says so and passes. With `GEMELO_REQUIRE_TOOLS` set, as where all
//! is there, it fails instead. All such tests go through [`missing`], so none is skipped in
//! silence.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failure here is that of the test, which prints what it lacks"
)]

use gemelo_base::ShowPath as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// Interval between two looks of [`wait_until`].
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Looks of [`wait_until`]: those of a minute, as a machine under load is slow.
const LOOKS: usize = 12_000;

/// Waits until something is so.
///
/// # Panics
/// Panics if it is not so within a minute.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = (0..LOOKS).any(|_| {
        let now = is_so();
        if !now {
            gemelo_base::pause(LOOK_INTERVAL);
        }
        now
    });
    assert!(waited, "not within a minute: {what}");
}

/// Says that something is missing; fails where everything has to be there.
///
/// # Panics
/// Panics if `GEMELO_REQUIRE_TOOLS` is set.
pub fn missing(what: &str) {
    assert!(std::env::var_os("GEMELO_REQUIRE_TOOLS").is_none(), "missing: {what}");
    eprintln!("not tested: missing: {what}");
}

/// Ends a test that lacks something, as [`missing`] does.
#[macro_export]
macro_rules! skip {
    ($($what:tt)*) => {{
        $crate::missing(&format!($($what)*));
        return;
    }};
}

/// Returns whether this process has all rights; says what for if it has not.
#[must_use]
pub fn is_root(purpose: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        missing(&format!("root, for {purpose}"));
    }
    is_root
}

/// Returns a program of this name. Says that it is missing if there is none.
#[must_use]
pub fn tool(name: &str) -> Option<Command> {
    let found = paths_of(name).into_iter().next();
    if found.is_none() {
        missing(name);
    }
    found.map(Command::new)
}

/// Returns whether a program exists. Says that it is missing if not.
#[must_use]
pub fn has_tool(name: &str) -> bool {
    tool(name).is_some()
}

/// Returns whether all of these programs exist. Says which are missing.
#[must_use]
pub fn all_there(names: &[&str]) -> bool {
    names.iter().filter(|name| !has_tool(name)).count() == 0
}

/// Returns a Python with libnbd's binding: of several, the system's has it.
///
/// # Panics
/// Panics if a Python cannot be started.
#[must_use]
pub fn python_with_libnbd() -> Option<Command> {
    let has_it = |path: &PathBuf| {
        Command::new(path).args(["-c", "import nbd"]).output().unwrap().status.success()
    };
    let found = paths_of("python3").into_iter().find(has_it);
    if found.is_none() {
        missing("python3-libnbd");
    }
    found.map(Command::new)
}

/// Returns a fio that reaches NBD servers.
///
/// # Panics
/// Panics if fio cannot be started.
#[must_use]
pub fn fio_with_nbd() -> Option<Command> {
    let fio = tool("fio")?;
    let has_it = run(Command::new(fio.get_program()).arg("--enghelp")).contains("nbd");
    if !has_it {
        missing("fio with the engine nbd");
    }
    has_it.then_some(fio)
}

/// System administration's programs are not in everybody's path.
fn paths_of(name: &str) -> Vec<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let directories = std::env::split_paths(&paths).chain(more);
    directories.map(|directory| directory.join(name)).filter(|path| path.exists()).collect()
}

/// Returns the mounts, loop devices and processes of this machine that have the name of a directory
/// in theirs.
///
/// # Panics
/// Panics if the system does not tell.
#[must_use]
pub fn uses_of(directory: &Path) -> Vec<String> {
    let name = directory.to_str().unwrap().trim_end_matches('/');
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounts = mounts.lines().filter(|line| line.contains(name)).map(str::to_owned);
    let loops = fs::read_dir("/sys/block").unwrap().filter_map(|entry| {
        let backing = entry.unwrap().path().join("loop/backing_file");
        fs::read_to_string(backing).ok().filter(|file| file.contains(name))
    });
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let path = entry.unwrap().path();
        let pid: u32 = path.file_name()?.to_str()?.parse().ok()?;
        let says = |file: &str| {
            let bytes = fs::read(path.join(file)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let has_name = [says("cmdline"), says("environ")].iter().any(|text| text.contains(name));
        (pid != std::process::id() && has_name)
            .then(|| format!("process {pid}: {}", says("cmdline").replace('\0', " ")))
    });
    mounts.chain(loops).chain(processes).collect()
}

/// What [`put_file_of_user`] writes.
const OF_USER: &str = "precious";

/// Writes a file, and the directories above it, that nobody but the test may remove.
///
/// # Panics
/// Panics if it cannot be written.
pub fn put_file_of_user(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, OF_USER).unwrap();
}

/// Checks that such a file is as it was.
///
/// # Panics
/// Panics if it is not.
pub fn assert_is_kept(path: &Path) {
    assert_eq!(fs::read(path).unwrap(), OF_USER.as_bytes(), "{}", path.shown());
}

/// Runs a program that has to succeed, and returns what it prints.
///
/// # Panics
/// Panics if it fails.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", all_of(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns all that a program has printed.
#[must_use]
pub fn all_of(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}

/// Returns bytes that differ from place to place and depend only on the seed.
#[must_use]
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut random = gemelo_base::random::Random::new(seed);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Set for the test that the one below runs in a process of its own.
    const OF_ITS_OWN: &str = "GEMELO_TEST_OF_ITS_OWN";

    #[test]
    fn a_tool_that_nobody_has_is_missing() {
        if std::env::var_os(OF_ITS_OWN).is_some() {
            assert!(!has_tool("no-such-tool-as-this"));
        }
    }

    #[test]
    fn a_missing_tool_is_a_failure_only_where_all_must_be_there() {
        let ends_well = |is_required: bool| {
            let mut test = Command::new(std::env::current_exe().unwrap());
            test.args(["--exact", "tests::a_tool_that_nobody_has_is_missing"]);
            test.env_remove("GEMELO_REQUIRE_TOOLS").env(OF_ITS_OWN, "1");
            if is_required {
                test.env("GEMELO_REQUIRE_TOOLS", "1");
            }
            test.output().unwrap().status.success()
        };
        assert!(ends_well(false));
        assert!(!ends_well(true));
    }
}
