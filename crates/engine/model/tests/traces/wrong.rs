//! Runs that the engine must not make are refused: wrong ones that differ from a right one in one
//! place. The right one and another that the engine may make are not.

use crate::protocol;
use gemelo_model::{
    Answer, Cell, Change, Content, Event, Explanation, Fingerprint, Pbn, Request, Unexplained,
    explain,
};

const B0: Cell = Cell(0);
/// In the off-line volume.
const B2: Cell = Cell(2);
const C1: Content = Content(1);
const C2: Content = Content(2);

fn store(cell: Cell, pbn: u8, content: Content) -> Change {
    let fingerprint = (cell == B0).then_some(Fingerprint(content.0 - 1));
    Change::Store { cell, pbn: Pbn(pbn), content, fingerprint }
}

fn share(pbn: u8) -> Change {
    Change::Share { cell: B2, pbn: Pbn(pbn), content: C1 }
}

/// A request and its answer.
fn done(thread: usize, request: Request, answer: Answer) -> [Event; 2] {
    [Event::Asked(thread, request), Event::Answered(thread, answer)]
}

fn write(cell: Cell, content: Content) -> [Event; 2] {
    done(0, Request::Write(cell, content), Answer::Done)
}

/// A flush that writes one commit with new contents.
fn flush(changes: &[Change]) -> [Event; 6] {
    let [asked, answered] = done(0, Request::Flush, Answer::Done);
    let commit = Event::Commit(changes.to_vec());
    [asked, Event::BeginSync, Event::EndSync, commit, Event::SyncCommit, answered]
}

/// The content c1 is written in-line, and then off-line. The finder shares it, which frees p1. The
/// in-line block is overwritten and gets p1. The power is cut.
fn right() -> Vec<Event> {
    [
        &write(B0, C1)[..],
        &flush(&[store(B0, 0, C1)]),
        &write(B2, C1),
        &done(2, Request::Find, Answer::Shared(1)),
        &flush(&[store(B2, 1, C1), share(0)]),
        &write(B0, C2),
        &flush(&[store(B0, 1, C2)]),
        &[Event::CutPower, Event::Shown(vec![C2, Content(0), C1, Content(0)])],
    ]
    .concat()
}

/// The right run with one event in place of another.
fn with(at: usize, event: Event) -> Vec<Event> {
    let mut run = right();
    run[at] = event;
    run
}

/// Asserts that a run is refused at this event.
fn refused(run: &[Event], at: usize) {
    let expected = Unexplained { at, event: run[at].clone() };
    assert_eq!(explain(&protocol(false), run), Err(expected));
}

/// Asserts that a run is not refused.
fn possible(run: &[Event]) {
    let explained = explain(&protocol(false), run);
    assert!(matches!(explained, Ok(Explanation::Found { runs: 1.. })), "{explained:?}");
}

#[test]
fn the_right_run_is_a_run_of_the_model() {
    possible(&right());
}

/// After an opening the finder has to examine all blocks without a fingerprint. It examines those
/// first that were written since, so the others can be unmapped in between.
#[test]
fn what_was_written_is_examined_before_the_rest_of_its_volume() {
    let b3 = Cell(3);
    let [asked, answered] = done(2, Request::Find, Answer::Shared(0));
    let identify = Change::Identify { pbn: Pbn(1), fingerprint: Fingerprint(1) };
    let run = [
        &write(B2, C1)[..],
        &flush(&[store(B2, 0, C1)]),
        &[Event::CutPower, Event::Shown(vec![Content(0), Content(0), C1, Content(0)])],
        &write(b3, C2),
        &[asked],
        &done(0, Request::Trim(B2), Answer::Done),
        &[answered],
        &flush(&[store(b3, 1, C2), identify, Change::Unmap { cell: B2 }]),
    ];
    possible(&run.concat());
}

#[test]
fn a_block_that_is_referred_to_is_not_stored_to() {
    refused(&with(21, Event::Commit(vec![store(B0, 0, C2)])), 19);
}

#[test]
fn a_block_is_not_reused_in_the_commit_that_frees_it() {
    let both = [store(B2, 1, C1), share(0), store(B0, 1, C2)];
    let mut run = right();
    run.splice(12..24, [&write(B0, C2)[..], &flush(&both)].concat());
    refused(&run, 13);
}

#[test]
fn a_commit_is_not_written_before_its_contents_are_synced() {
    let mut run = right();
    run.drain(3..5);
    refused(&run, 3);
}

#[test]
fn a_flush_is_not_answered_before_the_journal_is_synced() {
    let mut run = right();
    run.swap(6, 7);
    refused(&run, 6);
}

#[test]
fn a_write_is_not_undone_by_the_finder() {
    let mut run = right();
    // A write of c2 comes before the finder ends, and the finder shares c1 after it.
    run.splice(11..11, write(B2, C2));
    run[17] = Event::Commit(vec![store(B2, 1, C1), store(B2, 2, C2), share(0)]);
    refused(&run, 13);
}

#[test]
fn a_power_cut_does_not_take_away_what_was_flushed() {
    let at = right().len() - 1;
    refused(&with(at, Event::Shown(vec![C1, Content(0), C1, Content(0)])), at);
}

#[test]
fn a_read_does_not_show_an_older_content() {
    let mut run = right();
    run.splice(20..20, done(1, Request::Read(B0), Answer::Content(C1)));
    refused(&run, 21);
}

#[test]
fn the_finder_does_not_leave_a_marked_block() {
    refused(&with(11, Event::Answered(2, Answer::Shared(0))), 11);
}

#[test]
fn the_space_of_a_block_in_use_is_not_given_back() {
    let mut run = right();
    run.insert(8, Event::Discard(Pbn(0)));
    refused(&run, 8);
}
