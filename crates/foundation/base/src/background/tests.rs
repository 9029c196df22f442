//! The pauses of tasks, and what is told of them.

use super::*;
use crate::{ManualClock, Recorder};
use std::io;

const SECOND_NS: u64 = 1_000_000_000;

fn failing() -> Result<Step, io::Error> {
    Err(io::Error::other("the disk is gone"))
}

fn working() -> Result<Step, io::Error> {
    Ok(Step::more(3))
}

fn task() -> (Task, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    (Task::new("checkpoint", clock.clone()), clock)
}

/// Gives the task a turn every 50 ms for this long. Returns the tries.
fn tries_in(task: &Task, clock: &ManualClock, seconds: u64) -> u64 {
    let mut tries = 0;
    for _ in 0..seconds * 20 {
        task.turn(|| {
            tries += 1;
            failing()
        });
        clock.advance_ns(SECOND_NS / 20);
    }
    tries
}

#[test]
fn the_pauses_grow_up_to_a_bound() {
    let (task, clock) = task();
    // After 0, 1, 3, 7, 15, 31 and 63 seconds, and then every minute.
    assert_eq!(tries_in(&task, &clock, 63), 6);
    assert_eq!(tries_in(&task, &clock, 60), 1);
    assert_eq!(tries_in(&task, &clock, 600), 10);
    let stat = task.stat();
    assert_eq!((stat.failures, stat.outages), (17, 1));
    let failure = stat.failure.unwrap();
    assert_eq!((failure.tries, failure.since_ns), (17, 723 * SECOND_NS));
    assert_eq!(failure.error, "the disk is gone");
}

#[test]
fn a_success_ends_the_outage_at_once() {
    let (task, clock) = task();
    tries_in(&task, &clock, 10);
    assert!(task.turn(working).is_none(), "it pauses");
    assert!(task.is_failing() && task.stat().warning().is_some());
    task.make(working).unwrap();
    assert!(!task.is_failing() && task.stat().warning().is_none());
    assert!(task.is_due());
    assert_eq!((task.stat().done, task.stat().failures), (3, 4));
}

#[test]
fn a_task_that_fails_every_other_time_pauses_longer_and_longer() {
    let (task, clock) = task();
    let (mut tries, mut fails) = (0, true);
    for _ in 0..600 * 20 {
        task.turn(|| {
            tries += 1;
            fails = !fails;
            if fails { working() } else { failing() }
        });
        clock.advance_ns(SECOND_NS / 20);
    }
    assert!(tries < 35, "{tries} tries in ten minutes");
    assert!(task.stat().outages < 18);
    clock.advance_ns(200 * SECOND_NS);
    task.make(working).unwrap();
    clock.advance_ns(61 * SECOND_NS);
    task.make(failing).unwrap_err();
    assert!(task.wait() <= LONGEST_PAUSE);
}

#[test]
fn an_outage_long_after_the_last_one_begins_with_short_pauses() {
    let (task, clock) = task();
    tries_in(&task, &clock, 120);
    task.make(working).unwrap();
    task.make(failing).unwrap_err();
    assert_eq!(task.wait(), LONGEST_PAUSE);
    task.make(working).unwrap();
    clock.advance_ns(61 * SECOND_NS);
    task.make(failing).unwrap_err();
    assert_eq!(task.wait(), FIRST_PAUSE);
}

#[test]
fn a_try_that_takes_long_is_followed_by_a_longer_pause() {
    let (task, clock) = task();
    let slow = |seconds: u64| {
        clock.advance_ns(seconds * SECOND_NS);
        failing()
    };
    task.make(|| slow(1)).unwrap_err();
    assert_eq!(task.wait(), Duration::from_secs(32));
    task.make(|| slow(1000)).unwrap_err();
    assert_eq!(task.wait(), LONGEST_PAUSE_PER_TRY);
}

#[test]
fn a_step_that_rests_is_left_alone_meanwhile() {
    let (task, clock) = task();
    let rest = || Ok::<_, io::Error>(Step::then_rest(0, Duration::from_secs(10)));
    assert!(task.turn(rest).is_some());
    clock.advance_ns(10 * SECOND_NS - 1);
    assert!(task.turn(rest).is_none());
    clock.advance_ns(1);
    assert!(task.turn(rest).is_some());
}

#[test]
fn what_must_not_wait_is_tried_at_each_turn() {
    let clock = Arc::new(ManualClock::new());
    let lease = Task::steady("lease", clock.clone());
    assert_eq!(tries_in(&lease, &clock, 10), 200);
}

#[test]
fn requests_fail_until_none_has_for_ten_seconds() {
    let clock = Arc::new(ManualClock::new());
    let requests = Task::of_requests("requests", clock.clone());
    requests.note_failure(0, "first".to_owned());
    clock.advance_ns(9 * SECOND_NS);
    requests.note_failure(9 * SECOND_NS, "second".to_owned());
    clock.advance_ns(9 * SECOND_NS);
    let failure = requests.stat().failure.unwrap();
    assert_eq!((&*failure.error, failure.tries, failure.next_try_ns), ("second", 2, 0));
    clock.advance_ns(SECOND_NS);
    assert_eq!(requests.stat().failure, None);
    assert_eq!(requests.stat().outages, 1);
}

#[test]
fn requests_get_the_failure_for_a_second_before_one_tries_again() {
    let (task, clock) = task();
    assert_eq!(task.fresh_failure(), None);
    tries_in(&task, &clock, 100);
    task.make(failing).unwrap_err();
    assert_eq!(task.fresh_failure().as_deref(), Some("the disk is gone"));
    clock.advance_ns(SECOND_NS);
    assert_eq!(task.fresh_failure(), None);
    task.make(working).unwrap();
    assert_eq!(task.fresh_failure(), None);
}

#[test]
fn one_line_tells_of_the_beginning_and_one_of_the_end() {
    let (task, clock) = task();
    let (recorder, mut log) = (Recorder::default(), FailureLog::default());
    log.look(&[task.stat()], &recorder);
    for _ in 0..2 {
        for _ in 0..1000 {
            task.turn(failing);
            log.look(&[task.stat()], &recorder);
            clock.advance_ns(SECOND_NS / 20);
        }
        task.make(working).unwrap();
        log.look(&[task.stat()], &recorder);
        log.look(&[task.stat()], &recorder);
    }
    let told = [recorder.warnings(), recorder.logged()].concat();
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[..2].iter().all(|line| line.starts_with("checkpoint fails: the disk is gone;")));
    assert!(told[2..].iter().all(|line| line == "checkpoint works again"), "{told:?}");
    // One that has begun and ended between two looks is told of as well.
    task.make(failing).unwrap_err();
    task.make(working).unwrap();
    log.look(&[task.stat()], &recorder);
    assert_eq!((recorder.warnings().len(), recorder.logged().len()), (3, 3));
}
