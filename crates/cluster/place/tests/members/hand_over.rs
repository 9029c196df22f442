//! Hand-overs, and what a process must not leave behind.

use crate::domain::{Domain, LEASE, expect};
use gemelo_base::StopFlag;
use gemelo_domain::DomainError;
use gemelo_member::{Ended, MemberError};
use gemelo_objects::{Locks, ObjectError, Objects};
use gemelo_place::{DomainCheck, PlaceError, Use};
use std::sync::atomic::Ordering;

#[test]
fn a_member_whose_ledger_is_in_doubt_is_not_handed_over() {
    let domain = Domain::new();
    let (first, second) = (domain.process(), domain.process());
    let one = first.filled("one", 1..=8);
    first.store.loses_ledger.store(true, Ordering::Relaxed);
    assert!(one.share(&StopFlag::new()).is_err());
    let refused = one.close().unwrap_err();
    assert!(
        matches!(refused, PlaceError::Member(MemberError::Ended(Ended::Unknown { .. }))),
        "{refused:?}"
    );
    // The next client waits for the lease, and fences this one before it reads the ledger.
    let taken = second.open("one", Use::Hold, false).map(drop).unwrap_err();
    assert!(
        matches!(&taken, PlaceError::Member(MemberError::Domain(DomainError::InUse { .. }))),
        "{taken:?}"
    );
    domain.outlive_leases();
    let one = second.serve("one");
    let late = first.store.remove("ledger.00000001").unwrap_err();
    assert!(matches!(late, ObjectError::Fenced { .. }), "{late}");
    expect(&one, 1..=8);
    one.share(&StopFlag::new()).unwrap();
    assert_eq!(one.sharing_stat().unwrap().blocks.kept, 8);
    one.close().unwrap();
}

#[test]
fn a_ledger_whose_doubt_is_settled_is_handed_over() {
    let domain = Domain::new();
    let (first, second) = (domain.process(), domain.process());
    let one = first.in_doubt("one");
    one.close().unwrap();
    let one = second.serve("one");
    one.share(&StopFlag::new()).unwrap();
    expect(&one, 1..=8);
    one.close().unwrap();
}

#[test]
fn an_intent_whose_record_was_in_doubt_is_settled() {
    let domain = Domain::new();
    let (first, second) = (domain.process(), domain.process());
    let one = first.in_doubt("one");
    // Another member changes the shards, so the intents are void.
    let two = second.filled("two", 1..=8);
    two.share(&StopFlag::new()).unwrap();
    two.close().unwrap();
    one.share(&StopFlag::new()).unwrap();
    assert_eq!(one.sharing_stat().unwrap().blocks.borrowed, 8);
    one.close().unwrap();
    let check = DomainCheck::run(&second.client, std::time::Duration::ZERO).unwrap();
    assert_eq!((check.unsettled, check.findings.are_none()), (Vec::new(), true));
}

#[test]
fn an_intent_that_a_full_store_refused_to_record_is_never_sent() {
    let domain = Domain::new();
    let process = domain.process();
    let one = process.filled("one", 1..=8);
    process.store.refuses_ledger.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        assert!(one.share(&StopFlag::new()).is_err());
    }
    assert_eq!(process.store.index_changes.load(Ordering::Relaxed), 0);
    process.store.refuses_ledger.store(false, Ordering::Relaxed);
    one.share(&StopFlag::new()).unwrap();
    assert_eq!(one.sharing_stat().unwrap().blocks.kept, 8);
    expect(&one, 1..=8);
    one.close().unwrap();
}

#[test]
fn what_a_dead_process_left_unsettled_is_settled_after_the_take_over() {
    let domain = Domain::new();
    let (first, second) = (domain.process(), domain.process());
    let one = first.changed("one");
    first.store.loses_index.store(true, Ordering::Relaxed);
    assert!(one.share(&StopFlag::new()).is_err());
    // The process is stopped, and another one takes the member when the lease is over.
    domain.outlive_leases();
    let two = second.serve("one");
    two.share(&StopFlag::new()).unwrap();
    let stat = two.sharing_stat().unwrap();
    assert_eq!((stat.blocks.kept, stat.blocks.due, stat.counts.lost), (1, 0, 0));
    expect(&two, 9..=9);
    assert!(
        first
            .store
            .renew(gemelo_objects::LockName { object: "member.00000001", name: "serve" }, LEASE)
            .is_err()
    );
    // The old process wakes, and changes nothing.
    first.store.loses_index.store(false, Ordering::Relaxed);
    assert!(one.share(&StopFlag::new()).is_err());
    assert!(one.close().is_err());
    expect(&two, 9..=9);
    two.close().unwrap();
}

#[test]
fn a_look_at_a_member_that_is_taken_meanwhile_is_refused() {
    let domain = Domain::new();
    let (first, second) = (domain.process(), domain.process());
    first.filled("one", 1..=8).close().unwrap();
    let looked = second.open("one", Use::Look, false).unwrap();
    let one = first.serve("one");
    let refused = looked.close().unwrap_err();
    assert!(matches!(refused, PlaceError::Member(MemberError::Taken)), "{refused:?}");
    one.close().unwrap();
}

/// A listing walks all objects of all domains of a Ceph pool.
#[test]
fn an_opening_and_a_take_over_list_no_objects() {
    let domain = Domain::new();
    let (first, second) = (domain.process(), domain.process());
    let one = first.filled("one", 1..=8);
    one.share(&StopFlag::new()).unwrap();
    one.close().unwrap();
    [&first, &second].iter().for_each(|it| it.store.loses_lists.store(true, Ordering::Relaxed));
    let one = first.serve("one");
    domain.outlive_leases();
    let two = second.serve("one");
    assert!(one.close().is_err(), "the member was taken over");
    assert_eq!(two.sharing_stat().unwrap().blocks.kept, 8);
    expect(&two, 1..=8);
    two.close().unwrap();
}
