//! Whatever a ledger has lost is found when it is read, and is never taken for nothing.

use super::reading::{LOST_KEYS, NO_SEAL};
use super::*;

/// A ledger with eight pages, an intent in flight, and the client of its store.
fn written() -> (World, Client, Ledger) {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let mut ledger = load(&client);
    ledger.write(&records()).unwrap();
    ledger.mark(1).unwrap();
    (world, client, ledger)
}

fn damage(client: &Client) -> Vec<(String, Reason)> {
    let (objects, clock) = (Arc::new(client.clone()), Arc::new(client.clock()));
    let loaded = Ledger::load(objects, clock, MEMBER, |_, _| {}).unwrap();
    loaded.damage.into_iter().map(|damage| (damage.object, damage.reason)).collect()
}

fn keys_of(client: &Client, object: &str) -> Vec<(String, Vec<u8>)> {
    let range = KeyRange { after: "", prefix: "", limit: MAX_PAGE_KEYS };
    client.list_keys(object, range).unwrap().entries
}

fn put(client: &Client, object: &str, keys: Vec<(String, Vec<u8>)>) {
    client.remove(object).unwrap();
    let update = Update { creates: true, set: keys, ..Update::default() };
    client.update(object, &update).unwrap();
}

#[test]
fn a_whole_ledger_has_no_damage() {
    let (_world, client, mut ledger) = written();
    assert_eq!(damage(&client), []);
    ledger.write(&records().into_keys().map(|pbn| (pbn, None)).collect()).unwrap();
    assert_eq!(damage(&client), []);
    ledger.finish().unwrap();
    assert_eq!((damage(&client), load(&client).epoch()), (vec![], Some(1)));
}

#[test]
fn a_page_that_is_named_and_lost_is_damage() {
    let (_world, client, ledger) = written();
    client.remove(&ledger.page(3)).unwrap();
    assert_eq!(damage(&client), [(ledger.page(3), LOST_PAGE)]);
    // It may only be named.
    let mut ledger = load(&World::new(1, Faults::NONE).client());
    ledger.name_pages(&BTreeSet::from([1])).unwrap();
    let objects = Arc::clone(&ledger.objects);
    let clock = Arc::clone(&ledger.clock);
    assert_eq!(Ledger::load(objects, clock, MEMBER, |_, _| {}).unwrap().damage, []);
}

#[test]
fn a_group_that_is_lost_or_older_is_damage() {
    let (_world, client, mut ledger) = written();
    let name = ledger.page(3);
    let before = keys_of(&client, &name);
    let block = *records().keys().nth(3).unwrap();
    ledger.write(&BTreeMap::from([(block, Some(record(7, BlockState::Lent)))])).unwrap();
    let now = keys_of(&client, &name);
    for at in 0..now.len() {
        if now[at].0.starts_with('f') {
            // A take-over does not read it: the record that needs it is damaged.
            continue;
        }
        let mut lost = now.clone();
        let (key, _) = lost.remove(at);
        put(&client, &name, lost);
        let expected = if key == VERSION_KEY { NO_SEAL } else { LOST_KEYS };
        assert_eq!(damage(&client), [(name.clone(), expected)], "{key}");
        let mut older = now.clone();
        older[at].1.clone_from(&before[at].1);
        put(&client, &name, older);
        let found = damage(&client);
        assert_eq!(found.first(), Some(&(name.clone(), LOST_KEYS)), "{key}: {found:?}");
    }
    put(&client, &name, now);
    assert_eq!(damage(&client), []);
}

#[test]
fn a_page_or_a_head_that_is_older_than_the_rest_is_damage() {
    let (_world, client, mut ledger) = written();
    let (name, head) = (ledger.page(3), ledger.head());
    let (page_before, head_before) = (keys_of(&client, &name), keys_of(&client, &head));
    let block = *records().keys().nth(3).unwrap();
    ledger.mark(2).unwrap();
    ledger.write(&BTreeMap::from([(block, Some(record(7, BlockState::Lent)))])).unwrap();
    // The head learns of it with its next change, or when the member is given back.
    ledger.finish().unwrap();
    let (page, whole) = (keys_of(&client, &name), keys_of(&client, &head));
    put(&client, &name, page_before);
    assert_eq!(damage(&client), [(name.clone(), OLD_PAGE)]);
    put(&client, &name, page);
    assert_eq!(damage(&client), []);
    put(&client, &head, head_before);
    assert_eq!(damage(&client), [(head.clone(), OLD_HEAD)]);
    put(&client, &head, whole.clone());
    // A page that the head does not name any more.
    let without = whole.into_iter().filter(|(key, _)| key != "p.0003").collect();
    put(&client, &head, without);
    assert_eq!(damage(&client), [(head, LOST_KEYS)]);
}

#[test]
fn a_ledger_that_is_written_anew_has_the_same_records_and_none_of_the_damage() {
    let (_world, client, ledger) = written();
    let all: BTreeMap<Pbn, Record> =
        records().into_iter().filter_map(|(pbn, record)| Some((pbn, record?))).collect();
    client.remove(&ledger.page(3)).unwrap();
    client.remove(&ledger.head()).unwrap();
    write_anew(&client, MEMBER, 9, all.clone(), &[], &BTreeMap::new()).unwrap();
    assert_eq!(damage(&client), []);
    let mut again = load(&client);
    assert_eq!(again.epoch(), Some(9));
    let pbns: Vec<Pbn> = all.keys().copied().collect();
    assert_eq!(again.read(&pbns).unwrap(), records().into_values().collect::<Vec<_>>());
    again.write(&BTreeMap::from([(pbns[0], None)])).unwrap();
    assert_eq!(damage(&client), []);
    // One that was interrupted after the head is still damaged.
    let few: BTreeMap<Pbn, Record> = all.into_iter().skip(1).take(1).collect();
    let pages: Vec<_> = (0..8).map(|page| ledger.page(page)).collect();
    let kept: Vec<_> = pages.iter().map(|name| keys_of(&client, name)).collect();
    write_anew(&client, MEMBER, 9, few, &[], &BTreeMap::new()).unwrap();
    put(&client, &pages[1], kept[1].clone());
    assert_eq!(damage(&client), [(pages[1].clone(), OLD_PAGE)]);
}

#[test]
fn a_group_in_an_object_of_other_blocks_is_damage() {
    let (_world, client, ledger) = written();
    let of_page = keys_of(&client, &ledger.page(3));
    let (key, value) = of_page.iter().find(|(key, _)| key.starts_with("k.")).unwrap();
    for object in [ledger.page(4), ledger.head()] {
        let mut keys = keys_of(&client, &object);
        keys.push((key.clone(), value.clone()));
        // The seal agrees.
        let seal = keys.iter_mut().find(|(key, _)| key == VERSION_KEY).unwrap();
        let before = Seal::decode(&seal.1).unwrap();
        let sum = before.keys.wrapping_add(digest(key, value));
        seal.1 = Seal { keys: sum, ..before }.encode();
        let whole = keys_of(&client, &object);
        put(&client, &object, keys);
        let found = damage(&client);
        assert!(found.iter().any(|(name, _)| *name == object), "{object}: {found:?}");
        put(&client, &object, whole);
    }
    assert_eq!(damage(&client), []);
}
