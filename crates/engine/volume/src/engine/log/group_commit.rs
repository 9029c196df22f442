//! Group commit: of the threads that need a commit to be durable one leads and writes it, and the
//! others wait for the leader.
//!
//! All followers of a commit are woken at once, so that their next writes can share a commit again.
//! The next leader waits a moment until as many threads have come as last time, because a commit
//! costs two syncs, however many wait for it.

use crate::engine::locks::{Held, Rank, enter};
use gemelo_base::locks::{Condvar, Mutex};
use std::time::Duration;

/// A leader waits at most this part of the time that the last commit took.
const WAIT_PER_COMMIT: u64 = 4;
/// A leader waits at most this long, for a medium whose last sync took seconds.
const MAX_WAIT_NS: u64 = 2_000_000;

#[derive(Debug, Default)]
struct Members {
    is_led: bool,
    followers: usize,
    /// The last commit that a leader has made durable.
    durable: u64,
    /// Members of the last commit, its leader included.
    last_members: usize,
    last_commit_ns: u64,
}

impl Members {
    /// The time that a new leader waits for further members: [`None`] if as many are there as last
    /// time, or if the last commit took no time.
    fn wait(&self) -> Option<Duration> {
        let wait_ns = (self.last_commit_ns / WAIT_PER_COMMIT).min(MAX_WAIT_NS);
        let is_complete = self.followers + 1 >= self.last_members;
        (!is_complete && wait_ns > 0).then_some(Duration::from_nanos(wait_ns))
    }
}

/// The threads that wait for one commit; see the module.
#[derive(Debug, Default)]
pub(super) struct GroupCommit {
    members: Mutex<Members>,
    /// Signalled when the leader is gone.
    ended: Condvar,
    /// Signalled when as many threads wait as last time.
    complete: Condvar,
}

/// The lead of a group, until it is dropped; then another thread may lead.
pub(super) struct Lead<'c> {
    group: &'c GroupCommit,
    _held: Held,
}

impl GroupCommit {
    /// Waits until the commit of this number is durable, or gives the lead to the first thread that
    /// comes, after the others had a moment to come.
    pub(super) fn join(&self, number: u64) -> Option<Lead<'_>> {
        let held = enter(Rank::GroupCommit);
        let mut members = self.members.lock();
        loop {
            if members.durable >= number {
                return None;
            }
            if !members.is_led {
                break;
            }
            members.followers += 1;
            if members.followers + 1 == members.last_members {
                self.complete.notify_one();
            }
            self.ended.wait(&mut members);
            members.followers -= 1;
        }
        members.is_led = true;
        if let Some(wait) = members.wait() {
            self.complete.wait_for(&mut members, wait);
        }
        members.last_members = members.followers + 1;
        Some(Lead { group: self, _held: held })
    }
}

impl Lead<'_> {
    /// Notes that this commit is durable, and how long it took.
    pub(super) fn succeed(&self, durable: u64, took_ns: u64) {
        let mut members = self.group.members.lock();
        members.durable = members.durable.max(durable);
        members.last_commit_ns = took_ns;
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut members = self.group.members.lock();
        members.is_led = false;
        self.group.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn one_leads_and_all_others_follow() {
        let group = GroupCommit::default();
        let leads = AtomicU64::new(0);
        let first = group.join(1).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..7 {
                scope.spawn(|| {
                    leads.fetch_add(u64::from(group.join(2).is_some()), Ordering::Relaxed)
                });
            }
            while group.members.lock().followers < 7 {
                std::thread::yield_now();
            }
            first.succeed(2, 0);
            drop(first);
        });
        assert_eq!(
            leads.load(Ordering::Relaxed),
            0,
            "the second commit was made durable with the first"
        );
    }

    #[test]
    fn a_leader_waits_a_part_of_the_last_commit_for_members_that_are_missing() {
        let wait = |followers, last_members, last_commit_ns| {
            let members = Members { followers, last_members, last_commit_ns, ..Members::default() };
            members.wait().map(|wait| wait.as_nanos() as u64)
        };
        assert_eq!(wait(0, 1, 1000), None, "it is alone, as it was last time");
        assert_eq!(wait(2, 3, 1000), None, "all are there");
        assert_eq!(wait(5, 3, 1000), None, "more are there");
        assert_eq!(wait(1, 3, 1000), Some(250));
        assert_eq!(wait(0, 2, 1 << 40), Some(MAX_WAIT_NS));
        assert_eq!(wait(0, 2, 0), None, "nothing is known of the medium");
    }

    #[test]
    fn after_a_failure_another_one_leads() {
        let group = GroupCommit::default();
        let first = group.join(1).unwrap();
        std::thread::scope(|scope| {
            let follower = scope.spawn(|| group.join(1).is_some());
            while group.members.lock().followers < 1 {
                std::thread::yield_now();
            }
            drop(first);
            assert!(follower.join().unwrap());
        });
    }
}
