//! Helpers for the tests of traces and replays: a sample, a directory, and calls of the program.

#![allow(dead_code, unreachable_pub, reason = "every test uses a part of it")]

use crate::common::{Ran, gemelo};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

pub const A: &str = "00000000000000000000000000000a0a";
pub const B: &str = "00000000000000000000000000000b0b";
pub const C: &str = "3df1244f6143869f52abf2a1d73d0c0f";

/// Writes of two blocks and a rewrite, a read of what was written, and a read of what never was.
pub fn fiu() -> String {
    format!(
        "1000000000 4253 nfsd 0 16 W 6 0 {A}{B}\n\
         2000000000 4253 nfsd 8 8 W 6 0 {A}\n\
         3000000000 17 pdflush 8 8 R 6 0 {A}\n\
         5000000000 17 pdflush 80 8 R 6 0 {C}\n"
    )
}

/// A directory of its own for each test.
pub struct TestDirectory(TempDir);

impl TestDirectory {
    pub fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), bytes).unwrap();
        self.name(name)
    }

    pub fn name(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

pub fn ok(words: &[&str]) -> Ran {
    let ran = gemelo(words);
    assert_eq!(ran.status, 0, "{words:?}: {}", ran.err);
    ran
}

pub fn json(words: &[&str]) -> serde_json::Value {
    serde_json::from_str(&ok(&[words, &["--json", "-"]].concat()).out).unwrap()
}

pub fn refused(words: &[&str], part: &str) {
    let ran = gemelo(words);
    assert_eq!(ran.status, 2, "{words:?}: {}", ran.err);
    assert!(ran.err.contains(part), "{words:?}: {}", ran.err);
}
