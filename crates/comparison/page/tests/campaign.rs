//! The report of a campaign: its files, and what its sentences claim.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "support/sample.rs"]
mod sample;

use gemelo_page::Report;

/// Returns the files of the report of a made-up campaign, by path.
fn files(repetitions: u32) -> std::collections::BTreeMap<String, Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    sample::write_campaign(directory.path(), repetitions);
    let report = Report::of_campaign(directory.path()).unwrap();
    let files = report.files().unwrap().into_iter();
    files.map(|file| (file.path.to_str().unwrap().to_owned(), file.bytes)).collect()
}

fn markdown(repetitions: u32) -> String {
    let directory = tempfile::tempdir().unwrap();
    sample::write_campaign(directory.path(), repetitions);
    Report::of_campaign(directory.path()).unwrap().markdown()
}

#[test]
fn a_report_has_a_page_markdown_all_figures_and_each_picture_twice() {
    let files = files(3);
    let csv = String::from_utf8(files["figures.csv"].clone()).unwrap();
    assert!(csv.starts_with("run,target,workload,repetition,outcome,figure,value\n"));
    // 60 runs were planned, one failed and one was not started. A failed run has its monitor.
    assert_eq!(csv.lines().count(), 1 + 58 * (6 + 7) + 7);
    let pictures: Vec<&String> = files.keys().filter(|path| path.ends_with(".svg")).collect();
    assert!(pictures.len() > 20, "{pictures:?}");
    for svg in pictures {
        let text = std::str::from_utf8(&files[svg]).unwrap();
        assert!(!text.contains("var(--"), "{svg} depends on a page");
        let png = &files[&svg.replace(".svg", ".png")];
        assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
        // The width is the first number of the header.
        assert_eq!(u32::from_be_bytes(png[16..20].try_into().unwrap()), 1410, "{svg}");
    }
    let text = String::from_utf8(files["report.md"].clone()).unwrap();
    assert!(text.contains("](pictures/ratios-volume-inline-1.svg)"), "{text}");
}

#[test]
fn the_answer_says_by_how_much_and_with_which_interval() {
    let text = markdown(5);
    let answer = text.lines().find(|line| line.starts_with("- **volume-offline**")).unwrap();
    assert!(answer.contains("wrote **1.17 to 1.23 times as fast as ext4** on 4 workloads"));
    assert!(
        answer.contains("read **0.841 times as fast as ext4** on uniform-read (95\u{a0}% interval")
    );
    // A few differences are named one by one, with the rounds that agree.
    let inline = text.lines().find(|line| line.starts_with("- **volume-inline**")).unwrap();
    let each = "**1.44× the writes of ext4** on load-50 (1.38 to 1.49), faster in 5 of 5; ";
    assert!(inline.contains(each), "{inline}");
    // The reason for what is undecided is in the first sentence.
    let undecided =
        "; undecided on uniform-read: the repetitions vary too much for a verdict, and 1.";
    let busy = " processors were busy with other work.";
    assert!(inline.contains(undecided) && inline.ends_with(busy), "{inline}");
    assert_eq!(inline.matches(". ").count(), 0, "{inline}");
    assert!(text.contains("98 of 100 planned runs were complete"));
    let answer = text.split("planned runs were complete").next().unwrap();
    let load = "[uniform-read](#workload-uniform-read): reads of 4 KiB, contents personal";
    assert!(answer.contains(load), "the answer says what the names in it are: {answer}");
}

#[test]
fn one_repetition_carries_no_difference() {
    let text = markdown(1);
    assert!(text.contains("one repetition has no confidence interval"), "{text}");
    assert!(!text.contains("times as fast") && !text.contains("faster in"), "{text}");
}

#[test]
fn claims_have_a_verdict_and_both_figures() {
    let text = markdown(5);
    for line in [
        "| In-line deduplication makes random writes faster. (inline-writes-faster, section 5.2, \
         table 3) | **confirmed** | 1.43 (1.37 to 1.48) (write operations of nurand-write on \
         volume-inline by that on ext4: at least 1.20) [write/operations",
        "| **refuted** | 0.708 (0.676 to 0.741) ",
        "| undecided (the confidence interval, 1.16 to 1.253, lies on both sides of 1.21) | 1.21",
        "| not testable (this machine has one host) |",
        "| not testable (the target zfs-dedup was left out: the program zfs-fuse is not installed)",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

/// A claim without a place in the paper is the plan's own, and is not counted among the paper's.
#[test]
fn claims_of_the_plan_itself_stand_apart() {
    let directory = tempfile::tempdir().unwrap();
    sample::write_campaign(directory.path(), 5);
    let file = directory.path().join("campaign.json");
    let mut record: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let claim = record["claims"][0].as_object_mut().unwrap();
    claim.remove("place");
    claim.remove("published");
    std::fs::write(file, record.to_string()).unwrap();
    let text = Report::of_campaign(directory.path()).unwrap().markdown();
    let (of_paper, of_plan) = text.split_once("1 claim of the plan itself: ").unwrap();
    assert!(of_paper.contains("4 claims of the paper: "), "{of_paper}");
    assert!(!of_paper.contains("(inline-writes-faster"), "{of_paper}");
    assert!(of_plan.contains("(inline-writes-faster"), "{of_plan}");
}

#[test]
fn failed_and_missing_runs_are_named_with_their_reasons() {
    let text = markdown(2);
    assert!(text.contains("failed (gemelo bench ended with exit status 1: no space)"));
    assert!(text.contains("0040-load-90-btrfs-r2 | not started |"));
    assert!(text.contains("- **zfs-dedup**: the program zfs-fuse is not installed"));
    assert!(text.contains("Warning: the spread between repetitions is 9 % (9 runs, the first is"));
}

#[test]
fn warnings_about_the_measurements_stand_beside_them_and_are_counted_in_the_answer() {
    let text = markdown(5);
    let (answer, rest) = text.split_once("## Targets and workloads").unwrap();
    assert!(answer.contains(" warnings, which stand beside them."), "{answer}");
    let (_, rest) = rest.split_once("\n## nurand-write\n").unwrap();
    let (of_workload, _) = rest.split_once("\n## ").unwrap();
    assert!(of_workload.contains("Warning: ext4: the machine is noisy, 1."), "{of_workload}");
    // Disks give nothing to its reads.
    assert!(text.contains("Warning: btrfs: a cache served the reads"), "{text}");
    // With two repetitions, a deviation of 4 % makes wide intervals.
    let few = markdown(2);
    assert!(few.contains("the repetitions disagree, the 95\u{a0}% interval of the"), "{few}");
}

/// The numbers of repetitions come from the records of the runs.
#[test]
fn the_table_of_repetitions_has_those_that_there_are() {
    let directory = tempfile::tempdir().unwrap();
    sample::write_campaign(directory.path(), 3);
    for run in std::fs::read_dir(directory.path().join("runs")).unwrap() {
        let file = run.unwrap().path().join("run.json");
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let text = text.replace("\"repetition\":3", "\"repetition\":100000");
        std::fs::write(file, text).unwrap();
    }
    let text = Report::of_campaign(directory.path()).unwrap().markdown();
    assert!(text.contains(" run 2 | run 100000 |") && !text.contains("| run 99999 |"));
}

#[test]
fn a_directory_without_a_campaign_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let error = Report::of_campaign(directory.path()).unwrap_err().to_string();
    assert!(error.ends_with("campaign.json"), "{error}");
}
