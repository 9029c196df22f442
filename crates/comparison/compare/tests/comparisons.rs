//! Tests of comparisons: what is called better, worse, the same, or too little measured.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    dead_code,
    reason = "a test fails by panicking and uses a part"
)]

mod common;

use common::{campaign, figures, repetition, repetitions, run, target};
use gemelo_base::random::Random;
use gemelo_compare::{
    Basis, CompareError, Doubt, Pair, Place, Repetition, Request, Row, Selection, Settings, Side,
    Slowdown, Verdict, compare, compare_sides, limited,
};
use gemelo_record::{Better, CAMPAIGN_FILE, Outcome, RUN_FILE, Series, Stats, run_directory};
use std::path::{Path, PathBuf};

fn rows(before: &[Repetition], after: &[Repetition], settings: &Settings) -> Vec<Row> {
    compare(&[Pair { place: Place::default(), before, after, is_paired: false }], settings)
}

fn row(before: &[f64], after: &[f64], is_paired: bool) -> Row {
    let (before, after) = (repetitions(before), repetitions(after));
    let pair = Pair { place: Place::default(), before: &before, after: &after, is_paired };
    let mut rows = compare(&[pair], &Settings::default());
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

fn one(before: &[f64], after: &[f64]) -> Row {
    row(before, after, false)
}

fn of_figure(name: &str, better: Better, values: &[f64]) -> Vec<Repetition> {
    let of_value = |(value, number): (&f64, u32)| {
        let mut figures = Stats::default();
        figures.push(name, *value, better);
        repetition(number, figures)
    };
    values.iter().zip(1..).map(of_value).collect()
}

#[test]
fn a_difference_beyond_noise_has_a_direction() {
    let calm = [100.0, 101.0, 99.0, 100.5];
    let faster = one(&calm, &[120.0, 121.0, 119.0, 120.0]);
    assert_eq!((faster.verdict, faster.basis), (Verdict::Better, Basis::Repetitions));
    assert!((faster.ratio.unwrap().value - 1.2).abs() < 0.01);
    assert_eq!(one(&calm, &[80.0, 81.0, 79.0, 80.0]).verdict, Verdict::Worse);
    assert_eq!(one(&calm, &[100.2, 100.8, 99.3, 100.1]).verdict, Verdict::Same);
}

/// Each round is slower than the one before, on both sides.
#[test]
fn a_drift_of_both_sides_hides_nothing_in_rounds() {
    let (before, after) = ([100.0, 80.0, 60.0, 40.0, 30.0], [121.0, 95.0, 72.5, 47.6, 36.2]);
    let paired = row(&before, &after, true);
    assert_eq!((paired.verdict, paired.basis), (Verdict::Better, Basis::Rounds));
    let alone = one(&before, &after);
    assert_eq!((alone.verdict, alone.doubt), (Verdict::Undecided, Some(Doubt::Wide)));
    assert!(alone.ratio.unwrap().interval.unwrap().low() > 0.0);
}

#[test]
fn rounds_are_matched_by_their_number() {
    let before = repetitions(&[100.0, 50.0, 25.0]);
    let mut after = repetitions(&[25.1, 50.2, 100.1]);
    for (repetition, number) in after.iter_mut().zip([3, 2, 1]) {
        repetition.number = number;
    }
    let pair = Pair { place: Place::default(), before: &before, after: &after, is_paired: true };
    let rows = compare(&[pair], &Settings::default());
    assert_eq!((rows[0].verdict, rows[0].basis), (Verdict::Same, Basis::Rounds));
}

/// Two values that are equal by chance say nothing about the noise of a time; space that does not
/// vary at all is counted.
#[test]
fn repetitions_without_spread_decide_only_what_is_counted() {
    for (name, values, verdict) in [
        ("write/operations_per_s", 2, Verdict::Undecided),
        ("write/operations_per_s", 5, Verdict::Undecided),
        ("space/data_bytes", 2, Verdict::Undecided),
        ("space/data_bytes", 3, Verdict::Worse),
    ] {
        let [before, after] =
            [1000.0, 1200.0].map(|value| of_figure(name, Better::Lower, &vec![value; values]));
        let better = if verdict == Verdict::Undecided { Some(Doubt::NoSpread) } else { None };
        let rows = rows(&before, &after, &Settings::default());
        assert_eq!((rows[0].verdict, rows[0].doubt), (verdict, better), "{name} {values}");
        assert_eq!(rows[0].test, None);
    }
    let zeros = of_figure("space/metadata_bytes", Better::Lower, &[0.0; 3]);
    let none = rows(&zeros, &zeros, &Settings::default());
    assert_eq!(none[0].verdict, Verdict::Same);
    let some = of_figure("space/metadata_bytes", Better::Lower, &[4096.0; 3]);
    assert_eq!(rows(&zeros, &some, &Settings::default())[0].doubt, Some(Doubt::Zero));
}

#[test]
fn lower_times_are_better() {
    let times = |values: [f64; 3]| of_figure("write/latency_mean_ns", Better::Lower, &values);
    let rows = rows(&times([10.0, 10.1, 9.9]), &times([20.0, 20.1, 19.9]), &Settings::default());
    assert_eq!(rows[0].verdict, Verdict::Worse);
    let limit = |share| limited(&rows, Slowdown::new(share).unwrap()).slower.len();
    assert_eq!([limit(0.05), limit(0.99)], [1, 1]);
}

#[test]
fn a_limit_is_answered_by_the_whole_interval() {
    let calm = [100.0, 101.0, 99.0, 100.5];
    for (before, after, slower, is_decided) in [
        (&calm[..], &[80.0, 81.0, 79.0, 80.0][..], 1, true),
        (&calm, &[100.2, 100.8, 99.3, 100.1], 0, true),
        (&calm, &[150.0, 151.0, 149.0], 0, true),
        // Slower beyond noise, and perhaps by more than the limit.
        (&calm, &[96.0, 97.0, 95.0, 96.5], 0, false),
        (&calm, &[90.0, 120.0, 60.0, 110.0], 0, false),
        (&[100.0], &[50.0], 0, false),
        (&[100.0], &[200.0], 0, false),
    ] {
        let row = one(before, after);
        let answer = limited(&[row], Slowdown::new(0.05).unwrap());
        assert_eq!((answer.slower.len(), answer.is_decided()), (slower, is_decided), "{after:?}");
        assert_eq!(answer.speeds, 1);
    }
    let space = of_figure("space/data_bytes", Better::Lower, &[1.0, 2.0, 3.0]);
    let rows = rows(&space, &space, &Settings::default());
    assert!(!limited(&rows, Slowdown::new(0.05).unwrap()).is_decided(), "there is no speed");
}

#[test]
fn one_repetition_calls_nothing_faster() {
    let row = one(&[100.0], &[1000.0]);
    assert_eq!((row.verdict, row.basis, row.test), (Verdict::Undecided, Basis::None, None));
    assert_eq!(row.doubt, Some(Doubt::OneRepetition));
    assert_eq!(row.ratio.unwrap().interval, None);
    let one_sided = one(&[100.0, 101.0, 99.0], &[1000.0]);
    assert_eq!((one_sided.verdict, one_sided.doubt), (row.verdict, row.doubt));
}

#[test]
fn the_time_series_of_single_runs_give_an_interval_and_no_verdict() {
    let with_series = |level: f64| {
        let mut run = figures(level);
        let mut random = Random::new(level as u64);
        let points = (0..60_u64).map(|s| (s * 1_000_000_000, level * (0.95 + 0.1 * random.unit())));
        let name = "write/operations_per_s".to_owned();
        run.series.push(Series { name, points: points.collect() });
        repetition(1, run)
    };
    let rows = rows(&[with_series(100.0)], &[with_series(150.0)], &Settings::default());
    assert_eq!((rows[0].verdict, rows[0].basis), (Verdict::Undecided, Basis::TimeSeries));
    let interval = rows[0].ratio.unwrap().interval.unwrap();
    assert!(interval.contains(1.5) && interval.half_width() < 0.05, "{interval:?}");
}

#[test]
fn wide_noise_is_not_called_the_same() {
    let row = one(&[100.0, 60.0, 140.0], &[110.0, 70.0, 150.0]);
    assert_eq!((row.verdict, row.doubt), (Verdict::Undecided, Some(Doubt::Wide)));
    assert!((400..1000).contains(&row.repetitions_needed.unwrap()), "{row:?}");
    let interval = row.ratio.unwrap().interval.unwrap();
    assert!(interval.low() > 0.0, "{interval:?}");
}

#[test]
fn figures_that_are_no_merit_are_not_judged() {
    let counts = |values: [f64; 3]| of_figure("write/operations", Better::Neither, &values);
    let settings = Settings { selection: Selection::All, ..Settings::default() };
    let rows = rows(&counts([1.0, 1.1, 1.2]), &counts([9.0, 9.1, 9.2]), &settings);
    assert_eq!((rows[0].verdict, rows[0].adjusted_p_value), (Verdict::NotJudged, None));
}

/// Writes a campaign whose one workload runs on each target with these values.
fn write_campaign(directory: &Path, values: &[(&str, &[f64])]) {
    let targets = values.iter().map(|(name, _)| target(name, None)).collect();
    let mut campaign = campaign(targets, &["load"]);
    let mut records = Vec::new();
    for (name, values) in values {
        for (value, number) in values.iter().zip(1..) {
            records.push(run(&mut campaign, name, number, *value));
        }
    }
    // One run that failed, whose value must not count.
    let mut failed = run(&mut campaign, values[0].0, 99, 1e9);
    failed.outcome = Outcome::Failed { reason: "test".to_owned() };
    records.push(failed);
    for record in records {
        let place = run_directory(directory, &record.id);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join(RUN_FILE), serde_json::to_string(&record).unwrap()).unwrap();
    }
    let text = serde_json::to_string(&campaign).unwrap();
    std::fs::write(directory.join(CAMPAIGN_FILE), text).unwrap();
}

