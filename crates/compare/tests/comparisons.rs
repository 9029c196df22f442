//! Tests of comparisons: what is called better, worse, the same, or too little measured.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    dead_code,
    reason = "a test fails by panicking and uses a part"
)]

mod common;

use common::{campaign, figures, run, target};
use gemelo_base::random::Random;
use gemelo_compare::{
    Basis, CompareError, Pair, Place, Row, Selection, Settings, Side, Slowdown, Verdict, compare,
    compare_sides, slower_rows,
};
use gemelo_record::{Better, CAMPAIGN_FILE, Figures, Outcome, RUN_FILE, Series, run_directory};
use std::path::{Path, PathBuf};

fn rows(before: &[Figures], after: &[Figures], settings: &Settings) -> Vec<Row> {
    let pair = Pair {
        place: Place::default(),
        before: before.iter().collect(),
        after: after.iter().collect(),
    };
    compare(&[pair], settings)
}

fn one(before: &[f64], after: &[f64]) -> Row {
    let runs = |values: &[f64]| values.iter().map(|value| figures(*value)).collect::<Vec<_>>();
    let mut rows = rows(&runs(before), &runs(after), &Settings::default());
    assert_eq!(rows.len(), 1);
    rows.remove(0)
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

#[test]
fn lower_times_are_better() {
    let runs = |values: [f64; 3]| {
        values.map(|value| {
            let mut figures = Figures::default();
            figures.push("write/latency_mean_ns", value, Better::Lower);
            figures
        })
    };
    let rows = rows(&runs([10.0, 10.1, 9.9]), &runs([20.0, 20.1, 19.9]), &Settings::default());
    assert_eq!(rows[0].verdict, Verdict::Worse);
    let limit = |share| slower_rows(&rows, Slowdown::new(share).unwrap()).len();
    assert_eq!([limit(0.05), limit(0.99), limit(1.0)], [1, 1, 1]);
}

#[test]
fn one_repetition_calls_nothing_faster() {
    let row = one(&[100.0], &[1000.0]);
    assert_eq!((row.verdict, row.basis, row.test), (Verdict::TooFew, Basis::None, None));
    assert_eq!(row.ratio.unwrap().interval, None);
    assert_eq!(one(&[100.0, 101.0, 99.0], &[1000.0]).verdict, Verdict::TooFew);
}

#[test]
fn the_time_series_of_single_runs_give_an_interval_and_no_verdict() {
    let with_series = |level: f64| {
        let mut run = figures(level);
        let mut random = Random::new(level as u64);
        let points = (0..60_u64).map(|s| (s * 1_000_000_000, level * (0.95 + 0.1 * random.unit())));
        let name = "write/operations_per_s".to_owned();
        run.series.push(Series { name, points: points.collect() });
        run
    };
    let rows = rows(&[with_series(100.0)], &[with_series(150.0)], &Settings::default());
    assert_eq!((rows[0].verdict, rows[0].basis), (Verdict::TooFew, Basis::TimeSeries));
    let interval = rows[0].ratio.unwrap().interval.unwrap();
    assert!(interval.contains(1.5) && interval.half_width() < 0.05, "{interval:?}");
}

#[test]
fn wide_noise_is_not_called_the_same() {
    let row = one(&[100.0, 60.0, 140.0], &[110.0, 70.0, 150.0]);
    assert_eq!(row.verdict, Verdict::TooFew);
    assert!((100..400).contains(&row.repetitions_needed.unwrap()), "{row:?}");
}

#[test]
fn figures_that_are_no_merit_are_not_judged() {
    let runs = |values: [f64; 3]| {
        values.map(|value| {
            let mut figures = Figures::default();
            figures.push("write/operations", value, Better::Neither);
            figures
        })
    };
    let settings = Settings { selection: Selection::All, ..Settings::default() };
    let rows = rows(&runs([1.0, 1.1, 1.2]), &runs([9.0, 9.1, 9.2]), &settings);
    assert_eq!((rows[0].verdict, rows[0].adjusted_p_value), (Verdict::NotJudged, None));
}

/// The share of comparisons of identical targets that call anything different.
#[test]
fn identical_targets_rarely_differ() {
    const CAMPAIGNS: u32 = 600;
    const WORKLOADS: usize = 12;
    let mut random = Random::new(5);
    let mut wrong = 0;
    for _ in 0..CAMPAIGNS {
        let mut side = || -> Vec<Vec<Figures>> {
            let mut runs = || (0..5).map(|_| figures(100.0 + 10.0 * random.unit())).collect();
            (0..WORKLOADS).map(|_| runs()).collect()
        };
        let (before, after) = (side(), side());
        let pairs = before.iter().zip(&after).map(|(before, after)| Pair {
            place: Place::default(),
            before: before.iter().collect(),
            after: after.iter().collect(),
        });
        let rows = compare(&pairs.collect::<Vec<_>>(), &Settings::default());
        assert_eq!(rows.len(), WORKLOADS);
        let differs = |row: &Row| matches!(row.verdict, Verdict::Better | Verdict::Worse);
        wrong += u32::from(rows.iter().any(differs));
    }
    let share = f64::from(wrong) / f64::from(CAMPAIGNS);
    println!("campaigns of identical targets with a difference: {share}");
    // Four deviations above the level of 5 %.
    assert!(share <= 0.05 + 4.0 * (0.05 * 0.95 / f64::from(CAMPAIGNS)).sqrt(), "{share}");
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
    let (summary, warnings) =
        compare_sides(&side(&first), &side(&second), &Settings::default(), limit).unwrap();
    assert_eq!((summary.rows.len(), summary.worse), (1, 1));
    assert_eq!(summary.rows[0].place, Place::new("load", "ext4"));
    assert_eq!(summary.rows[0].before.repetitions, 4);
    assert_eq!(summary.slower.len(), 1);
    assert!((summary.slower[0].loss_share - 0.5).abs() < 1e-9);
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
    let (summary, _) = compare_sides(&bench, &fio, &Settings::default(), None).unwrap();
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
    let refused = |before: &Side, after: &Side, settings: &Settings| {
        compare_sides(before, after, settings, None).unwrap_err()
    };
    let usual = Settings::default();
    assert!(matches!(refused(&file, &campaign, &usual), CompareError::Mixed));
    let scan = Side::read(&[fixture("scan.json")]).unwrap();
    assert!(matches!(refused(&file, &scan, &usual), CompareError::NothingInCommon));
    let mixed = Side::read(&[fixture("bench.json"), directory.path().to_owned()]);
    assert!(matches!(mixed, Err(CompareError::DirectoryAmongFiles { .. })));
    assert!(matches!(Side::read(&[]), Err(CompareError::Count { count: 0 })));
}
