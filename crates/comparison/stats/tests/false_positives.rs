//! Counts wrong answers on simulated measurements with a known truth: differences called between
//! identical sources, and intervals that miss the true value.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use gemelo_base::random::Random;
use gemelo_stats::{
    Confidence, Estimate, Pairs, RatioNoise, Sample, Timeline, autocorrelation_time,
    centre_with_interval, compare, compare_pairs, mean_with_interval, ratio_of_geometric_means,
    ratio_of_means, ratio_of_medians, ratio_over_time,
};

const SEED: u64 = 11;
const TRIALS: u32 = 4000;
const LEVEL: f64 = 0.05;

/// Returns the largest share that a rate of [`LEVEL`] gives by chance, at four deviations.
fn max_by_chance(trials: u32) -> f64 {
    LEVEL + 4.0 * (LEVEL * (1.0 - LEVEL) / f64::from(trials)).sqrt()
}

/// A standard normal number, by the method of Box and Muller.
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// A source of measurements.
type Source = fn(&mut Random) -> f64;

/// Sources like those of throughput and latency: symmetric, skewed, with rare stalls, in whole
/// numbers with ties.
const SOURCES: [(&str, Source); 4] = [
    ("normal", |random| 100.0 + normal(random)),
    ("lognormal", |random| (0.5 * normal(random)).exp()),
    ("stalls", |random| if random.unit() < 0.1 { 30.0 } else { 100.0 + normal(random) }),
    ("ties", |random| (3.0 * random.unit()).floor() + 10.0),
];

fn draw(random: &mut Random, source: Source, count: usize) -> Sample {
    Sample::new((0..count).map(|_| source(random))).unwrap()
}

fn p_value(base: &Sample, changed: &Sample) -> f64 {
    // Samples without spread, which the source of ties gives, have no test.
    compare(base, changed, Confidence::USUAL).test.map_or(1.0, |test| test.p_value)
}

#[test]
fn identical_sources_rarely_differ() {
    let mut random = Random::new(SEED);
    for (name, source) in SOURCES {
        for (first, second) in [(2, 2), (3, 3), (5, 5), (10, 10), (20, 12)] {
            let wrong = (0..TRIALS).filter(|_| {
                let base = draw(&mut random, source, first);
                p_value(&base, &draw(&mut random, source, second)) < LEVEL
            });
            let share = wrong.count() as f64 / f64::from(TRIALS);
            let most = max_by_chance(TRIALS);
            println!("{name}, {first} and {second} values: {share} (at most {most:.4})");
            assert!(share <= most, "{name}, {first} and {second} values: {share}, seed {SEED}");
        }
    }
}

/// Rounds whose drift is larger than the noise of a round.
fn rounds(random: &mut Random, count: usize, ratio: f64) -> Pairs {
    let values = (0..count).map(|_| {
        let drift = (0.3 * normal(random)).exp();
        let mut noisy = |value: f64| value * drift * (0.05 * normal(random)).exp();
        (noisy(100.0), noisy(100.0 * ratio))
    });
    Pairs::new(&values.collect::<Vec<_>>()).unwrap()
}

#[test]
fn rounds_of_identical_sources_rarely_differ_and_drift_does_not_hide_a_difference() {
    let mut random = Random::new(SEED);
    let level = Confidence::USUAL;
    for count in [2, 3, 5, 10] {
        let (mut wrong, mut missed, mut found, mut found_alone) = (0, 0, 0, 0);
        for _ in 0..TRIALS {
            let calls = |pairs: &Pairs| {
                compare_pairs(pairs, level).test.is_some_and(|test| test.p_value < LEVEL)
            };
            let same = rounds(&mut random, count, 1.0);
            wrong += u32::from(calls(&same));
            let other = rounds(&mut random, count, 0.85);
            let ratio = compare_pairs(&other, level).ratio.unwrap().interval.unwrap();
            missed += u32::from(!ratio.contains(0.85));
            found += u32::from(calls(&other));
            found_alone += u32::from(p_value(other.base(), other.changed()) < LEVEL);
        }
        let share = |of: u32| f64::from(of) / f64::from(TRIALS);
        println!(
            "{count} rounds: {} wrong, {} missed, {} found in rounds, {} found alone",
            share(wrong),
            share(missed),
            share(found),
            share(found_alone)
        );
        assert!(share(wrong) <= max_by_chance(TRIALS), "{count}: {wrong}, seed {SEED}");
        assert!(share(missed) <= max_by_chance(TRIALS), "{count}: {missed}, seed {SEED}");
        if count >= 5 {
            assert!(share(found) > 0.8 && share(found_alone) < 0.5, "{count}, seed {SEED}");
        }
    }
}

