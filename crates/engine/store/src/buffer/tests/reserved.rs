//! Tests of the space that a write buffer reserves before it acknowledges a write.

use super::*;

#[test]
fn a_write_without_space_is_refused_and_holds_nothing() {
    for background in [false, true] {
        let (store, buffer) = buffer(8, background);
        write(&buffer, &[(2, 20)]);
        buffer.sync().unwrap();
        store.below.lock().without_space = BTreeSet::from([2, 5]);
        let list = [(1, 10), (2, 21), (3, 30), (4, 40), (5, 50)];
        assert_eq!(write(&buffer, &list), [true, false, true, true, false]);
        assert_eq!(read(&buffer, &[1, 2, 3, 4, 5]), [10, 20, 30, 40, 0]);
        buffer.sync().unwrap();
        let durable = store.below.lock().durable.clone();
        assert_eq!(durable.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(durable[&2], content(20));
    }
}

#[test]
fn a_thread_reserves_space_ahead_when_the_store_wants_it() {
    let (store, buffer) = buffer(8, true);
    write(&buffer, &[(1, 10)]);
    buffer.sync().unwrap();
    assert_eq!(store.below.lock().reserved_ahead, 0, "it is not wanted");
    store.below.lock().max_reserved_ahead = 1;
    write(&buffer, &[(2, 20)]);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while store.below.lock().reserved_ahead == 0 {
        assert!(std::time::Instant::now() < deadline, "nobody reserves space");
        std::thread::yield_now();
    }
}
