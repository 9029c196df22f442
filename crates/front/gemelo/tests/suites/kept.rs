//! Formats on disk: pools and files of every kind are kept in `tests/kept` for ever, and must be
//! read as they were written. A change of a format adds to them, and never replaces one:
//! `GEMELO_TEST_KEEP=1 cargo nextest run -p gemelo -E 'test(kept::)'` makes those that are missing.
//! A domain of three members is in `crates/cluster/place/tests/kept`. `SHA256SUMS` has all of them.

mod files;
mod hostile;
mod journal;
mod pools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of the kept domain, seen from that of the rest.
const DOMAIN: &str = "../../../../cluster/place/tests/kept";

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept").join(name)
}

/// Returns whether what is missing is made.
fn keeps_anew() -> bool {
    std::env::var_os("GEMELO_TEST_KEEP").is_some()
}

/// Packs a directory, whose files are mostly holes, unless the archive is there.
fn pack(directory: &Path, archive: &Path) {
    assert!(!archive.exists(), "a kept archive is not replaced");
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sparse", "--sort=name", "--owner=0", "--group=0", "--mtime=@0"]);
    tar.args(["--use-compress-program", "zstd -19", "--file"]).arg(archive);
    assert!(tar.arg("--directory").arg(directory).arg(".").status().unwrap().success());
}

fn unpack(archive: &Path, directory: &Path) {
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--sparse", "--no-same-owner", "--use-compress-program", "zstd -d"]);
    tar.arg("--file").arg(archive).arg("--directory").arg(directory);
    assert!(tar.status().unwrap().success(), "{}", archive.display());
}

/// What is kept is never replaced: users have such pools and files.
#[test]
fn what_is_kept_is_as_it_was_made() {
    let directory = kept("");
    let sums = fs::read_to_string(kept("SHA256SUMS")).unwrap();
    let listed: Vec<&str> =
        sums.lines().filter_map(|line| line.split_once("  ")).map(|(_, name)| name).collect();
    let of = |directory: &str| fs::read_dir(kept(directory)).unwrap().map(|entry| entry.unwrap());
    let mut missing = Vec::new();
    for part in ["files", "pools", DOMAIN] {
        for entry in of(part) {
            let name = format!("{part}/{}", entry.file_name().to_str().unwrap());
            if !listed.contains(&&*name) {
                missing.push(name);
            }
        }
    }
    let help = "sha256sum FILE >> SHA256SUMS, in crates/front/gemelo/tests/kept";
    assert!(missing.is_empty(), "new: {missing:?}: {help}");
    let mut check = Command::new("sha256sum");
    let output = check
        .args(["--check", "--strict", "--quiet", "SHA256SUMS"])
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat())
    );
}
