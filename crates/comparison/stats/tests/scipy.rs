//! Compares every formula with the answers of SciPy to random cases, which
//! `scripts/statistics-reference.py` writes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use gemelo_stats::{
    Confidence, Interval, Pairs, RatioNoise, Sample, TestMethod, cliffs_delta, difference_of_means,
    hedges_g, log_test, mean_with_interval, paired_test, rank_test, ratio_of_geometric_means,
    ratio_of_means, ratio_of_pairs, welch_test,
};
use serde_json::Value;

/// The accepted relative difference. Sums and series are rounded differently.
const TOLERANCE: f64 = 1e-9;

/// The accepted difference of a power, which is an integral in steps.
const POWER_TOLERANCE: f64 = 1e-6;

fn reference() -> Value {
    serde_json::from_str(include_str!("scipy.json")).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

fn sample(value: &Value) -> Sample {
    Sample::new(numbers(value)).unwrap()
}

/// Fails if the numbers differ by more than the tolerance, relative to the size of the data.
fn assert_close(name: &str, case: &Value, ours: f64, theirs: f64, size: f64) {
    let limit = TOLERANCE * theirs.abs().max(size);
    assert!((ours - theirs).abs() <= limit, "{name}: {ours} and SciPy's {theirs} for {case}");
}

fn assert_interval(name: &str, case: &Value, ours: Option<Interval>, size: f64) {
    if case[name].is_null() {
        assert_eq!(ours, None, "{name} for {case}");
        return;
    }
    let (ours, theirs) = (ours.expect(name), numbers(&case[name]));
    assert_close(name, case, ours.low(), theirs[0], size);
    assert_close(name, case, ours.high(), theirs[1], size);
}

fn cases() -> Vec<(Value, Sample, Sample)> {
    let reference = reference();
    let cases = reference["cases"].as_array().unwrap();
    assert!(cases.len() >= 200);
    cases
        .iter()
        .map(|case| (case.clone(), sample(&case["base"]), sample(&case["changed"])))
        .collect()
}

#[test]
fn means_medians_and_intervals_are_those_of_scipy() {
    for (case, base, changed) in cases() {
        let size = base.highest().abs().max(changed.highest().abs());
        let number = |name: &str| case[name].as_f64().unwrap();
        assert_close("mean", &case, base.mean(), number("mean"), 0.0);
        assert_close("median", &case, base.median(), number("median"), 0.0);
        assert_close("deviation", &case, base.deviation().unwrap(), number("deviation"), size);
        let mean = mean_with_interval(&base, Confidence::USUAL);
        assert_interval("mean_interval", &case, mean.interval, size);
        let difference = difference_of_means(&base, &changed, Confidence::USUAL);
        assert_interval("difference_interval", &case, difference.interval, size);
    }
}

#[test]
fn ratios_are_those_of_scipy_and_of_fiellers_condition() {
    for (case, base, changed) in cases() {
        let geometric = ratio_of_geometric_means(&base, &changed, Confidence::USUAL).unwrap();
        assert_interval("log_ratio_interval", &case, geometric.interval, 0.0);
        let ratio = ratio_of_means(&base, &changed, Confidence::USUAL).unwrap();
        // Ratios of figures that cannot be negative end at zero.
        let mut theirs = case.clone();
        if let Some(low) = theirs["fieller"][0].as_f64() {
            theirs["fieller"][0] = low.max(0.0).into();
        }
        assert_interval("fieller", &theirs, ratio.interval, ratio.value);
    }
}

#[test]
fn tests_and_effects_are_those_of_scipy() {
    let mut exact = 0;
    for (case, base, changed) in cases() {
        let welch = welch_test(&base, &changed).unwrap();
        let theirs = numbers(&case["welch"]);
        assert_close("t", &case, welch.statistic, theirs[0], 1.0);
        assert_close("p of t", &case, welch.p_value, theirs[1], 0.0);
        let ranks = rank_test(&base, &changed);
        let theirs = numbers(&case["ranks"]);
        let expected =
            if case["has_ties"] == true { TestMethod::RankNormal } else { TestMethod::RankExact };
        assert_eq!(ranks.method, expected, "{case}");
        exact += u32::from(expected == TestMethod::RankExact);
        assert_close("U", &case, ranks.statistic, theirs[0], 0.0);
        assert_close("p of U", &case, ranks.p_value, theirs[1], 0.0);
        let number = |name: &str| case[name].as_f64().unwrap();
        assert_close("g", &case, hedges_g(&base, &changed).unwrap(), number("hedges_g"), 1.0);
        assert_close("delta", &case, cliffs_delta(&base, &changed), number("cliffs_delta"), 1.0);
    }
    assert!((50..150).contains(&exact), "{exact} of 200 cases have no ties");
}

#[test]
fn tests_of_rounds_and_of_logarithms_are_those_of_scipy() {
    let mut rounds_tested = 0;
    for (case, base, changed) in cases() {
        let logs = log_test(&base, &changed).unwrap();
        let theirs = numbers(&case["log_welch"]);
        assert_close("t of logarithms", &case, logs.statistic, theirs[0], 1.0);
        assert_close("p of logarithms", &case, logs.p_value, theirs[1], 0.0);
        if case["paired"].is_null() {
            continue;
        }
        rounds_tested += 1;
        let rounds: Vec<(f64, f64)> =
            numbers(&case["base"]).into_iter().zip(numbers(&case["changed"])).collect();
        let pairs = Pairs::new(&rounds).unwrap();
        let test = paired_test(&pairs).unwrap();
        let theirs = &case["paired"];
        assert_close("t of rounds", &case, test.statistic, theirs["t"].as_f64().unwrap(), 1.0);
        assert_close("p of rounds", &case, test.p_value, theirs["p"].as_f64().unwrap(), 1e-6);
        let ratio = ratio_of_pairs(&pairs, Confidence::USUAL).unwrap();
        assert_interval("interval", theirs, ratio.interval, 0.0);
    }
    assert!(rounds_tested > 150, "{rounds_tested}");
}

#[test]
fn the_power_is_that_of_the_noncentral_distribution() {
    let reference = reference();
    let cases = reference["powers"].as_array().unwrap();
    assert_eq!(cases.len(), 100);
    for case in cases {
        let number = |name: &str| case[name].as_f64().unwrap();
        let noise = RatioNoise {
            deviation: number("deviation"),
            is_paired: case["is_paired"].as_bool().unwrap(),
        };
        let ours = noise.power(number("ratio"), number("count") as u32, Confidence::USUAL);
        assert!((ours - number("power")).abs() < POWER_TOLERANCE, "{ours} for {case}");
    }
}