#[test]
fn campaigns_are_matched_by_workload_and_target() {
    let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let calm: &[f64] = &[100.0, 101.0, 99.0, 100.0];
    write_campaign(first.path(), &[("ext4", calm), ("gone", calm)]);
    write_campaign(second.path(), &[("ext4", &[50.0, 51.0, 49.0, 50.0]), ("new", calm)]);
    let side = |directory: &tempfile::TempDir| Side::read(&[directory.path().to_owned()]).unwrap();
    let limit = Some(Slowdown::new(0.05).unwrap());
    let request = Request { limit, ..Request::default() };
    let (summary, warnings) = compare_sides(&side(&first), &side(&second), &request).unwrap();
    assert_eq!((summary.rows.len(), summary.worse), (1, 1));
    assert_eq!(summary.rows[0].place, Place::new("load", "ext4"));
    assert_eq!(summary.rows[0].before.repetitions, 4);
    let slower = summary.limit.unwrap().slower;
    assert_eq!(slower.len(), 1);
    assert!((slower[0].loss_share - 0.5).abs() < 1e-3, "{slower:?}");
    for expected in ["load on gone", "load on new", "not complete"] {
        assert!(warnings.iter().any(|warning| warning.contains(expected)), "{warnings:?}");
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../figures/tests/data").join(name)
}

#[test]
fn files_are_repetitions_and_kinds_may_differ() {
    let bench = Side::read(&[fixture("bench.json"), fixture("bench.json")]).unwrap();
    let fio = Side::read(&[fixture("fio.json"), fixture("fio-plus.json")]).unwrap();
    let (summary, _) = compare_sides(&bench, &fio, &Request::default()).unwrap();
    let figures: Vec<&str> = summary.rows.iter().map(|row| row.figure.as_str()).collect();
    assert!(figures.contains(&"write/operations_per_s"), "{figures:?}");
    assert!(summary.rows.iter().all(|row| row.before.repetitions == 2));
}

#[test]
fn sides_that_do_not_fit_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    write_campaign(directory.path(), &[("ext4", &[1.0])]);
    let file = Side::read(&[fixture("bench.json")]).unwrap();
    let campaign = Side::read(&[directory.path().to_owned()]).unwrap();
    let refused = |before: &Side, after: &Side, in_rounds| {
        let request = Request { in_rounds, ..Request::default() };
        compare_sides(before, after, &request).unwrap_err()
    };
    assert!(matches!(refused(&file, &campaign, false), CompareError::Mixed));
    let two = Side::read(&[fixture("bench.json"), fixture("bench.json")]).unwrap();
    assert!(matches!(
        refused(&file, &two, true),
        CompareError::OtherRounds { before: 1, after: 2 }
    ));
    let scan = Side::read(&[fixture("scan.json")]).unwrap();
    assert!(matches!(refused(&file, &scan, false), CompareError::NothingInCommon));
    let mixed = Side::read(&[fixture("bench.json"), directory.path().to_owned()]);
    assert!(matches!(mixed, Err(CompareError::DirectoryAmongFiles { .. })));
    assert!(matches!(Side::read(&[]), Err(CompareError::Count { count: 0 })));
}
