//! Threads that do the same work together, as many as the system grants.
//!
//! A system can refuse a thread at any time: its limits for a user and a group are shared with all
//! other programs. Work that any number of threads can do goes through [`together`]: the caller is
//! one of them, so the work is done even if no other thread starts. Work that needs an exact number
//! of threads uses [`std::thread::Builder`], and has to end those that did start if one does not.

use std::io;
use std::thread::{Builder, ScopedJoinHandle};

/// What to do if the system refuses a thread, for messages. Its own words are "Resource temporarily
/// unavailable".
pub const REFUSED: &str = "if the limit of processes is reached, raise it (`ulimit -u`, TasksMax= \
                           of systemd)";

/// Adds what to do to the error of a thread that the system refused.
#[must_use]
#[expect(clippy::needless_pass_by_value, reason = "it maps errors")]
pub fn refused(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{error}: {REFUSED}"))
}

/// Does work in this thread and in up to `most - 1` others, and returns all outcomes, that of this
/// thread first. The work is to take its parts from a common place until none is left. A panic of
/// a thread continues in the caller.
pub fn together<T: Send>(most: usize, work: impl Fn() -> T + Sync) -> Vec<T> {
    with_starter(most, work, || true)
}

/// As [`together`]. A thread is only tried if `may_start` returns `true`.
fn with_starter<T: Send>(
    most: usize,
    work: impl Fn() -> T + Sync,
    mut may_start: impl FnMut() -> bool,
) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let start =
            |_| may_start().then(|| Builder::new().spawn_scoped(scope, work).ok()).flatten();
        // A system that refused a thread would refuse the next ones.
        let others: Vec<_> = (1..most).map_while(start).collect();
        let mut outcomes = vec![work()];
        outcomes.extend(others.into_iter().map(joined));
        outcomes
    })
}

/// Returns the result of a thread. A panic of the thread continues in the caller, because it is a
/// bug.
pub fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Does 100 parts with threads of which the one after `granted` does not start.
    fn parts_done(most: usize, granted: usize) -> (usize, usize) {
        let (next, mut left) = (AtomicUsize::new(0), granted);
        let work = || {
            let mut done = 0;
            while next.fetch_add(1, Ordering::Relaxed) < 100 {
                done += 1;
            }
            done
        };
        let may_start = || {
            let may = left > 0;
            left = left.saturating_sub(1);
            may
        };
        let outcomes = with_starter(most, work, may_start);
        (outcomes.len(), outcomes.iter().sum())
    }

    #[test]
    fn all_parts_are_done_by_whatever_threads_start() {
        for (most, granted, threads) in [(4, 9, 4), (4, 2, 3), (4, 0, 1), (1, 9, 1), (0, 9, 1)] {
            assert_eq!(parts_done(most, granted), (threads, 100), "{most} {granted}");
        }
    }

    #[test]
    #[should_panic(expected = "of a helper")]
    fn a_panic_of_a_helper_is_one_of_the_caller() {
        let caller = std::thread::current().id();
        together(2, || assert!(std::thread::current().id() == caller, "of a helper"));
    }
}
