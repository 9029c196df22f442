//! The promises of `Objects` and `Locks`, checked on any store. Each function gets a store that it
//! shares with the other functions, and uses objects of its own.

use gemelo_base::Clock;
use gemelo_objects::{
    Guard, Instance, KeyRange, LockName, Locks, MAX_PAGE_KEYS, ObjectError, Objects, Operation,
    Request, Update,
};
use std::time::Duration;

/// A client of the store under test.
pub(crate) trait Client: Objects + Locks {}
impl<T: Objects + Locks> Client for T {}

/// A store under test: a way to connect clients, and its time.
pub(crate) struct Subject<'a> {
    pub(crate) connect: &'a dyn Fn() -> Box<dyn Client>,
    pub(crate) clock: &'a dyn Clock,
}

/// Runs all checks.
pub(crate) fn check(subject: &Subject<'_>) {
    let client = (subject.connect)();
    let store = client.as_ref();
    bytes_are_written_and_read(store);
    bytes_are_removed(store);
    missing_objects_are_named(store);
    a_list_of_requests_has_an_outcome_each(store);
    objects_are_listed_by_prefix(store);
    keys_are_got_and_listed(store);
    guards_hold_or_nothing_happens(store);
    an_update_may_create(store);
    invalid_keys_are_refused(store);
    a_lock_has_one_holder(subject);
    a_lease_ends(subject);
    a_fenced_client_changes_nothing(subject);
}

fn bytes_are_written_and_read(store: &dyn Client) {
    store.write("bytes", 4, b"abcd").unwrap();
    store.perform("bytes", Operation::Append { bytes: b"ef" }).unwrap();
    assert_eq!(store.stat("bytes").unwrap(), 10);
    assert_eq!(content(store, "bytes"), b"\0\0\0\0abcdef");
    let mut beyond = [7; 4];
    assert_eq!(store.read("bytes", 8, &mut beyond).unwrap(), 2);
    assert_eq!(&beyond[..2], b"ef");
    assert_eq!(store.read("bytes", 100, &mut beyond).unwrap(), 0);
    bytes_are_read_to_several_places(store);
    let parts = vec![(6, &b"xyz"[..]), (1, b"12"), (8, b"Z!")];
    store.perform("bytes", Operation::Write { parts }).unwrap();
    assert_eq!(content(store, "bytes"), b"\x0012\0abxyZ!");
}

/// The places lie side by side in memory, or do not, or lie in another order.
fn bytes_are_read_to_several_places(store: &dyn Client) {
    let read = |offset, parts: Vec<&mut [u8]>| match store
        .perform("bytes", Operation::read_parts(offset, parts))
        .unwrap()
    {
        Operation::ReadParts { filled, .. } => filled,
        other => panic!("{other:?}"),
    };
    let mut memory = *b"---------";
    let (one, two) = memory.split_at_mut(2);
    assert_eq!(read(4, vec![one, &mut two[..3]]), 5);
    assert_eq!(&memory, b"abcde----");
    let (one, two) = memory.split_at_mut(4);
    assert_eq!(read(6, vec![&mut two[3..], &mut one[1..]]), 4);
    assert_eq!(&memory, b"aefde--cd");
}

fn bytes_are_removed(store: &dyn Client) {
    store.write("removed", 0, b"abcdefgh").unwrap();
    store.perform("removed", Operation::Zero { offset: 2, length: 3 }).unwrap();
    assert_eq!(content(store, "removed"), b"ab\0\0\0fgh");
    store.perform("removed", Operation::Truncate { length: 3 }).unwrap();
    assert_eq!(content(store, "removed"), b"ab\0");
    store.perform("removed", Operation::Truncate { length: 5 }).unwrap();
    assert_eq!(content(store, "removed"), b"ab\0\0\0");
    store.remove("removed").unwrap();
    assert!(matches!(store.stat("removed"), Err(ObjectError::NotFound { .. })));
}

fn missing_objects_are_named(store: &dyn Client) {
    let named = |result: Result<(), ObjectError>| {
        assert!(
            matches!(&result, Err(ObjectError::NotFound { object }) if object == "missing"),
            "{result:?}"
        );
    };
    named(store.read("missing", 0, &mut [0; 4]).map(drop));
    named(store.stat("missing").map(drop));
    named(store.remove("missing"));
    named(store.get_keys("missing", &["key".into()]).map(drop));
    named(store.list_keys("missing", all("")).map(drop));
    let guards = vec![Guard { key: "key".into(), expected: None }];
    named(store.update("missing", &Update { guards, ..Update::default() }));
    store.perform("missing", Operation::Zero { offset: 0, length: 4 }).unwrap();
    store.perform("missing", Operation::Truncate { length: 4 }).unwrap();
    named(store.stat("missing").map(drop));
}

