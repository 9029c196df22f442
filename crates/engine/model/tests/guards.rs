//! Each guard of the protocol is needed: without it the checker finds a run that breaks a promise.
//! Each test states the shortest such run.

#![allow(clippy::expect_used, clippy::print_stderr, reason = "a test fails by panicking")]

use gemelo_model::{
    BLOCKS, Bounds, Budget, CRASH, FORGOTTEN, Guard, INDEX, Mode, ONCE, Protocol, READ, REST, REUSE,
};
use stateright::{Checker, Model};

/// Nothing but writes: two.
const WRITES: Budget = Budget { writes: 2, ..Budget::NONE };
/// One writer, and two volumes of one LBN: `b0` is in-line and `b2` is off-line.
const ONE: Bounds = Bounds { blocks: 3, clients: 1, budget: WRITES, ..Bounds::SMALL };
/// The same with two writers.
const TWO: Bounds = Bounds { clients: 2, ..ONE };

/// One of two blocks gets two contents, and a fingerprint is taken meanwhile.
const TAKE: Bounds = Bounds { blocks: 2, budget: Budget { trims: 1, takes: 1, ..WRITES }, ..ONE };

const fn three(bounds: Bounds) -> Bounds {
    Bounds { budget: Budget { writes: 3, ..bounds.budget }, ..bounds }
}

const fn trim(bounds: Bounds) -> Bounds {
    Bounds { budget: Budget { trims: 1, ..bounds.budget }, ..bounds }
}

/// Asserts that the shortest run without a guard that breaks a promise is this one.
fn breaks(guard: Guard, bounds: Bounds, promise: &'static str, expected: &str) {
    let kept = Protocol::new(bounds).only(promise).checker().spawn_bfs().join();
    assert!(kept.discovery(promise).is_none(), "the promise is broken with all guards");
    let protocol = Protocol::without(bounds, &[guard]).only(promise);
    let checker = protocol.checker().spawn_bfs().join();
    let path = checker.discovery(promise).expect("the guard keeps the promise");
    let actions: Vec<String> =
        path.into_actions().iter().map(|action| format!("{action:?}")).collect();
    let run = actions.join(" ");
    eprintln!("without {guard:?}, it is not true that {promise}: {run}");
    assert_eq!(run, expected);
}

#[test]
fn an_update_is_lost_while_sharing() {
    breaks(
        Guard::FinderChecksPlace,
        three(ONE),
        READ,
        "Write(0, b0, c1) Store(0, p0) Change(0) Write(0, b2, c1) Store(0, p1) Change(0) \
         Write(0, b2, c2) Store(0, p2) Search(1) Change(0) Examine(0) Settle(0)",
    );
}

#[test]
fn the_finder_shares_a_block_that_was_freed_meanwhile() {
    breaks(
        Guard::FinderChecksEntry,
        three(trim(ONE)),
        BLOCKS,
        "Write(0, b0, c1) Store(0, p0) Change(0) Write(0, b2, c1) Store(0, p1) Change(0) \
         Search(1) Examine(0) Trim(b0) Close BeginSync EndSync WriteCommit SyncCommit \
         Write(0, b0, c2) Settle(0) Store(0, p0)",
    );
}

#[test]
fn a_writer_shares_a_block_that_was_freed_meanwhile() {
    breaks(
        Guard::WriterChecksRecord,
        three(trim(ONE)),
        BLOCKS,
        "Write(0, b2, c1) Store(0, p0) Change(0) Search(1) Examine(0) Settle(0) \
         Write(0, b0, c1) Trim(b2) Change(0) Close BeginSync EndSync WriteCommit SyncCommit \
         Write(0, b0, c2) Store(0, p0)",
    );
}

#[test]
fn two_writers_store_one_content_twice() {
    breaks(
        Guard::WriterLooksAgain,
        TWO,
        ONCE,
        "Write(0, b0, c1) Write(1, b2, c1) Store(0, p0) Store(1, p1) Change(1) Search(1) \
         Examine(0) Settle(0) Change(0)",
    );
}

#[test]
fn an_index_entry_outlives_its_block() {
    breaks(
        Guard::IndexForgetsFreed,
        trim(ONE),
        INDEX,
        "Write(0, b0, c1) Store(0, p0) Change(0) Trim(b0)",
    );
}

#[test]
fn a_block_is_reused_before_the_commit_that_frees_it() {
    breaks(
        Guard::FreedWaitsForCommit,
        three(ONE),
        CRASH,
        "Write(0, b0, c1) Store(0, p0) Change(0) Write(0, b0, c2) Store(0, p1) Close \
         Change(0) Write(0, b0, c1) BeginSync Store(0, p0) EndSync WriteCommit",
    );
}

#[test]
fn a_block_is_reused_while_it_is_read() {
    breaks(
        Guard::FreedWaitsForPins,
        Bounds { budget: Budget { writes: 3, reads: 1, ..Budget::NONE }, ..TWO },
        READ,
        "Write(0, b0, c1) Write(1, b0, c2) Store(0, p0) Change(0) BeginRead(0, b0) \
         Store(1, p1) Change(1) Write(1, b2, c2) Close BeginSync EndSync WriteCommit \
         SyncCommit Store(1, p0) EndRead(0)",
    );
}

#[test]
fn a_commit_refers_to_a_content_that_was_not_synced() {
    breaks(
        Guard::DataBeforeCommit,
        ONE,
        CRASH,
        "Write(0, b0, c1) Store(0, p0) Change(0) Close WriteCommit",
    );
}

