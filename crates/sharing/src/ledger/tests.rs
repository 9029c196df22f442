//! Tests of ledgers on a simulated store that fails, is full, or answers late.

use super::*;
use crate::record::Kind;
use gemelo_domain::MemberId;
use gemelo_format::Fingerprint;
use gemelo_objects::Locks as _;
use gemelo_objects::simulated::{Client, Faults, World};

const MEMBER: MemberId = MemberId(1);

fn load(client: &Client) -> Ledger {
    Ledger::load(Arc::new(client.clone()), Arc::new(client.clock()), MEMBER).unwrap().0
}

/// A record of the first block of each of some pages.
fn records() -> BTreeMap<Pbn, Option<Record>> {
    let record = Record { fingerprint: Fingerprint::of_hash(7), kind: Kind::Published };
    let pbn = |page: u32| Pbn::new(page * PAGE_BLOCKS + 1).unwrap();
    (0..8).map(|page| (pbn(page), Some(record))).collect()
}

fn updates(ledger: &Ledger) -> Vec<(String, Update)> {
    let update = |(pbn, record): (Pbn, Option<Record>)| {
        let key = key_of(pbn);
        let set = vec![(key.clone(), record.unwrap().encode(&key))];
        ledger.update(ledger.page(pbn), Changes { set, remove: Vec::new() })
    };
    records().into_iter().map(update).collect()
}

#[test]
fn a_full_store_leaves_the_ledger_usable() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let mut ledger = load(&client);
    let few: BTreeMap<_, _> = records().into_iter().take(1).collect();
    ledger.write(&few).unwrap();
    // Some of the pages fit.
    world.set_capacity(500);
    let error = ledger.write(&records()).unwrap_err();
    assert!(error.to_string().contains("no space"), "{error}");
    assert!(client.list("ledger.").unwrap().len() > 1);
    world.set_capacity(u64::MAX);
    ledger.write(&records()).unwrap();
    ledger.write(&records()).unwrap();
}

#[test]
fn a_change_that_may_arrive_stays_in_doubt_on_a_full_store() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let mut ledger = load(&client);
    world.set_faults(Faults { lost_calls: 1000, ..Faults::NONE });
    let updates = updates(&ledger);
    ledger.send(updates, false).unwrap_err();
    world.set_faults(Faults::NONE);
    world.set_capacity(1);
    assert!(!is_unknown(&ledger.resolve().unwrap_err()));
    assert_eq!(ledger.doubtful.len(), 8);
    world.set_capacity(u64::MAX);
    ledger.resolve().unwrap();
    assert_eq!(client.list("ledger.").unwrap().len(), 8);
}

#[test]
fn a_page_that_a_late_call_of_the_last_holder_created_can_be_changed() {
    let world = World::new(1, Faults::NONE);
    let (old, new) = (world.client(), world.client());
    let before = load(&old);
    // Each call arrives after its sender gave up.
    world.set_faults(Faults { late_calls: 1000, ..Faults::NONE });
    let updates = updates(&before);
    old.execute(&mut updates.iter().map(update_of).collect::<Vec<_>>());
    world.set_faults(Faults::NONE);
    new.fence(&old.instance()).unwrap();
    let mut ledger = load(&new);
    assert!(ledger.versions.is_empty(), "no call has arrived yet");
    world.sleep_until_ns(world.now_ns() + 3 * Faults::NONE.timeout_ns);
    assert!(!new.list("ledger.").unwrap().is_empty(), "calls arrive where the fence is not known");
    ledger.write(&records()).unwrap();
    let pbns: Vec<Pbn> = records().into_keys().collect();
    assert_eq!(ledger.read(&pbns).unwrap(), records().into_values().collect::<Vec<_>>());
}
