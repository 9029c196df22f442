//! The creation of members: nothing that is there is overwritten.

use crate::domain::{Domain, Process, expect};
use gemelo_base::{Recorder, Silent, StopFlag};
use gemelo_member::MemberError;
use gemelo_objects::{Locks, Objects, Update};
use gemelo_place::{MemberRemoval, PlaceError, Use};
use gemelo_volume::PoolOptions;
use std::sync::atomic::Ordering;

fn create(process: &Process, name: &str, force: bool) -> Result<PoolOptions, PlaceError> {
    let options = PoolOptions { capacity_bytes: 4 << 20, force, ..PoolOptions::default() };
    process.place(name).create(&options, &[], &Silent)
}

fn expect_refused(process: &Process, name: &str) {
    let refused = create(process, name, false).unwrap_err();
    let is_refused = matches!(
        &refused,
        PlaceError::Member(MemberError::PoolExists { .. } | MemberError::Remains { .. })
    );
    assert!(is_refused, "{refused:?}");
}

#[test]
fn a_pool_is_not_created_over_another_one() {
    let domain = Domain::new();
    let (first, second) = (domain.process(), domain.process());
    first.filled("one", 1..=8).close().unwrap();
    expect_refused(&second, "one");
    let one = first.serve("one");
    expect(&one, 1..=8);
    one.close().unwrap();
}

#[test]
fn a_pool_whose_member_object_is_lost_is_not_overwritten() {
    for lost in ["member.00000001", "meta.00000001.0", "members"] {
        let domain = Domain::new();
        let (first, second) = (domain.process(), domain.process());
        let one = first.filled("one", 1..=8);
        one.share(&StopFlag::new()).unwrap();
        one.close().unwrap();
        let client = domain.world.client();
        let data = client.list("data.00000001.").unwrap();
        assert!(!data.is_empty());
        client.remove(lost).unwrap();
        if lost == "members" {
            let refused = create(&second, "one", false).unwrap_err();
            assert!(refused.to_string().contains("'next'"), "{refused}");
        } else {
            expect_refused(&second, "one");
        }
        assert_eq!(client.list("data.00000001.").unwrap(), data, "{lost}");
        assert!(!client.list("ledger.00000001").unwrap().is_empty());
    }
}

#[test]
fn what_is_destroyed_by_force_is_named_before() {
    let domain = Domain::new();
    let first = domain.process();
    let one = first.filled("one", 1..=8);
    one.share(&StopFlag::new()).unwrap();
    one.close().unwrap();
    let client = domain.world.client();
    client.remove("member.00000001").unwrap();
    let recorder = Recorder::new();
    let capacity_bytes = 4 << 20;
    let options = PoolOptions { capacity_bytes, force: true, ..PoolOptions::default() };
    first.place("one").create(&options, &[], &recorder).unwrap();
    let told = format!("{recorder:?}");
    for part in ["1 object of contents", "ledger", "8 contents that the domain expects"] {
        assert!(told.contains(part), "{told}");
    }
    // It has another number, so the index leads to no block of the new pool.
    assert_eq!(first.client.members().unwrap()[0].1.0, 2);
    assert!(client.list("data.00000001.").unwrap().is_empty());
    first.serve("one").close().unwrap();
}

#[test]
fn a_creation_that_was_interrupted_is_repeated() {
    let domain = Domain::new();
    let first = domain.process();
    create(&first, "one", false).unwrap();
    // As if the process had ended before the creation was finished.
    let client = domain.world.client();
    let member = first.client.members().unwrap()[0].1;
    let values = gemelo_domain::MemberValues::new(&client, member);
    values.set(&[("creating", b"pool")]).unwrap();
    let opened = first.open("one", Use::Hold, false).map(drop).unwrap_err();
    assert!(matches!(opened, PlaceError::Member(MemberError::NoPool { .. })), "{opened:?}");
    create(&first, "one", false).unwrap();
    first.serve("one").close().unwrap();
}

#[test]
fn nothing_is_created_while_it_is_unknown_what_is_there() {
    let domain = Domain::new();
    let (first, second) = (domain.process(), domain.process());
    first.filled("one", 1..=8).close().unwrap();
    domain.world.client().remove("member.00000001").unwrap();
    second.store.loses_lists.store(true, Ordering::Relaxed);
    let refused = create(&second, "one", true).unwrap_err();
    assert!(refused.may_pass(), "{refused:?}");
    assert!(!domain.world.client().list("data.00000001.").unwrap().is_empty());
}

#[test]
fn a_fenced_process_knows_it_from_any_call() {
    let domain = Domain::new();
    let (first, second) = (domain.process(), domain.process());
    let one = first.filled("one", 1..=8);
    let lease_state = one.lease_state().unwrap();
    assert_eq!(lease_state.check(), Ok(()));
    second.store.fence(&first.store.instance(), gemelo_objects::Fenced::Lost).unwrap();
    // Each server learns of the fence by a call of a client that knows it.
    second.store.update("member.00000001", &Update::default()).unwrap();
    assert!(first.client.look("one").is_err());
    assert_eq!(lease_state.check(), Err(gemelo_member::Ended::Fenced));
    drop(one);
}

/// A removal that arrives late must not meet the pool of the next process.
#[test]
fn a_member_whose_removal_failed_is_not_handed_over() {
    let domain = Domain::new();
    let removals: [fn(&Process) -> bool; 2] = [
        |process| MemberRemoval::plan(&process.place("one")).unwrap().run().is_err(),
        |process| create(process, "one", true).is_err(),
    ];
    for fails in removals {
        let (first, second) = (domain.process(), domain.process());
        first.filled("one", 1..=8).close().unwrap();
        let member = first.client.look("one").unwrap().member;
        *first.store.lost_removals.lock() = Some(gemelo_domain::mailbox_name(member));
        assert!(fails(&first));
        assert!(second.client.look("one").unwrap().holder.is_some());
        domain.outlive_leases();
        MemberRemoval::plan(&second.place("one")).unwrap().run().unwrap();
    }
}

#[test]
fn a_member_whose_contents_others_use_is_not_destroyed() {
    let domain = Domain::new();
    let (first, second) = domain.two_with_the_same_contents();
    let refused = create(&second, "one", true).unwrap_err();
    assert!(matches!(refused, PlaceError::Lends { contents: 8 }), "{refused:?}");
    // Whether others use them is not known if the ledger of one of them cannot be read.
    let client = domain.world.client();
    let page = client.list("ledger.00000002.").unwrap().remove(0);
    client.remove(&page).unwrap();
    let refused = create(&second, "one", true).unwrap_err();
    assert!(matches!(refused, PlaceError::UnknownBorrowers { .. }), "{refused:?}");
    assert!(!client.list("data.00000001.").unwrap().is_empty());
    // The one that only borrows can be destroyed.
    create(&second, "two", true).unwrap();
    let one = first.serve("one");
    expect(&one, 1..=8);
    one.close().unwrap();
}

#[test]
fn a_lost_object_of_a_member_is_not_taken_for_a_pool_that_was_never_created() {
    let domain = Domain::new();
    let process = domain.process();
    process.filled("one", 1..=8).close().unwrap();
    domain.world.client().remove("member.00000001").unwrap();
    for used in [Use::Look, Use::Hold] {
        let refused = process.open("one", used, false).map(drop).unwrap_err();
        let is_told = matches!(
            &refused,
            PlaceError::Member(MemberError::MemberLost { object, .. })
                if object == "member.00000001"
        );
        assert!(is_told, "{refused:?}");
    }
}
