//! The protocol of a domain in a model checker: every order of steps, crashes, lost and late calls,
//! take-overs and splits of two and three members, within a budget.
//!
//! The model takes plans, guarded updates and verdicts from the crate itself. It adds what a member
//! does with them: its journal, its blocks and its letters. Each rule of the protocol can be left
//! out (`Weakness`), and the checker must then find a state that breaks a promise.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking"
)]

mod member;
mod promises;
mod split;
mod state;
mod steps;
mod tenure;

use state::{Budget, Protocol, Weakness};
use stateright::{Checker, HasDiscoveries, Model};

/// Returns `true` if the test may take minutes, and some gigabytes of memory.
fn is_long() -> bool {
    std::env::var("GEMELO_TEST_ROUNDS").is_ok()
}

fn holds(members: usize, contents: usize, budget: Budget) {
    let protocol = Protocol { members, contents, budget, weakness: None };
    let checker = protocol.checker().threads(2).spawn_dfs().join();
    eprintln!("{members} members, {contents} contents: {} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn two_members_keep_the_promises_over_a_take_over() {
    holds(2, 1, Budget { writes: 2, crashes: 1, faults: 0, splits: 0, moves: 0 });
}

#[test]
fn two_members_keep_the_promises_over_a_lost_call() {
    holds(2, 1, Budget { writes: 2, crashes: 0, faults: 1, splits: 0, moves: 0 });
}

#[test]
fn two_members_keep_the_promises_over_several_faults() {
    let faults = if is_long() { 2 } else { 1 };
    holds(2, 1, Budget { writes: 1, crashes: 2, faults, splits: 0, moves: 0 });
}

#[test]
fn two_members_with_two_contents_keep_the_promises() {
    holds(2, 2, Budget { writes: 1, crashes: 1, faults: 1, splits: 0, moves: 0 });
}

#[test]
fn three_members_keep_the_promises() {
    holds(3, 1, Budget { writes: 1, crashes: 0, faults: 1, splits: 0, moves: 0 });
    if is_long() {
        holds(3, 1, Budget { writes: 1, crashes: 1, faults: 0, splits: 0, moves: 0 });
    }
}

#[test]
fn two_members_keep_the_promises_over_a_split() {
    holds(2, 1, Budget { writes: 1, crashes: 0, faults: 1, splits: 1, moves: 0 });
    holds(2, 1, Budget { writes: 1, crashes: 1, faults: 0, splits: 1, moves: 0 });
    if is_long() {
        holds(2, 1, Budget { writes: 1, crashes: 1, faults: 1, splits: 1, moves: 0 });
    }
}

#[test]
fn two_members_keep_the_promises_when_contents_are_moved() {
    holds(2, 1, Budget { writes: 1, crashes: 1, faults: 0, splits: 0, moves: 1 });
    holds(2, 1, Budget { writes: 1, crashes: 0, faults: 1, splits: 0, moves: 1 });
    if is_long() {
        holds(2, 1, Budget { writes: 2, crashes: 1, faults: 1, splits: 0, moves: 1 });
    }
}

/// Checks that a promise is broken without a rule, so that each rule is known to be needed. The
/// crashes and faults are those that it takes to break it.
fn is_missed(weakness: Weakness, crashes: u8, faults: u8) {
    is_missed_in(weakness, Budget { writes: 2, crashes, faults, splits: 0, moves: 0 });
}

fn is_missed_in(weakness: Weakness, budget: Budget) {
    let protocol = Protocol { members: 2, contents: 1, budget, weakness: Some(weakness) };
    let checker =
        protocol.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found = checker.discoveries();
    let broken = promises::ALL.iter().any(|promise| found.contains_key(promise));
    assert!(broken, "nothing misses {weakness:?}");
}

#[test]
fn the_guard_on_the_header_is_needed() {
    is_missed(Weakness::NoHeaderGuard, 0, 0);
}

#[test]
fn an_intent_is_not_void_because_a_guard_failed() {
    is_missed(Weakness::AssumeVoid, 0, 1);
}

#[test]
fn an_intent_is_not_applied_because_a_guard_failed() {
    is_missed(Weakness::AssumeApplied, 0, 0);
}

#[test]
fn the_journal_comes_before_the_write() {
    is_missed(Weakness::SendFirst, 1, 0);
}

#[test]
fn a_block_is_kept_from_the_record_on() {
    is_missed(Weakness::PinLate, 0, 0);
}

#[test]
fn a_reference_is_not_used_once_its_release_is_recorded() {
    is_missed(Weakness::UseWhileReleasing, 0, 0);
}

#[test]
fn letters_come_before_the_journal_forgets() {
    is_missed(Weakness::SettleBeforeLetter, 1, 0);
}

#[test]
fn letters_come_after_the_write() {
    is_missed(Weakness::LetterFirst, 0, 0);
}

#[test]
fn letters_have_keys_of_their_own() {
    is_missed(Weakness::OneLetterPerContent, 0, 0);
}

#[test]
fn the_home_asks_the_index_before_it_frees() {
    is_missed(Weakness::FreeOnLetter, 0, 0);
}

#[test]
fn the_old_holder_is_fenced() {
    is_missed(Weakness::NoFence, 1, 0);
}

#[test]
fn a_shard_is_sealed_before_it_is_copied() {
    let budget = Budget { writes: 1, crashes: 0, faults: 0, splits: 2, moves: 0 };
    is_missed_in(Weakness::CopyBeforeSeal, budget);
}

#[test]
fn copies_end_when_a_half_is_open() {
    let budget = Budget { writes: 1, crashes: 0, faults: 1, splits: 1, moves: 0 };
    is_missed_in(Weakness::NoCopyGuard, budget);
}

#[test]
fn receipts_outlive_a_split() {
    let budget = Budget { writes: 1, crashes: 0, faults: 1, splits: 1, moves: 0 };
    is_missed_in(Weakness::RemoveReceipts, budget);
}

const MOVES: Budget = Budget { writes: 1, crashes: 0, faults: 0, splits: 0, moves: 1 };

#[test]
fn a_content_that_others_share_is_not_withdrawn() {
    is_missed_in(Weakness::WithdrawShared, MOVES);
}

#[test]
fn a_content_that_the_home_does_not_use_is_not_withdrawn() {
    is_missed_in(Weakness::WithdrawLent, MOVES);
}

#[test]
fn a_content_is_moved_after_it_was_withdrawn() {
    is_missed_in(Weakness::MoveBeforeSettling, MOVES);
}
