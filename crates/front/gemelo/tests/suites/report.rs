//! Tests of pages of results: `gemelo report`, `--report` and `gemelo campaign report`.

use crate::common::gemelo;
use std::fs;

#[test]
fn a_run_writes_the_page_that_report_makes_of_its_result() {
    let directory = tempfile::tempdir().unwrap();
    let name = |file: &str| directory.path().join(file).to_str().unwrap().to_owned();
    let (result, page, again) = (name("bench.json"), name("page.html"), name("again.html"));
    let load = ["bench", "--target", "null:", "--bytes", "1m"];
    let run = [&load[..], &["--json", &result, "--report", &page]].concat();
    let ran = gemelo(&run);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_eq!(gemelo(&["report", &result, "--output", &again]).status, 0);
    let written = fs::read_to_string(&page).unwrap();
    assert!(written.contains("operations a second"), "{written}");
    assert_eq!(written, fs::read_to_string(&again).unwrap());
    // A page is replaced only if the user says so.
    assert_eq!(gemelo(&["report", &result, "--output", &again]).status, 2);
    assert_eq!(gemelo(&["report", &result, "--output", &again, "--force"]).status, 0);
}

#[test]
fn a_report_is_markdown_if_its_name_says_so() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("data"), [7u8; 65536]).unwrap();
    let page = directory.path().join("scan.md");
    let (data, page) = (directory.path().to_str().unwrap(), page.to_str().unwrap());
    let ran = gemelo(&["scan", data, "--report", page]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let text = fs::read_to_string(page).unwrap();
    assert!(text.starts_with("# Scan of /"), "{text}");
    assert!(text.contains("With blocks of 4 KiB, deduplication saves **93.8 %**"), "{text}");
}

#[test]
fn a_plan_of_a_scan_has_no_report() {
    let ran = gemelo(&["scan", "--plan", "/usr/share/doc", "--report", "/nowhere/page.html"]);
    assert_eq!(ran.status, 2);
    assert!(ran.err.contains("--report"), "{}", ran.err);
}

#[test]
fn a_directory_without_a_campaign_has_no_report() {
    let directory = tempfile::tempdir().unwrap();
    let ran = gemelo(&["campaign", "report", directory.path().to_str().unwrap()]);
    assert_eq!(ran.status, 2);
    assert!(ran.err.contains("campaign.json"), "{}", ran.err);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
