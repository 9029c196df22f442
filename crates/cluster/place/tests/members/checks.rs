//! The check of a domain with members that are served, dead, or have no pool.

use crate::domain::{Domain, LEASE, Process, expect, trim};
use gemelo_base::StopFlag;
use gemelo_domain::{DomainConfig, Finding, Findings, Members, SharedSettings};
use gemelo_format::{Features, FingerprintKind};
use gemelo_member::DomainClient;
use gemelo_objects::simulated::{Faults, World};
use gemelo_objects::{Objects, Update};
use gemelo_place::{DomainCheck, PlaceError, Use};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[test]
fn a_domain_whose_members_agree_with_the_index_is_clean() {
    let domain = Domain::new();
    let (first, second) = domain.two_with_the_same_contents();
    // It is registered, and its pool was never created.
    first.client.register("three").unwrap();
    let check = DomainCheck::run(&first.client, Duration::ZERO).unwrap();
    assert_eq!((check.members, check.records), (3, 16));
    assert_eq!((check.unsettled, check.findings), (Vec::new(), Findings::default()));
    // The check has given all members back.
    second.serve("one").close().unwrap();
}

#[test]
fn members_are_checked_while_they_are_served_and_not_repaired() {
    let domain = Domain::new();
    let (first, second) = (domain.process(), domain.process());
    first.filled("one", 1..=8).close().unwrap();
    let two = first.filled("two", 1..=8);
    two.share(&StopFlag::new()).unwrap();
    let check = DomainCheck::run(&second.client, Duration::ZERO).unwrap();
    assert_eq!((check.members, check.findings), (2, Findings::default()));
    let refused = DomainCheck::repair(&second.client, LEASE).unwrap_err();
    assert!(refused.is_in_use());
    let PlaceError::Served { name, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(name, "two");
    // It did not keep the members that it took before.
    first.serve("one").close().unwrap();
    two.close().unwrap();
}

#[test]
fn a_change_under_way_is_no_contradiction() {
    let domain = Domain::new();
    let (first, second) = (domain.process(), domain.process());
    let one = first.changed("one");
    let checked = Arc::new(Mutex::new(Vec::new()));
    let (seen, client) = (Arc::clone(&checked), Arc::clone(&second.client));
    // Right before the index is changed, and after the ledger has the intent.
    *first.store.before_index.lock() = Some(Box::new(move || {
        seen.lock().push(DomainCheck::run(&client, Duration::ZERO).unwrap().findings);
    }));
    one.share(&StopFlag::new()).unwrap();
    first.store.before_index.lock().take();
    assert!(!checked.lock().is_empty());
    assert!(checked.lock().iter().all(Findings::are_none), "{checked:?}");
    one.close().unwrap();
}

#[test]
fn what_is_lost_is_found_and_shards_are_rebuilt() {
    let domain = Domain::new();
    let (first, second) = (domain.process(), domain.process());
    for name in ["one", "two"] {
        let placed = first.filled(name, 1..=8);
        placed.share(&StopFlag::new()).unwrap();
        placed.close().unwrap();
    }
    let client = domain.world.client();
    client.remove("index.1").unwrap();
    let header = Update { set: vec![("header".into(), vec![7; 24])], ..Update::default() };
    client.update("index.0", &header).unwrap();
    // Both shards are named, and members go on meanwhile.
    let check = DomainCheck::run(&second.client, Duration::ZERO).unwrap();
    let is_lost = |one: &&Finding| matches!(one, Finding::NoShard { .. } | Finding::Damaged { .. });
    assert_eq!(check.findings.list.iter().filter(is_lost).count(), 2, "{check:?}");
    let one = second.serve("one");
    trim(&one);
    one.share(&StopFlag::new()).unwrap();
    assert!(one.sharing_stat().unwrap().failure.is_some());
    one.close().unwrap();
    let (check, repaired) = DomainCheck::repair(&second.client, LEASE).unwrap();
    assert_eq!((check.findings, repaired.shards), (Findings::default(), 2));
    for name in ["one", "two"] {
        let placed = second.serve(name);
        if name == "two" {
            expect(&placed, 1..=8);
        }
        placed.share(&StopFlag::new()).unwrap();
        assert_eq!(placed.sharing_stat().unwrap().failure, None);
        placed.close().unwrap();
    }
    let check = DomainCheck::run(&second.client, Duration::ZERO).unwrap();
    assert_eq!(check.findings, Findings::default());
    client.remove("meta.00000001.0").unwrap();
    client.remove("member.00000002").unwrap();
    let check = DomainCheck::run(&second.client, Duration::ZERO).unwrap();
    let lost = |member: &str, object: &str| Finding::Lost {
        object: object.to_owned(),
        member: member.to_owned(),
    };
    assert_eq!(
        check.findings.list,
        [lost("one", "meta.00000001.0"), lost("two", "member.00000002")]
    );
}

#[test]
fn a_lost_length_of_a_disk_and_a_lost_seal_are_named_before_the_member_is_opened() {
    let domain = Domain::new();
    let process = domain.process();
    let one = process.filled("one", 1..=8);
    one.share(&StopFlag::new()).unwrap();
    one.close().unwrap();
    let client = domain.world.client();
    let lost = [
        ("member.00000001", "data.length"),
        ("ledger.00000001", "version"),
        ("ledger.00000001.0000", "version"),
    ];
    for (object, key) in lost {
        let keys = [key.to_owned()];
        let value = client.get_keys(object, &keys).unwrap().remove(0).unwrap();
        let remove = Update { remove: keys.into(), ..Update::default() };
        client.update(object, &remove).unwrap();
        let check = DomainCheck::run(&process.client, Duration::ZERO).unwrap();
        let is_it = |found: &Finding| match found {
            Finding::Damaged { object: found, key: of, .. } => found == object && of == key,
            _ => false,
        };
        assert!(check.findings.list.iter().any(is_it), "{object} {key}: {check:?}");
        assert!(process.open("one", Use::Hold, false).is_err(), "{object} {key}");
        let put_back = Update { set: vec![(key.to_owned(), value)], ..Update::default() };
        client.update(object, &put_back).unwrap();
    }
    let check = DomainCheck::run(&process.client, Duration::ZERO).unwrap();
    assert_eq!(check.findings, Findings::default());
    process.serve("one").close().unwrap();
}

/// A domain that has lost a shard with contents of the member `one`, and two processes.
fn with_a_lost_shard() -> (Domain, Process, Process) {
    let domain = Domain::new();
    let (first, second) = (domain.process(), domain.process());
    let one = first.filled("one", 1..=8);
    one.share(&StopFlag::new()).unwrap();
    one.close().unwrap();
    domain.world.client().remove("index.1").unwrap();
    (domain, first, second)
}

/// A change of a repair that is not answered may come late, over what members have changed by then.
#[test]
fn after_a_repair_of_unknown_fate_no_member_is_handed_over() {
    let (_domain, first, second) = with_a_lost_shard();
    second.store.loses_index.store(true, Ordering::Relaxed);
    assert!(DomainCheck::repair(&second.client, LEASE).is_err());
    let refused = first.open("one", Use::Hold, false).err().unwrap();
    assert!(refused.is_in_use(), "{refused:?}");
}

/// A member that is registered before the repair has closed the list is taken with the others, and
/// none is registered afterwards.
#[test]
fn no_member_is_registered_while_a_domain_is_repaired() {
    let (_domain, first, second) = with_a_lost_shard();
    let early = Arc::clone(&first.client);
    *second.store.before_members.lock() = Some(Box::new(move || {
        early.register("early").unwrap();
    }));
    let (late, outcomes) = (Arc::clone(&first.client), Arc::new(Mutex::new(Vec::new())));
    let noted = Arc::clone(&outcomes);
    *second.store.before_index.lock() = Some(Box::new(move || {
        let is_held = late.look("early").unwrap().holder.is_some();
        noted.lock().push((is_held, late.register("late").map_err(|error| error.to_string())));
    }));
    let (check, repaired) = DomainCheck::repair(&second.client, LEASE).unwrap();
    assert_eq!((check.members, check.findings, repaired.shards), (2, Findings::default(), 1));
    let outcomes = std::mem::take(&mut *outcomes.lock());
    assert!(!outcomes.is_empty());
    for (is_held, outcome) in outcomes {
        assert!(is_held && outcome.unwrap_err().contains("is being repaired"));
    }
    first.client.register("late").unwrap();

    // A repair that was killed leaves the list closed, until another one is done.
    Members::new(second.client.index()).close().unwrap();
    assert!(first.client.register("later").is_err());
    DomainCheck::repair(&second.client, LEASE).unwrap();
    first.client.register("later").unwrap();
}

#[test]
fn changes_that_a_dead_member_left_are_no_contradictions() {
    let domain = Domain::new();
    let (first, second) = (domain.process(), domain.process());
    let one = first.changed("one");
    // The index has the change, and the ledger has the intent alone.
    let store = Arc::clone(&first.store);
    *first.store.before_index.lock() =
        Some(Box::new(move || store.loses_ledger.store(true, Ordering::Relaxed)));
    assert!(one.share(&StopFlag::new()).is_err());
    drop(one);
    domain.outlive_leases();
    let check = DomainCheck::run(&second.client, Duration::ZERO).unwrap();
    assert_eq!(check.findings, Findings::default());
    assert_eq!(check.unsettled.len(), 1, "{check:?}");
    assert_eq!(check.unsettled[0].0, "one");

    let one = second.serve("one");
    one.share(&StopFlag::new()).unwrap();
    one.close().unwrap();
    let check = DomainCheck::run(&second.client, Duration::ZERO).unwrap();
    assert_eq!((check.unsettled, check.findings), (Vec::new(), Findings::default()));
    // A contradiction is found: the ledger has lost the kinds of its blocks.
    let ledger = Update { remove: vec!["k.00000000".into()], ..Update::default() };
    domain.world.client().update("ledger.00000001.0000", &ledger).unwrap();
    let check = DomainCheck::run(&second.client, Duration::ZERO).unwrap();
    assert!(!check.findings.are_none());
    // The member is not changed until the repair has written its records again.
    let refused = second.open("one", Use::Hold, false).err().unwrap().to_string();
    assert!(refused.contains("'gemelo domain check --repair'"), "{refused}");
    let (check, repaired) = DomainCheck::repair(&second.client, LEASE).unwrap();
    assert_eq!((check.findings, repaired.ledgers), (Findings::default(), 1));
    let one = second.serve("one");
    expect(&one, std::iter::once(9));
    one.close().unwrap();
    // A page that the head does not name is not read at an opening.
    let head = Update { remove: vec!["p.0000".into()], ..Update::default() };
    domain.world.client().update("ledger.00000001", &head).unwrap();
    let check = DomainCheck::run(&second.client, Duration::ZERO).unwrap();
    let is_page = |one: &Finding| matches!(one, Finding::Damaged { object, .. } if object == "ledger.00000001.0000");
    assert!(check.findings.list.iter().any(is_page), "{check:?}");
}

/// It has no members, so that no lease is refused before.
#[test]
fn a_domain_with_an_unknown_read_compatible_feature_is_not_repaired() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let fingerprint = FingerprintKind::Blake3;
    let shared = SharedSettings { fingerprint, key: [1; 32], data_pool: None };
    let unknown = Features { read_compatible: 8, ..Features::NONE };
    let fingerprint_id = shared.fingerprint_id();
    let config = DomainConfig { block_bytes: 4096, depth: 1, fingerprint_id, unknown };
    config.create_shared(&client, &shared).unwrap();
    let objects = Arc::new(client);
    let domain = Arc::new(DomainClient::new(objects.clone(), objects).unwrap());
    let said = DomainCheck::repair(&domain, LEASE).unwrap_err().to_string();
    assert!(said.contains("the read-compatible feature 3"), "{said}");
    DomainCheck::run(&domain, Duration::ZERO).unwrap();
}
