//! Tests of ledgers on a simulated store that fails, is full, or answers late.

use super::*;
use crate::record::{BlockState, Elsewhere};
use gemelo_domain::MemberId;
use gemelo_format::Fingerprint;
use gemelo_objects::Locks as _;
use gemelo_objects::simulated::{Client, Faults, World};
use gemelo_objects::{KeyRange, MAX_PAGE_KEYS};

mod damage;

const MEMBER: MemberId = MemberId(1);

fn load(client: &Client) -> Ledger {
    try_load(client).unwrap().0
}

/// Reads the ledger, and the kinds of all blocks.
fn try_load(client: &Client) -> Result<(Ledger, BTreeMap<Pbn, BlockState>)> {
    let (objects, clock) = (Arc::new(client.clone()), Arc::new(client.clock()));
    let mut kinds = BTreeMap::new();
    let Loaded { ledger, damage, .. } = Ledger::load(objects, clock, MEMBER, |pbn, kind| {
        assert_eq!(kinds.insert(pbn, kind), None, "a block is read once");
    })?;
    match damage.into_iter().next() {
        Some(damage) => Err(DomainError::from(damage).into()),
        None => Ok((ledger, kinds)),
    }
}

fn pbn(number: u32) -> Pbn {
    Pbn::new(number.into()).unwrap()
}

fn record(of: u32, kind: BlockState) -> Record {
    Record { fingerprint: Fingerprint::of_hash(of.into()), kind }
}

/// A record of the first block of each of some pages.
fn records() -> BTreeMap<Pbn, Option<Record>> {
    let record = Record { fingerprint: Fingerprint::of_hash(7), kind: BlockState::Published };
    let pbn = |page: u32| Pbn::new((page * PAGE_BLOCKS + 1).into()).unwrap();
    (0..8).map(|page| (pbn(page), Some(record))).collect()
}

fn update(ledger: &Ledger, records: &[(Pbn, Option<Record>)]) -> Sealed {
    let mut groups = groups::Groups::new(MEMBER);
    records.iter().for_each(|(pbn, record)| groups.set(*pbn, *record));
    let (page, changes) = groups.changes().pop_first().unwrap();
    ledger.update(ledger.page(page), changes)
}

fn updates(ledger: &Ledger) -> Vec<Sealed> {
    records().into_iter().map(|one| update(ledger, &[one])).collect()
}

#[test]
fn a_full_store_leaves_the_ledger_usable() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let mut ledger = load(&client);
    let few: BTreeMap<_, _> = records().into_iter().take(1).collect();
    ledger.write(&few).unwrap();
    // Some of the pages fit.
    world.set_capacity(700);
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
    new.fence(&old.instance(), gemelo_objects::Fenced::Lost).unwrap();
    let mut ledger = load(&new);
    assert!(ledger.seals.is_empty(), "no call has arrived yet");
    world.sleep_until_ns(world.now_ns() + 3 * Faults::NONE.timeout_ns);
    let arrived = new.list("ledger.").unwrap();
    assert!(!arrived.is_empty(), "calls arrive where the fence is not known");
    // Of other blocks of the same groups.
    let next = records().into_iter().map(|(pbn, record)| (Pbn::new(pbn.number() + 1), record));
    ledger.write(&next.map(|(pbn, record)| (pbn.unwrap(), record)).collect()).unwrap();
    let pbns: Vec<Pbn> = records().into_keys().collect();
    let found = ledger.read(&pbns).unwrap();
    for (pbn, record) in pbns.iter().zip(found) {
        assert_eq!(record.is_some(), arrived.contains(&ledger.page(page_of_block(*pbn))));
    }
    ledger.write(&records()).unwrap();
    assert_eq!(ledger.read(&pbns).unwrap(), records().into_values().collect::<Vec<_>>());
}

/// Changes of some blocks of groups that have others, in several orders, against a map.
#[test]
fn changes_of_parts_of_groups_keep_the_other_records() {
    let world = World::new(1, Faults { lost_replies: 100, lost_calls: 100, ..Faults::NONE });
    let client = world.client();
    let mut ledger = load(&client);
    let mut all: BTreeMap<Pbn, Record> = BTreeMap::new();
    let place = Elsewhere::of((MEMBER, pbn(1)), (MemberId(2), pbn(77))).unwrap();
    let kinds = [
        BlockState::Published,
        BlockState::Lent,
        BlockState::Borrowed(place),
        BlockState::Restored(place),
        BlockState::Alone,
    ];
    for round in 0..60 {
        // Blocks side by side, and blocks all over three pages.
        let numbers = (0..world.draw(90) as u32).map(|at| match round % 2 {
            0 => 65_500 + round + at,
            _ => 1 + world.draw(3 * u64::from(PAGE_BLOCKS)) as u32 / 40 * 40,
        });
        let changes: BTreeMap<Pbn, Option<Record>> = numbers
            .map(|number| {
                let kind = kinds[world.draw(5) as usize];
                (pbn(number), (world.draw(3) > 0).then(|| record(number + round, kind)))
            })
            .collect();
        while ledger.write(&changes).is_err() {}
        for (pbn, record) in changes {
            match record {
                Some(record) => all.insert(pbn, record),
                None => all.remove(&pbn),
            };
        }
        if round % 7 == 0 {
            let (again, kinds) = try_load(&client).unwrap();
            ledger = again;
            assert!(kinds.into_iter().eq(all.iter().map(|(pbn, record)| (*pbn, record.kind))));
        }
        let pbns: Vec<Pbn> = (1..3 * u64::from(PAGE_BLOCKS)).filter_map(Pbn::new).collect();
        let expected: Vec<_> = pbns.iter().map(|pbn| all.get(pbn).copied()).collect();
        assert!(ledger.read(&pbns).unwrap() == expected, "round {round}");
    }
    ledger.write(&all.keys().map(|pbn| (*pbn, None)).collect()).unwrap();
    assert!(try_load(&client).unwrap().1.is_empty());
}

