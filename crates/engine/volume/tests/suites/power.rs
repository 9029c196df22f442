//! Promises at the moment when a request is acknowledged: each test cuts the power right after.

use crate::common::hold::Call;
use crate::common::shape::short_rings;
use crate::common::simulated::{DATA, METADATA, Simulation};
use crate::common::{
    BLOCK, content, flush, open, options_with, read, trim_now, tuning, write, write_now,
    write_zeroes_now,
};
use gemelo_device::{BlockDevice, Durability, Operation, Request};
use gemelo_format::{DedupMode, Policy};
use gemelo_volume::{Pool, Volume};

const BLOCKS: usize = 16;

fn new_pool(policy: Policy) -> (Simulation, Pool, Volume) {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_with(policy, 100)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    pool.create_volume("a", (BLOCKS * BLOCK) as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    (simulation, pool, volume)
}

fn bytes_of(pool: &Pool) -> Vec<u8> {
    read(&pool.volume("a").unwrap(), 0, BLOCKS * BLOCK).unwrap()
}

/// Returns the contents of the volume after a power cut that leaves no unsynced write.
fn after_power_cut(simulation: &Simulation) -> Vec<u8> {
    bytes_of(&open(&simulation.after_worst_crash().disks(), tuning()).unwrap())
}

fn some_bytes() -> Vec<u8> {
    (1..=BLOCKS as u64).flat_map(|id| content(id, BLOCK)).collect()
}

#[test]
fn what_is_immediate_is_durable_at_once() {
    type Now = fn(&Volume, u64, u64) -> Result<(), gemelo_device::DeviceError>;
    let write_now: Now =
        |volume, offset, length| write_now(volume, offset, &vec![0; length as usize]);
    for now in [write_now, trim_now, write_zeroes_now] {
        for (first, end) in [(2, 5), (0, BLOCKS)] {
            let (simulation, _pool, volume) = new_pool(Policy::Compact);
            let mut expected = some_bytes();
            write(&volume, 0, &expected).unwrap();
            flush(&volume).unwrap();
            now(&volume, (first * BLOCK) as u64, ((end - first) * BLOCK) as u64).unwrap();
            expected[first * BLOCK..end * BLOCK].fill(0);
            assert!(after_power_cut(&simulation) == expected, "blocks {first} to {end}");
        }
    }
    let (simulation, _pool, volume) = new_pool(Policy::Compact);
    write(&volume, 0, &some_bytes()).unwrap();
    flush(&volume).unwrap();
    // The range covers no whole block.
    write_zeroes_now(&volume, 100, 300).unwrap();
    let mut expected = some_bytes();
    expected[100..400].fill(0);
    assert!(after_power_cut(&simulation) == expected);
}

/// In a batch whose flush fails, the requests that asked for it fail, and no other.
#[test]
fn a_flush_that_fails_fails_the_requests_that_asked_for_it() {
    let (simulation, _pool, volume) = new_pool(Policy::Compact);
    let bytes = some_bytes();
    let request = |at: usize, durability| Request {
        operation: Operation::Write {
            offset: (at * BLOCK) as u64,
            data: &bytes[at * BLOCK..(at + 1) * BLOCK],
            durability,
        },
        outcome: Ok(()),
    };
    let mut batch = [
        request(0, Durability::Flushed),
        request(1, Durability::Immediate),
        request(2, Durability::Flushed),
        Request { operation: Operation::Flush, outcome: Ok(()) },
    ];
    let [first_ring, second_ring] = short_rings();
    simulation.fail_next(METADATA, Call::Write, first_ring);
    volume.execute(&mut batch[..3]);
    let is_ok = |batch: &[Request<'_>]| -> Vec<bool> {
        batch.iter().map(|request| request.outcome.is_ok()).collect()
    };
    assert_eq!(is_ok(&batch[..3]), [true, false, true]);
    simulation.fail_next(METADATA, Call::Write, second_ring);
    volume.execute(&mut batch[2..]);
    assert_eq!(is_ok(&batch[2..]), [true, false]);
    let stat = volume.stat();
    assert_eq!((stat.failed_requests, stat.flushes), (2, 2));
    flush(&volume).unwrap();
    assert!(after_power_cut(&simulation)[..3 * BLOCK] == bytes[..3 * BLOCK]);
}

#[test]
fn a_pool_that_has_grown_has_its_length_after_a_power_cut() {
    let (simulation, pool, _volume) = new_pool(Policy::Compact);
    pool.grow(200 * BLOCK as u64).unwrap();
    let capacity = pool.stat().unwrap().capacity_blocks;
    let after = simulation.after_worst_crash();
    assert_eq!(after.disks().data.len().unwrap(), 200 * BLOCK as u64, "on the medium");
    let pool = open(&after.disks(), tuning()).unwrap();
    assert_eq!(pool.stat().unwrap().capacity_blocks, capacity);
}

/// A process is killed between a write of the journal and its sync. The next one reads the commit
/// from the system's cache and shows it, so it has to make the commit durable.
#[test]
fn what_a_restarted_pool_shows_and_flushes_survives_a_power_cut() {
    for policy in Policy::ALL {
        let (simulation, pool, volume) = new_pool(policy);
        write(&volume, 0, &some_bytes()).unwrap();
        let hold = simulation.hold(METADATA, Call::Sync);
        let after = std::thread::scope(|scope| {
            let flusher = scope.spawn(|| flush(&volume));
            hold.wait();
            let after = simulation.after_kill();
            hold.release();
            assert!(flusher.join().unwrap().is_err());
            after
        });
        drop(pool);
        let pool = open(&after.disks(), tuning()).unwrap();
        assert!(bytes_of(&pool) == some_bytes(), "{policy:?}: the commit is there to be read");
        pool.flush().unwrap();
        assert!(after_power_cut(&after) == some_bytes(), "{policy:?}");
    }
}

/// The same, but the sync has failed: after that the system treats the pages as clean.
#[test]
fn a_failed_sync_stops_a_pool_and_the_next_process_writes_again() {
    for (policy, which) in
        Policy::ALL.into_iter().flat_map(|policy| [(policy, DATA), (policy, METADATA)])
    {
        let (simulation, pool, volume) = new_pool(policy);
        write(&volume, 0, &some_bytes()).unwrap();
        simulation.fail_next(which, Call::Sync, 0..u64::MAX);
        assert!(flush(&volume).is_err());
        assert!(
            flush(&volume).is_err(),
            "{policy:?}: it is unknown which writes of disk {which} are durable"
        );
        assert!(write(&volume, 0, &content(99, BLOCK)).is_err());
        assert!(pool.checkpoint().is_err());
        drop((pool, volume));
        let after = simulation.after_kill();
        let pool = open(&after.disks(), tuning()).unwrap();
        let shown = bytes_of(&pool);
        let volume = pool.volume("a").unwrap();
        write(&volume, 0, &content(77, BLOCK)).unwrap();
        flush(&volume).unwrap();
        let expected = [content(77, BLOCK), shown[BLOCK..].to_vec()].concat();
        assert!(after_power_cut(&after) == expected, "{policy:?}, disk {which}");
    }
}

/// The next process must not rely on a checkpoint whose root was not synced.
#[test]
fn a_checkpoint_whose_sync_failed_costs_nothing() {
    for (policy, good_syncs) in Policy::ALL.into_iter().flat_map(|b| (0..4).map(move |n| (b, n))) {
        let (simulation, pool, volume) = new_pool(policy);
        write(&volume, 0, &some_bytes()).unwrap();
        flush(&volume).unwrap();
        simulation.set_fault(crate::common::simulated::Fault::FailSync(good_syncs + 1));
        let _ = pool.checkpoint();
        drop((pool, volume));
        let after = simulation.after_kill();
        let pool = open(&after.disks(), tuning()).unwrap();
        assert!(bytes_of(&pool) == some_bytes());
        let volume = pool.volume("a").unwrap();
        write(&volume, 0, &content(77, BLOCK)).unwrap();
        flush(&volume).unwrap();
        let expected = [content(77, BLOCK), some_bytes()[BLOCK..].to_vec()].concat();
        assert!(after_power_cut(&after) == expected, "{policy:?}, after {good_syncs} good syncs");
    }
}
