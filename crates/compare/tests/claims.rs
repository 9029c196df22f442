//! Tests of the verdicts on claims.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    dead_code,
    reason = "a test fails by panicking and uses a part"
)]

mod common;

use common::{campaign, groups, target};
use gemelo_compare::{ClaimVerdict, judge};
use gemelo_record::ClaimRecord;

fn claim(tests: &[&str]) -> ClaimRecord {
    ClaimRecord {
        id: "c1".to_owned(),
        claim: "The volume is faster.".to_owned(),
        published: None,
        place: None,
        not_testable: None,
        tests: tests.iter().map(|test| (*test).to_owned()).collect(),
    }
}

fn verdict_of(claim: &ClaimRecord) -> ClaimVerdict {
    let targets = vec![
        target("volume", None),
        target("ext4", None),
        target("once", None),
        target("none", None),
        target("zfs", Some("the program zfs-fuse is missing")),
    ];
    let campaign = campaign(targets, &["load"]);
    let groups = groups(&[
        ("load", "volume", &[200.0, 202.0, 198.0, 201.0]),
        ("load", "ext4", &[100.0, 101.0, 99.0, 100.0]),
        ("load", "once", &[150.0]),
    ]);
    judge(claim, &campaign, &groups).verdict
}

fn verdict(tests: &[&str]) -> ClaimVerdict {
    verdict_of(&claim(tests))
}

const RATIO: &str = "write/operations_per_s[load, volume] / write/operations_per_s[load, ext4]";

fn ratio(relation: &str) -> String {
    format!("{RATIO} {relation}")
}

#[test]
fn the_interval_decides() {
    assert_eq!(verdict(&[&ratio(">= 1.5")]), ClaimVerdict::Confirmed);
    assert_eq!(verdict(&[&ratio("< 1.5")]), ClaimVerdict::Refuted);
    assert_eq!(verdict(&[&ratio("about 2 within 5%")]), ClaimVerdict::Confirmed);
    let undecided = verdict(&[&ratio("> 2.0")]);
    assert!(
        matches!(&undecided, ClaimVerdict::Undecided { reason } if reason.contains("both sides")),
        "{undecided:?}"
    );
    let difference = RATIO.replace(" / ", " - ");
    assert_eq!(verdict(&[&format!("{difference} about 100 within 10%")]), ClaimVerdict::Confirmed);
    assert_eq!(verdict(&["write/operations_per_s[load, ext4] < 90"]), ClaimVerdict::Refuted);
}

#[test]
fn all_conditions_must_hold() {
    let (holds, fails, open) = (ratio("> 1.5"), ratio("> 3"), ratio("> 2"));
    let missing = "write/operations_per_s[load, zfs] > 1";
    assert_eq!(verdict(&[&holds, &holds]), ClaimVerdict::Confirmed);
    assert_eq!(verdict(&[&holds, missing, &open, &fails]), ClaimVerdict::Refuted);
    assert!(matches!(verdict(&[&holds, &open]), ClaimVerdict::Undecided { .. }));
    assert!(matches!(verdict(&[&open, missing]), ClaimVerdict::NotTestable { .. }));
}

#[test]
fn what_is_missing_is_the_reason() {
    for (test, expected) in [
        ("write/operations_per_s[load, zfs] > 1", "the program zfs-fuse is missing"),
        ("write/operations_per_s[load, none] > 1", "no run of load on none is complete"),
        ("write/operations_per_s[other, ext4] > 1", "no workload 'other'"),
        ("write/operations_per_s[load, other] > 1", "no target 'other'"),
        ("read/operations_per_s[load, ext4] > 1", "no figure 'read/operations_per_s'"),
        ("write", "column 6"),
    ] {
        match verdict(&[test]) {
            ClaimVerdict::NotTestable { reason } => assert!(reason.contains(expected), "{reason}"),
            other => panic!("{test}: {other:?}"),
        }
    }
    assert!(matches!(verdict(&[]), ClaimVerdict::NotTestable { .. }));
    let mut stated = claim(&[&ratio("> 1.5")]);
    stated.not_testable = Some("it needs two hosts".to_owned());
    let reason = "it needs two hosts".to_owned();
    assert_eq!(verdict_of(&stated), ClaimVerdict::NotTestable { reason });
}

/// One repetition has no interval, so it confirms and refutes nothing.
#[test]
fn one_repetition_decides_nothing() {
    for relation in ["> 1", "< 1"] {
        let test = format!("write/operations_per_s[load, once] {relation}");
        let found = verdict(&[&test]);
        assert!(
            matches!(&found, ClaimVerdict::Undecided { reason } if reason.contains("repetitions")),
            "{found:?}"
        );
    }
}
