//! Programs that tests run. A test without its programs prints their names and is skipped. With
//! `GEMELO_REQUIRE_TOOLS` set, it fails instead.

use std::path::PathBuf;
use std::process::{Command, Output};

/// A program of this name.
pub(crate) fn tool(name: &str) -> Option<Command> {
    let found = paths_of(name).into_iter().next();
    if found.is_none() {
        missing(name);
    }
    found.map(Command::new)
}

/// Returns whether all of these programs exist. Prints the names of missing ones.
pub(crate) fn all_there(names: &[&str]) -> bool {
    names.iter().filter(|name| tool(name).is_none()).count() == 0
}

/// A Python with libnbd's binding: of several, the system's has it.
pub(crate) fn python_with_libnbd() -> Option<Command> {
    let has_it = |path: &PathBuf| {
        Command::new(path).args(["-c", "import nbd"]).output().unwrap().status.success()
    };
    let found = paths_of("python3").into_iter().find(has_it);
    if found.is_none() {
        missing("python3-libnbd");
    }
    found.map(Command::new)
}

/// System administration's programs are not in everybody's path.
fn paths_of(name: &str) -> Vec<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let directories = std::env::split_paths(&paths).chain(more);
    directories.map(|directory| directory.join(name)).filter(|path| path.exists()).collect()
}

/// Says that something is missing; fails where everything has to be there.
pub(crate) fn missing(name: &str) {
    assert!(std::env::var_os("GEMELO_REQUIRE_TOOLS").is_none(), "{name} is missing");
    eprintln!("not tested: {name} is missing");
}

/// Runs a program that has to succeed; gives what it prints.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", all_of(&output));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn all_of(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Returns bytes that differ from place to place and depend only on the seed.
pub(crate) fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut random = gemelo_base::random::Random::new(seed);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
