//! Who waits for a commit: one leads and writes it, the others follow and wait for it to be durable.
//!
//! All followers of a commit are woken at once, so that what they write next can be in one commit again. The next leader
//! gives as many as there were last time a moment to come: a commit costs two syncs, however many wait for it.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// A leader waits at most this part of what the last commit took.
const WAIT_PER_COMMIT: u64 = 4;
/// And at most this, for a medium whose last sync took seconds.
const MOST_WAIT_NS: u64 = 2_000_000;

#[derive(Debug, Default)]
struct Members {
    is_led: bool,
    followers: usize,
    /// The last commit that a leader of this crowd has made durable.
    durable: u64,
    /// Members of the last commit, its leader included.
    last_members: usize,
    last_commit_ns: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    members: Mutex<Members>,
    /// There is no leader any more.
    ended: Condvar,
    /// There are as many followers as last time.
    complete: Condvar,
}

/// Leads until it is dropped; then another may.
pub(super) struct Lead<'c> {
    crowd: &'c Crowd,
}

impl Crowd {
    /// Waits until the commit of this number is durable, or gives the lead: to the first who comes, after the others had a
    /// moment to come.
    pub(super) fn join(&self, number: u64) -> Option<Lead<'_>> {
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
        let wait_ns = (members.last_commit_ns / WAIT_PER_COMMIT).min(MOST_WAIT_NS);
        if members.followers + 1 < members.last_members && wait_ns > 0 {
            self.complete.wait_for(&mut members, Duration::from_nanos(wait_ns));
        }
        members.last_members = members.followers + 1;
        Some(Lead { crowd: self })
    }
}

impl Lead<'_> {
    /// This commit is durable, and took so long.
    pub(super) fn succeed(&self, durable: u64, took_ns: u64) {
        let mut members = self.crowd.members.lock();
        members.durable = members.durable.max(durable);
        members.last_commit_ns = took_ns;
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut members = self.crowd.members.lock();
        members.is_led = false;
        self.crowd.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn one_leads_and_all_others_follow() {
        let crowd = Crowd::default();
        let leads = AtomicU64::new(0);
        let first = crowd.join(1).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..7 {
                scope.spawn(|| {
                    leads.fetch_add(u64::from(crowd.join(2).is_some()), Ordering::Relaxed)
                });
            }
            while crowd.members.lock().followers < 7 {
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
    fn after_a_failure_another_one_leads() {
        let crowd = Crowd::default();
        let first = crowd.join(1).unwrap();
        std::thread::scope(|scope| {
            let follower = scope.spawn(|| crowd.join(1).is_some());
            while crowd.members.lock().followers < 1 {
                std::thread::yield_now();
            }
            drop(first);
            assert!(follower.join().unwrap());
        });
    }
}