fn a_list_of_requests_has_an_outcome_each(store: &dyn Client) {
    let names: Vec<String> = (0..200).map(|number| format!("many.{number}")).collect();
    let contents: Vec<Vec<u8>> = (0..200).map(|number| vec![number as u8; 64]).collect();
    let write = |(name, bytes)| Request::new(name, Operation::write(0, bytes));
    let contents_of = contents.iter().map(Vec::as_slice);
    let mut requests: Vec<_> =
        names.iter().map(String::as_str).zip(contents_of).map(write).collect();
    store.execute(&mut requests);
    assert!(requests.iter().all(|request| request.outcome.is_ok()));
    store.remove("many.7").unwrap();
    let mut buffers = vec![[0; 64]; 200];
    let mut requests: Vec<_> = names
        .iter()
        .zip(&mut buffers)
        .map(|(name, buffer)| Request::new(name, Operation::read(0, buffer)))
        .collect();
    store.execute(&mut requests);
    for (number, request) in requests.iter().enumerate() {
        assert_eq!(request.outcome.is_err(), number == 7, "{request:?}");
    }
    drop(requests);
    assert!(
        (0..200)
            .filter(|number| *number != 7)
            .all(|number| buffers[number].as_slice() == contents[number])
    );
}

fn objects_are_listed_by_prefix(store: &dyn Client) {
    for name in ["list.b", "list.a", "list", "lost.a"] {
        store.create(name).unwrap();
    }
    assert_eq!(store.list("list.").unwrap(), ["list.a", "list.b"]);
    assert!(store.list("none.").unwrap().is_empty());
    assert!(matches!(store.create("list.a"), Err(ObjectError::Exists { .. })));
}

fn keys_are_got_and_listed(store: &dyn Client) {
    let count = MAX_PAGE_KEYS + 500;
    let set =
        (0..count).map(|number| (format!("key.{number:05}"), vec![1, number as u8])).collect();
    store.update("keys", &Update { set, ..Update::default() }).unwrap();
    let set = vec![("zebra".into(), vec![9])];
    store
        .update("keys", &Update { set, remove: vec!["key.00003".into()], ..Update::default() })
        .unwrap();
    let asked = ["key.00005".into(), "key.00003".into(), "none".into(), "zebra".into()];
    let values = store.get_keys("keys", &asked).unwrap();
    assert_eq!(values, [Some(vec![1, 5]), None, None, Some(vec![9])]);
    let page = store.list_keys("keys", KeyRange { limit: 2, ..all("key.") }).unwrap();
    let names: Vec<&str> = page.entries.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!((names, page.has_more), (vec!["key.00000", "key.00001"], true));
    let (mut listed, mut after) = (0, String::new());
    loop {
        let range = KeyRange { after: &after, ..all("key.") };
        let page = store.list_keys("keys", range).unwrap();
        listed += page.entries.len();
        if !page.has_more {
            break;
        }
        after = page.entries.last().unwrap().0.clone();
    }
    assert_eq!(listed, count - 1);
}

fn guards_hold_or_nothing_happens(store: &dyn Client) {
    let one = |key: &str, value: u8| (key.to_owned(), vec![value]);
    let guard = |key: &str, expected: Option<u8>| Guard {
        key: key.into(),
        expected: expected.map(|value| vec![value]),
    };
    store
        .update("guarded", &Update { set: vec![one("a", 1), one("b", 2)], ..Update::default() })
        .unwrap();
    let holds = vec![guard("a", Some(1)), guard("c", None)];
    let update = Update {
        guards: holds,
        set: vec![one("a", 3), one("c", 4)],
        remove: vec!["b".into()],
        creates: false,
    };
    store.update("guarded", &update).unwrap();
    let keys = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
    let expected = [Some(vec![3]), None, Some(vec![4])];
    assert_eq!(store.get_keys("guarded", &keys).unwrap(), expected);
    for (wrong, name) in
        [(guard("a", Some(1)), "a"), (guard("c", None), "c"), (guard("b", Some(2)), "b")]
    {
        let guards = vec![guard("a", Some(3)), wrong];
        let guards = if name == "a" { guards[1..].to_vec() } else { guards };
        let update =
            Update { guards, set: vec![one("d", 5)], remove: vec!["a".into()], creates: false };
        let outcome = store.update("guarded", &update);
        assert!(
            matches!(&outcome, Err(ObjectError::Guard { key, .. }) if key == name),
            "{outcome:?}"
        );
        assert_eq!(store.get_keys("guarded", &keys).unwrap(), expected);
    }
}

