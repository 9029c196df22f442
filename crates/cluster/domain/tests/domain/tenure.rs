//! The right to serve a member: leases, fences, hand-over.

use gemelo_base::Clock;
use gemelo_domain::{DomainError, MemberId, Tenure};
use gemelo_objects::simulated::{Client, Faults, World};
use gemelo_objects::{Locks, ObjectError, Objects};
use std::time::Duration;

const MEMBER: MemberId = MemberId(1);
const LEASE: Duration = Duration::from_secs(10);

fn take(client: &Client) -> Result<Tenure, DomainError> {
    Tenure::take(client, &client.clock(), MEMBER, LEASE)
}

fn world() -> (World, Client, Client) {
    let world = World::new(1, Faults::NONE);
    let (one, two) = (world.client(), world.client());
    (world, one, two)
}

fn is_fenced(client: &Client) -> bool {
    matches!(client.write("object", 0, b"late"), Err(ObjectError::Fenced { .. }))
}

#[test]
fn a_member_is_served_by_one_client() {
    let (_, one, two) = world();
    let mut tenure = take(&one).unwrap();
    assert_eq!((tenure.member(), tenure.epoch()), (MEMBER, 1));
    let refused = take(&two);
    assert!(
        matches!(&refused, Err(DomainError::InUse { holder }) if holder.instance == one.instance()),
        "{refused:?}"
    );
    tenure.renew(&one, &one.clock()).unwrap();
    assert!(!is_fenced(&one));
}

#[test]
fn a_lease_that_is_over_is_taken_over_and_its_holder_fenced() {
    let (world, one, two) = world();
    let mut tenure = take(&one).unwrap();
    world.sleep_until_ns(tenure.ends_ns() - 1);
    assert!(tenure.is_valid(&world));
    world.sleep_until_ns(tenure.ends_ns());
    assert!(!tenure.is_valid(&world), "here the lease is over first");
    world.sleep_until_ns(tenure.ends_ns() + 10_000_000);
    assert_eq!(take(&two).unwrap().epoch(), 2);
    two.write("object", 0, b"first").unwrap();
    assert!(is_fenced(&one));
    let renewed = tenure.renew(&one, &one.clock());
    assert!(renewed.is_err(), "{renewed:?}");
}

#[test]
fn a_member_that_was_handed_over_is_taken_without_a_fence() {
    let (_, one, two) = world();
    take(&one).unwrap().end(&one).unwrap();
    assert_eq!(take(&two).unwrap().epoch(), 2);
    two.write("object", 0, b"first").unwrap();
    assert!(!is_fenced(&one));
}

#[test]
fn a_holder_whose_lease_is_over_cannot_hand_over_what_another_serves() {
    let (world, one, two) = world();
    let tenure = take(&one).unwrap();
    tenure.clone().end(&one).unwrap();
    take(&two).unwrap();
    assert!(matches!(tenure.end(&one), Err(DomainError::NotHeld)));
    world.sleep_until_ns(world.now_ns() + 1);
    assert!(matches!(take(&one), Err(DomainError::InUse { .. })));
}
