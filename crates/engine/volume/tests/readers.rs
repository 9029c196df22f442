//! The engine's lock-free code, in many orders of execution of a few threads: a block is not reused
//! while a thread that looked it up may still read it.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "the file under test belongs to another crate, and a test that cannot continue fails"
)]

#[path = "../src/engine/data/readers.rs"]
#[allow(dead_code, reason = "the engine uses more of it")]
mod readers;

/// Atomics that may switch threads at every access.
mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};
}

use gemelo_format::Pbn;
use readers::{Readers, Retired};
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

/// Random orders tried, each with a seed that is printed when it fails.
const ORDERS: usize = 20_000;
/// The content of a block that was reused.
const OTHER: u64 = u64::MAX;

/// The PBN of a block of the world.
fn pbn_of(block: u64) -> Pbn {
    Pbn::new(block + 1).unwrap()
}

/// A map of one LBN. Until it is overwritten, a block has its own number as content.
struct World {
    readers: Readers,
    retired: Mutex<Retired>,
    map: AtomicU64,
    blocks: [AtomicU64; 4],
}

impl World {
    fn new() -> Self {
        let blocks = [0, 1, 2, 3].map(AtomicU64::new);
        Self {
            readers: Readers::default(),
            retired: Mutex::new(Retired::default()),
            map: AtomicU64::new(0),
            blocks,
        }
    }

    fn read(&self) {
        let _pin = self.readers.pin();
        let pbn = self.map.load(Ordering::SeqCst);
        for _ in 0..2 {
            let content = self.blocks[pbn as usize].load(Ordering::SeqCst);
            assert_eq!(content, pbn, "the block was written again");
        }
    }

    /// Maps the LBN to its next block.
    fn overwrite(&self) {
        let freed = self.map.fetch_add(1, Ordering::SeqCst);
        self.retired.lock().unwrap().add(&mut vec![pbn_of(freed)]);
    }

    /// Overwrites every free block at once.
    fn collect(&self) {
        let free = |pbn: Pbn| self.blocks[pbn.index() - 1].store(OTHER, Ordering::SeqCst);
        self.retired.lock().unwrap().collect(&self.readers, free);
    }
}

/// Runs two readers, and two threads that overwrite and collect.
fn run() {
    let world = Arc::new(World::new());
    let spawn = |work: fn(&World)| {
        let world = Arc::clone(&world);
        thread::spawn(move || work(&world))
    };
    let read = |world: &World| (0..2).for_each(|_| world.read());
    let write = |world: &World| {
        world.overwrite();
        world.collect();
        world.collect();
    };
    let threads = [spawn(read), spawn(read), spawn(write), spawn(write)];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    world.collect();
    let retired = world.retired.lock().unwrap();
    assert_eq!(retired.len(), 0, "no reader is left");
    assert!(world.blocks[..2].iter().all(|block| block.load(Ordering::SeqCst) == OTHER));
}

#[test]
fn no_order_of_execution_frees_a_block_that_is_read() {
    shuttle::check_random(run, ORDERS);
}

#[test]
fn neither_does_one_with_few_changes_of_thread() {
    shuttle::check_pct(run, ORDERS, 3);
}

#[test]
fn a_block_is_free_when_those_who_may_read_it_have_ended() {
    let test = || {
        let readers = Readers::default();
        let mut retired = Retired::default();
        let mut free = Vec::new();
        let pin = readers.pin();
        retired.add(&mut vec![pbn_of(1)]);
        retired.collect(&readers, |pbn| free.push(pbn));
        let later = readers.pin();
        retired.collect(&readers, |pbn| free.push(pbn));
        assert!(free.is_empty());
        drop(pin);
        retired.collect(&readers, |pbn| free.push(pbn));
        assert_eq!(free, [pbn_of(1)], "who began later cannot have seen it");
        drop(later);
        assert_eq!(retired.len(), 0);
    };
    shuttle::check_random(test, 1);
}
