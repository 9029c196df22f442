//! Tests of `gemelo compare`: verdicts, the exit status for CI, and refusals.

use crate::common::{Ran, gemelo};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Writes results of a pool whose store has `blocks` blocks. Space has no speed.
fn pool_result(path: &Path, blocks: u64) {
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../comparison/figures/tests/data/pool.json");
    change(&fixture, path, |result| {
        for figure in ["physical_blocks", "used_blocks"] {
            result["result"]["pool"][figure] = blocks.into();
        }
    });
}

/// Writes a result of a run with this rate of writes.
fn rate_result(path: &Path, operations_per_s: f64) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../comparison/figures/tests/data/volume.json");
    change(&fixture, path, |result| {
        result["result"][0]["total"]["writes"]["operations_per_s"] = json!(operations_per_s);
    });
}

fn change(from: &Path, to: &Path, change: impl Fn(&mut Value)) {
    let mut result: Value = serde_json::from_str(&fs::read_to_string(from).unwrap()).unwrap();
    change(&mut result);
    fs::write(to, result.to_string()).unwrap();
}

/// The one figure that differs between the files, and varies within a side.
const RATE: [&str; 2] = ["--figure", "write/operations_per_s"];

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
    let limited = files.compare(&[&RATE[..], &["--fail-if-slower", "5%"]].concat());
    assert_eq!(limited.status, 6, "{}", limited.err);
    assert!(limited.out.contains("slower than permitted: write/operations_per_s by 20.00 %"));
    assert_eq!(files.compare(&[&RATE[..], &["--fail-if-slower", "25"]].concat()).status, 0);
}

#[test]
fn noise_and_gains_do_not_fail() {
    let faster = Files::new(800.0, 1000.0);
    let faster = faster.compare(&[&RATE[..], &["--fail-if-slower", "5%"]].concat());
    assert_eq!(faster.status, 0);
    assert!(faster.out.contains("faster"), "{}", faster.out);
    let same = Files::new(1000.0, 1001.0);
    let same = same.compare(&[&RATE[..], &["--fail-if-slower", "5%"]].concat());
    assert_eq!(same.status, 0);
    assert!(same.out.contains("the same\n"), "{}", same.out);
}

/// Half the speed with one result a side must not pass.
#[test]
fn what_cannot_be_decided_has_a_status_of_its_own() {
    let files = Files::new(1000.0, 500.0);
    let words = [files.path("a0"), files.path("b0")];
    let ran = gemelo(&["compare", &words[0], &words[1], "--fail-if-slower", "5%"]);
    assert_eq!(ran.status, 8, "{}", ran.err);
    assert!(ran.out.contains("one repetition") && ran.out.contains("--a and"), "{}", ran.out);
    assert!(
        ran.out.contains("may be slower than permitted: write/operations_per_s"),
        "{}",
        ran.out
    );
    let without = gemelo(&["compare", &words[0], &words[1]]);
    assert_eq!(without.status, 0, "{}", without.err);
}

/// A loss about as large as the limit, in noise: neither a pass nor a failure.
#[test]
fn an_interval_around_the_limit_is_undecided() {
    let files = Files::new(1000.0, 958.0);
    let limited = |limit| files.compare(&[&RATE[..], &["--fail-if-slower", limit]].concat());
    let ran = limited("5%");
    assert_eq!(ran.status, 8, "{}", ran.out);
    assert!(ran.out.contains("by up to"), "{}", ran.out);
    let wide = limited("15%");
    assert_eq!(wide.status, 0, "{}", wide.out);
}

