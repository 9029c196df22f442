//! Power cuts and full disks at every write of the receiver: the pool has the snapshot as a whole,
//! or is as it was, and what was given up takes no space.

use super::common::repeat::Repeat;
use super::common::simulated::{Fault, Simulation};
use super::common::{BLOCK, Kind, content, kinds, open, options_of, tuning, write};
use super::{Ids, assert_holds, check_from_outside, received, sent, sent_at};
use gemelo_format::DedupMode;
use gemelo_volume::Pool;

const POOL_BLOCKS: u64 = 400;
const BLOCKS: u64 = 120;

/// A stream of what differs from the snapshot "one" of the receiving pool, and what it holds.
struct Increment {
    receiver: Simulation,
    stream: Vec<u8>,
    before: Ids,
    after: Ids,
}

fn put(pool: &Pool, ids: &[(u64, u64)]) {
    let volume = pool.volume("v").unwrap();
    for (block, id) in ids {
        write(&volume, block * BLOCK as u64, &content(*id, BLOCK)).unwrap();
    }
}

/// Changes some blocks, some of them to contents that others have, and some to zeros.
fn increment((from, to): (Kind, Kind), size_blocks: u64, level: Option<u8>) -> Increment {
    let sender = Simulation::new(1);
    Pool::format(&sender.disks(), &options_of(from, POOL_BLOCKS)).unwrap();
    let pool = open(&sender.disks(), tuning()).unwrap();
    pool.create_volume("v", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
    let first: Vec<(u64, u64)> = (0..BLOCKS).map(|block| (block, 1 + block % 90)).collect();
    put(&pool, &first);
    pool.snapshot_volume("v", "one").unwrap();
    pool.resize_volume("v", size_blocks * BLOCK as u64).unwrap();
    let second: Vec<(u64, u64)> = (10..60)
        .map(|block| (block, [0, 200 + block % 20, 300 + block][block as usize % 3]))
        .collect();
    put(&pool, &second);
    pool.snapshot_volume("v", "two").unwrap();
    let mut before: Ids = first.iter().map(|(_, id)| *id).collect();
    let mut after = before.clone();
    second.iter().for_each(|(block, id)| after[*block as usize] = *id);
    after.resize(size_blocks as usize, 0);
    before.truncate(BLOCKS as usize);
    let whole = sent(&pool, "one", None);
    let stream = sent_at(&pool, "two", Some("one"), level);
    pool.close().unwrap();
    let receiver = Simulation::new(2);
    Pool::format(&receiver.disks(), &options_of(to, POOL_BLOCKS)).unwrap();
    let pool = open(&receiver.disks(), tuning()).unwrap();
    received(&pool, "one", &whole).unwrap();
    pool.close().unwrap();
    Increment { receiver, stream, before, after }
}

impl Increment {
    fn disks(&self, seed: u64) -> Simulation {
        Simulation::of_images(seed, self.receiver.images())
    }

    /// Opens the pool, which has the snapshot as a whole or is as it was. Returns whether it has.
    fn judge(&self, disks: &Simulation, logical_before: u64) -> bool {
        check_from_outside(disks);
        let pool = open(&disks.disks(), tuning()).unwrap();
        assert_holds(&pool, "one", &self.before);
        let has_it = pool.volume_names() == ["one", "two"];
        if !has_it {
            assert_eq!(pool.volume_names(), ["one"]);
            assert_eq!(pool.volumes().len(), 1);
            let logical = pool.stat().unwrap().logical_blocks;
            assert_eq!(logical, logical_before, "what was given up is gone");
            received(&pool, "two", &self.stream).unwrap();
        }
        assert_holds(&pool, "two", &self.after);
        assert_eq!(pool.prove(5).unwrap(), Vec::<String>::new());
        pool.close().unwrap();
        has_it
    }

    fn logical(&self) -> u64 {
        let disks = self.disks(0);
        let pool = open(&disks.disks(), tuning()).unwrap();
        let logical = pool.stat().unwrap().logical_blocks;
        pool.close().unwrap();
        logical
    }
}

fn for_each_increment(test: impl Fn(&Increment, u64)) {
    let all: Vec<Kind> = kinds().collect();
    for (number, to) in all.iter().enumerate() {
        let from = all[(number * 5 + 3) % all.len()];
        // A third become smaller, and a third larger.
        let size_blocks = [BLOCKS, BLOCKS - 30, BLOCKS + 50][number % 3];
        let level = [None, Some(3)][number / 3 % 2];
        let increment = increment((from, *to), size_blocks, level);
        test(&increment, increment.logical());
    }
}

#[test]
fn a_power_cut_at_any_write_leaves_the_old_state_or_the_new() {
    for_each_increment(|increment, logical| {
        let (mut old, mut new) = (0, 0);
        for at in 1.. {
            let _repeat = Repeat::of(at);
            let disks = increment.disks(at);
            let pool = open(&disks.disks(), tuning()).unwrap();
            disks.set_fault(Fault::CrashAt(at));
            let outcome = received(&pool, "two", &increment.stream);
            let is_over = !disks.is_down();
            drop(pool);
            let has_it = increment.judge(&disks.after_crash(at), logical);
            assert!(has_it || outcome.is_err(), "what was received is durable");
            (old, new) = (old + u64::from(!has_it), new + u64::from(has_it));
            if is_over {
                break;
            }
        }
        assert!(old > 3 && new > 0, "{old} times the old state, {new} times the new one");
    });
}

#[test]
fn a_kill_at_any_write_leaves_the_old_state_or_the_new() {
    for_each_increment(|increment, logical| {
        for at in (1..).step_by(3) {
            let disks = increment.disks(at);
            let pool = open(&disks.disks(), tuning()).unwrap();
            disks.set_fault(Fault::CrashAt(at));
            let _ = received(&pool, "two", &increment.stream);
            let is_over = !disks.is_down();
            drop(pool);
            increment.judge(&disks.after_kill(), logical);
            if is_over {
                break;
            }
        }
    });
}

#[test]
fn a_disk_that_becomes_full_leaves_the_pool_as_it_was() {
    for_each_increment(|increment, logical| {
        for at in 1.. {
            let disks = increment.disks(at);
            let pool = open(&disks.disks(), tuning()).unwrap();
            disks.set_fault(Fault::FullFrom(at));
            let outcome = received(&pool, "two", &increment.stream);
            disks.set_fault(Fault::Never);
            if pool.stopped().is_none() && outcome.is_err() {
                assert_eq!(pool.volume_names(), ["one"]);
                assert_eq!(pool.volumes().len(), 1);
            }
            let is_done = outcome.is_ok();
            drop(pool);
            increment.judge(&disks.after_kill(), logical);
            if is_done {
                break;
            }
        }
    });
}
