//! All interleavings of the protocol within bounds keep all promises. Each test bounds another part
//! of the protocol.

#![allow(clippy::print_stderr, reason = "the size of a search is for the reader")]

use gemelo_model::{Bounds, Budget, Mode, Protocol};
use stateright::{Checker, Model};
use std::collections::BTreeSet;
use std::time::Instant;

/// The events of every search.
const ALWAYS: &str = "Write Store Change Search Examine Settle Close BeginSync EndSync WriteCommit \
                      SyncCommit FreezeForRoot SyncRoot";
const OFFLINE: Option<Mode> = Some(Mode::Offline);
const INLINE: Option<Mode> = Some(Mode::Inline);

/// Explores all states within bounds. `also` names the actions that must happen beside the usual
/// ones.
fn explore(bounds: Bounds, also: &str) {
    let began = Instant::now();
    let checker = Protocol::new(bounds).checker().spawn_bfs().join();
    eprintln!(
        "{} states, {} steps, depth {}, {:.1} s",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        began.elapsed().as_secs_f64()
    );
    let broken = checker.discoveries().into_iter().next();
    let broken = broken.map(|(promise, path)| (promise, path.into_actions()));
    assert_eq!(broken, None, "a promise is broken by a run");
    assert!(checker.is_done());
    let happened: BTreeSet<String> = checker.model().happened().iter().map(name_of).collect();
    let wanted = ALWAYS.split_whitespace().chain(also.split_whitespace());
    let missing: Vec<&str> = wanted.filter(|name| !happened.contains(*name)).collect();
    assert_eq!(missing, [""; 0], "nothing of this kind happens within the bounds: {happened:?}");
}

/// The kind of an action.
fn name_of(action: &impl std::fmt::Debug) -> String {
    format!("{action:?}").split('(').next().unwrap_or_default().to_owned()
}

#[test]
fn one_writer_without_end() {
    let budget = Budget { writes: Budget::ENDLESS.writes, ..Budget::NONE };
    explore(Bounds { blocks: 3, clients: 1, budget, ..Bounds::SMALL }, "Refuse");
}

#[test]
fn two_writers_a_trim_and_a_power_cut() {
    let budget = Budget { writes: 3, trims: 1, crashes: 1, ..Budget::NONE };
    explore(Bounds { budget, ..Bounds::SMALL }, "LookUp Trim CutPower");
}

#[test]
fn two_writers_of_offline_volumes() {
    let budget = Budget { writes: 3, crashes: 1, ..Budget::NONE };
    let volumes = [OFFLINE, OFFLINE];
    explore(Bounds { budget, volumes, checks_rest: true, ..Bounds::SMALL }, "CutPower");
}

#[test]
fn a_volume_of_two_blocks() {
    let budget = Budget { writes: 3, trims: 1, ..Budget::NONE };
    let volumes = [OFFLINE, None];
    explore(Bounds { budget, volumes, lbns: 2, clients: 1, ..Bounds::SMALL }, "Trim");
}

#[test]
fn two_volumes_of_two_blocks() {
    let budget = Budget { writes: 3, ..Budget::NONE };
    explore(Bounds { budget, lbns: 2, clients: 1, ..Bounds::SMALL }, "");
}

#[test]
fn reads_that_others_overtake() {
    let budget = Budget { writes: 3, reads: 1, ..Budget::NONE };
    explore(Bounds { budget, blocks: 3, ..Bounds::SMALL }, "BeginRead EndRead");
}

#[test]
fn volumes_that_come_and_go() {
    let budget = Budget { writes: 2, volumes: 2, crashes: 1, ..Budget::NONE };
    let also = "Create Remove Clone Hide ClearHidden CutPower";
    explore(Bounds { budget, clients: 1, checks_rest: true, ..Bounds::SMALL }, also);
}

#[test]
fn a_clone_of_two_blocks_while_the_source_is_written() {
    let budget = Budget { writes: 3, volumes: 1, ..Budget::NONE };
    let volumes = [INLINE, None];
    let bounds = Bounds { budget, volumes, lbns: 2, clients: 1, ..Bounds::SMALL };
    explore(bounds, "Clone");
}

#[test]
fn modes_that_change() {
    let budget = Budget { writes: 2, modes: 2, ..Budget::NONE };
    explore(Bounds { budget, checks_rest: true, ..Bounds::SMALL }, "SetMode");
}

#[test]
fn space_that_is_given_back() {
    let budget = Budget { writes: 2, trims: 1, discards: 1, crashes: 1, ..Budget::NONE };
    explore(Bounds { budget, ..Bounds::SMALL }, "BeginDiscard EndDiscard Trim CutPower");
}

#[test]
fn checkpoints_beside_commits() {
    let budget = Budget { writes: 3, checkpoints: 2, crashes: 1, ..Budget::NONE };
    for journal in [1, 2] {
        let bounds = Bounds { budget, journal, clients: 1, ..Bounds::SMALL };
        explore(bounds, "CloseForCheckpoint WriteCheckpoint SyncCheckpoint CutPower");
    }
}

#[test]
fn fingerprints_that_collide() {
    let budget = Budget { writes: 3, trims: 1, ..Budget::NONE };
    explore(Bounds { budget, compares: true, collisions: true, ..Bounds::SMALL }, "LookUp");
}

#[test]
fn fingerprints_that_are_remembered() {
    let budget = Budget { writes: 3, trims: 1, takes: 2, ..Budget::NONE };
    explore(Bounds { budget, blocks: 2, clients: 1, ..Bounds::SMALL }, "BeginTake EndTake Trim");
    let budget = Budget { writes: 2, modes: 1, takes: 2, ..budget };
    let volumes = [Some(Mode::Off), OFFLINE];
    let bounds = Bounds { budget, volumes, blocks: 2, clients: 1, ..Bounds::SMALL };
    explore(bounds, "BeginTake EndTake Trim SetMode");
}

#[test]
fn bytes_that_are_compared() {
    let budget = Budget { writes: 3, takes: 1, ..Budget::NONE };
    let bounds = Bounds { budget, compares: true, blocks: 3, clients: 1, ..Bounds::SMALL };
    explore(bounds, "BeginTake EndTake");
}
