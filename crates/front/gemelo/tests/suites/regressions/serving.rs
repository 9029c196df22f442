//! Servers, sockets and packages that did not do what their documents say.

mod packages;
mod pools;
mod sockets;
mod texts;
mod units;

use std::path::{Path, PathBuf};

/// The repository.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap()
}

/// The text of a file of the repository.
fn text_of(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap()
}

/// All files below a directory of the repository.
fn files_below(directory: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![root().join(directory)];
    while let Some(next) = pending.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { &mut pending } else { &mut found }.push(path);
        }
    }
    found
}