#[test]
fn files_of_rounds_are_compared_pair_by_pair() {
    let files = Files::new(1000.0, 800.0);
    for (number, drift) in [1.0, 0.7, 0.4, 0.2].iter().enumerate() {
        for (side, rate) in [("a", 1000.0), ("b", 850.0 + number as f64)] {
            rate_result(&files.directory.path().join(format!("{side}{number}")), rate * drift);
        }
    }
    let alone = files.compare(&RATE);
    assert!(alone.out.contains("undecided"), "{}", alone.out);
    let rounds = files.compare(&[&RATE[..], &["--rounds"]].concat());
    assert!(rounds.out.contains("slower"), "{}", rounds.out);
}

#[test]
fn space_has_a_verdict_and_no_speed() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let word = |name: String| path(&name).to_str().unwrap().to_owned();
    let side = |side: &str, blocks: u64| -> Vec<String> {
        let words: Vec<String> = (0..3).map(|n| word(format!("{side}{n}"))).collect();
        words.iter().for_each(|name| pool_result(Path::new(name), blocks));
        words
    };
    let (a, b) = (side("a", 1000), side("b", 2000));
    let compare = |more: &[&str]| {
        let words = ["compare", "--a"].into_iter().chain(a.iter().map(String::as_str));
        let words = words.chain(["--b"]).chain(b.iter().map(String::as_str));
        gemelo(&words.chain(more.iter().copied()).collect::<Vec<_>>())
    };
    let ran = compare(&[]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let line = ran.out.lines().find(|line| line.starts_with("space/data_bytes")).unwrap();
    assert!(line.ends_with("worse"), "{line}");
    let limited = compare(&["--fail-if-slower", "5%"]);
    assert_eq!(limited.status, 8, "{}", limited.out);
    assert!(limited.out.contains("no rate and no time"), "{}", limited.out);
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
        (vec!["compare", &a, &a, "--margin", "0"], "above 0"),
        (vec!["compare", "--a", &a, &a, "--b", &a, "--rounds"], "2 and 1 repetitions"),
        (vec!["compare", &a, &directory], "campaign.json"),
        (vec!["compare", "--a", &a, &directory, "--b", &a], "is a directory"),
    ] {
        let ran = gemelo(&words);
        assert_eq!(ran.status, 2, "{words:?}: {}", ran.err);
        assert!(ran.err.contains(expected), "{words:?}: {}", ran.err);
    }
}

/// `bench --repetitions` makes one file of several repetitions, each of which `compare` takes.
#[test]
fn repetitions_of_one_command_are_compared() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(path("target")).unwrap();
    let (target, first, second) = (path("target"), path("first"), path("second"));
    let bench = |json: &str, more: &[&str]| {
        let words = ["bench", "--target", &target, "--file-size", "1m", "--repetitions", "3"];
        gemelo(&[&words[..], &["--json", json], more].concat())
    };
    let ran = bench(&first, &[]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.out.starts_with("3 repetitions after 1 warm-up run\n"), "{}", ran.out);
    let line = ran.out.lines().find(|line| line.starts_with("write/operations_per_s")).unwrap();
    assert!(line.contains(" to "), "{line}");
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0, "the files are removed");
    let file: Value = serde_json::from_str(&fs::read_to_string(&first).unwrap()).unwrap();
    assert_eq!(file["schema"], "gemelo.bench-repetitions/1");
    assert_eq!(file["result"]["repetitions"].as_array().unwrap().len(), 3);
    let interval = &file["result"]["summary"][0]["interval"];
    assert!(interval[0].as_f64().unwrap() > 0.0, "{interval}");
    assert_eq!(bench(&second, &["--warm-up-runs", "0"]).status, 0);
    let compared = gemelo(&["compare", &first, &second]);
    assert_eq!(compared.status, 0, "{}", compared.err);
    assert!(
        compared.out.starts_with("repetitions before and after: 3 and 3\n"),
        "{}",
        compared.out
    );
    let log = path("log");
    let refused = bench(&path("third"), &["--log", &log]);
    assert_eq!(refused.status, 2);
    assert!(refused.err.contains("leave out --repetitions"), "{}", refused.err);
    assert!(!Path::new(&log).exists());
}
