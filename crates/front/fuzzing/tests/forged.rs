//! Pools of every kind, and those that are kept for ever, with fields changed and checksums made
//! right: checked, opened, read, changed and repaired. Nothing panics, takes long or needs much
//! memory.
//!
//! The number of the round is the seed. `GEMELO_FUZZ_ROUNDS` sets the number of rounds,
//! `GEMELO_FUZZ_FIRST` the first one, and `GEMELO_FUZZ_KIND` selects a kind of pools.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use gemelo_base::random::{Random, mix_pair};
use gemelo_fuzzing::{kept_pools, pool_kinds, run};
use std::time::{Duration, Instant};

/// Inputs for each kind, and for each kept pool.
const ROUNDS: u64 = 25;
const KEPT_ROUNDS: u64 = 12;
/// Most edits of an input.
const EDITS: u64 = 4;
/// Bytes of an edit without its value.
const HEAD_BYTES: u64 = 6;
/// The longest run. Most take some 30 ms.
const LONGEST: Duration = Duration::from_secs(30);
/// Most memory of the process.
const MAX_MEMORY_KB: u64 = 400 << 10;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn input(kind: usize, round: u64) -> Vec<u8> {
    let mut random = Random::new(mix_pair(round, kind as u64));
    let mut input = vec![kind as u8];
    for _ in 0..1 + random.below(EDITS) {
        input.extend((0..HEAD_BYTES).map(|_| random.next_u64() as u8));
        input.extend(random.next_u64().to_le_bytes());
    }
    input
}

fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Runs a target on inputs for each of its pools.
fn forge(target: &str, pools: usize, rounds: u64) {
    let rounds = setting("GEMELO_FUZZ_ROUNDS").unwrap_or(rounds);
    let first = setting("GEMELO_FUZZ_FIRST").unwrap_or(0);
    let only = setting("GEMELO_FUZZ_KIND");
    let mut failures = Vec::new();
    for kind in (0..pools).filter(|kind| only.is_none_or(|only| only == *kind as u64)) {
        for round in first..first + rounds {
            let (input, began, before) = (input(kind, round), Instant::now(), peak_kb());
            let result = std::panic::catch_unwind(|| run(target, &input));
            let (took, peak) = (began.elapsed(), peak_kb());
            let grows = peak > before.max(MAX_MEMORY_KB);
            let said = result.err().map(|panicked| match panicked.downcast::<String>() {
                Ok(said) => *said,
                Err(_) => "a panic".to_owned(),
            });
            if said.is_some() || took > LONGEST || grows {
                let said = said.unwrap_or_default();
                failures.push(format!("kind {kind}, round {round}, {took:?}, {peak} KiB: {said}"));
            }
        }
    }
    assert!(failures.is_empty(), "{target}: {failures:#?}");
}

#[test]
fn no_forged_field_of_any_kind_of_pool_does_harm() {
    forge("pool_forged", pool_kinds(), ROUNDS);
}

#[test]
fn no_forged_field_of_a_kept_pool_does_harm() {
    forge("pool_kept", kept_pools(), KEPT_ROUNDS);
}
