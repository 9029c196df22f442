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
use gemelo_compare::{ClaimVerdict, Groups, Judgement, Place, Repetition, Standards, judge};
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

/// Repetitions of rates, with other figures beside them.
fn with_figures(values: &[f64], others: &[(&str, f64)]) -> Vec<Repetition> {
    let mut runs = repetitions(values);
    for run in &mut runs {
        for (name, value) in others {
            run.figures.push(*name, *value, Better::Neither);
        }
    }
    runs
}

/// Judges conditions by the rates of a volume, 3 times those of a disk.
fn judged_beside_disk(tests: &[&str], volume: &[(&str, f64)], disk: &[(&str, f64)]) -> Judgement {
    let campaign = campaign(vec![target("volume", None), target("disk", None)], &["load"]);
    let mut groups = Groups::default();
    for (name, values, others) in [
        ("volume", [300.0, 303.0, 297.0, 301.0], volume),
        ("disk", [100.0, 100.0, 99.0, 101.0], disk),
    ] {
        for repetition in with_figures(&values, others) {
            groups.add(Place::new("load", name), repetition);
        }
    }
    judge(&claim(tests), &campaign, &groups, Standards::of(&campaign).unwrap())
}

const BESIDE_DISK: &str =
    "write/operations_per_s[load, volume] / write/operations_per_s[load, disk]";

fn is_undecided_by(verdict: &ClaimVerdict, words: &str) -> bool {
    matches!(verdict, ClaimVerdict::Undecided { reason } if reason.contains(words))
}

/// With 60 % of the time spent generating, the storage alone is at most 2.5 times as fast: a slow
/// side has 1.2 to 3 of the rates of the other, and a fast one 3 to 7.5.
#[test]
fn a_side_of_the_generator_is_judged_by_all_that_its_storage_could_do() {
    const BOUND: &[(&str, f64)] = &[("run/generating_share", 0.6)];
    let (yes, no) = (Some(ClaimVerdict::Confirmed), Some(ClaimVerdict::Refuted));
    for (volume, disk, relation, expected) in [
        (&[][..], BOUND, "> 1.1", yes.clone()),
        (&[], BOUND, "> 1.3", None),
        (&[], BOUND, "> 3.2", no.clone()),
        (BOUND, &[], "> 2.8", yes.clone()),
        (BOUND, &[], "< 7", None),
        (BOUND, &[], "< 8", yes.clone()),
        (BOUND, BOUND, "> 1.3", None),
        (BOUND, BOUND, "< 7", None),
        (BOUND, BOUND, "about 4.4 within 80%", yes.clone()),
    ] {
        let test = format!("{BESIDE_DISK} {relation}");
        let Judgement { verdict, conditions, .. } = judged_beside_disk(&[&test], volume, disk);
        match expected {
            Some(expected) => assert_eq!(verdict, expected, "{relation}"),
            None => assert!(is_undecided_by(&verdict, "generating"), "{relation}: {verdict:?}"),
        }
        let remark = conditions[0].remark.as_deref().unwrap_or_default();
        let is_decided = !matches!(verdict, ClaimVerdict::Undecided { .. });
        assert_eq!(remark.ends_with("without the time of the generator"), is_decided);
    }
}

/// The bound does not hold for latencies and means, nor if the processors were busy, and reads from
/// memory stay apart from those from disks.
#[test]
fn a_side_of_the_generator_without_a_bound_stays_undecided() {
    const SHARE: (&str, f64) = ("run/generating_share", 0.6);
    let rate = format!("{BESIDE_DISK} > 1.1");
    let latency = rate.replace("operations_per_s", "latency_mean_ns");
    let mean = "write/operations_per_s[load, disk] > 1";
    let times = [SHARE, ("write/latency_mean_ns", 5.0)];
    let busy = [SHARE, ("system/cpu_share", 1e9)];
    for (test, volume, disk) in
        [(mean, &[][..], &[SHARE][..]), (&latency, &times[1..], &times), (&rate, &[], &busy)]
    {
        let verdict = judged_beside_disk(&[test], volume, disk).verdict;
        assert!(is_undecided_by(&verdict, "generating"), "{test}: {verdict:?}");
    }
    let reads =
        |disk| ["read/bytes_per_s", "system/disk_read_bytes_per_s"].into_iter().zip([1e9, disk]);
    let volume: Vec<_> = reads(9e8).collect();
    let disk: Vec<_> = reads(1e6).chain([SHARE]).collect();
    let test = rate.replace("write/operations_per_s", "read/bytes_per_s").replace("> 1.1", "> 0");
    let verdict = judged_beside_disk(&[&test], &volume, &disk).verdict;
    assert!(is_undecided_by(&verdict, "memory"), "{verdict:?}");
}

/// A generator makes a ratio of ratios uncertain in the direction in which its figure counts.
#[test]
fn a_ratio_of_ratios_with_one_figure_of_the_generator_has_a_bound() {
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
            let share = if bound == Some((load, target)) { 0.9 } else { 0.1 };
            for repetition in with_figures(&values, &[("run/generating_share", share)]) {
                groups.add(Place::new(load, target), repetition);
            }
        }
        judged(&claim(&[&test]), &campaign, &groups)
    };
    assert_eq!(with_generator_at(None), ClaimVerdict::Confirmed);
    for (place, divides) in places.into_iter().zip([false, true, true, false]) {
        let verdict = with_generator_at(Some(place));
        if divides {
            assert!(is_undecided_by(&verdict, "generating"), "{place:?}: {verdict:?}");
        } else {
            assert_eq!(verdict, ClaimVerdict::Confirmed, "{place:?}");
        }
    }
}

/// The margin is 10 %. A ratio that is known to leave out 1 is a difference, however small.
#[test]
fn a_difference_that_is_within_the_margin_is_refuted() {
    let campaign = campaign(vec![target("volume", None), target("ext4", None)], &["load"]);
    let of = |values: &[f64], relation: &str| {
        let ext4 = [100.0, 101.0, 99.0, 100.0];
        let groups = groups(&[("load", "volume", values), ("load", "ext4", &ext4)]);
        let claim = claim(&[&ratio(relation)]);
        let Judgement { verdict, conditions, .. } =
            judge(&claim, &campaign, &groups, Standards::of(&campaign).unwrap());
        (verdict, conditions[0].remark.clone())
    };
    let (same, above, wide) =
        ([101.0, 100.0, 99.0, 101.0], [103.0, 104.1, 102.0, 103.0], [90.0, 115.0, 101.0, 99.0]);
    for relation in ["> 1", "< 1"] {
        let remark = Some("the same within 10 %".to_owned());
        assert_eq!(of(&same, relation), (ClaimVerdict::Refuted, remark), "{relation}");
        assert!(is_undecided_by(&of(&wide, relation).0, "both sides of 1"), "{relation}");
    }
    for relation in [">= 1", "<= 1", "> 1.001"] {
        assert!(is_undecided_by(&of(&same, relation).0, "both sides of 1"), "{relation}");
    }
    assert_eq!(of(&above, "> 1"), (ClaimVerdict::Confirmed, None));
    assert_eq!(of(&above, "< 1"), (ClaimVerdict::Refuted, None));
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
