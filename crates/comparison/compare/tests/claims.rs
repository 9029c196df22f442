//! Tests of the verdicts on claims.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    dead_code,
    reason = "a test fails by panicking and uses a part"
)]

mod common;

use common::{campaign, groups, repetition, repetitions, target};
use gemelo_base::random::Random;
use gemelo_compare::{ClaimVerdict, Groups, Place, Standards, judge};
use gemelo_record::{Better, CampaignRecord, ClaimRecord, LeastFigure, LeastScale, Stats};

fn claim(tests: &[&str]) -> ClaimRecord {
    ClaimRecord {
        id: "c1".to_owned(),
        claim: "The volume is faster.".to_owned(),
        published: None,
        place: None,
        not_testable: None,
        tests: tests.iter().map(|test| (*test).to_owned()).collect(),
        least: LeastScale::default(),
    }
}

fn judged(claim: &ClaimRecord, campaign: &CampaignRecord, groups: &Groups) -> ClaimVerdict {
    judge(claim, campaign, groups, Standards::of(campaign).unwrap()).verdict
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
    judged(claim, &campaign, &groups)
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
        matches!(&undecided, ClaimVerdict::Undecided { reason } if reason.ends_with("both sides of 2")),
        "{undecided:?}"
    );
    let difference = RATIO.replace(" / ", " - ");
    assert_eq!(verdict(&[&format!("{difference} about 100 within 10%")]), ClaimVerdict::Confirmed);
    assert_eq!(verdict(&["write/operations_per_s[load, ext4] < 90"]), ClaimVerdict::Refuted);
}

/// The change of a ratio: 2 on one load, and 1 on the other.
#[test]
fn a_ratio_of_ratios_is_computed_round_by_round() {
    let targets = vec![target("volume", None), target("ext4", None)];
    let campaign = campaign(targets, &["same", "real"]);
    let groups = groups(&[
        ("same", "volume", &[200.0, 102.0, 398.0, 201.0]),
        ("same", "ext4", &[100.0, 50.0, 200.0, 101.0]),
        ("real", "volume", &[300.0, 20.2, 60.0, 80.0]),
        ("real", "ext4", &[301.0, 20.0, 60.5, 80.0]),
    ]);
    let of = |load: &str| {
        let rate = |target| format!("write/operations_per_s[{load}, {target}]");
        format!("({} / {})", rate("volume"), rate("ext4"))
    };
    let verdict = |relation: &str| {
        let test = format!("{} / {} {relation}", of("same"), of("real"));
        judged(&claim(&[&test]), &campaign, &groups)
    };
    assert_eq!(verdict("about 2 within 5%"), ClaimVerdict::Confirmed);
    assert_eq!(verdict("< 1.5"), ClaimVerdict::Refuted);
}

/// Each of the four figures must measure the storage and not the generator of the load.
#[test]
fn a_ratio_of_ratios_with_one_figure_of_the_generator_is_undecided() {
    let campaign = campaign(vec![target("volume", None), target("ext4", None)], &["same", "real"]);
    let places = [("same", "volume"), ("same", "ext4"), ("real", "volume"), ("real", "ext4")];
    let term = |(load, target): (&str, &str)| format!("write/operations_per_s[{load}, {target}]");
    let [a, b, c, d] = places.map(term);
    let test = format!("({a} / {b}) / ({c} / {d}) > 0.5");
    let with_generator_at = |bound: Option<(&str, &str)>| {
        let mut groups = Groups::default();
        for (number, (load, target)) in places.into_iter().enumerate() {
            let mut values = [100.0, 101.0, 99.0, 100.5];
            values.rotate_left(number);
            for mut repetition in repetitions(&values) {
                let share = if bound == Some((load, target)) { 0.9 } else { 0.1 };
                repetition.figures.push("run/generating_share", share, Better::Neither);
                groups.add(Place::new(load, target), repetition);
            }
        }
        judged(&claim(&[&test]), &campaign, &groups)
    };
    assert_eq!(with_generator_at(None), ClaimVerdict::Confirmed);
    for place in places {
        let verdict = with_generator_at(Some(place));
        assert!(
            matches!(&verdict, ClaimVerdict::Undecided { reason } if reason.contains("generating")),
            "{place:?}: {verdict:?}"
        );
    }
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
            matches!(&found, ClaimVerdict::Undecided { reason } if reason.contains("one repetition")),
            "{found:?}"
        );
    }
}