#[test]
fn a_commit_has_what_was_written_during_the_sync() {
    breaks(
        Guard::CloseBeforeSync,
        TWO,
        CRASH,
        "Write(0, b0, c1) Write(1, b0, c2) Store(0, p0) Change(0) Close BeginSync \
         Store(1, p1) Change(1) EndSync WriteCommit",
    );
}

#[test]
fn a_flush_is_acknowledged_before_the_journal_is_synced() {
    breaks(
        Guard::AckAfterSync,
        ONE,
        CRASH,
        "Write(0, b0, c1) Store(0, p0) Change(0) Close BeginSync EndSync WriteCommit",
    );
}

#[test]
fn a_flush_joins_a_commit_that_lacks_its_writes() {
    breaks(
        Guard::FollowerWaitsForOwnCommit,
        ONE,
        CRASH,
        "Write(0, b0, c1) Store(0, p0) Change(0) Write(0, b0, c2) Store(0, p1) Close \
         Change(0) BeginSync EndSync WriteCommit SyncCommit",
    );
}

#[test]
fn a_commit_without_room_frees_its_blocks_before_the_root() {
    breaks(
        Guard::FreedWaitsForRoot,
        Bounds { journal: 1, ..ONE },
        REUSE,
        "Write(0, b0, c1) Store(0, p0) Change(0) Write(0, b0, c2) Store(0, p1) Close \
         Change(0) BeginSync EndSync WriteCommit SyncCommit Close BeginSync EndSync \
         WriteCommit",
    );
}

#[test]
fn the_journal_is_given_up_before_the_root_is_durable() {
    breaks(
        Guard::TrimAfterRoot,
        Bounds { journal: 1, budget: Budget { checkpoints: 1, ..WRITES }, ..ONE },
        CRASH,
        "Write(0, b2, c1) Store(0, p0) Change(0) CloseForCheckpoint BeginSync EndSync \
         WriteCommit SyncCommit Search(1) Examine(0) Settle(0) Close WriteCommit",
    );
}

#[test]
fn the_finder_takes_a_mark_before_the_change_is_made() {
    breaks(
        Guard::MarkAfterChange,
        ONE,
        FORGOTTEN,
        "Write(0, b2, c1) Store(0, p0) Search(1) Change(0)",
    );
}

#[test]
fn the_finder_leaves_a_block_whose_entry_keeps_changing() {
    breaks(
        Guard::FinderMarksLeft,
        Bounds { compares: true, ..trim(ONE) },
        FORGOTTEN,
        "Write(0, b2, c1) Store(0, p0) Change(0) Write(0, b0, c1) Store(0, p1) Search(1) \
         Examine(0) Change(0) Settle(0) Examine(0) Trim(b0) Settle(0)",
    );
}

#[test]
fn a_free_block_is_discarded_after_a_write_took_it() {
    breaks(
        Guard::DiscardTakesBlocks,
        Bounds { budget: Budget { discards: 1, ..WRITES }, ..ONE },
        BLOCKS,
        "Write(0, b0, c1) BeginDiscard(p0) Store(0, p0) Change(0) EndDiscard",
    );
}

#[test]
fn a_volume_is_removed_under_a_request() {
    breaks(
        Guard::GateClosed,
        Bounds { budget: Budget { volumes: 1, ..WRITES }, ..ONE },
        READ,
        "Write(0, b0, c1) Store(0, p0) Remove(0) Change(0)",
    );
}

#[test]
fn an_opening_relies_on_a_commit_that_a_power_cut_takes_away() {
    breaks(
        Guard::OpeningWritesAgain,
        Bounds { budget: Budget { crashes: 1, ..WRITES }, ..ONE },
        REUSE,
        "Write(0, b0, c1) Store(0, p0) Change(0) Write(0, b0, c2) Store(0, p1) Close \
         Change(0) BeginSync EndSync WriteCommit SyncCommit Close BeginSync EndSync \
         WriteCommit Kill",
    );
}

#[test]
fn a_hidden_volume_stays() {
    breaks(
        Guard::HiddenAreCleared,
        Bounds {
            volumes: [Some(Mode::Inline), None],
            checks_rest: true,
            budget: Budget { volumes: 1, crashes: 1, ..WRITES },
            ..ONE
        },
        REST,
        "Hide(0)",
    );
}

#[test]
fn a_remembered_fingerprint_outlives_its_content() {
    breaks(
        Guard::WriteForgetsRemembered,
        TAKE,
        INDEX,
        "Write(0, b2, c1) Store(0, p0) Change(0) Trim(b2) Close BeginSync EndSync WriteCommit \
         SyncCommit Write(0, b2, c2) Store(0, p0) Change(0) Search(1) BeginTake(p0) EndTake \
         Examine(0) Settle(0)",
    );
}

#[test]
fn a_fingerprint_is_remembered_of_a_block_that_was_written_again() {
    breaks(
        Guard::TicketTiesFingerprint,
        TAKE,
        INDEX,
        "Write(0, b2, c1) Store(0, p0) Change(0) Trim(b2) Close BeginSync EndSync WriteCommit \
         SyncCommit Write(0, b2, c2) BeginTake(p0) Store(0, p0) Change(0) Search(1) EndTake \
         Examine(0) Settle(0)",
    );
}
