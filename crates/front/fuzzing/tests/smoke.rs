//! Runs every fuzz target for a short time on the stable toolchain.
//!
//! The inputs are valid ones with bytes changed, inserted, repeated and removed. The number of the
//! round is the seed, and a failure prints it. `make fuzz` runs the targets with libFuzzer.
//! `GEMELO_FUZZ_ROUNDS` sets the number of rounds, and `GEMELO_FUZZ_TARGET` selects one target.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use gemelo_base::random::Random;
use gemelo_fuzzing::{FuzzTarget, TARGETS, run};
use std::collections::BTreeSet;
use std::path::Path;

/// Number of inputs for each target.
const ROUNDS: u64 = 3000;
/// Most changes to a valid input.
const CHANGES: u64 = 8;
/// Greatest length of an input in bytes.
const MAX_BYTES: usize = 4096;
/// Texts to insert that are significant to parsers.
const TOKENS: [&str; 18] = [
    "0",
    "1",
    "9",
    "18446744073709551615",
    "-",
    ".",
    "=",
    ":",
    ",",
    " ",
    "\n",
    "[",
    "]",
    "{",
    "\"",
    "#",
    "e308",
    "\u{feff}",
];

fn change(input: &mut Vec<u8>, binary: bool, random: &mut Random) {
    let place = random.below(input.len() as u64 + 1) as usize;
    let end = (place + random.below(8) as usize).min(input.len());
    match random.below(5) {
        0 => drop(
            input.splice(place..place, TOKENS[random.below(TOKENS.len() as u64) as usize].bytes()),
        ),
        1 => drop(input.drain(place..end)),
        2 => input.extend_from_within(place..end),
        3 => input.truncate(place),
        _ => {
            if let Some(byte) = input.get_mut(place) {
                *byte = if binary {
                    random.next_u64() as u8
                } else {
                    0x20 + (random.below(0x5f) as u8)
                };
            }
        }
    }
    input.truncate(MAX_BYTES);
}

fn fuzz(target: &FuzzTarget, rounds: u64) {
    let seeds = target.seeds();
    assert!(!seeds.is_empty(), "{}", target.name);
    for seed in &seeds {
        run(target.name, seed);
    }
    for round in 0..rounds {
        let mut random = Random::new(round);
        let mut input = seeds[random.below(seeds.len() as u64) as usize].clone();
        for _ in 0..=random.below(CHANGES) {
            change(&mut input, !target.is_text(), &mut random);
        }
        let result = std::panic::catch_unwind(|| target.run(&input));
        assert!(
            result.is_ok(),
            "{}, round {round}: {:?}",
            target.name,
            String::from_utf8_lossy(&input)
        );
    }
}

#[test]
fn no_parser_misbehaves() {
    let rounds =
        std::env::var("GEMELO_FUZZ_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let only = std::env::var("GEMELO_FUZZ_TARGET").ok();
    for target in
        TARGETS.iter().filter(|target| only.as_ref().is_none_or(|only| target.name == *only))
    {
        fuzz(target, target.inputs(rounds));
    }
}

#[test]
fn every_target_has_its_file_and_every_file_its_target() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz");
    let manifest = std::fs::read_to_string(directory.join("Cargo.toml")).unwrap();
    let files: BTreeSet<String> = std::fs::read_dir(directory.join("fuzz_targets"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let names: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(files, names);
    for name in names {
        assert!(
            manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")),
            "{name} in fuzz/Cargo.toml"
        );
        let text =
            std::fs::read_to_string(directory.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(text.contains(&format!("run(\"{name}\", bytes)")), "{name}");
    }
}
