//! Pools of every kind, and those that are kept for ever, with fields changed and checksums made
//! right: checked, opened, read, changed and repaired. Nothing panics, takes long or needs much
//! memory.
//!
//! The number of the round is the seed. `GEMELO_FUZZ_ROUNDS` sets the number of rounds,
//! `GEMELO_FUZZ_FIRST` the first one, and `GEMELO_FUZZ_KIND` selects a kind of pools. Every field
//! of every kept pool is changed once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use gemelo_fuzzing::{field_inputs, forged_input, kept_pools, pool_kinds, run};
use std::time::{Duration, Instant};

/// Inputs for each kind, and for each kept pool beside those that change one field.
const ROUNDS: u64 = 25;
const KEPT_ROUNDS: u64 = 4;
/// The longest run. Most take some 30 ms.
const LONGEST: Duration = Duration::from_secs(30);
/// Most memory of the process.
const MAX_MEMORY_KB: u64 = 400 << 10;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Runs a target on an input. Returns what it did wrong.
fn failure(target: &str, input: &[u8]) -> Option<String> {
    let (began, before) = (Instant::now(), peak_kb());
    let result = std::panic::catch_unwind(|| run(target, input));
    let (took, peak) = (began.elapsed(), peak_kb());
    let said = result.err().map(|panicked| match panicked.downcast::<String>() {
        Ok(said) => *said,
        Err(_) => "a panic".to_owned(),
    });
    let grows = peak > before.max(MAX_MEMORY_KB);
    let is_bad = said.is_some() || took > LONGEST || grows;
    is_bad.then(|| format!("{took:?}, {peak} KiB: {}", said.unwrap_or_default()))
}

fn kinds(count: usize) -> impl Iterator<Item = usize> {
    let only = setting("GEMELO_FUZZ_KIND");
    (0..count).filter(move |kind| only.is_none_or(|only| only == *kind as u64))
}

/// Runs a target on inputs for each of its pools.
fn forge(target: &str, pools: usize, rounds: u64) {
    let rounds = setting("GEMELO_FUZZ_ROUNDS").unwrap_or(rounds);
    let first = setting("GEMELO_FUZZ_FIRST").unwrap_or(0);
    let mut failures = Vec::new();
    for kind in kinds(pools) {
        for round in first..first + rounds {
            let failure = failure(target, &forged_input(kind, round));
            failures.extend(failure.map(|said| format!("kind {kind}, round {round}, {said}")));
        }
    }
    assert!(failures.is_empty(), "{target}: {failures:#?}");
}

#[test]
fn no_forged_field_of_any_kind_of_pool_does_harm() {
    forge("pool_forged", pool_kinds(), ROUNDS);
}

#[test]
fn no_forged_fields_of_a_kept_pool_do_harm() {
    forge("pool_kept", kept_pools(), KEPT_ROUNDS);
}

#[test]
fn no_field_of_a_kept_pool_does_harm() {
    let mut failures = Vec::new();
    for kind in kinds(kept_pools()) {
        for (number, input) in field_inputs(kind).iter().enumerate() {
            let failure = failure("pool_kept", input);
            failures.extend(failure.map(|said| format!("kind {kind}, input {number}, {said}")));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
