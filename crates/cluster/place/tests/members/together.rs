//! Members that share contents, and their removal.

use crate::domain::{BLOCKS, Domain, expect, trim, write};
use gemelo_base::StopFlag;
use gemelo_objects::{KeyRange, Objects};
use gemelo_place::{DomainCheck, MemberRemoval, PlaceError, Use};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

#[test]
fn the_thread_of_an_open_member_shares_and_what_is_borrowed_is_read() {
    let domain = Domain::new();
    let (first, second) = (domain.process(), domain.process());
    first.filled("one", 1..=8).close().unwrap();
    let one = first.open("one", Use::Hold, true).unwrap();
    second.filled("two", 5..=12).close().unwrap();
    let two = second.open("two", Use::Hold, true).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let kept = || [&one, &two].map(|placed| placed.sharing_stat().unwrap().blocks.kept);
    let borrowed = || {
        let borrowed = [&one, &two].map(|placed| placed.sharing_stat().unwrap().blocks.borrowed);
        borrowed.iter().sum::<u64>()
    };
    while kept() != [8, 8] || borrowed() != 4 {
        assert!(Instant::now() < deadline, "{:?}", (one.sharing_stat(), two.sharing_stat()));
        std::thread::sleep(Duration::from_millis(10));
    }
    expect(&one, 1..=8);
    expect(&two, 5..=12);
    one.close().unwrap();
    // A member that nobody serves lends what it has, and can be looked at.
    expect(&two, 5..=12);
    two.close().unwrap();
    let looked = second.open("two", Use::Look, false).unwrap();
    expect(&looked, 5..=12);
    assert_eq!(looked.sharing_stat().unwrap().blocks.kept, 8);
    looked.close().unwrap();
}

#[test]
fn a_member_is_removed_when_the_domain_knows_none_of_its_blocks() {
    let domain = Domain::new();
    let (first, second) = (domain.process(), domain.process());
    let (one, two) = (first.filled("one", 1..=8), second.filled("two", 1..=8));
    let stop = StopFlag::new();
    one.share(&stop).unwrap();
    two.share(&stop).unwrap();
    trim(&one);
    one.share(&stop).unwrap();
    one.close().unwrap();
    // The other member has the contents of this one.
    let refused = MemberRemoval::plan(&first.place("one")).map(drop).unwrap_err();
    assert!(matches!(refused, PlaceError::Shares { blocks: 8 }), "{refused}");
    expect(&two, 1..=8);
    trim(&two);
    two.share(&stop).unwrap();
    two.close().unwrap();
    let one = first.serve("one");
    one.share(&stop).unwrap();
    one.close().unwrap();
    for name in ["one", "two"] {
        MemberRemoval::plan(&first.place(name)).unwrap().run().unwrap();
    }
    assert_eq!(first.client.members().unwrap(), []);
    let client = domain.world.client();
    for prefix in ["ledger.", "data.", "meta.", "mail."] {
        assert_eq!(client.list(prefix).unwrap(), Vec::<String>::new());
    }
    for shard in client.list("index.").unwrap() {
        let entries = KeyRange { after: "", prefix: "f.", limit: 1 };
        assert!(client.list_keys(&shard, entries).unwrap().entries.is_empty());
    }
    assert!(DomainCheck::run(&first.client, Duration::ZERO).unwrap().findings.are_none());
}

/// Contents that the load of the next test writes at most.
const MAX_WRITTEN: u64 = 400;

#[test]
fn working_off_ends_under_load() {
    let domain = Domain::new();
    let process = domain.process();
    let placed = Arc::new(process.filled("one", 1..=8));
    let (loaded, mut id) = (Arc::downgrade(&placed), 100);
    *process.store.before_index.lock() = Some(Box::new(move || {
        let placed = loaded.upgrade().unwrap();
        if id < 100 + MAX_WRITTEN {
            write(&placed, id % BLOCKS, id);
            placed.pool().flush().unwrap();
            id += 1;
        }
    }));
    placed.share(&StopFlag::new()).unwrap();
    let changes = process.store.index_changes.load(Ordering::Relaxed);
    assert!((2..MAX_WRITTEN / 4).contains(&changes), "{changes} changes of the index");
    process.store.before_index.lock().take();
    Arc::into_inner(placed).unwrap().close().unwrap();
}

/// The time that each change of the index takes in the next test.
const SLOW_CHANGE: Duration = Duration::from_millis(20);
/// Long against a round and the pause after it.
const LOADED: Duration = Duration::from_secs(2);

#[test]
fn a_busy_member_shares_in_a_bounded_part_of_the_time() {
    let domain = Domain::new();
    let process = domain.process();
    process.filled("one", 1..=8).close().unwrap();
    let changes = Arc::new(AtomicU32::new(0));
    let counting = Arc::clone(&changes);
    *process.store.before_index.lock() = Some(Box::new(move || {
        counting.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(SLOW_CHANGE);
    }));
    let placed = process.open("one", Use::Hold, true).unwrap();
    let began = Instant::now();
    for id in 100.. {
        write(&placed, id % BLOCKS, id);
        placed.pool().flush().unwrap();
        if began.elapsed() >= LOADED {
            break;
        }
    }
    let changing = SLOW_CHANGE * changes.load(Ordering::Relaxed);
    let published = placed.sharing_stat().unwrap().counts.published;
    assert!(published > 8, "nothing that was written under load is published");
    assert!(changing < began.elapsed() / 4, "{changing:?} of {:?}", began.elapsed());
    process.store.before_index.lock().take();
    placed.close().unwrap();
}
