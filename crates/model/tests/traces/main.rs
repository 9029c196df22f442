//! Runs of the real engine are runs of the model, and what the engine must not do is not.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    unreachable_pub,
    reason = "a test that cannot continue fails"
)]

mod decode;
mod disk;
mod play;
mod schedule;

use gemelo_model::{Bounds, Budget, Protocol, explain};
use play::{BLOCKS, MODES, play};

fn protocol() -> Protocol {
    Protocol::new(Bounds {
        blocks: BLOCKS as u8,
        lbns: 2,
        contents: 3,
        clients: 2,
        journal: u8::MAX,
        rounds: 4,
        collisions: false,
        volumes: MODES.map(Some),
        budget: Budget::ENDLESS,
        checks_rest: false,
    })
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn runs_of_the_engine_are_runs_of_the_model() {
    let (first, rounds) = (number("GEMELO_TEST_SEED", 0), number("GEMELO_TEST_ROUNDS", 5));
    let mut events = 0;
    for seed in first..first + rounds {
        let run = play(seed);
        events += run.len();
        if let Err(unexplained) = explain(&protocol(), &run) {
            for (at, event) in run.iter().enumerate().take(unexplained.at + 1) {
                eprintln!("{at}: {event:?}");
            }
            panic!("seed {seed}: no run of the model shows event {unexplained:?}");
        }
    }
    eprintln!("{rounds} runs of {events} events");
}
