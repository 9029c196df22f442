//! A cluster that becomes full and has room again.

use crate::member::Member;
use crate::together::{BLOCKS, expect, fill};
use crate::{domain, member};
use gemelo_domain::MemberId;
use gemelo_format::{DedupMode, Policy};
use gemelo_objects::simulated::{Client, Faults, World};
use gemelo_sharing::{LedgerClaims, SharingWorker};
use std::sync::Arc;
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
    let worker = SharingWorker::start(sharing, pool, || true).unwrap();
    while worker.failure().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The cluster has room again, and the member ends within the pause after a failure.
    world.set_capacity(u64::MAX);
    drop(worker);
    assert_eq!(LedgerClaims::load(&client, member.id()).unwrap().in_flight(), 0);
    expect(&member, "vm", 1..=BLOCKS);
}