#[test]
fn a_group_loses_its_keys_with_its_last_record() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let mut ledger = load(&client);
    let name = ledger.page(0);
    let keys = || {
        let range = KeyRange { after: "", prefix: "", limit: MAX_PAGE_KEYS };
        let page = client.list_keys(&name, range).unwrap();
        page.entries.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    let blocks = [40, 41, 80].map(pbn);
    let write = |ledger: &mut Ledger, blocks: &[Pbn], record| {
        ledger.write(&blocks.iter().map(|pbn| (*pbn, record)).collect()).unwrap();
    };
    write(&mut ledger, &blocks, Some(record(7, BlockState::Published)));
    assert_eq!(keys(), ["f.00000001", "f.00000002", "k.00000000", VERSION_KEY]);
    write(&mut ledger, &blocks[..1], None);
    assert_eq!(keys().len(), 4);
    write(&mut ledger, &blocks[2..], None);
    assert_eq!(keys(), ["f.00000001", "k.00000000", VERSION_KEY]);
    write(&mut ledger, &blocks[1..], None);
    assert_eq!(keys(), [VERSION_KEY]);
}

/// A change is in doubt, and is sent again before the next one, which is of another block of its
/// group.
#[test]
fn a_change_in_doubt_is_not_lost_by_the_next_one_of_its_group() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let mut ledger = load(&client);
    let published = |number| (pbn(number), Some(record(number, BlockState::Published)));
    ledger.write(&BTreeMap::from([published(1)])).unwrap();
    let mut groups = ledger.groups_of([1, 2].map(pbn).into_iter()).unwrap();
    groups.set(pbn(2), published(2).1);
    world.set_faults(Faults { lost_calls: 1000, ..Faults::NONE });
    // As `write` does it, which would wait for the answer.
    let (page, changes) = groups.changes().pop_first().unwrap();
    let update = ledger.update(ledger.page(page), changes);
    ledger.send(vec![update], false).unwrap_err();
    assert!(ledger.is_in_doubt());
    world.set_faults(Faults::NONE);
    ledger.write(&BTreeMap::from([published(3)])).unwrap();
    let expected: Vec<_> = (1..=3).map(|number| published(number).1).collect();
    assert_eq!(ledger.read(&[1, 2, 3].map(pbn)).unwrap(), expected);
}

#[test]
fn a_ledger_with_a_key_for_each_block_is_refused() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    load(&client).write(&records()).unwrap();
    let version = Writer::new(0).u64(1).finish(VERSION_KEY);
    let set = vec![(VERSION_KEY.to_owned(), version)];
    client.update("ledger.00000001.0003", &Update { set, ..Update::default() }).unwrap();
    let error = try_load(&client).err().unwrap().to_string();
    assert!(error.contains("another version of gemelo"), "{error}");
}

#[test]
fn a_block_with_a_kind_and_no_fingerprint_is_damage() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let mut ledger = load(&client);
    ledger.write(&records()).unwrap();
    let remove = vec!["f.00000000".to_owned()];
    client.update(&ledger.page(0), &Update { remove, ..Update::default() }).unwrap();
    let error = ledger.read(&[pbn(1)]).unwrap_err().to_string();
    assert!(error.contains("f.00000000"), "{error}");
    assert!(ledger.write(&BTreeMap::from([(pbn(1), None)])).is_err());
}

/// A store without lists, as a namespace with very many objects is.
struct Unlisted(Client);

impl Objects for Unlisted {
    fn execute(&self, requests: &mut [Request<'_>]) {
        self.0.execute(requests);
    }

    fn list(&self, prefix: &str) -> std::result::Result<Vec<String>, ObjectError> {
        panic!("the objects {prefix}* are looked for");
    }
}

#[test]
fn the_head_names_the_pages_so_that_nobody_looks_for_them() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let (objects, clock) = (Arc::new(Unlisted(client.clone())), Arc::new(client.clock()));
    let load = || {
        let mut kinds = BTreeMap::new();
        let take = |pbn, kind| assert_eq!(kinds.insert(pbn, kind), None);
        let loaded = Ledger::load(Arc::clone(&objects) as _, Arc::clone(&clock) as _, MEMBER, take);
        (loaded.unwrap().ledger, kinds)
    };
    let (mut ledger, kinds) = load();
    assert!(kinds.is_empty());
    ledger.write(&records()).unwrap();
    let (mut ledger, kinds) = load();
    assert!(kinds.keys().eq(records().keys()));
    // The pages are named before they are created.
    let later = 100 * PAGE_BLOCKS + 1;
    world.set_capacity(1);
    let change = BTreeMap::from([(pbn(later), Some(record(7, BlockState::Published)))]);
    ledger.write(&change).unwrap_err();
    world.set_capacity(u64::MAX);
    ledger.name_pages(&BTreeSet::from([100])).unwrap();
    let (mut ledger, kinds) = load();
    assert_eq!((kinds.len(), ledger.named.contains_key(&100)), (8, true));
    ledger.write(&change).unwrap();
    assert_eq!(load().1.len(), 9);
}
