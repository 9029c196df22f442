//! Tests of `gemelo compare`: verdicts, the exit status for CI, and refusals.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::{Ran, gemelo};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Writes results of a pool whose store has `blocks` blocks. Space has no speed.
fn pool_result(path: &Path, blocks: u64) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../figures/tests/data/pool.json");
    change(&fixture, path, |result| result["result"]["pool"]["physical_blocks"] = blocks.into());
}

/// Writes a result of a run with this rate of writes.
fn rate_result(path: &Path, operations_per_s: f64) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../figures/tests/data/volume.json");
    change(&fixture, path, |result| {
        result["result"][0]["total"]["writes"]["operations_per_s"] = json!(operations_per_s);
    });
}

fn change(from: &Path, to: &Path, change: impl Fn(&mut Value)) {
    let mut result: Value = serde_json::from_str(&fs::read_to_string(from).unwrap()).unwrap();
    change(&mut result);
    fs::write(to, result.to_string()).unwrap();
}

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    /// Files `a0`, `a1`, ... with rates about `before`, and `b0`, ... about `after`.
    fn new(before: f64, after: f64) -> Self {
        let files = Self { directory: tempfile::tempdir().unwrap() };
        for (side, rate) in [("a", before), ("b", after)] {
            for (number, noise) in [0.99, 1.0, 1.01, 1.002].iter().enumerate() {
                rate_result(&files.directory.path().join(format!("{side}{number}")), rate * noise);
            }
        }
        files
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    /// Runs `gemelo compare` with all repetitions of both sides and these further words.
    fn compare(&self, words: &[&str]) -> Ran {
        let names =
            |side: &str| (0..4).map(|number| self.path(&format!("{side}{number}"))).collect();
        let (a, b): (Vec<String>, Vec<String>) = (names("a"), names("b"));
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let compare = ["compare".to_owned(), "--a".to_owned()];
        gemelo(&[&compare[..], &a, &["--b".to_owned()], &b, &words].concat())
    }
}

#[test]
fn a_slower_result_is_named_and_fails_where_a_limit_is_given() {
    let files = Files::new(1000.0, 800.0);
    let ran = files.compare(&[]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let line = ran.out.lines().find(|line| line.starts_with("write/operations_per_s")).unwrap();
    assert!(line.contains("0.800") && line.ends_with("slower"), "{line}");
    let limited = files.compare(&["--fail-if-slower", "5%"]);
    assert_eq!(limited.status, 6, "{}", limited.err);
    assert!(limited.out.contains("slower than permitted: write/operations_per_s by 20.00 %"));
    assert_eq!(files.compare(&["--fail-if-slower", "25"]).status, 0);
}

#[test]
fn noise_and_gains_do_not_fail() {
    let faster = Files::new(800.0, 1000.0).compare(&["--fail-if-slower", "5%"]);
    assert_eq!(faster.status, 0);
    assert!(faster.out.contains("faster"), "{}", faster.out);
    let same = Files::new(1000.0, 1001.0).compare(&["--fail-if-slower", "0"]);
    assert_eq!(same.status, 0);
    assert!(same.out.contains("same within noise"), "{}", same.out);
}

#[test]
fn one_repetition_asks_for_more() {
    let files = Files::new(1000.0, 500.0);
    let words = [files.path("a0"), files.path("b0")];
    let ran = gemelo(&["compare", &words[0], &words[1], "--fail-if-slower", "5%"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.out.contains("too few repetitions") && ran.out.contains("--a and"), "{}", ran.out);
    assert!(!ran.out.contains("slower"), "{}", ran.out);
}

#[test]
fn space_has_a_verdict_and_no_speed() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for (name, blocks) in [("a0", 1000), ("a1", 1000), ("b0", 2000), ("b1", 2000)] {
        pool_result(&path(name), blocks);
    }
    let words = ["a0", "a1", "b0", "b1"].map(|name| path(name).to_str().unwrap().to_owned());
    let [a0, a1, b0, b1] = words.each_ref().map(String::as_str);
    let ran = gemelo(&["compare", "--a", a0, a1, "--b", b0, b1, "--fail-if-slower", "5%"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let line = ran.out.lines().find(|line| line.starts_with("space/data_bytes")).unwrap();
    assert!(line.ends_with("worse"), "{line}");
}

#[test]
fn bad_requests_are_refused_with_what_to_do() {
    let files = Files::new(1.0, 1.0);
    let a = files.path("a0");
    let directory = files.directory.path().to_str().unwrap().to_owned();
    for (words, expected) in [
        (vec!["compare", &a], "B"),
        (vec!["compare", "--a", &a], "--b"),
        (vec!["compare", &a, &a, "--figure", "no/such_ns"], "no selected figure in common"),
        (vec!["compare", &a, &a, "--confidence", "5"], "from 50 to 99.99"),
        (vec!["compare", &a, &a, "--fail-if-slower", "500"], "percentage"),
        (vec!["compare", &a, &directory], "campaign.json"),
        (vec!["compare", "--a", &a, &directory, "--b", &a], "is a directory"),
    ] {
        let ran = gemelo(&words);
        assert_eq!(ran.status, 2, "{words:?}: {}", ran.err);
        assert!(ran.err.contains(expected), "{words:?}: {}", ran.err);
    }
}
