//! Tests of a cache of several shards.

use super::*;
use crate::ContentRead;
use crate::memory::fill;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

const BLOCK: usize = 8;
/// Enough for several shards.
const CONTENTS: usize = 5 * MIN_SHARD_CONTENTS;

fn pbn(number: u64) -> Pbn {
    Pbn::new(number).unwrap()
}

fn cache(contents: usize) -> ContentCache {
    ContentCache::new(BLOCK, ((contents * BLOCK) as u64, true), false)
}

/// Keeps contents with their own numbers as bytes.
fn keep(cache: &ContentCache, numbers: Range<u64>) {
    let count = (numbers.end - numbers.start) as usize;
    let mut memory = Memory::new(BLOCK, count);
    while let Some(step) = memory.begin_step() {
        memory.add_step(step.make());
    }
    let slots = memory.take(count).into_iter();
    let contents = numbers.zip(slots).map(|(number, mut slot)| {
        fill(&mut slot, &number.to_le_bytes());
        (pbn(number), slot)
    });
    let mut given = 0;
    cache.keep(contents, |slot| {
        memory.put_back(slot);
        given += 1;
    });
    assert_eq!(memory.free(), given, "a slot for each, and nobody else has it");
}

fn found(cache: &ContentCache, numbers: Range<u64>) -> Vec<u64> {
    numbers.filter(|number| cache.find(pbn(*number)).is_some()).collect()
}

/// Reads a list as the owner of a cache does. `below` fills a content.
fn read(
    cache: &ContentCache,
    numbers: &[u64],
    purpose: Purpose,
    below: &dyn Fn(u64, &mut [u8]) -> std::io::Result<()>,
) -> Vec<u64> {
    let mut buffers = vec![[0u8; BLOCK]; numbers.len()];
    let pairs = numbers.iter().zip(&mut buffers);
    let mut reads: Vec<ContentRead<'_>> =
        pairs.map(|(number, buffer)| ContentRead::new(pbn(*number), 0, buffer)).collect();
    let mut looked = cache.look_up(&reads, &[], purpose);
    for (at, slot) in looked.found.drain(..) {
        reads[at].buffer.copy_from_slice(&slot);
    }
    for at in &looked.absent {
        let read = &mut reads[*at];
        read.outcome = below(read.pbn.number(), read.buffer);
    }
    for (at, slot) in looked.done(&reads) {
        match slot {
            Some(slot) => reads[at].buffer.copy_from_slice(&slot),
            None => below(numbers[at], reads[at].buffer).unwrap(),
        }
    }
    buffers.into_iter().map(u64::from_le_bytes).collect()
}

#[test]
fn contents_are_spread_and_none_is_found_once_it_is_forgotten() {
    let cache = cache(CONTENTS);
    assert_eq!(cache.parts.len(), 5);
    keep(&cache, 1..CONTENTS as u64);
    assert!(found(&cache, 1..CONTENTS as u64).len() > CONTENTS * 9 / 10);
    assert_eq!(cache.find(pbn(777)).map(|slot| slot[0]), Some((777 % 256) as u8));
    let figures = cache.figures();
    assert_eq!(figures.capacity_bytes, (CONTENTS * BLOCK) as u64);
    assert!(figures.held_bytes <= figures.capacity_bytes);
    cache.forget(100..300);
    assert!(found(&cache, 100..300).is_empty() && !found(&cache, 1..100).is_empty());
    cache.forget(1000..u64::MAX);
    assert!(found(&cache, 1000..6000).is_empty() && !found(&cache, 300..1000).is_empty());
}