fn an_update_may_create(store: &dyn Client) {
    let update = Update { creates: true, set: vec![("key".into(), vec![1])], ..Update::default() };
    store.update("created", &update).unwrap();
    assert!(matches!(store.update("created", &update), Err(ObjectError::Exists { .. })));
    assert_eq!(store.get_keys("created", &["key".into()]).unwrap(), [Some(vec![1])]);
}

fn invalid_keys_are_refused(store: &dyn Client) {
    let set = |key: &str, value: &[u8]| Update {
        set: vec![(key.into(), value.to_vec())],
        ..Update::default()
    };
    for update in [set("", &[1]), set("a\0b", &[1]), set(&"k".repeat(257), &[1]), set("key", &[])] {
        assert!(matches!(store.update("invalid", &update), Err(ObjectError::Invalid { .. })));
    }
    assert!(matches!(store.stat("invalid"), Err(ObjectError::NotFound { .. })));
}

const LONG: Duration = Duration::from_secs(60);

fn a_lock_has_one_holder(subject: &Subject<'_>) {
    let (one, two) = ((subject.connect)(), (subject.connect)());
    let lock = LockName { object: "locked", name: "serve" };
    assert_eq!(one.holder(lock).unwrap(), None);
    one.lock(lock, LONG).unwrap();
    one.lock(lock, LONG).unwrap();
    one.renew(lock, LONG).unwrap();
    let Err(ObjectError::Held { holder, .. }) = two.lock(lock, LONG) else { panic!("held") };
    assert_eq!(holder.instance, one.instance());
    assert_ne!(one.instance(), two.instance());
    assert!(matches!(two.renew(lock, LONG), Err(ObjectError::NotHeld { .. })));
    assert!(matches!(two.unlock(lock), Err(ObjectError::NotHeld { .. })));
    one.unlock(lock).unwrap();
    two.lock(lock, LONG).unwrap();
    assert_eq!(one.holder(lock).unwrap().unwrap().instance, two.instance());
}

fn a_lease_ends(subject: &Subject<'_>) {
    let (one, two) = ((subject.connect)(), (subject.connect)());
    let lock = LockName { object: "leased", name: "serve" };
    let begun_ns = subject.clock.now_ns();
    one.lock(lock, Duration::from_secs(2)).unwrap();
    assert!(matches!(two.lock(lock, LONG), Err(ObjectError::Held { .. })));
    subject.clock.sleep_until_ns(begun_ns + 3_000_000_000);
    assert_eq!(two.holder(lock).unwrap(), None);
    assert!(matches!(one.renew(lock, LONG), Err(ObjectError::NotHeld { .. })));
    two.lock(lock, LONG).unwrap();
}

fn a_fenced_client_changes_nothing(subject: &Subject<'_>) {
    let (one, two) = ((subject.connect)(), (subject.connect)());
    one.write("fenced", 0, b"before").unwrap();
    assert!(!two.instance().0.is_empty());
    let Instance(address) = one.instance();
    two.fence(&Instance(address), gemelo_objects::Fenced::Lost).unwrap();
    assert_eq!(content(two.as_ref(), "fenced"), b"before");
    let outcome = one.write("fenced", 0, b"behind");
    assert!(matches!(outcome, Err(ObjectError::Fenced { .. })), "{outcome:?}");
    assert_eq!(content(two.as_ref(), "fenced"), b"before");
    two.write("fenced", 0, b"second").unwrap();
    two.unfence(&one.instance()).unwrap();
    two.unfence(&one.instance()).unwrap();
    two.unfence(&Instance("192.0.2.1:0/2".into())).unwrap();
}

fn content(store: &dyn Client, object: &str) -> Vec<u8> {
    let mut bytes = vec![0; store.stat(object).unwrap() as usize];
    let filled = store.read(object, 0, &mut bytes).unwrap();
    assert_eq!(filled, bytes.len());
    bytes
}

fn all(prefix: &str) -> KeyRange<'_> {
    KeyRange { after: "", prefix, limit: MAX_PAGE_KEYS }
}
