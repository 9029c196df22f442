//! The check of a domain with members that are served, dead, or have no pool.

use crate::domain::{Domain, LEASE};
use gemelo_base::StopFlag;
use gemelo_objects::{Objects, Update};
use gemelo_place::{DomainCheck, PlaceError};
use std::sync::atomic::Ordering;

#[test]
fn a_domain_whose_members_agree_with_the_index_is_clean() {
    let domain = Domain::new();
    let (first, second) = (domain.process(), domain.process());
    for (process, name) in [(&first, "one"), (&second, "two")] {
        let placed = process.filled(name, 1..=8);
        placed.share(&StopFlag::new()).unwrap();
        placed.close().unwrap();
    }
    // It is registered, and its pool was never created.
    first.client.register("three").unwrap();
    let check = DomainCheck::run(&first.client, LEASE).unwrap();
    assert_eq!((check.members, check.records), (3, 16));
    assert_eq!((check.unsettled, check.findings), (Vec::new(), Vec::new()));
    // The check has given all members back.
    second.serve("one").close().unwrap();
}

#[test]
fn a_member_that_is_served_is_named() {
    let domain = Domain::new();
    let (first, second) = (domain.process(), domain.process());
    first.filled("one", 1..=8).close().unwrap();
    let two = first.filled("two", 1..=8);
    let refused = DomainCheck::run(&second.client, LEASE).unwrap_err();
    assert!(refused.is_in_use());
    let PlaceError::Served { name, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(name, "two");
    // It did not keep the members that it took before.
    first.serve("one").close().unwrap();
    two.close().unwrap();
}

#[test]
fn changes_that_a_dead_member_left_are_no_contradictions() {
    let domain = Domain::new();
    let (first, second) = (domain.process(), domain.process());
    let one = first.changed("one");
    // The index has the change, and the ledger has the intent alone.
    let store = std::sync::Arc::clone(&first.store);
    *first.store.before_index.lock() =
        Some(Box::new(move || store.loses_ledger.store(true, Ordering::Relaxed)));
    assert!(one.share(&StopFlag::new()).is_err());
    drop(one);
    domain.outlive_leases();
    let check = DomainCheck::run(&second.client, LEASE).unwrap();
    assert_eq!(check.findings, []);
    assert_eq!(check.unsettled.len(), 1, "{check:?}");
    assert_eq!(check.unsettled[0].0, "one");

    let one = second.serve("one");
    one.share(&StopFlag::new()).unwrap();
    one.close().unwrap();
    let check = DomainCheck::run(&second.client, LEASE).unwrap();
    assert_eq!((check.unsettled, check.findings.as_slice()), (Vec::new(), &[][..]));
    // A contradiction is found: the ledger has lost the kinds of its blocks.
    let ledger = Update { remove: vec!["k.00000000".into()], ..Update::default() };
    domain.world.client().update("ledger.00000001.0000", &ledger).unwrap();
    let check = DomainCheck::run(&second.client, LEASE).unwrap();
    assert!(!check.findings.is_empty());
}
