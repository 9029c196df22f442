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
#[path = "../../../volume/tests/common/repeat.rs"]
mod repeat;
mod schedule;
mod wrong;

use gemelo_model::{
    Answer, Bounds, Budget, Event, Explanation, Protocol, Request, Unexplained, explain,
};
use play::{BLOCKS, MODES, Run, compares, play};
use repeat::Repeat;
use std::collections::BTreeMap;

/// The model of a pool that compares bytes before it shares a block, or trusts fingerprints.
fn protocol(compares: bool) -> Protocol {
    Protocol::new(Bounds {
        blocks: BLOCKS as u8,
        lbns: 2,
        contents: 3,
        clients: 2,
        journal: u8::MAX,
        rounds: 4,
        compares,
        collisions: false,
        volumes: MODES.map(Some),
        budget: Budget::ENDLESS,
        checks_rest: false,
    })
}

/// Runs of a test, unless others are asked for.
const USUAL_ROUNDS: u64 = 48;
/// At most one search in this number may be given up.
const GIVEN_UP_SHARE: u64 = 48;
/// The events of these runs.
const HAPPENINGS: &str = "Write Read Trim Flush Find Checkpoint Done Content Refused Found CutPower \
                          Shown BeginSync EndSync SyncCommit Discard Store Share Unmap Identify \
                          SetMode Remove Clone";

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The kinds of a run's events, changes, requests and answers.
fn kinds_of(run: &[Event]) -> impl Iterator<Item = String> {
    let texts = run.iter().flat_map(|event| match event {
        Event::Asked(_, Request::Volume(action)) => vec![format!("{action:?}")],
        Event::Asked(_, request) => vec![format!("{request:?}")],
        Event::Answered(_, Answer::Shared(1..)) => vec!["Found".to_owned()],
        Event::Answered(_, answer) => vec![format!("{answer:?}")],
        Event::Commit(changes) => changes.iter().map(|change| format!("{change:?}")).collect(),
        other => vec![format!("{other:?}")],
    });
    texts.map(|text| text.split(['(', ' ']).next().unwrap().to_owned())
}

/// Prints a run that is not a run of the model, and fails.
fn refuse(seed: u64, run: &[Event], unexplained: &Unexplained) -> ! {
    // The commits that follow say which changes were expected.
    for (at, event) in run.iter().enumerate() {
        let mark = if at == unexplained.at { " <- unexplained" } else { "" };
        eprintln!("{at}: {event:?}{mark}");
    }
    panic!("seed {seed}: no run of the model shows event {unexplained:?}");
}

#[test]
fn runs_of_the_engine_are_runs_of_the_model() {
    let (first, rounds) =
        (number("GEMELO_TEST_SEED", 0), number("GEMELO_TEST_ROUNDS", USUAL_ROUNDS));
    let (mut kinds, mut all_overtaken, mut given_up) = (BTreeMap::new(), 0, 0);
    for seed in first..first + rounds {
        let _repeat = Repeat::of(seed);
        let Run { events: run, overtaken } = play(seed);
        all_overtaken += overtaken;
        kinds_of(&run).for_each(|kind| *kinds.entry(kind).or_insert(0u64) += 1);
        match explain(&protocol(compares(seed)), &run) {
            Ok(Explanation::Found { .. }) => {}
            Ok(Explanation::GivenUp { at }) => {
                eprintln!("seed {seed}: the search was given up at event {at}");
                given_up += 1;
            }
            Err(unexplained) => refuse(seed, &run, &unexplained),
        }
    }
    assert!(given_up <= rounds / GIVEN_UP_SHARE, "too many searches were given up: {given_up}");
    eprintln!("{rounds} runs, {all_overtaken} blocks overtaken: {kinds:?}");
    if rounds >= USUAL_ROUNDS {
        assert!(all_overtaken > 0, "nothing was overtaken");
        for kind in HAPPENINGS.split_whitespace() {
            assert!(kinds.contains_key(kind), "nothing of the kind {kind} happened");
        }
    }
}
