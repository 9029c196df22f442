//! The arranger of the background: its delay and its rate.

use super::*;

fn eventually(is_true: impl Fn() -> bool) {
    for _ in 0..400 {
        if is_true() {
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("it did not happen in ten seconds");
}

/// A pool with a background and a clock that the test moves.
fn in_background(layout: LayoutTuning, mode: DedupMode) -> (Pool, Volume, Arc<ManualClock>) {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_with(Policy::Compact, POOL_BLOCKS)).unwrap();
    let clock = Arc::new(ManualClock::new());
    // The finder of the background examines nothing.
    let day = Duration::from_secs(86_400);
    let finder = FinderTuning { delay: day, max_delay: day, ..FinderTuning::default() };
    let tuning = Tuning { background: true, layout, finder, ..tuning() };
    let pool = Pool::open_disks(simulation.disks(), tuning, clock.clone()).unwrap();
    pool.create_volume("a", BLOCKS * BLOCK as u64, mode).unwrap();
    let volume = pool.volume("a").unwrap();
    scatter(&volume);
    (pool, volume, clock)
}

const PAUSE: Duration = Duration::from_millis(300);

#[test]
fn the_background_waits_its_delay_and_keeps_to_its_rate() {
    let delay = Duration::from_secs(30);
    // A chunk has 256 blocks at most. One that is begun is finished.
    let layout = LayoutTuning {
        bytes_per_s: 250 * BLOCK as u64,
        delay,
        run_bytes: 8 * BLOCK as u64,
        near_per_s: 0,
    };
    let (pool, volume, clock) = in_background(layout, DedupMode::Off);
    let moved = || pool.stat().unwrap().activity.arranged_blocks;
    let share = || layout_of_a(&pool).sequential_share().unwrap();
    std::thread::sleep(PAUSE);
    assert_eq!(moved(), 0, "within the delay");
    clock.advance_ns(29_000_000_000);
    std::thread::sleep(PAUSE);
    // The first stretch is written again, and waits from then on.
    write(&volume, 0, &content(1, BLOCK)).unwrap();
    clock.advance_ns(5_000_000_000);
    eventually(|| moved() == 256);
    std::thread::sleep(PAUSE);
    assert_eq!(moved(), 256, "one chunk uses up the rate");
    for _ in 0..20 {
        clock.advance_ns(1_000_000_000);
        std::thread::sleep(Duration::from_millis(120));
    }
    assert_eq!(moved(), BLOCKS - 256, "the hot stretch is left alone");
    eventually(|| {
        clock.advance_ns(1_000_000_000);
        moved() == BLOCKS
    });
    assert!(share() > 0.95);
    assert_eq!(layout_of_a(&pool).waiting_stretches, 0);
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
    drop(volume);
    pool.close().unwrap();
}

#[test]
fn a_rate_of_zero_turns_the_background_off() {
    let layout = LayoutTuning {
        bytes_per_s: 0,
        delay: Duration::ZERO,
        run_bytes: 8 * BLOCK as u64,
        near_per_s: 0,
    };
    let (pool, volume, clock) = in_background(layout, DedupMode::Off);
    for _ in 0..5 {
        clock.advance_ns(60_000_000_000);
        std::thread::sleep(Duration::from_millis(120));
    }
    assert_eq!(pool.stat().unwrap().activity.arranged_blocks, 0);
    assert_eq!(arrange(&pool).moved_blocks, BLOCKS, "the command does it nevertheless");
    drop(volume);
    pool.close().unwrap();
}

/// A stretch whose blocks wait for the finder is looked at again until it has examined them.
#[test]
fn the_background_comes_back_to_what_waits_for_the_finder() {
    let layout = LayoutTuning {
        bytes_per_s: 1 << 30,
        delay: Duration::from_secs(1),
        run_bytes: 8 * BLOCK as u64,
        near_per_s: 0,
    };
    let (pool, volume, clock) = in_background(layout, DedupMode::Offline);
    let moved = || pool.stat().unwrap().activity.arranged_blocks;
    for _ in 0..5 {
        clock.advance_ns(5_000_000_000);
        std::thread::sleep(PAUSE / 2);
    }
    assert_eq!(moved(), 0);
    pool.find(&Silent, &StopFlag::new()).unwrap();
    eventually(|| {
        clock.advance_ns(5_000_000_000);
        moved() == BLOCKS
    });
    drop(volume);
    pool.close().unwrap();
}
