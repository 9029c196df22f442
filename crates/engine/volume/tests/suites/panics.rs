//! A panic in any thread: requests that wait get an error, the pool stops and says why, reads go
//! on, and nothing that was not durable is acknowledged as durable.

use crate::common::hold::Call;
use crate::common::simulated::Simulation;
use crate::common::{BLOCK, content, flush, open, options_with, read, tuning, write};
use gemelo_base::{Silent, StopFlag, SystemClock};
use gemelo_check::{CheckOptions, check};
use gemelo_device::DeviceError;
use gemelo_format::{DedupMode, Policy};
use gemelo_volume::{FinderTuning, LayoutTuning, Pool, StopReason, Tuning, Volume, VolumeError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// A call that takes longer than this waits for ever.
const MAX_WAIT: Duration = Duration::from_secs(30);
const BLOCKS: u64 = 200;

fn served(simulation: &Simulation, mode: DedupMode) -> Arc<Pool> {
    let tuning = Tuning {
        background: true,
        commit_interval: Duration::from_millis(30),
        max_journal_data_bytes: Some(0),
        finder: FinderTuning { delay: Duration::ZERO, memory_bytes: 0, ..FinderTuning::default() },
        layout: LayoutTuning {
            delay: Duration::from_millis(10),
            run_bytes: 8 * BLOCK as u64,
            ..LayoutTuning::default()
        },
        ..tuning()
    };
    let pool = Pool::open_disks(simulation.disks(), tuning, Arc::new(SystemClock::new())).unwrap();
    pool.create_volume("a", BLOCKS * BLOCK as u64, mode).unwrap();
    Arc::new(pool)
}

/// Does something in a thread of its own, which must end soon. Gives [`None`] if it panicked.
fn soon<T: Send + 'static>(what: &str, act: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (done, outcome) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = done.send(catch_unwind(AssertUnwindSafe(act)).ok());
    });
    outcome.recv_timeout(MAX_WAIT).unwrap_or_else(|_| panic!("{what} waits for ever"))
}

/// Writes and flushes until the pool stops, with rests in which the arranger works. Returns the
/// blocks that the last flush covered.
fn work_until_stopped(pool: &Arc<Pool>, volume: &Volume) -> Vec<(u64, u64)> {
    let (pool, volume) = (Arc::clone(pool), volume.clone());
    let worked = soon("a request", move || {
        let began = Instant::now();
        let (mut durable, mut id) = (Vec::new(), 0);
        while pool.stopped().is_none() && began.elapsed() < MAX_WAIT / 2 {
            let mut written = Vec::new();
            for lbn in (0..40).map(|number| number * 37 % BLOCKS) {
                id += 1;
                if write(&volume, lbn * BLOCK as u64, &content(id, BLOCK)).is_ok() {
                    written.push((lbn, id));
                }
            }
            if flush(&volume).is_ok() {
                durable = written;
            }
            let is_rest = id % 400 == 0;
            std::thread::sleep(Duration::from_millis(if is_rest { 100 } else { 2 }));
        }
        durable
    });
    worked.unwrap()
}

/// Checks that the pool has stopped because of a panic in this thread, that everything ends with an
/// error, and that what was durable is there afterwards.
fn check_stopped(pool: Arc<Pool>, volume: Volume, thread: &str, simulation: &Simulation) {
    let Some(StopReason::Panic(panicked)) = pool.stopped() else {
        panic!("{thread}: {:?}", pool.stopped())
    };
    assert!(thread.is_empty() || panicked.thread == thread, "{thread}: {panicked}");
    assert!(panicked.place.contains("simulated/disk.rs:"), "{panicked}");
    assert!(panicked.message.contains("a defect"), "{panicked}");
    let told = pool.stat().unwrap().stopped.unwrap();
    assert!(told.contains(&panicked.place), "{told}");
    let both = Arc::clone(&pool);
    let device = volume.clone();
    soon("a pool that has stopped", move || {
        assert!(matches!(both.flush(), Err(VolumeError::Stopped { .. })));
        assert!(matches!(both.checkpoint(), Err(VolumeError::Stopped { .. })));
        for lbn in 0..BLOCKS {
            let outcome = write(&device, lbn * BLOCK as u64, &content(9_999_999, BLOCK));
            assert!(matches!(outcome, Err(DeviceError::Io(_))), "{outcome:?}");
        }
        // Reads go on.
        read(&device, 0, BLOCK * BLOCKS as usize).unwrap();
        assert!(both.gc(None, &Silent, &StopFlag::new()).is_err());
        assert!(both.remove_volume("a").is_err());
    })
    .unwrap();
    soon("dropping a pool", move || drop((pool, volume))).unwrap();
    simulation.pull_plug();
}

