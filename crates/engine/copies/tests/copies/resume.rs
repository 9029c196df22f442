//! Copies that were broken off: what is noted as received is there after a power cut at any write,
//! and what was given up is never continued.

use super::check_from_outside;
use super::common::repeat::Repeat;
use super::common::simulated::{Fault, Simulation};
use super::common::{BLOCK, content, open, options, read, tuning, write};
use gemelo_base::ManualClock;
use gemelo_format::{DedupMode, Receiving, SnapshotId, VolumeId};
use gemelo_volume::{Incoming, Pool, Receipt};
use std::sync::Arc;

/// More blocks than one change unmaps.
const BLOCKS: u64 = 3000;
const AT_ONCE: u64 = 100;

fn receipt(created_s: u64) -> Receipt {
    let identity = SnapshotId { pool: [9; 16], volume: VolumeId(7), created_s };
    Receipt {
        identity,
        source: None,
        created_s: Some(created_s),
        size_bytes: BLOCKS * BLOCK as u64,
        padding_bytes: 0,
        base: None,
        mode: DedupMode::Inline,
        goes_on: true,
    }
}

fn pool() -> Simulation {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options(4000)).unwrap();
    simulation
}

/// Opens the pool some seconds later.
fn open_after(simulation: &Simulation, seconds: u64) -> Option<Pool> {
    let clock = Arc::new(ManualClock::new());
    clock.advance_ns(seconds * 1_000_000_000);
    Pool::open_disks(simulation.disks(), tuning(), clock).ok()
}

/// Fills a copy from where it was broken off, and notes each piece.
fn fill(incoming: &mut Incoming, end: u64) -> Option<()> {
    let mut block = incoming.received_bytes() / BLOCK as u64;
    while block < end {
        let bytes: Vec<u8> =
            (block..block + AT_ONCE).flat_map(|id| content(1 + id, BLOCK)).collect();
        write(&incoming.volume(), block * BLOCK as u64, &bytes).ok()?;
        block += AT_ONCE;
        incoming.note_received(block * BLOCK as u64, block.is_multiple_of(3 * AT_ONCE)).ok()?;
    }
    Some(())
}

/// Takes the copy to continue it, and returns the bytes that it has, all of which are right.
fn continued(pool: &Pool) -> u64 {
    let incoming = pool.incoming("copy", receipt(1)).unwrap();
    let received = incoming.received_bytes();
    let found = read(&incoming.volume(), 0, received as usize).unwrap();
    for (id, found) in (1..).zip(found.chunks_exact(BLOCK)) {
        assert!(found == content(id, BLOCK), "block {} of {received} bytes", id - 1);
    }
    incoming.keep();
    received
}

/// A pool with a copy that was broken off behind these blocks.
fn broken_off(blocks: u64) -> Simulation {
    let simulation = pool();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    let mut incoming = pool.incoming("copy", receipt(1)).unwrap();
    fill(&mut incoming, blocks).unwrap();
    incoming.keep();
    pool.close().unwrap();
    simulation
}

#[test]
fn what_was_noted_as_received_is_there_after_a_power_cut_at_any_write() {
    let made = pool();
    let (mut went_on, mut began_anew) = (0, 0);
    for at in 1.. {
        let _repeat = Repeat::of(at);
        let disks = Simulation::of_images(at, made.images());
        let pool = open(&disks.disks(), tuning()).unwrap();
        disks.set_fault(Fault::CrashAt(at));
        let incoming = pool.incoming("copy", receipt(1));
        let done = incoming.ok().and_then(|mut incoming| {
            fill(&mut incoming, BLOCKS)?;
            incoming.finish().ok()
        });
        drop(pool);
        let after = disks.after_crash(at);
        check_from_outside(&after);
        let pool = open(&after.disks(), tuning()).unwrap();
        if pool.volume_names().is_empty() {
            assert!(done.is_none(), "what was received is durable");
            *(if continued(&pool) > 0 { &mut went_on } else { &mut began_anew }) += 1;
        }
        assert_eq!(pool.prove(5).unwrap(), Vec::<String>::new());
        pool.close().unwrap();
        if done.is_some() {
            break;
        }
    }
    assert!(went_on > 3 && began_anew > 0, "{went_on} went on, {began_anew} began anew");
}

