//! Helpers for the tests of traces and replays: a sample, a directory, and calls of the program.

use crate::common::{Ran, gemelo};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

pub(crate) const A: &str = "00000000000000000000000000000a0a";
pub(crate) const B: &str = "00000000000000000000000000000b0b";
pub(crate) const C: &str = "3df1244f6143869f52abf2a1d73d0c0f";

/// Writes of two blocks and a rewrite, a read of what was written, and a read of what never was.
pub(crate) fn fiu() -> String {
    format!(
        "1000000000 4253 nfsd 0 16 W 6 0 {A}{B}\n\
         2000000000 4253 nfsd 8 8 W 6 0 {A}\n\
         3000000000 17 pdflush 8 8 R 6 0 {A}\n\
         5000000000 17 pdflush 80 8 R 6 0 {C}\n"
    )
}

/// A directory of its own for each test.
pub(crate) struct TestDirectory(TempDir);

impl TestDirectory {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), bytes).unwrap();
        self.name(name)
    }

    pub(crate) fn name(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

pub(crate) fn ok(words: &[&str]) -> Ran {
    let ran = gemelo(words);
    assert_eq!(ran.status, 0, "{words:?}: {}", ran.err);
    ran
}

pub(crate) fn json(words: &[&str]) -> serde_json::Value {
    serde_json::from_str(&ok(&[words, &["--json", "-"]].concat()).out).unwrap()
}

pub(crate) fn refused(words: &[&str], part: &str) {
    let ran = gemelo(words);
    assert_eq!(ran.status, 2, "{words:?}: {}", ran.err);
    assert!(ran.err.contains(part), "{words:?}: {}", ran.err);
}
