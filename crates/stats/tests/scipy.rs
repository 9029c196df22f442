//! Compares every formula with the answers of SciPy to random cases, which
//! `scripts/statistics-reference.py` writes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use gemelo_stats::{
    Confidence, Interval, Resampling, Sample, TestMethod, bootstrap_bca, bootstrap_percentile,
    cliffs_delta, difference_of_means, hedges_g, holm, mean_with_interval, median_interval,
    rank_test, ratio_of_geometric_means, ratio_of_means, welch_test,
};
use serde_json::Value;

/// The accepted relative difference. Sums and series are rounded differently.
const TOLERANCE: f64 = 1e-9;

/// The accepted difference of an end of a resampled interval, as a share of its width: 20,000
/// resamples leave a deviation of about 1 % of the width at each end.
const RESAMPLED_TOLERANCE: f64 = 0.05;

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
fn means_medians_and_their_intervals_are_those_of_scipy() {
    for (case, base, changed) in cases() {
        let size = base.highest().abs().max(changed.highest().abs());
        let number = |name: &str| case[name].as_f64().unwrap();
        assert_close("mean", &case, base.mean(), number("mean"), 0.0);
        assert_close("median", &case, base.median(), number("median"), 0.0);
        assert_close("deviation", &case, base.deviation().unwrap(), number("deviation"), size);
        let mean = mean_with_interval(&base, Confidence::USUAL);
        assert_interval("mean_interval", &case, mean.interval, size);
        let median = median_interval(&base, Confidence::USUAL);
        assert_interval("median_interval", &case, median, size);
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
        assert_interval("fieller", &case, ratio.interval, ratio.value);
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
fn holms_values_follow_his_procedure() {
    for family in reference()["holm"].as_array().unwrap() {
        let adjusted = holm(&numbers(&family["p_values"]));
        for (ours, theirs) in adjusted.iter().zip(numbers(&family["adjusted"])) {
            assert_close("Holm", family, *ours, theirs, 0.0);
        }
    }
}

#[test]
fn resampled_intervals_agree_with_scipy_up_to_chance() {
    for case in reference()["bootstrap"].as_array().unwrap() {
        let values = sample(&case["values"]);
        let resampling = Resampling::new(20_000, 7);
        let confidence = Confidence::USUAL;
        let percentile = bootstrap_percentile(&values, Sample::mean, confidence, resampling);
        let bca = bootstrap_bca(&values, Sample::mean, confidence, resampling);
        for (name, ours) in [("percentile", percentile.unwrap()), ("bca", bca.unwrap())] {
            let theirs = numbers(&case[name]);
            let limit = RESAMPLED_TOLERANCE * (theirs[1] - theirs[0]);
            assert!((ours.low() - theirs[0]).abs() < limit, "{name}: {ours:?} for {case}");
            assert!((ours.high() - theirs[1]).abs() < limit, "{name}: {ours:?} for {case}");
        }
    }
}