#[test]
fn a_copy_that_is_cleared_is_not_continued_whatever_cuts_the_clearing_off() {
    let made = broken_off(2500);
    let later_s = Receiving::KEPT_S + 1;
    assert_eq!(continued(&open_after(&made, later_s - 1).unwrap()), 2500 * BLOCK as u64);
    let (mut kept, mut cleared) = (0, 0);
    for at in 1.. {
        let _repeat = Repeat::of(at);
        let disks = Simulation::of_images(at, made.images());
        disks.set_fault(Fault::CrashAt(at));
        drop(open_after(&disks, later_s));
        let is_over = !disks.is_down();
        let after = if is_over { disks.after_kill() } else { disks.after_crash(at) };
        check_from_outside(&after);
        // The clock was wrong, and is right again.
        let pool = open_after(&after, 0).unwrap();
        *(if continued(&pool) > 0 { &mut kept } else { &mut cleared }) += 1;
        if is_over {
            assert_eq!(pool.stat().unwrap().logical_blocks, 0, "its space came back");
            break;
        }
    }
    assert!(kept > 0 && cleared > 1, "kept {kept} times, cleared {cleared} times");
}

#[test]
fn only_the_same_snapshot_on_the_same_base_is_continued_and_by_one_at_a_time() {
    let has = |other: Receipt| {
        let disks = broken_off(200);
        let pool = open(&disks.disks(), tuning()).unwrap();
        let incoming = pool.incoming("copy", other).unwrap();
        let received = incoming.received_bytes();
        drop(incoming);
        (received > 0, pool.stat().unwrap().logical_blocks > 0)
    };
    assert_eq!(has(receipt(1)), (true, false), "a drop gives it up");
    assert_eq!(has(receipt(2)), (false, true), "another snapshot");
    let size_bytes = (BLOCKS + 1) * BLOCK as u64;
    assert_eq!(has(Receipt { size_bytes, ..receipt(1) }), (false, false));
    assert_eq!(has(Receipt { padding_bytes: 5, ..receipt(1) }), (false, false));
    assert_eq!(has(Receipt { goes_on: false, ..receipt(1) }), (false, false));
    let disks = broken_off(200);
    let pool = open(&disks.disks(), tuning()).unwrap();
    let incoming = pool.incoming("copy", receipt(1)).unwrap();
    let error = pool.incoming("other", receipt(1)).err().unwrap().to_string();
    assert_eq!(error, "a copy of this snapshot is being made by another command, as 'copy'");
    assert!(pool.remove_volume("copy").is_err());
    incoming.keep();
    assert_eq!(pool.forget_old_copies().unwrap(), 0);
    pool.remove_volume("copy").unwrap();
    assert!(pool.remove_volume("copy").is_err());
    pool.close().unwrap();
    let later = open_after(&broken_off(200), Receiving::KEPT_S).unwrap();
    assert_eq!(later.forget_old_copies().unwrap(), 0);
}

#[test]
fn a_copy_on_another_base_is_made_anew() {
    let pool = open(&pool().disks(), tuning()).unwrap();
    pool.incoming("base", receipt(5)).unwrap().finish().unwrap();
    let mut incoming = pool.incoming("copy", receipt(1)).unwrap();
    fill(&mut incoming, 200).unwrap();
    incoming.keep();
    let on_base = Receipt { base: Some(receipt(5).identity), ..receipt(1) };
    let mut incoming = pool.incoming("copy", on_base).unwrap();
    assert_eq!(incoming.received_bytes(), 0);
    fill(&mut incoming, 200).unwrap();
    incoming.keep();
    assert_eq!(pool.incoming("copy", on_base).unwrap().received_bytes(), 200 * BLOCK as u64);
}

#[test]
fn an_open_pool_lists_copies_and_forgets_those_that_nobody_continues_for_a_week() {
    let later = |forgets: bool| {
        let (disks, clock) = (broken_off(200), Arc::new(ManualClock::new()));
        let pool =
            Pool::open_disks(disks.disks(), tuning(), Arc::<ManualClock>::clone(&clock)).unwrap();
        clock.advance_ns(Receiving::KEPT_S * 1_000_000_000);
        assert_eq!(pool.forget_old_copies().unwrap(), 0);
        let listed = pool.unfinished_copies();
        let [copy] = &*listed else { panic!("{listed:?}") };
        assert_eq!((&*copy.name, copy.received_bytes), ("copy", 200 * BLOCK as u64));
        assert!(!copy.is_receiving);
        clock.advance_ns(1_000_000_000);
        assert_eq!(pool.unfinished_copies(), []);
        if forgets {
            assert_eq!(pool.forget_old_copies().unwrap(), 1);
        }
        assert_eq!(pool.stat().unwrap().logical_blocks > 0, !forgets);
        let incoming = pool.incoming("copy", receipt(1)).unwrap();
        assert_eq!(incoming.received_bytes(), 0, "it is too old");
        let listed = pool.unfinished_copies();
        assert!(listed.len() == 1 && listed[0].is_receiving, "{listed:?}");
        drop(incoming);
        assert_eq!(pool.stat().unwrap().logical_blocks, 0, "its space came back");
    };
    later(true);
    later(false);
}
