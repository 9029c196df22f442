//! Tests of a shard: the newest content or none, the bound, and the contents that stay.

use super::*;
use crate::memory::Memory;
use gemelo_base::random::Random;
use std::collections::{BTreeMap, BTreeSet};

/// A shard of this many contents, with its memory, and slots to write into.
struct Held {
    shard: Shard,
    memory: CacheMemory,
    slots: Vec<Slot>,
}

impl Held {
    fn new(contents: usize) -> Self {
        let mut memory = Memory::new(8, 4);
        let step = memory.begin_step().unwrap();
        memory.add_step(step.make());
        Self {
            shard: Shard::new(contents),
            memory: CacheMemory::new(Memory::new(8, contents), false),
            slots: memory.take(4),
        }
    }

    /// Writes a content, with the id in its bytes.
    fn keep(&mut self, number: u64, id: u64) {
        let mut slot = self.slots.pop().unwrap();
        Arc::get_mut(&mut slot).unwrap().copy_from_slice(&id.to_le_bytes());
        self.slots.push(self.shard.keep(pbn(number), slot, &self.memory));
    }

    /// Reads a content that may have to be read from the disk, where it is 0.
    fn read(&mut self, number: u64) {
        if self.id(number).is_none() {
            let missed = self.shard.miss(pbn(number));
            let slot = self.shard.lend(&self.memory).unwrap();
            self.shard.fill(missed, slot);
        }
    }

    fn id(&mut self, number: u64) -> Option<u64> {
        let slot = self.shard.find(pbn(number))?;
        Some(u64::from_le_bytes(slot[..].try_into().unwrap()))
    }
}

fn pbn(number: u64) -> Pbn {
    Pbn::new(number).unwrap()
}

/// A reader between its look-up and the filling.
struct Reader {
    missed: Missed,
    slot: Slot,
}

/// Random writes, reads with changes between the look-up and the filling, readers that use slots
/// for long, and contents that are forgotten, against a map of what is on the disk.
#[test]
fn a_content_is_that_of_the_disk_or_none_and_the_bound_is_kept() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let mut held = Held::new(20);
        let (mut disk, mut readers) = (BTreeMap::new(), Vec::new());
        let mut in_use: Vec<(Slot, u64)> = Vec::new();
        for step in 1..2000u64 {
            let number = 1 + random.below(60);
            match random.below(8) {
                0 | 1 => {
                    held.keep(number, step);
                    disk.insert(number, step);
                }
                2 => {
                    held.shard.forget(pbn(number));
                    disk.insert(number, step);
                }
                3 | 4 if held.id(number).is_none() && readers.len() < 5 => {
                    let missed = held.shard.miss(pbn(number));
                    if let Some(mut slot) = held.shard.lend(&held.memory) {
                        let id = disk.get(&number).copied().unwrap_or(0);
                        Arc::get_mut(&mut slot).unwrap().copy_from_slice(&id.to_le_bytes());
                        readers.push(Reader { missed, slot });
                    }
                }
                5 if !readers.is_empty() => {
                    let reader = readers.swap_remove(random.below(readers.len() as u64) as usize);
                    held.shard.fill(reader.missed, reader.slot);
                }
                6 if in_use.len() < 5 => {
                    if let Some(slot) = held.shard.find(pbn(number)) {
                        let id = u64::from_le_bytes(slot[..].try_into().unwrap());
                        in_use.push((slot, id));
                    }
                }
                _ => drop(in_use.pop()),
            }
            for (slot, id) in &in_use {
                assert_eq!(slot[..], id.to_le_bytes(), "seed {seed}: bytes changed in use");
            }
            let mut found = 0;
            for number in 1..=60 {
                if let Some(id) = held.id(number) {
                    assert_eq!(disk.get(&number).copied().unwrap_or(0), id, "seed {seed}");
                    found += 1;
                }
            }
            let Shard { spare, lent, small, main, .. } = &held.shard;
            assert_eq!(small.contents + main.contents, found, "seed {seed}");
            assert!(found + spare.len() + lent <= 20, "seed {seed}");
            assert!(small.turns.len() + main.turns.len() <= 2 * (20 + MAX_PASSED_OVER));
        }
    }
}

/// A content that is read often stays while a scan of many times the size goes through.
#[test]
fn a_long_scan_leaves_what_is_read_often() {
    let mut held = Held::new(100);
    for _ in 0..4 {
        (1..=60).for_each(|number| held.read(number));
    }
    (1000..3000).for_each(|number| held.read(number));
    let stayed = (1..=60).filter(|number| held.id(*number).is_some()).count();
    assert_eq!(stayed, 60);
    // Writes of as much do not displace it, either.
    (5000..7000).for_each(|number| held.keep(number, 1));
    let stayed = (1..=60).filter(|number| held.id(*number).is_some()).count();
    assert_eq!(stayed, 60);
    assert!((6990..7000).all(|number| held.id(number).is_some()), "written lately");
}

#[test]
fn all_of_it_is_used_for_what_was_written_lately() {
    let mut held = Held::new(100);
    (1..=150).for_each(|number| held.keep(number, 7));
    let there: BTreeSet<u64> = (1..=150).filter(|number| held.id(*number).is_some()).collect();
    assert!(there.into_iter().eq(51..=150));
}

/// A working set that changes takes the place of the one before.
#[test]
fn what_is_not_read_any_more_leaves() {
    let mut held = Held::new(100);
    for set in [0, 1000, 2000] {
        let numbers = || set + 1..=set + 70;
        for _ in 0..12 {
            numbers().for_each(|number| held.read(number));
        }
        assert_eq!(numbers().filter(|number| held.id(*number).is_some()).count(), 70);
    }
}

#[test]
fn a_content_that_a_reader_uses_stays_until_it_does_not() {
    let mut held = Held::new(2);
    held.keep(1, 10);
    held.keep(2, 20);
    let readers = [held.shard.find(pbn(1)).unwrap(), held.shard.find(pbn(2)).unwrap()];
    held.keep(3, 30);
    assert_eq!([1, 2, 3].map(|number| held.id(number)), [Some(10), Some(20), None]);
    held.shard.forget(pbn(1));
    held.keep(3, 30);
    assert_eq!([1, 2, 3].map(|number| held.id(number)), [None, Some(20), None]);
    assert_eq!(readers.map(|slot| slot[0]), [10, 20]);
    held.keep(3, 30);
    assert_eq!([2, 3].map(|number| held.id(number)), [Some(20), Some(30)]);
}
