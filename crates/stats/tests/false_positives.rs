//! Counts wrong answers on simulated measurements with a known truth: differences called between
//! identical sources, and intervals that miss the true value.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use gemelo_base::random::Random;
use gemelo_stats::{
    Confidence, Estimate, Sample, Timeline, autocorrelation_time, compare, effective_size, holm,
    mean_by_batches, mean_over_time, mean_with_interval, median_interval, ratio_of_means,
    ratio_of_medians,
};

const SEED: u64 = 11;
const TRIALS: u32 = 4000;
const LEVEL: f64 = 0.05;

/// Returns the largest share that a rate of [`LEVEL`] gives by chance, at four deviations.
fn most_by_chance(trials: u32) -> f64 {
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
    compare(base, changed, Confidence::USUAL).test.unwrap().p_value
}

#[test]
fn identical_sources_rarely_differ() {
    let mut random = Random::new(SEED);
    for (name, source) in SOURCES {
        for (first, second) in [(3, 3), (5, 5), (10, 10), (20, 12)] {
            let wrong = (0..TRIALS).filter(|_| {
                let base = draw(&mut random, source, first);
                p_value(&base, &draw(&mut random, source, second)) < LEVEL
            });
            let share = wrong.count() as f64 / f64::from(TRIALS);
            let most = most_by_chance(TRIALS);
            println!("{name}, {first} and {second} values: {share} (at most {most:.4})");
            assert!(share <= most, "{name}, {first} and {second} values: {share}, seed {SEED}");
        }
    }
}

/// The share of campaigns without any difference in which at least one of 20 comparisons is called
/// one, with Holm's correction and without it.
#[test]
fn many_comparisons_of_identical_sources_rarely_contain_a_difference() {
    const FAMILIES: u32 = 1000;
    const COMPARISONS: usize = 20;
    let mut random = Random::new(SEED);
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
        corrected += u32::from(holm(&p_values).iter().any(|p| *p < LEVEL));
    }
    let [corrected, plain] = [corrected, plain].map(|count| f64::from(count) / f64::from(FAMILIES));
    println!(
        "a difference among 20 comparisons: {corrected} with Holm's correction, {plain} without"
    );
    assert!(corrected <= most_by_chance(FAMILIES), "{corrected}, seed {SEED}");
    assert!(plain > 0.4, "the simulation finds false positives where there are some: {plain}");
}

/// The correction must not hide everything: a real difference of two deviations is found.
#[test]
fn real_differences_are_found() {
    let mut random = Random::new(SEED);
    for (name, source) in SOURCES {
        let found = (0..500).filter(|_| {
            let base = draw(&mut random, source, 12);
            let changed =
                draw(&mut random, source, 12).values().iter().map(|x| 3.0 * x).collect::<Vec<_>>();
            holm(&[vec![1.0; 10], vec![p_value(&base, &Sample::new(changed).unwrap())]].concat())
                [10]
                < LEVEL
        });
        let share = found.count() as f64 / 500.0;
        assert!(share > 0.8, "{name}: {share}");
    }
}

#[test]
fn intervals_miss_the_truth_at_most_at_their_level() {
    let mut random = Random::new(SEED);
    let mut missed = [0_u32; 4];
    for _ in 0..TRIALS {
        let base = draw(&mut random, SOURCES[0].1, 6);
        let changed = Sample::new((0..9).map(|_| 150.0 + 5.0 * normal(&mut random))).unwrap();
        let scaled = Sample::new((0..9).map(|_| 1.5 * (SOURCES[0].1)(&mut random))).unwrap();
        let ratio = |estimate: Option<Estimate>| estimate.unwrap().interval.unwrap();
        let mean = mean_with_interval(&base, Confidence::USUAL).interval.unwrap();
        let contains = [
            mean.contains(100.0),
            median_interval(&base, Confidence::USUAL).unwrap().contains(100.0),
            ratio(ratio_of_means(&base, &changed, Confidence::USUAL)).contains(1.5),
            ratio(ratio_of_medians(&base, &scaled, Confidence::USUAL)).contains(1.5),
        ];
        for (missed, contains) in missed.iter_mut().zip(contains) {
            *missed += u32::from(!contains);
        }
    }
    for (name, missed) in
        ["mean", "median", "ratio of means", "ratio of medians"].iter().zip(missed)
    {
        let share = f64::from(missed) / f64::from(TRIALS);
        println!("{name}: {share}");
        assert!(share <= most_by_chance(TRIALS), "{name}: {share}, seed {SEED}");
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
fn the_effective_size_is_that_of_theory() {
    let mut random = Random::new(SEED);
    for rho in [0.0, 0.5, 0.9] {
        // The second length is averaged before its autocovariances are computed.
        for count in [4000, 100_000] {
            let series = autoregressive(&mut random, rho, count);
            let expected = (1.0 + rho) / (1.0 - rho);
            let time = autocorrelation_time(&series);
            assert!((time / expected - 1.0).abs() < 0.3, "rho {rho}, {count}: {time}");
            assert!((effective_size(&series) * time / count as f64 - 1.0).abs() < 1e-9);
        }
    }
}

/// The share of missed means over time. Estimated autocorrelations make the intervals of short
/// series somewhat too narrow, as is known of all such methods, so the limit is 10 % here.
#[test]
fn intervals_over_time_respect_autocorrelation() {
    const SERIES: u32 = 1000;
    const MOST_MISSED: f64 = 0.1;
    let mut random = Random::new(SEED);
    for (rho, count) in [(0.0, 60), (0.5, 60), (0.5, 600), (0.9, 600), (0.9, 10_000)] {
        let mut missed = [0_u32; 3];
        let mut without = 0;
        for _ in 0..SERIES / if count > 1000 { 5 } else { 1 } {
            let series = autoregressive(&mut random, rho, count);
            let independent = Sample::new(series.values().iter().copied()).unwrap();
            let estimates = [
                mean_over_time(&series, Confidence::USUAL),
                mean_by_batches(&series, Confidence::USUAL),
                mean_with_interval(&independent, Confidence::USUAL),
            ];
            for (missed, estimate) in missed.iter_mut().zip(estimates) {
                let contains = estimate.interval.map(|interval| interval.contains(100.0));
                *missed += u32::from(contains == Some(false));
                without += u32::from(contains.is_none());
            }
        }
        let trials = SERIES / if count > 1000 { 5 } else { 1 };
        let [time, batches, wrong] = missed.map(|count| f64::from(count) / f64::from(trials));
        println!(
            "rho {rho}, {count} points: {time} by autocorrelation ({without} without interval), \
             {batches} by batches, {wrong} as if independent"
        );
        assert!(time <= MOST_MISSED, "rho {rho}, {count}: {time}, seed {SEED}");
        if count as f64 * (1.0 - rho) > 250.0 {
            assert!(batches <= MOST_MISSED, "rho {rho}, {count}: {batches}, seed {SEED}");
        }
        if rho == 0.9 {
            assert!(wrong > 0.4, "independence would be wrong here: {wrong}");
        }
    }
}
