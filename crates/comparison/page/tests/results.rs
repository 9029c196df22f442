//! The report of single result files of every kind.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use gemelo_page::Report;
use std::path::{Path, PathBuf};

/// Returns a result file that the tests of the crate `figures` also use.
fn result(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../figures/tests/data").join(name)
}

#[test]
fn every_kind_of_result_has_a_report() {
    for (name, title, contents) in [
        ("bench.json", "# Benchmark of target\n", "operations a second"),
        ("suite.json", "# Benchmark of target\n", "**two** "),
        ("replay.json", "# Replay of a trace on target\n", "All figures"),
        ("filebench.json", "# Filebench: filebench.json", "All figures"),
        ("fio.json", "# fio: fio.json", "operations a second"),
        ("pool.json", "# Pool pool\n", "**pool** stores "),
        ("scan.json", "# Scan of t\n", "deduplication saves"),
    ] {
        let report = Report::of_results(&[result(name)]).unwrap();
        let text = report.markdown();
        assert!(text.starts_with(title), "{text}");
        assert!(text.contains(contents), "{name}: {text}");
        assert!(report.page().unwrap().contains("</html>"));
    }
}

#[test]
fn the_jobs_of_several_files_stand_side_by_side() {
    let files = [result("bench.json"), result("suite.json")];
    let text = Report::of_results(&files).unwrap().markdown();
    assert!(text.starts_with("# Results: 2 files"), "{text}");
    assert!(text.contains("| bench.json | suite.json: one |"), "{text}");
}

#[test]
fn a_job_shows_the_duplicates_that_it_was_asked_to_write_and_wrote() {
    let text = Report::of_results(&[result("bench.json")]).unwrap().markdown();
    assert!(text.contains("| copies of a content | blocks, asked | blocks, written |"), "{text}");
}

#[test]
fn an_access_log_shows_hot_spots() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("accesses");
    // A tenth of the blocks get nine tenths of the accesses.
    let line = |block: u32| format!("{block} {}\n", if block < 100 { 81 } else { 1 });
    std::fs::write(&log, (0..1000).map(line).collect::<String>()).unwrap();
    let text = Report::of_results(&[result("bench.json"), log]).unwrap().markdown();
    assert!(text.contains("| 10.0 % | 90.0 % |"), "{text}");
}

#[test]
fn savings_of_a_scan_are_those_of_its_figures() {
    let text = Report::of_results(&[result("scan.json")]).unwrap().markdown();
    assert!(text.contains("| block size | zeros | data | distinct |"), "{text}");
    assert!(text.contains("| 4 KiB | "), "{text}");
}

#[test]
fn a_file_of_another_kind_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("other.json");
    std::fs::write(&other, "{\"schema\": \"gemelo.trace-stat/1\"}").unwrap();
    let error = Report::of_results(std::slice::from_ref(&other)).unwrap_err().to_string();
    assert!(error.contains("other.json"), "{error}");
}