/// Counts without spread are exact. Rates without spread have an unknown noise, which is the reason
/// of a difference of zero as well: nothing is divided.
#[test]
fn values_that_do_not_differ_are_exact_if_they_are_counted() {
    let campaign = campaign(vec![target("volume", None)], &["load"]);
    let judge = |figure: &str, relation: &str| {
        let mut groups = Groups::default();
        for number in 1..=5 {
            let mut figures = Stats::default();
            figures.push(figure, 3.5, Better::Neither);
            groups.add(Place::new("load", "volume"), repetition(number, figures));
        }
        let term = format!("{figure}[load, volume]");
        judged(&claim(&[&format!("{term}{relation}")]), &campaign, &groups)
    };
    let minus = |figure: &str| format!(" - {figure}[load, volume] < 0.1");
    assert_eq!(judge("entropy/file_bits", " < 3.6"), ClaimVerdict::Confirmed);
    assert_eq!(judge("entropy/file_bits", &minus("entropy/file_bits")), ClaimVerdict::Confirmed);
    let timed = "write/operations_per_s";
    let verdict = judge(timed, &minus(timed));
    assert!(
        matches!(&verdict, ClaimVerdict::Undecided { reason } if reason.contains("do not differ")),
        "{verdict:?}"
    );
}

fn min_figure(name: &str, value: f64) -> Option<LeastFigure> {
    Some(LeastFigure { name: name.to_owned(), value })
}

/// Measurements below the scale of a claim never confirm or refute it, whatever they show.
#[test]
fn a_claim_below_its_scale_is_too_small() {
    let targets = || vec![target("volume", None), target("ext4", None)];
    let mut campaign = campaign(targets(), &["load"]);
    campaign.provenance.memory_bytes = 1 << 30;
    campaign.workloads[0].data_bytes = Some(1 << 28);
    campaign.targets[0].capacity_bytes = Some(1 << 29);
    campaign.targets[1].capacity_bytes = Some(1 << 29);
    let groups = groups(&[
        ("load", "volume", &[200.0, 202.0, 198.0, 201.0]),
        ("load", "ext4", &[100.0, 101.0, 99.0, 100.0]),
    ]);
    let none = LeastScale::default;
    for (least, reason) in [
        (LeastScale { repetitions: Some(5), ..none() }, "has 4 repetitions, and the claim needs 5"),
        (LeastScale { time_ns: Some(10_000_000_000), ..none() }, "measured for 5.0 s"),
        (LeastScale { data_bytes: Some(1 << 29), ..none() }, "uses 256.00 MiB"),
        (LeastScale { memory_share: Some(2.0), ..none() }, "25.00 % of the memory"),
        (LeastScale { fill_share: Some(0.9), ..none() }, "50.00 % of the capacity of volume"),
        (
            LeastScale { figure: min_figure("write/operations_per_s", 200.0), ..none() },
            "has 198 of",
        ),
        (LeastScale { figure: min_figure("pool/images", 10.0), ..none() }, "has nothing of"),
    ] {
        for relation in ["> 1.5", "< 1.5"] {
            let claim = ClaimRecord { least: least.clone(), ..claim(&[&ratio(relation)]) };
            let found = judged(&claim, &campaign, &groups);
            assert!(
                matches!(&found, ClaimVerdict::TooSmall { reason: found } if found.contains(reason)),
                "{reason}: {found:?}"
            );
        }
    }
    let large = LeastScale {
        repetitions: Some(4),
        time_ns: Some(1_000_000_000),
        data_bytes: Some(1 << 28),
        memory_share: Some(0.25),
        fill_share: Some(0.5),
        figure: min_figure("write/operations_per_s", 99.0),
    };
    let claim = ClaimRecord { least: large, ..claim(&[&ratio("> 1.5")]) };
    assert_eq!(judged(&claim, &campaign, &groups), ClaimVerdict::Confirmed);
}

/// Five conditions whose limits are exactly the truth: the claim is judged wrongly in at most 5 %
/// of campaigns, and not in five times half of it.
#[test]
fn the_conditions_of_a_claim_are_a_family() {
    const CAMPAIGNS: u32 = 2000;
    const SEED: u64 = 21;
    let names = ["a", "b", "c", "d", "e"];
    let targets = names.iter().chain(&["base"]).map(|name| target(name, None)).collect();
    let campaign = campaign(targets, &["load"]);
    let tests = names.map(|name| {
        format!("write/operations_per_s[load, {name}] / write/operations_per_s[load, base] >= 1")
    });
    let claim = claim(&tests.each_ref().map(String::as_str));
    let mut random = Random::new(SEED);
    let refuted = (0..CAMPAIGNS).filter(|_| {
        let mut groups = Groups::default();
        for name in names.iter().chain(&["base"]) {
            let values: Vec<f64> =
                (0..5).map(|_| 100.0 * common::noise(&mut random, 0.05)).collect();
            for repetition in repetitions(&values) {
                groups.add(Place::new("load", name), repetition);
            }
        }
        judged(&claim, &campaign, &groups) == ClaimVerdict::Refuted
    });
    let share = refuted.count() as f64 / f64::from(CAMPAIGNS);
    println!("refuted at the limit: {share}");
    assert!(share <= 0.05, "{share}, seed {SEED}");
}
