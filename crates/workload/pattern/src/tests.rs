//! Tests that patterns have the statistics that define them. Each test names its seed.

use super::*;
use proptest::prelude::*;

fn counts(pattern: Pattern, blocks: u64, draws: u64, seed: u64) -> Vec<f64> {
    let mut positions = Positions::new(pattern, blocks, seed, 1);
    let mut counts = vec![0.0; blocks as usize];
    for _ in 0..draws {
        counts[positions.next_block() as usize] += 1.0;
    }
    counts
}

#[test]
fn sequential_goes_round() {
    let mut positions = Positions::new(Pattern::Sequential, 3, 1, 1);
    let drawn: Vec<u64> = (0..7).map(|_| positions.next_block()).collect();
    assert_eq!(drawn, [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn uniform_is_even() {
    for seed in 1..6 {
        let counts = counts(Pattern::Uniform, 256, 256 * 400, seed);
        let chi_square: f64 = counts.iter().map(|count| (count - 400.0).powi(2) / 400.0).sum();
        // With 255 degrees of freedom, chi-square exceeds 347 once in 10,000 runs.
        assert!(chi_square < 347.0, "seed {seed}: {chi_square}");
    }
}

/// Compares with the distribution of the formula itself, summed over all pairs of its two random
/// numbers.
#[test]
fn nurand_is_the_formula_of_tpcc() {
    const BLOCKS: u64 = 500;
    const DRAWS: u64 = 400_000;
    for (a, seed) in [(None, 1), (Some(255), 2), (Some(0), 3)] {
        let constant = a.unwrap_or(BLOCKS / 10);
        let Draw::NuRand { a: used, c } =
            Positions::new(Pattern::NuRand { a }, BLOCKS, seed, 1).draw
        else {
            panic!("not NURand")
        };
        assert_eq!(used, constant);
        assert!(c <= constant);
        let mut expected = vec![0.0; BLOCKS as usize];
        let share = DRAWS as f64 / ((constant + 1) * BLOCKS) as f64;
        for first in 0..=constant {
            for second in 0..BLOCKS {
                expected[(((first | second) + c) % BLOCKS) as usize] += share;
            }
        }
        let found = counts(Pattern::NuRand { a }, BLOCKS, DRAWS, seed);
        let cells = || found.iter().zip(&expected).filter(|(_, expected)| **expected >= 5.0);
        let chi_square: f64 =
            cells().map(|(count, expected)| (count - expected).powi(2) / expected).sum();
        let freedom = (cells().count() - 1) as f64;
        assert!(
            chi_square < freedom + 4.0 * (2.0 * freedom).sqrt(),
            "A {constant}, seed {seed}: {chi_square}"
        );
        let never = found
            .iter()
            .zip(&expected)
            .find(|(count, expected)| **count > 0.0 && **expected == 0.0);
        assert!(never.is_none());
    }
}

#[test]
fn hot_blocks_get_their_share_of_accesses() {
    let pattern = Pattern::Hotspot { accesses_percent: 80.0, blocks_percent: 20.0 };
    let counts = counts(pattern, 1000, 100_000, 9);
    let hot: f64 = counts[..200].iter().sum();
    // The tolerance is four standard deviations of the binomial distribution.
    assert!((hot - 80_000.0).abs() < 4.0 * (100_000.0f64 * 0.8 * 0.2).sqrt(), "seed 9: {hot}");
    assert!(counts.iter().all(|count| *count > 0.0));
    let all = Pattern::Hotspot { accesses_percent: 50.0, blocks_percent: 100.0 };
    assert_eq!(Positions::new(all, 1, 9, 1).next_block(), 0);
}

#[test]
fn zipf_scatters_its_ranks() {
    let counts = counts(Pattern::Zipf { theta: 1.0 }, 10_000, 200_000, 4);
    let mut sorted = counts.clone();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    // Rank 1 has a share of 1 / H(10000) = 1 / 9.79, and rank 2 half of that.
    assert!((sorted[0] / 200_000.0 * 9.788 - 1.0).abs() < 0.05, "{}", sorted[0]);
    assert!((sorted[1] / sorted[0] - 0.5).abs() < 0.03);
    let first_half: f64 = counts[..5000].iter().sum();
    assert!((0.2..0.8).contains(&(first_half / 200_000.0)), "{first_half}");
}

#[test]
fn streams_repeat_by_seed_and_differ_between_processes() {
    for text in ["uniform", "nurand", "zipf:0.9", "hotspot:90/10"] {
        let pattern: Pattern = text.parse().unwrap();
        let draw = |seed, stream| -> Vec<u64> {
            let mut positions = Positions::new(pattern, 1 << 20, seed, stream);
            (0..50).map(|_| positions.next_block()).collect()
        };
        assert_eq!(draw(1, 1), draw(1, 1));
        assert_ne!(draw(1, 1), draw(1, 2));
        assert_ne!(draw(1, 1), draw(2, 1));
    }
}

#[test]
fn patterns_are_read_as_they_are_written() {
    for text in ["sequential", "uniform", "nurand", "nurand:77", "zipf:0.99", "hotspot:80/20"] {
        assert_eq!(text.parse::<Pattern>().unwrap().to_string(), text);
    }
    for text in [
        "",
        "zipf",
        "zipf:-1",
        "zipf:11",
        "zipf:nan",
        "nurand:x",
        "hotspot:80",
        "hotspot:1/0",
        "x:1",
    ] {
        let error = text.parse::<Pattern>().unwrap_err().to_string();
        assert!(error.contains(&format!("'{text}'")), "{error}");
    }
}

proptest! {
    #[test]
    fn a_pattern_survives_its_text(a: u64, theta in 0.0..10.0f64, accesses in 0.0..100.0f64, blocks in 0.001..100.0f64) {
        for pattern in [
            Pattern::NuRand { a: Some(a) },
            Pattern::Zipf { theta },
            Pattern::Hotspot { accesses_percent: accesses, blocks_percent: blocks },
        ] {
            prop_assert_eq!(pattern.to_string().parse(), Ok(pattern));
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic_and_no_pattern_leaves_its_blocks(
        text in "(sequential|uniform|nurand|zipf|hotspot|\\PC{0,4})(:\\PC{0,12}|:[0-9./%-]{0,12})?",
        blocks in prop_oneof![1u64..20, Just(1u64 << 40)],
        seed: u64,
    ) {
        if let Ok(pattern) = text.parse::<Pattern>() {
            let mut positions = Positions::new(pattern, blocks, seed, 0);
            for _ in 0..50 {
                prop_assert!(positions.next_block() < blocks, "{}", pattern);
            }
        }
    }
}
