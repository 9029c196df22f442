//! Tests of the cache below a write buffer.

use super::*;

/// Puts other contents into the store below, so that readers of it can be told from others.
fn tamper(store: &TestStore, numbers: std::ops::Range<u64>) {
    store.below.lock().contents.extend(numbers.map(|number| (number, content(999))));
}

#[test]
fn what_was_written_out_is_read_from_memory_until_its_room_is_needed() {
    let (store, buffer) = buffer(4, false);
    write(&buffer, &[(1, 10), (2, 20), (3, 30)]);
    buffer.sync().unwrap();
    tamper(&store, 1..4);
    assert_eq!(read(&buffer, &[1, 2, 3, 9]), [10, 20, 30, 0]);
    let figures = buffer.cache_figures();
    assert_eq!((buffer.figures().held_bytes, figures.held_bytes), (0, 3 * BLOCK as u64));
    assert_eq!((figures.hits, figures.misses), (3, 1));
    let mut bytes = [0; BLOCK];
    buffer.read_medium(&mut [ContentRead::new(pbn(1), 0, &mut bytes)]);
    assert_eq!(bytes[..], content(999), "the medium is not the memory");
    write(&buffer, &[(5, 50), (6, 60)]);
    buffer.sync().unwrap();
    let (old, new) = (read(&buffer, &[1, 2, 3]), read(&buffer, &[5, 6]));
    assert_eq!((old.iter().filter(|id| **id == 999).count(), new), (1, vec![50, 60]));
    let figures = buffer.cache_figures();
    assert_eq!((figures.held_bytes, figures.capacity_bytes), (4 * BLOCK as u64, 4 * BLOCK as u64));
    // A newer content takes the place of the one that is there.
    write(&buffer, &[(6, 61)]);
    buffer.sync().unwrap();
    assert_eq!(read(&buffer, &[6]), [61]);
}

/// A thread makes the memory of the cache. Until it is there, contents are written as ever.
#[test]
fn the_memory_of_the_cache_comes_in_the_background() {
    let (store, buffer) = buffer_with(8, 10_000, true);
    let mut round = 0;
    while buffer.cache_figures().held_bytes < 5000 * BLOCK as u64 {
        for list in (1..5001).collect::<Vec<u64>>().chunks(50) {
            let list: Vec<(u64, u64)> = list.iter().map(|number| (*number, round)).collect();
            write(&buffer, &list);
        }
        buffer.sync().unwrap();
        round += 1;
    }
    tamper(&store, 1..5001);
    let numbers: Vec<u64> = (1..5001).collect();
    assert!(read(&buffer, &numbers).iter().all(|id| *id == round - 1));
    assert!(buffer.figures().held_bytes <= 8 * BLOCK as u64);
}

#[test]
fn the_cache_forgets_what_is_discarded_or_written_past_the_buffer() {
    let (store, buffer) = buffer(8, false);
    write(&buffer, &[(1, 10), (2, 20), (3, 30)]);
    buffer.sync().unwrap();
    buffer.discard(pbn(2), 1).unwrap();
    assert_eq!(read(&buffer, &[1, 2, 3]), [10, 0, 30]);
    store.fail_with(7, 9, io::ErrorKind::Other);
    write(&buffer, &[(7, 70)]);
    assert!(buffer.sync().is_err());
    assert_eq!(write(&buffer, &[(3, 31)]), [true]);
    assert_eq!(read(&buffer, &[1, 2, 3, 7]), [10, 0, 31, 70]);
    assert_eq!(buffer.cache_figures().held_bytes, BLOCK as u64);
    buffer.forget_cached([pbn(1)].into_iter());
    tamper(&store, 1..2);
    assert_eq!(read(&buffer, &[1]), [999]);
}

#[test]
fn a_content_that_failed_does_not_hide_one_that_was_written_past_the_buffer() {
    let (store, buffer) = buffer(8, false);
    store.fail_with(2, 2, io::ErrorKind::Other);
    write(&buffer, &[(2, 20)]);
    assert!(buffer.sync().is_err());
    assert_eq!(write(&buffer, &[(2, 21)]), [true]);
    assert_eq!(read(&buffer, &[2]), [21]);
    buffer.sync().unwrap();
    assert_eq!(store.below.lock().durable[&2], content(21));
}

#[test]
fn a_read_during_a_write_past_the_buffer_leaves_nothing_old_in_the_cache() {
    let (store, buffer) = buffer(8, false);
    write(&*store, &[(2, 20)]);
    store.fail_with(7, 99, io::ErrorKind::Other);
    write(&buffer, &[(7, 70)]);
    assert!(buffer.sync().is_err());
    store.hold(true);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&buffer, &[(2, 21)]));
        while !store.below.lock().writing.contains(&2) {
            std::thread::yield_now();
        }
        assert_eq!(read_whole(&buffer, &[2], false), [20]);
        store.hold(false);
        assert_eq!(writer.join().unwrap(), [true]);
    });
    assert_eq!(read_whole(&buffer, &[2], false), [21]);
}

/// A content that was given up does not show the one that its block had before.
#[test]
fn a_content_that_is_forgotten_shows_no_older_one() {
    let (store, buffer) = buffer(8, false);
    write(&buffer, &[(1, 10)]);
    buffer.sync().unwrap();
    store.fail(1, 9);
    write(&buffer, &[(1, 11)]);
    assert!(buffer.sync().is_err());
    buffer.give_up(&[pbn(1)]);
    buffer.forget(&[pbn(1)]);
    tamper(&store, 1..2);
    assert_eq!(read(&buffer, &[1]), [999]);
}

/// Contents that were read and written are shown to a commit, whether they wait or not.
#[test]
fn what_is_cached_is_shown() {
    let (_, buffer) = buffer(8, false);
    write(&buffer, &[(1, 10), (2, 20)]);
    buffer.sync().unwrap();
    write(&buffer, &[(3, 30)]);
    let mut shown = Vec::new();
    assert!(buffer.show(&[pbn(2), pbn(3), pbn(1)], |pbn, bytes| {
        shown.push((pbn.number(), bytes.to_vec()));
    }));
    assert_eq!(shown, [(2, content(20)), (3, content(30)), (1, content(10))]);
    assert!(!buffer.show(&[pbn(1), pbn(4)], |_, _| ()));
}