/// The size is what the user asks for, whatever the machine has.
#[test]
fn a_cache_of_any_size_takes_memory_by_what_it_holds() {
    let cache = cache(usize::MAX / BLOCK);
    keep(&cache, 1..3000);
    assert_eq!(found(&cache, 1..3001), (1..3000).collect::<Vec<u64>>());
    let below = |number: u64, buffer: &mut [u8]| {
        buffer.copy_from_slice(&number.to_le_bytes());
        Ok(())
    };
    assert_eq!(read(&cache, &[3000, 3000], Purpose::Ready, &below), [3000, 3000]);
    cache.forget(1..u64::MAX);
    assert!(found(&cache, 1..3001).is_empty());
}

#[test]
fn a_cache_without_memory_holds_nothing() {
    let cache = cache(0);
    keep(&cache, 1..10);
    let below = |number: u64, buffer: &mut [u8]| {
        buffer.copy_from_slice(&number.to_le_bytes());
        Ok(())
    };
    assert!(cache.is_off() && found(&cache, 1..10).is_empty());
    assert_eq!(read(&cache, &[1, 1, 2], Purpose::Wait, &below), [1, 1, 2]);
    assert_eq!(cache.figures(), ContentCacheStats::default());
}

/// A content that was read with a wait enters at once, and one that was there without a wait when
/// it is read again. A read that failed, or was left, fills nothing.
#[test]
fn a_cache_is_filled_at_once_after_a_wait_and_else_by_the_second_read() {
    let cache = cache(100);
    let below = |number: u64, buffer: &mut [u8]| {
        buffer.copy_from_slice(&number.to_le_bytes());
        if number == 7 { Err(std::io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    };
    assert_eq!(read(&cache, &[1, 2], Purpose::Wait, &below), [1, 2]);
    assert_eq!(found(&cache, 1..5), [1, 2]);
    assert_eq!(read(&cache, &[2, 3, 4, 7], Purpose::Ready, &below), [2, 3, 4, 7]);
    assert_eq!(found(&cache, 1..9), [1, 2]);
    assert_eq!(read(&cache, &[3, 7, 3], Purpose::Ready, &below), [3, 7, 3]);
    assert_eq!(found(&cache, 1..9), [1, 2, 3]);
    read(&cache, &[7], Purpose::Wait, &below);
    assert_eq!(found(&cache, 1..9), [1, 2, 3]);
}

/// The system keeps what was read, and a second copy would cost time.
#[test]
fn a_cache_of_written_contents_alone_is_filled_by_no_read() {
    let cache = ContentCache::new(BLOCK, ((100 * BLOCK) as u64, false), false);
    keep(&cache, 1..3);
    let below = |number: u64, buffer: &mut [u8]| {
        buffer.copy_from_slice(&number.to_le_bytes());
        Ok(())
    };
    for purpose in [Purpose::Wait, Purpose::Ready, Purpose::Ready] {
        assert_eq!(read(&cache, &[1, 2, 3, 4, 3], purpose, &below), [1, 2, 3, 4, 3]);
    }
    assert_eq!(found(&cache, 1..9), [1, 2]);
}

/// Reads that overlap in all ways, of threads that all begin at once, read each content once.
#[test]
fn contents_that_are_missed_at_the_same_time_are_read_once() {
    const THREADS: u64 = 8;
    let cache = cache(CONTENTS);
    let (reads, begun) = (AtomicUsize::new(0), AtomicU64::new(0));
    let below = |number: u64, buffer: &mut [u8]| {
        reads.fetch_add(1, Ordering::SeqCst);
        std::thread::yield_now();
        buffer.copy_from_slice(&number.to_le_bytes());
        Ok(())
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cache, begun, below) = (&cache, &begun, &below);
            scope.spawn(move || {
                begun.fetch_add(1, Ordering::SeqCst);
                while begun.load(Ordering::SeqCst) < THREADS {
                    std::hint::spin_loop();
                }
                for list in 0..50u64 {
                    // The lists go through the same contents in other orders, and have some twice.
                    let mut numbers: Vec<u64> = (1..=20).map(|at| list * 20 + at).collect();
                    numbers.rotate_left((thread * 5 % 20) as usize);
                    numbers.extend_from_within(..7);
                    let wanted: Vec<u64> = numbers.clone();
                    assert_eq!(read(cache, &numbers, Purpose::Wait, below), wanted);
                }
            });
        }
    });
    assert_eq!(reads.load(Ordering::SeqCst), 1000);
}