#[test]
fn the_power_that_is_told_is_the_share_that_is_found() {
    let mut random = Random::new(SEED);
    for (count, ratio) in [(3, 0.9), (5, 0.9), (5, 0.95), (10, 0.95)] {
        // The noise of a ratio is that of two values.
        let noise = RatioNoise { deviation: 0.05 * std::f64::consts::SQRT_2, is_paired: true };
        let told = noise.power(ratio, count, Confidence::USUAL);
        let found = (0..TRIALS).filter(|_| {
            let pairs = rounds(&mut random, count as usize, ratio);
            compare_pairs(&pairs, Confidence::USUAL).test.unwrap().p_value < LEVEL
        });
        let share = found.count() as f64 / f64::from(TRIALS);
        println!("{count} rounds, ratio {ratio}: {share} found, {told:.3} told");
        assert!((share - told).abs() < 0.03, "{share} {told}, seed {SEED}");
    }
}

/// The share of campaigns without any difference in which at least one of 20 comparisons is called
/// one, with the shared level and without it.
#[test]
fn many_comparisons_of_identical_sources_rarely_contain_a_difference() {
    const FAMILIES: u32 = 1000;
    const COMPARISONS: usize = 20;
    let mut random = Random::new(SEED);
    let shared = Confidence::USUAL.shared_by(COMPARISONS).error_share();
    let (mut corrected, mut plain) = (0, 0);
    for _ in 0..FAMILIES {
        let p_values: Vec<f64> = (0..COMPARISONS)
            .map(|place| {
                let (_, source) = SOURCES[place % SOURCES.len()];
                let base = draw(&mut random, source, 10);
                p_value(&base, &draw(&mut random, source, 10))
            })
            .collect();
        plain += u32::from(p_values.iter().any(|p| *p < LEVEL));
        corrected += u32::from(p_values.iter().any(|p| *p < shared));
    }
    let [corrected, plain] = [corrected, plain].map(|count| f64::from(count) / f64::from(FAMILIES));
    println!("a difference among 20 comparisons: {corrected} with a shared level, {plain} without");
    assert!(corrected <= max_by_chance(FAMILIES), "{corrected}, seed {SEED}");
    assert!(plain > 0.4, "the simulation finds false positives where there are some: {plain}");
}

/// The correction must not hide everything: a real difference of two deviations is found.
#[test]
fn real_differences_are_found() {
    let mut random = Random::new(SEED);
    let shared = Confidence::USUAL.shared_by(11).error_share();
    for (name, source) in SOURCES {
        let found = (0..500).filter(|_| {
            let base = draw(&mut random, source, 12);
            let changed = draw(&mut random, source, 12);
            let tripled = Sample::new(changed.values().iter().map(|x| 3.0 * x)).unwrap();
            p_value(&base, &tripled) < shared
        });
        let share = found.count() as f64 / 500.0;
        assert!(share > 0.8, "{name}: {share}");
    }
}

