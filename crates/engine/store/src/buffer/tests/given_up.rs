//! Tests of contents that could not be written and are not needed any more, and of panics.

use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

/// Does something that must not wait for ever.
fn soon<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, outcome) = mpsc::channel();
    std::thread::spawn(move || done.send(act()));
    outcome.recv_timeout(Duration::from_secs(20)).expect("it waits for ever, or panicked")
}

fn tries_of(store: &TestStore, pbn: u64) -> usize {
    store.below.lock().lists.iter().flatten().filter(|number| **number == pbn).count()
}

#[test]
fn a_content_that_is_given_up_is_read_but_not_tried_until_it_is_forgotten() {
    let (store, buffer) = buffer(8, false);
    store.fail(1, 99);
    write(&buffer, &[(1, 10), (2, 20)]);
    assert!(buffer.write_out().unwrap_err().is_full());
    assert_eq!(buffer.unwritten(), [pbn(1)]);
    buffer.give_up(&[pbn(1), pbn(2)]);
    let tries = tries_of(&store, 1);
    assert!(buffer.unwritten().is_empty() && buffer.failure().is_none());
    assert_eq!(write(&buffer, &[(2, 21)]), [true], "nothing waits for space any more");
    buffer.sync().unwrap();
    assert_eq!(tries_of(&store, 1), tries, "it is not tried again, nor with its neighbour");
    assert_eq!(read(&buffer, &[1, 2]), [10, 21]);
    assert_eq!(buffer.figures().held_bytes, BLOCK as u64);
    buffer.forget(&[pbn(1), pbn(2)]);
    assert_eq!(buffer.figures().held_bytes, 0);
    assert_eq!(read(&buffer, &[1, 2]), [0, 21], "what was written is not forgotten");
}

#[test]
fn a_content_that_failed_is_not_tried_again_with_its_neighbour() {
    let (store, buffer) = buffer(2, false);
    store.fail(1, 99);
    let aside = content(20);
    buffer.write_aside(&mut ContentWrite::new(pbn(2), &aside));
    write(&buffer, &[(1, 10)]);
    // Content 1 is written out to make room. Then both are, and content 1 is asked for once more.
    assert_eq!(write(&buffer, &[(3, 30)]), [false]);
    assert_eq!(tries_of(&store, 1), 2);
}

#[test]
fn an_exceeded_quota_is_a_full_disk_and_any_other_error_is_told_first() {
    for full in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
        for bad in [None, Some(4), Some(6)] {
            let (store, buffer) = buffer(8, false);
            store.fail_with(5, 99, full);
            bad.into_iter().for_each(|pbn| store.fail_with(pbn, 99, io::ErrorKind::Other));
            write(&buffer, &[(4, 40), (5, 50), (6, 60)]);
            let error = buffer.write_out().unwrap_err();
            assert_eq!(error.is_full(), bad.is_none(), "{full:?}, {bad:?}: {error}");
            // Whoever has no space may remove something, and nobody waits for it.
            assert_eq!(write(&buffer, &[(7, 70)]), [bad.is_some()], "{full:?}, {bad:?}");
        }
    }
}

#[test]
fn what_could_not_be_written_is_not_tried_while_somebody_goes_on_without_it() {
    let (store, buffer) = buffer(8, false);
    store.fail(1, 99);
    write(&buffer, &[(1, 10)]);
    let untried = buffer.write_out_and_hold(buffer.begin_write_out()).unwrap();
    assert!(untried.is_some());
    let tries = tries_of(&store, 1);
    std::thread::scope(|scope| {
        // A writer tries what waits for space before it takes room.
        let writer = scope.spawn(|| write(&buffer, &[(2, 20)]));
        gemelo_base::pause(Duration::from_millis(50));
        assert!(!writer.is_finished(), "it waits");
        assert_eq!(tries_of(&store, 1), tries);
        assert_eq!(buffer.unwritten(), [pbn(1)]);
        drop(untried);
        assert_eq!(writer.join().unwrap(), [false]);
    });
    assert!(tries_of(&store, 1) > tries);
}

#[test]
fn a_block_whose_content_was_given_up_gets_a_new_one() {
    let (store, buffer) = buffer(8, false);
    store.fail(1, 2);
    write(&buffer, &[(1, 10)]);
    assert!(buffer.write_out().is_err());
    buffer.give_up(&[pbn(1)]);
    assert_eq!(write(&buffer, &[(1, 11)]), [true]);
    buffer.sync().unwrap();
    assert_eq!(store.below.lock().durable[&1], content(11));
}

#[test]
fn writers_pass_a_memory_that_is_full_of_contents_which_were_given_up() {
    let (store, buffer) = buffer(2, false);
    store.fail(1, 99);
    store.fail(2, 99);
    write(&buffer, &[(1, 10), (2, 20)]);
    assert!(buffer.write_out().is_err());
    buffer.give_up(&[pbn(1), pbn(2)]);
    assert_eq!(soon(move || write(&buffer, &[(3, 30)])), [true]);
    assert_eq!(store.below.lock().contents[&3], content(30));
}

#[test]
fn a_panic_of_a_thread_ends_everybody_who_waits_and_is_told() {
    let store = Arc::new(TestStore::default());
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let options = BufferOptions { threads: 1, ..options(4, 0, true) };
    let below = Arc::clone(&store) as Arc<dyn Store>;
    let told_of: ToldOfPanic = Arc::new(move |panicked| drop(tell.lock().send(panicked)));
    let clock = Arc::new(ManualClock::new());
    let buffer = WriteBuffer::new(below, options, clock, None, told_of).unwrap();
    store.below.lock().panics = true;
    write(&buffer, &[(1, 10)]);
    soon(move || {
        assert!(matches!(buffer.write_out(), Err(Unwritten::Broken)));
        assert!(buffer.sync().is_err());
        // More contents than there is memory for, and a PBN that is in flight for ever.
        for number in 1..9 {
            assert_eq!(write(&buffer, &[(number, 30)]), [false], "{number}");
        }
        assert!(buffer.discard(pbn(1), 1).is_err());
        assert_eq!(read(&buffer, &[1]), [10], "reads go on");
        drop(buffer);
    });
    let panicked = told.recv().unwrap();
    assert_eq!(panicked.thread, "gemelo-write");
    assert!(panicked.message.contains("a defect"), "{panicked}");
}

#[test]
fn a_panic_of_a_writer_without_threads_breaks_the_buffer() {
    let (store, buffer) = buffer(4, false);
    write(&buffer, &[(1, 10)]);
    store.below.lock().panics = true;
    assert!(catch_unwind(AssertUnwindSafe(|| buffer.write_out())).is_err());
    soon(move || {
        assert!(matches!(buffer.write_out(), Err(Unwritten::Broken)));
        assert_eq!(write(&buffer, &[(2, 20)]), [false]);
    });
}

#[test]
fn a_broken_buffer_does_not_count_as_written_out_although_nothing_is_in_it() {
    let (_store, buffer) = buffer(4, false);
    buffer.write_out().unwrap();
    buffer.shared.break_off(panics::last_of_thread());
    assert!(matches!(buffer.write_out(), Err(Unwritten::Broken)));
}