/// A reader whose disk fails or panics lets those go on that wait for it.
#[test]
fn a_reader_that_fails_keeps_nobody_waiting() {
    let cache = cache(100);
    let tries = AtomicUsize::new(0);
    let below = |number: u64, buffer: &mut [u8]| {
        buffer.copy_from_slice(&number.to_le_bytes());
        match tries.fetch_add(1, Ordering::SeqCst) {
            0 => Err(std::io::ErrorKind::Other.into()),
            1 => panic!("a defect that the test has put in"),
            _ => Ok(()),
        }
    };
    // The second place waits for the first one, and reads for itself after the failure.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        read(&cache, &[5, 5], Purpose::Wait, &below)
    }));
    assert!(outcome.is_err());
    assert_eq!(read(&cache, &[5, 5], Purpose::Wait, &below), [5, 5]);
}

/// Threads that read, change and forget contents: a read sees a content that was on the disk during
/// the read.
#[test]
fn a_read_never_sees_what_was_there_before_it() {
    const NUMBERS: u64 = 40;
    const ROUNDS: u64 = 3000;
    let cache = cache(24);
    let zeros = || (0..=NUMBERS).map(|_| AtomicU32::new(0)).collect::<Vec<_>>();
    // The changes on the disk, and those that the cache knows of.
    let (disk, known) = (zeros(), zeros());
    let (cache, disk, known) = (&cache, &disk, &known);
    let load =
        |list: &[AtomicU32], number: u64| u64::from(list[number as usize].load(Ordering::SeqCst));
    let stored = |number: u64| load(disk, number);
    let below = |number: u64, buffer: &mut [u8]| {
        let id = stored(number);
        std::thread::yield_now();
        buffer.copy_from_slice(&id.to_le_bytes());
        Ok(())
    };
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (below, load) = (&below, &load);
            scope.spawn(move || {
                let mut random = gemelo_base::random::Random::new(thread);
                for _ in 0..ROUNDS {
                    let numbers: Vec<u64> = (0..5).map(|_| 1 + random.below(NUMBERS)).collect();
                    let before: Vec<u64> =
                        numbers.iter().map(|number| load(known, *number)).collect();
                    let purpose = if random.below(2) == 0 { Purpose::Ready } else { Purpose::Wait };
                    let seen = read(cache, &numbers, purpose, below);
                    assert!(seen.iter().zip(before).all(|(seen, before)| *seen >= before));
                }
            });
        }
        scope.spawn(move || {
            let mut random = gemelo_base::random::Random::new(9);
            let mut memory = Memory::new(BLOCK, 4);
            let step = memory.begin_step().unwrap();
            memory.add_step(step.make());
            let mut newest: BTreeMap<u64, u32> = BTreeMap::new();
            for _ in 0..ROUNDS {
                let number = 1 + random.below(NUMBERS);
                let id = newest.get(&number).map_or(1, |id| id + 1);
                newest.insert(number, id);
                disk[number as usize].store(id, Ordering::SeqCst);
                if random.below(3) == 0 {
                    cache.forget(number..number + 1);
                } else {
                    let mut slot = memory.take(1).pop().unwrap();
                    fill(&mut slot, &u64::from(id).to_le_bytes());
                    cache.keep([(pbn(number), slot)].into_iter(), |slot| memory.put_back(slot));
                }
                known[number as usize].store(id, Ordering::SeqCst);
            }
        });
    });
    for number in 1..=NUMBERS {
        if let Some(slot) = cache.find(pbn(number)) {
            assert_eq!(slot[..], stored(number).to_le_bytes(), "{number} is stale");
        }
    }
}