fn check_durable(simulation: &Simulation, durable: &[(u64, u64)]) {
    let after = simulation.after_worst_crash();
    let report =
        check(&after.disks(), CheckOptions { data: true }, &Silent, &StopFlag::new()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    let pool = open(&after.disks(), tuning()).unwrap();
    let volume = pool.volume("a").unwrap();
    for (lbn, id) in durable {
        let found = read(&volume, lbn * BLOCK as u64, BLOCK).unwrap();
        let is_later = (*id..*id + 2000).any(|id| found == content(id, BLOCK));
        assert!(is_later, "block {lbn} is older than the flush of content {id}");
    }
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
}

/// Each thread of an open pool, the calls that it makes, and the mode in which it makes them.
const THREADS: [(&str, Option<Call>, DedupMode); 5] = [
    ("gemelo-write", Some(Call::Write), DedupMode::Inline),
    ("gemelo-maintain", Some(Call::Write), DedupMode::Inline),
    ("gemelo-maintain", Some(Call::Sync), DedupMode::Inline),
    ("gemelo-finder", Some(Call::Read), DedupMode::Offline),
    ("gemelo-arrange", Some(Call::Read), DedupMode::Inline),
];

#[test]
fn a_panic_in_any_thread_of_the_pool_stops_it_and_nobody_waits() {
    for (thread, call, mode) in THREADS {
        for number in 1..4 {
            let simulation = Simulation::new(number);
            Pool::format(&simulation.disks(), &options_with(Policy::Dtb, 2000)).unwrap();
            let pool = served(&simulation, mode);
            let volume = pool.volume("a").unwrap();
            simulation.panic_at(thread, call, number);
            let durable = work_until_stopped(&pool, &volume);
            if thread == "gemelo-arrange" && simulation.forget_panic() {
                // It works while the pool is idle, and may not have come to it.
                continue;
            }
            check_stopped(pool, volume, thread, &simulation);
            check_durable(&simulation, &durable);
        }
    }
}

/// Without threads of the pool a panic hits the requests themselves, at every call that they make.
#[test]
fn a_panic_in_a_request_stops_the_pool_before_anything_is_acknowledged() {
    for policy in Policy::ALL {
        for number in 1.. {
            let simulation = Simulation::new(number);
            Pool::format(&simulation.disks(), &options_with(policy, 600)).unwrap();
            let pool = Arc::new(open(&simulation.disks(), tuning()).unwrap());
            pool.create_volume("a", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
            let volume = pool.volume("a").unwrap();
            simulation.panic_at("", None, number);
            let mut durable = Vec::new();
            let (worked, device) = (Arc::clone(&pool), volume.clone());
            let is_whole = catch_unwind(AssertUnwindSafe(|| {
                for round in 0..3 {
                    let ids: Vec<(u64, u64)> =
                        (0..60).map(|lbn| (lbn * 3, 1 + lbn + round * 100)).collect();
                    for (lbn, id) in &ids {
                        write(&device, lbn * BLOCK as u64, &content(*id, BLOCK)).unwrap();
                    }
                    flush(&device).unwrap();
                    durable = ids;
                    worked.checkpoint().unwrap();
                    worked.gc(None, &Silent, &StopFlag::new()).unwrap();
                }
            }));
            drop((worked, device));
            if is_whole.is_ok() {
                assert!(simulation.forget_panic() && number > 30, "{policy:?} {number}");
                break;
            }
            check_stopped(pool, volume, "", &simulation);
            check_durable(&simulation, &durable);
        }
    }
}
