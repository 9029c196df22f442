//! A cluster that becomes full and has room again, or does not answer for a while.

use crate::member::Member;
use crate::together::{BLOCKS, expect, fill};
use crate::{domain, member};
use gemelo_base::background::FailureLog;
use gemelo_base::{ManualClock, Recorder, SystemClock};
use gemelo_domain::MemberId;
use gemelo_format::{DedupMode, Policy};
use gemelo_objects::simulated::{Client, Faults, World};
use gemelo_objects::{ObjectError, Objects, Request};
use gemelo_sharing::{LedgerClaims, SharingWorker};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A step in which the room of the cluster grows.
const STEP_BYTES: u64 = 256;

/// Lets the member work in a cluster with so little room that its ledger has changes of which the
/// index has none.
fn leave_changes_open(world: &World, client: &Client, member: &Member) {
    let in_flight = || LedgerClaims::load(client, member.id()).unwrap().in_flight();
    for capacity in (0..).step_by(STEP_BYTES as usize) {
        world.set_capacity(capacity);
        let worked = member.sharing.work(&member.pool);
        assert!(worked.is_err(), "nothing was left open below {capacity} bytes");
        if in_flight() > 0 {
            return;
        }
    }
}

#[test]
fn a_member_that_ends_after_a_failure_leaves_no_change_open() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    domain::create(&client, 2);
    member::format(&client, MemberId(1), Policy::Compact, 300);
    let member = Member::start(&client, MemberId(1), false).unwrap();
    fill(&member, "vm", DedupMode::Inline, 1..=BLOCKS);
    leave_changes_open(&world, &client, &member);

    let (sharing, pool) = (Arc::clone(&member.sharing), Arc::clone(&member.pool));
    let worker =
        SharingWorker::start(sharing, pool, Arc::new(SystemClock::new()), || true).unwrap();
    while worker.failure().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The cluster has room again, and the member ends within the pause after a failure.
    world.set_capacity(u64::MAX);
    drop(worker);
    assert_eq!(LedgerClaims::load(&client, member.id()).unwrap().in_flight(), 0);
    expect(&member, "vm", 1..=BLOCKS);
}

/// A way to the objects of a domain that does not lead there for a while.
struct Breakable {
    below: Client,
    is_broken: AtomicBool,
    calls: AtomicU64,
}

impl Breakable {
    fn check(&self, object: &str) -> Result<(), ObjectError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match self.is_broken.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(ObjectError::Io {
                object: object.to_owned(),
                action: "reach",
                source: io::Error::other("no answer"),
            }),
        }
    }
}

impl Objects for Breakable {
    fn execute(&self, requests: &mut [Request<'_>]) {
        if self.check("").is_ok() {
            return self.below.execute(requests);
        }
        for request in requests {
            request.outcome = self.check(request.object);
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, ObjectError> {
        self.check(prefix)?;
        self.below.list(prefix)
    }
}

fn bytes_of(client: &Client) -> u64 {
    client.list("").unwrap().iter().map(|name| client.stat(name).unwrap()).sum()
}

/// The objects of the index do not answer for ten minutes, while those of the member's disks do.
#[test]
fn publishing_that_fails_for_ten_minutes_is_tried_a_few_times_and_told_once() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    domain::create(&client, 2);
    member::format(&client, MemberId(1), Policy::Compact, 300);
    let (is_broken, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let objects = Arc::new(Breakable { below: client.clone(), is_broken, calls });
    let way = (&member::standing_clock(), Arc::clone(&objects) as Arc<dyn Objects>);
    let member = Member::start_on(way, &client, MemberId(1), (false, member::tuning())).unwrap();
    fill(&member, "vm", DedupMode::Inline, 1..=BLOCKS);
    objects.is_broken.store(true, Ordering::Relaxed);
    let (calls, bytes) = (objects.calls.load(Ordering::Relaxed), bytes_of(&client));
    let clock = Arc::new(ManualClock::new());
    let (sharing, pool) = (Arc::clone(&member.sharing), Arc::clone(&member.pool));
    let worker = SharingWorker::start(sharing, pool, clock.clone(), || true).unwrap();
    let (recorder, mut log) = (Recorder::new(), FailureLog::default());
    let mut pass = |seconds: u64| {
        for _ in 0..seconds / 5 {
            clock.advance_ns(5_000_000_000);
            std::thread::sleep(Duration::from_millis(60));
            log.look(&[worker.task()], &recorder);
        }
    };
    pass(600);
    let failure = worker.task().failure.unwrap();
    assert!((5..=20).contains(&failure.tries), "{failure:?}");
    assert!(failure.since_ns > 500_000_000_000, "{failure:?}");
    assert!(worker.failure().unwrap().contains("no answer"), "{:?}", worker.failure());
    let calls = objects.calls.load(Ordering::Relaxed) - calls;
    assert!(calls <= 20 * failure.tries, "{calls} calls");
    assert_eq!(bytes_of(&client), bytes);
    assert_eq!(member.sharing.figures().published, 0);
    objects.is_broken.store(false, Ordering::Relaxed);
    pass(120);
    assert_eq!((worker.task().failure, worker.failure()), (None, None));
    let told = (recorder.warnings(), recorder.logged());
    assert_eq!((told.0.len(), told.1.len()), (1, 1), "{told:?}");
    drop(worker);
    member.drain().unwrap();
    assert!(member.sharing.figures().published > 0);
    expect(&member, "vm", 1..=BLOCKS);
}
