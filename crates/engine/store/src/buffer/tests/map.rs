//! Tests of the write buffer against a map: random steps, and threads.

use super::*;
use proptest::prelude::*;

/// Threads that each write, read, discard and sync PBNs of their own see their own last writes.
#[test]
fn threads_see_their_own_writes() {
    for (seed, slots, cached) in [(1, 3, 5), (2, 40, 40), (3, 4000, 30)] {
        let (store, buffer) = buffer_with(slots, cached, true);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let buffer = &buffer;
                scope.spawn(move || {
                    let mut random = Random::new(seed * 10 + thread);
                    let mut model: BTreeMap<u64, u64> = BTreeMap::new();
                    for step in 1..2000u64 {
                        let number = 1 + thread + 4 * random.below(30);
                        match random.below(20) {
                            0 => buffer.sync().unwrap(),
                            1 => {
                                buffer.discard(pbn(number), 1).unwrap();
                                model.remove(&number);
                            }
                            2..12 => {
                                write(buffer, &[(number, step)]);
                                model.insert(number, step);
                            }
                            _ => {
                                let list: Vec<u64> = model.keys().copied().collect();
                                let values: Vec<u64> = model.values().copied().collect();
                                let is_ready = step % 2 == 0;
                                let ids = read_whole(buffer, &list, is_ready);
                                assert_eq!(ids, values, "seed {seed}");
                            }
                        }
                    }
                });
            }
        });
        buffer.sync().unwrap();
        assert_eq!(buffer.figures().held_bytes, 0);
        let below = store.below.lock();
        assert_eq!(below.durable, below.contents);
    }
}

proptest! {
    /// A buffer does what a map does, over a store that fails now and then; a sync that succeeds
    /// leaves all contents below.
    #[test]
    fn it_does_what_a_map_does(
        steps in prop::collection::vec((0u8..8, 1u64..24, 1u64..1000), 1..120),
        slots in 1u64..20,
        cached in 0u64..20,
        background in any::<bool>(),
    ) {
        let (store, buffer) = buffer_with(slots, cached, background);
        let mut model: BTreeMap<u64, u64> = BTreeMap::new();
        for (kind, number, id) in steps {
            match kind {
                0 => store.fail(number, id as u32 % 4),
                1 => if buffer.sync().is_ok() {
                    let durable = store.below.lock().durable.clone();
                    let expected = model.iter().map(|(pbn, id)| (*pbn, content(*id))).collect();
                    prop_assert_eq!(durable, expected);
                },
                2 => {
                    buffer.discard(pbn(number), 3).unwrap();
                    model.retain(|pbn, _| !(number..number + 3).contains(pbn));
                }
                _ => {
                    let list: Vec<(u64, u64)> =
                        (0..u64::from(kind)).map(|at| (number + at * 2, id + at)).collect();
                    for ((pbn, id), is_ok) in list.iter().zip(write(&buffer, &list)) {
                        if is_ok {
                            model.insert(*pbn, *id);
                        } else {
                            // It may be anything now, so it is written until it succeeds.
                            while write(&buffer, &[(*pbn, *id)]) == [false] {}
                            model.insert(*pbn, *id);
                        }
                    }
                }
            }
            let list: Vec<u64> = (1..45).collect();
            let expected: Vec<u64> =
                list.iter().map(|pbn| model.get(pbn).copied().unwrap_or(0)).collect();
            prop_assert_eq!(&read_whole(&buffer, &list, number % 2 == 0), &expected);
            prop_assert_eq!(read_whole(&buffer, &list, number % 2 != 0), expected);
            prop_assert!(buffer.cache_figures().held_bytes <= cached * BLOCK as u64);
            let held = buffer.figures().held_bytes;
            prop_assert!(held <= slots.max(2) * BLOCK as u64, "{} bytes", held);
        }
    }
}
