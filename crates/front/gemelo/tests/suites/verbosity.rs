//! Tests of `--brief` and `--quiet`.

use crate::common::{Ran, gemelo};
use std::fs;

const BENCH: [&str; 5] = ["bench", "--target", "null:", "--file-size", "16k"];

#[test]
fn brief_prints_a_line_for_each_job() {
    let Ran { status, out, err } = gemelo(&[&BENCH[..], &["--brief"]].concat());
    assert_eq!(status, 0, "{err}");
    assert_eq!(out.lines().count(), 2, "{out}");
    assert!(out.starts_with("job "), "{out}");
    assert!(out.contains("1-write-sequential"), "{out}");
}

#[test]
fn brief_prints_a_line_for_each_block_size() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("zeros"), vec![0; 1 << 20]).unwrap();
    let path = directory.path().to_str().unwrap();
    let Ran { status, out, err } = gemelo(&["scan", path, "--block-size", "4k,8k", "--brief"]);
    assert_eq!(status, 0, "{err}");
    assert_eq!(out.lines().count(), 4, "two lines of headings: {out}");
    assert!(out.contains("256"), "the zero blocks of 4 KiB: {out}");
}

#[test]
fn quiet_writes_files_and_errors_but_no_text() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("result.json");
    let json = json.to_str().unwrap();
    let Ran { status, out, .. } = gemelo(&[&["-q"], &BENCH[..], &["--json", json]].concat());
    assert_eq!((status, out.as_str()), (0, ""));
    assert!(fs::read_to_string(json).unwrap().contains("gemelo.bench/1"));
    let Ran { status, out, err } = gemelo(&["scan", "--quiet", "/nowhere/at/all"]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(err.contains("/nowhere/at/all"), "{err}");
}
