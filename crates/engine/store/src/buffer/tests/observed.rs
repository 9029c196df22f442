//! Tests of the observer of a write buffer.

use super::*;
use std::num::NonZeroU64;

/// Keeps what it sees.
#[derive(Default)]
struct Seen {
    is_unwilling: std::sync::atomic::AtomicBool,
    contents: Mutex<Vec<(u64, u64, Vec<u8>)>>,
    missed: std::sync::atomic::AtomicUsize,
    /// It looks at contents when it has had this lock.
    gate: Mutex<()>,
}

impl WriteObserver for Seen {
    fn wants(&self, _contents: usize) -> bool {
        !self.is_unwilling.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn written(&self, contents: &[WrittenContent<'_>]) {
        drop(self.gate.lock());
        let seen = contents.iter();
        let seen = seen.map(|one| (one.pbn.number(), one.ticket.get(), one.bytes.to_vec()));
        self.contents.lock().extend(seen);
    }

    fn missed(&self, contents: usize) {
        self.missed.fetch_add(contents, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn an_observer_sees_the_newest_contents_that_have_tickets_once_they_are_written() {
    let (store, seen) = (Arc::new(TestStore::default()), Arc::new(Seen::default()));
    let options = options(8, 0, false);
    let observer = Some(Arc::clone(&seen) as Arc<dyn WriteObserver>);
    let below = Arc::clone(&store) as Arc<dyn Store>;
    let buffer =
        WriteBuffer::new(below, options, Arc::new(ManualClock::new()), observer, told()).unwrap();
    let write = |number: u64, ticket: u64, id: u64| {
        let bytes = content(id);
        let ticket = NonZeroU64::new(ticket);
        buffer.write(&mut [ContentWrite { ticket, ..ContentWrite::new(pbn(number), &bytes) }]);
    };
    write(3, 1, 30);
    write(4, 0, 40);
    write(3, 2, 33);
    write(5, 7, 50);
    assert!(seen.contents.lock().is_empty());
    buffer.sync().unwrap();
    assert_eq!(*seen.contents.lock(), [(3, 2, content(33)), (5, 7, content(50))]);
    let BufferStats { held_bytes, memory_bytes, .. } = buffer.figures();
    assert_eq!((held_bytes, memory_bytes), (0, 8 * BLOCK as u64), "the memory is free, and kept");
    seen.is_unwilling.store(true, std::sync::atomic::Ordering::Relaxed);
    write(6, 8, 60);
    buffer.sync().unwrap();
    assert_eq!(seen.contents.lock().len(), 2);
    assert_eq!(buffer.figures().held_bytes, 0);
}

/// While an observer stands still, writers and syncs go on: contents that it has no room for are
/// given up, and counted.
#[test]
fn nobody_waits_for_an_observer() {
    let (store, seen) = (Arc::new(TestStore::default()), Arc::new(Seen::default()));
    let options = options(64, 0, true);
    let observer = Some(Arc::clone(&seen) as Arc<dyn WriteObserver>);
    let below = Arc::clone(&store) as Arc<dyn Store>;
    let buffer =
        WriteBuffer::new(below, options, Arc::new(ManualClock::new()), observer, told()).unwrap();
    let gate = seen.gate.lock();
    for round in 0..100u64 {
        for number in 1..=10 {
            let bytes = content(number + round);
            let ticket = NonZeroU64::new(round + 1);
            buffer.write(&mut [ContentWrite { ticket, ..ContentWrite::new(pbn(number), &bytes) }]);
        }
        buffer.sync().unwrap();
    }
    let missed = || seen.missed.load(std::sync::atomic::Ordering::Relaxed);
    assert!(missed() > 500, "{} are more than an eighth of the memory", 1000 - missed());
    drop(gate);
    while seen.contents.lock().len() + missed() < 1000 {
        std::thread::yield_now();
    }
    for (number, ticket, bytes) in &*seen.contents.lock() {
        assert_eq!(*bytes, content(*number + ticket - 1));
    }
    while buffer.figures().held_bytes > 0 {
        std::thread::yield_now();
    }
}