#[test]
fn intervals_miss_the_truth_at_most_at_their_level() {
    let mut random = Random::new(SEED);
    let mut missed = [0_u32; 5];
    for _ in 0..TRIALS {
        let base = draw(&mut random, SOURCES[0].1, 6);
        let changed = Sample::new((0..9).map(|_| 150.0 + 5.0 * normal(&mut random))).unwrap();
        let scaled = Sample::new((0..9).map(|_| 1.5 * (SOURCES[0].1)(&mut random))).unwrap();
        let ratio = |estimate: Option<Estimate>| estimate.unwrap().interval.unwrap();
        let mean = mean_with_interval(&base, Confidence::USUAL).interval.unwrap();
        let skewed = |random: &mut Random| SOURCES[1].1(random);
        let [skewed, other] =
            [4, 6].map(|n| (0..n).map(|_| skewed(&mut random)).collect::<Vec<_>>());
        let [skewed, other] = [skewed, other].map(|values| Sample::new(values).unwrap());
        let centre = centre_with_interval(&skewed, Confidence::USUAL).interval.unwrap();
        let contains = [
            centre.contains(1.0),
            ratio(ratio_of_geometric_means(&skewed, &other, Confidence::USUAL)).contains(1.0),
            mean.contains(100.0),
            ratio(ratio_of_means(&base, &changed, Confidence::USUAL)).contains(1.5),
            ratio(ratio_of_medians(&base, &scaled, Confidence::USUAL)).contains(1.5),
        ];
        for (missed, contains) in missed.iter_mut().zip(contains) {
            *missed += u32::from(!contains);
        }
    }
    let names = ["centre", "ratio of centres", "mean", "ratio of means", "ratio of medians"];
    for (name, missed) in names.iter().zip(missed) {
        let share = f64::from(missed) / f64::from(TRIALS);
        println!("{name}: {share}");
        assert!(share <= max_by_chance(TRIALS), "{name}: {share}, seed {SEED}");
    }
}

/// A first-order autoregressive series with mean 100 and autocorrelation `rho` at lag 1.
fn autoregressive(random: &mut Random, rho: f64, count: usize) -> Timeline {
    let mut state = normal(random) / (1.0 - rho * rho).sqrt();
    let values = (0..count).map(|_| {
        state = rho * state + normal(random);
        100.0 + state
    });
    Timeline::new(values.collect()).unwrap()
}

#[test]
fn the_autocorrelation_time_is_that_of_theory() {
    let mut random = Random::new(SEED);
    for rho in [0.0, 0.5, 0.9] {
        // The second length is averaged before its autocovariances are computed.
        for count in [4000, 100_000] {
            let series = autoregressive(&mut random, rho, count);
            let expected = (1.0 + rho) / (1.0 - rho);
            let time = autocorrelation_time(&series);
            assert!((time / expected - 1.0).abs() < 0.3, "rho {rho}, {count}: {time}");
        }
    }
}

/// The share of missed ratios over time. Estimated autocorrelations make the intervals of short
/// series somewhat too narrow, as is known of all such methods, so the limit is 10 % here.
#[test]
fn intervals_over_time_respect_autocorrelation() {
    const SERIES: u32 = 1000;
    const MAX_MISSED: f64 = 0.1;
    let mut random = Random::new(SEED);
    for (rho, count) in [(0.0, 60), (0.5, 60), (0.5, 600), (0.9, 600), (0.9, 10_000)] {
        let trials = SERIES / if count > 1000 { 5 } else { 1 };
        let mut missed = [0_u32; 2];
        let mut without = 0;
        for _ in 0..trials {
            let [base, changed] = [(); 2].map(|()| autoregressive(&mut random, rho, count));
            let independent =
                [&base, &changed].map(|one| Sample::new(one.values().iter().copied()).unwrap());
            let estimates = [
                ratio_over_time(&base, &changed, Confidence::USUAL),
                ratio_of_means(&independent[0], &independent[1], Confidence::USUAL),
            ];
            for (missed, estimate) in missed.iter_mut().zip(estimates) {
                let contains = estimate.unwrap().interval.map(|interval| interval.contains(1.0));
                *missed += u32::from(contains == Some(false));
                without += u32::from(contains.is_none());
            }
        }
        let [time, wrong] = missed.map(|count| f64::from(count) / f64::from(trials));
        println!(
            "rho {rho}, {count} points: {time} by autocorrelation ({without} without interval), \
             {wrong} as if independent"
        );
        assert!(time <= MAX_MISSED, "rho {rho}, {count}: {time}, seed {SEED}");
        if rho == 0.9 {
            assert!(wrong > 0.4, "independence would be wrong here: {wrong}");
        }
    }
}
