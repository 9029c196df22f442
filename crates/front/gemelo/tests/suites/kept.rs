//! Formats on disk: pools and files of every kind are kept in `tests/kept` for ever, and must be
//! read as they were written. A change of a format adds to them, and never replaces one:
//! `GEMELO_TEST_KEEP=1 cargo nextest run -p gemelo -E 'test(kept::)'` makes those that are missing.
//! A domain of three members is in `crates/cluster/place/tests/kept`.

mod files;
mod pools;

use std::path::{Path, PathBuf};
use std::process::Command;

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
