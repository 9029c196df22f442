//! The finder of the background: when it works, and what it says of its waits.

use crate::common::simulated::Simulation;
use crate::common::{BLOCK, content, flush, open, options, read, trim, tuning, write};
use gemelo_base::{Clock, ManualClock, Silent, StopFlag};
use gemelo_device::DeviceError;
use gemelo_format::DedupMode;
use gemelo_volume::{FinderState, FinderStats, FinderTuning, Pool, Tuning, Volume};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const NS_PER_S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
/// The finder of the background reads the clock this often in several looks for work.
const SOME_LOOKS: u64 = 12;

/// A clock that moves by hand, on which each look at the processor time takes a millisecond of it.
#[derive(Default)]
struct HandClock {
    time: ManualClock,
    cpu_ms: AtomicU64,
    /// Reads of the time by the finder of the background.
    read_by_finder: AtomicU64,
}

impl Clock for HandClock {
    fn now_ns(&self) -> u64 {
        if std::thread::current().name() == Some("gemelo-finder") {
            self.read_by_finder.fetch_add(1, Ordering::Relaxed);
        }
        self.time.now_ns()
    }

    fn sleep_until_ns(&self, deadline_ns: u64) {
        self.time.sleep_until_ns(deadline_ns);
    }

    fn utc_s(&self) -> Option<u64> {
        self.time.utc_s()
    }

    fn thread_cpu_ns(&self) -> Option<u64> {
        Some(self.cpu_ms.fetch_add(1, Ordering::Relaxed) * MS)
    }
}

struct World {
    pool: Pool,
    clock: Arc<HandClock>,
    _simulation: Simulation,
}

impl World {
    /// A served pool with off-line volumes of these names, whose blocks were all written once.
    fn new(finder: FinderTuning, names: &[&str], blocks: u64) -> Self {
        let simulation = Simulation::new(1);
        Pool::format(&simulation.disks(), &options(20_000)).unwrap();
        let clock = Arc::new(HandClock::default());
        let tuning = Tuning { finder, ..Tuning::default() };
        let pool = Pool::open_disks(simulation.disks(), tuning, clock.clone()).unwrap();
        let bytes: Vec<u8> = (0..blocks).flat_map(|block| content(1 + block, BLOCK)).collect();
        for name in names {
            pool.create_volume(name, blocks * BLOCK as u64, DedupMode::Offline).unwrap();
            write(&pool.volume(name).unwrap(), 0, &bytes).unwrap();
        }
        let world = Self { pool, clock, _simulation: simulation };
        // The finder sees these requests before time passes.
        world.wait_for_some_looks();
        world
    }

    /// Waits until the finder of the background has looked for work several times.
    fn wait_for_some_looks(&self) {
        let until = self.clock.read_by_finder.load(Ordering::Relaxed) + SOME_LOOKS;
        while self.clock.read_by_finder.load(Ordering::Relaxed) < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn advance_s(&self, seconds: u64) {
        self.clock.time.advance_ns(seconds * NS_PER_S);
    }

    fn figures(&self) -> FinderStats {
        self.pool.stat().unwrap().finder
    }

    fn examined(&self) -> u64 {
        self.pool.stat().unwrap().activity.examined_blocks
    }

    /// Waits until a figure has a value.
    fn eventually<T: PartialEq + std::fmt::Debug>(&self, figure: impl Fn(&Self) -> T, value: &T) {
        for _ in 0..400 {
            if figure(self) == *value {
                return;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        assert_eq!(figure(self), *value, "after ten seconds");
    }
}

#[test]
fn a_paused_finder_does_nothing_until_it_goes_on_and_counts_the_time() {
    let world = World::new(FinderTuning::default(), &["a"], 100);
    assert_eq!((world.figures().backlog_blocks, world.figures().oldest_ns), (100, 0));
    world.pool.pause_finder(true);
    world.eventually(|world| world.figures().state, &FinderState::Paused);
    world.advance_s(6);
    world.wait_for_some_looks();
    world.advance_s(10);
    world.eventually(|world| world.figures().held_back.paused_ns, &(10 * NS_PER_S));
    let figures = world.figures();
    assert_eq!((world.examined(), figures.backlog_blocks), (0, 100));
    assert_eq!(figures.oldest_ns, 16 * NS_PER_S);
    let volume = world.pool.volumes().remove(0);
    assert_eq!((volume.backlog_blocks, volume.oldest_ns), (100, 16 * NS_PER_S));
    let report = world.pool.find(&Silent, &StopFlag::new()).unwrap();
    assert_eq!(report.examined_blocks, 100, "a command works all the same");
    write(&world.pool.volume("a").unwrap(), 0, &content(7, BLOCK)).unwrap();
    world.advance_s(6);
    world.wait_for_some_looks();
    assert_eq!(world.examined(), 100);
    world.pool.pause_finder(false);
    world.eventually(World::examined, &101);
    world.eventually(|world| world.figures().state, &FinderState::Idle);
    assert_eq!((world.figures().backlog_blocks, world.figures().oldest_ns), (0, 0));
}

#[test]
fn the_finder_works_within_its_window_of_the_day() {
    // The clock begins at 22:13:20.
    let window = Some("22:14-22:15".parse().unwrap());
    let world = World::new(FinderTuning { window, ..FinderTuning::default() }, &["a"], 10);
    world.advance_s(30);
    world.eventually(|world| world.figures().state, &FinderState::Window);
    assert_eq!(world.examined(), 0);
    world.advance_s(10);
    world.eventually(World::examined, &10);
    assert_eq!(world.figures().held_back.window_ns, 10 * NS_PER_S);
    write(&world.pool.volume("a").unwrap(), 0, &content(7, BLOCK)).unwrap();
    world.advance_s(60);
    world.eventually(|world| world.figures().state, &FinderState::Window);
    assert_eq!(world.examined(), 10);
}

#[test]
fn rounds_are_an_interval_apart() {
    let interval = Duration::from_secs(60);
    let world = World::new(FinderTuning { interval, ..FinderTuning::default() }, &["a"], 10);
    world.advance_s(5);
    world.eventually(World::examined, &10);
    world.eventually(|world| world.figures().state, &FinderState::Idle);
    write(&world.pool.volume("a").unwrap(), 0, &content(7, BLOCK)).unwrap();
    world.advance_s(59);
    world.eventually(|world| world.figures().state, &FinderState::Interval);
    assert_eq!(world.examined(), 10);
    world.advance_s(1);
    world.eventually(World::examined, &11);
    assert_eq!(world.figures().held_back.interval_ns, NS_PER_S);
}

#[test]
fn a_request_holds_the_finder_back_to_its_share_of_a_core() {
    let world = World::new(FinderTuning::default(), &["a"], 2048);
    world.pool.pause_finder(true);
    world.advance_s(5);
    world.eventually(|world| world.figures().state, &FinderState::Paused);
    read(&world.pool.volume("a").unwrap(), 0, BLOCK).unwrap();
    world.pool.pause_finder(false);
    world.eventually(|world| world.figures().state, &FinderState::Load);
    world.wait_for_some_looks();
    assert_eq!(world.examined(), 512, "a step of 256 KiB has used more than the 2 ms it may use");
    // No request follows, so the pool is idle.
    world.advance_s(1);
    world.eventually(World::examined, &2048);
    assert_eq!(world.figures().held_back.load_ns, NS_PER_S);
    // Three steps, of 512, 1024 and 512 blocks.
    world.eventually(|world| world.figures().cpu_ns, &(3 * MS));
}

#[test]
fn volumes_have_their_turns() {
    let finder = FinderTuning { bytes_per_s: Some(600 * BLOCK as u64), ..FinderTuning::default() };
    let world = World::new(finder, &["a", "b", "c"], 1000);
    for seconds in 1..=4 {
        world.advance_s(if seconds == 1 { 5 } else { 1 });
        world.eventually(World::examined, &(600 * seconds));
    }
    let backlogs: Vec<u64> =
        world.pool.volumes().iter().map(|volume| volume.backlog_blocks).collect();
    assert!(backlogs.iter().all(|blocks| *blocks < 1000), "{backlogs:?}");
    assert!(world.figures().held_back.rate_ns > 0);
}

/// A volume that is written faster than the finder examines it, and one with little work.
#[test]
fn a_volume_with_endless_work_does_not_keep_the_finder_from_another() {
    const BUSY_BLOCKS: u64 = 8192;
    const LITTLE_BLOCKS: u64 = 600;
    let block = BLOCK as u64;
    // A second allows two steps at most: each has up to 1024 blocks, and the rate is in between.
    let finder = FinderTuning { bytes_per_s: Some(1100 * block), ..FinderTuning::default() };
    let world = World::new(finder, &["busy"], BUSY_BLOCKS);
    world.pool.create_volume("little", LITTLE_BLOCKS * block, DedupMode::Offline).unwrap();
    let bytes: Vec<u8> = (0..LITTLE_BLOCKS).flat_map(|lbn| content(99_000 + lbn, BLOCK)).collect();
    write(&world.pool.volume("little").unwrap(), 0, &bytes).unwrap();
    world.wait_for_some_looks();
    let backlog = |name: &str| {
        let volumes = world.pool.volumes();
        volumes.iter().find(|volume| volume.record.name == name).unwrap().backlog_blocks
    };
    for seconds in 1..=2 {
        world.advance_s(if seconds == 1 { 5 } else { 1 });
        world.eventually(World::examined, &(1100 * seconds));
    }
    assert_eq!(backlog("little"), 0, "it has its turn after each step of the other one");
    assert_eq!(backlog("busy"), BUSY_BLOCKS + LITTLE_BLOCKS - 2200);
    let examined: Vec<u64> =
        world.pool.volumes().iter().map(|volume| volume.stat.examined_blocks).collect();
    assert_eq!(examined, [2200 - LITTLE_BLOCKS, LITTLE_BLOCKS], "the shares that are shown");
}

#[test]
fn an_estimate_of_all_blocks_is_what_a_pass_saves_and_changes_nothing() {
    let finder = FinderTuning { delay: Duration::from_secs(3600), ..FinderTuning::default() };
    // The second volume has the same contents, and half of the third one is known.
    let world = World::new(finder, &["a", "b"], 300);
    world.pool.create_volume("known", 300 * BLOCK as u64, DedupMode::Inline).unwrap();
    let bytes: Vec<u8> = (0..100).flat_map(|block| content(1 + block, BLOCK)).collect();
    write(&world.pool.volume("known").unwrap(), 0, &bytes).unwrap();
    // A course through a new volume is due at once, and would have examined some blocks.
    world.pool.pause_finder(true);
    // A block with two references counts once.
    world.pool.clone_volume("b", "copy").unwrap();
    let stop = StopFlag::new();
    let estimate = |bytes| world.pool.estimate_find((bytes, 1), &Silent, &stop).unwrap();
    let all = estimate(1 << 20);
    let before = world.pool.stat().unwrap().physical_blocks;
    assert_eq!((all.blocks, all.sampled_blocks), (600, 600));
    assert_eq!((all.saved_low_blocks, all.saved_high_blocks), (400, 400));
    let part = estimate(100 * BLOCK as u64);
    assert_eq!(part.sampled_blocks, 100);
    world.pool.find(&Silent, &stop).unwrap();
    let saved = before - world.pool.stat().unwrap().physical_blocks;
    assert_eq!(saved, all.saved_blocks);
    assert!((part.saved_low_blocks..=part.saved_high_blocks).contains(&saved), "{part:?}");
    assert_eq!(estimate(1 << 20).blocks, 0, "every block has a fingerprint now");
}

/// A pool of so few blocks that freed ones are soon written again, with a volume "a".
fn small_pool(finder: FinderTuning) -> (Simulation, Pool) {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options(22)).unwrap();
    let pool = open(&simulation.disks(), Tuning { finder, ..tuning() }).unwrap();
    pool.create_volume("a", 20 * BLOCK as u64, DedupMode::Offline).unwrap();
    (simulation, pool)
}

fn write_each(volume: &Volume, ids: impl Iterator<Item = u64>) {
    for (lbn, id) in (0..).zip(ids) {
        write(volume, lbn * BLOCK as u64, &content(id, BLOCK)).unwrap();
    }
    flush(volume).unwrap();
}

#[test]
fn blocks_whose_fingerprints_are_remembered_are_not_read() {
    for (memory_bytes, reads) in [(1 << 20, 0), (0, 20)] {
        let (_simulation, pool) =
            small_pool(FinderTuning { memory_bytes, ..FinderTuning::default() });
        write_each(&pool.volume("a").unwrap(), (0..20).map(|lbn| 1 + lbn % 10));
        let report = pool.find(&Silent, &StopFlag::new()).unwrap();
        assert_eq!((report.examined_blocks, report.shared_blocks), (20, 10));
        let figures = pool.stat().unwrap().finder.remembered;
        assert_eq!((figures.hits, figures.misses), (20 - reads, reads));
        assert_eq!(figures.taken, 20 - reads);
        assert_eq!(pool.stat().unwrap().physical_blocks, 10);
        let (pool_stat, volume_stat) = (pool.stat().unwrap().activity, pool.volumes()[0].stat);
        assert_eq!((volume_stat.examined_blocks, volume_stat.found_blocks), (20, 10));
        assert_eq!((volume_stat.identified_blocks, volume_stat.aborted_blocks), (10, 0));
        assert_eq!((pool_stat.index_lookups, pool_stat.index_batches), (20, 1));
        assert_eq!((volume_stat.index_lookups, volume_stat.index_batches), (20, 1));
        assert_eq!((pool_stat.examined_blocks, pool_stat.found_blocks), (20, 10));
    }
}

#[test]
fn a_block_that_is_freed_and_written_again_has_lost_its_fingerprint() {
    for mode in [DedupMode::Off, DedupMode::Offline] {
        let (_simulation, pool) = small_pool(FinderTuning::default());
        let volume = pool.volume("a").unwrap();
        write_each(&volume, 1..=20);
        trim(&volume, 0, 20 * BLOCK as u64).unwrap();
        flush(&volume).unwrap();
        pool.set_mode("a", mode).unwrap();
        for (lbn, id) in (0..).zip(101..=120) {
            write(&volume, lbn * BLOCK as u64, &content(id, BLOCK)).unwrap();
        }
        pool.set_mode("a", DedupMode::Offline).unwrap();
        assert_eq!(pool.find(&Silent, &StopFlag::new()).unwrap().identified_blocks, 20);
        // The pool has no room for the contents that the blocks had before.
        pool.create_volume("b", 20 * BLOCK as u64, DedupMode::Inline).unwrap();
        let inline = pool.volume("b").unwrap();
        for id in 1..=20 {
            let written = write(&inline, 0, &content(id, BLOCK));
            assert!(matches!(written, Err(DeviceError::NoSpace)), "{id}: {written:?}");
        }
        write_each(&inline, 101..=120);
        assert_eq!(read(&inline, 0, BLOCK).unwrap(), content(101, BLOCK));
    }
}

#[test]
fn blocks_that_are_soon_written_again_are_left_alone_and_the_delay_grows() {
    // One group in 64 is in the sample, so all of the volume is written again each three seconds.
    let finder = FinderTuning {
        delay: Duration::from_secs(1),
        max_delay: Duration::from_secs(16),
        ..FinderTuning::default()
    };
    let world = World::new(finder, &["a"], 8192);
    let volume = world.pool.volume("a").unwrap();
    let bytes: Vec<u8> = (0..8192).flat_map(|block| content(1 + block, BLOCK)).collect();
    let figures = || world.figures();
    for _ in 0..12 {
        world.advance_s(3);
        write(&volume, 0, &bytes).unwrap();
    }
    assert!(figures().longest_delay_ns >= 4 * NS_PER_S, "{:?}", figures());
    assert_eq!(world.pool.volumes()[0].delay_ns, figures().longest_delay_ns);
    // How much the finder has looked at in between is a question of time.
    let before = world.examined();
    assert!(figures().rewritten_blocks + before >= 12 * 8192 - 8192, "{:?}", figures());
    for _ in 0..3 {
        world.advance_s(3);
        write(&volume, 0, &bytes).unwrap();
        world.wait_for_some_looks();
    }
    assert_eq!(world.examined(), before, "the delay is longer than the distance of rewrites");
    assert!(figures().wasted_blocks <= figures().sampled_blocks);
}

#[test]
fn a_block_that_the_arranger_moves_to_a_freed_place_gets_its_own_fingerprint() {
    const BLOCKS: u64 = 1024;
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options(4 * BLOCKS)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    let size_bytes = BLOCKS * BLOCK as u64;
    pool.create_volume("old", size_bytes, DedupMode::Offline).unwrap();
    pool.create_volume("a", size_bytes, DedupMode::Off).unwrap();
    let (old, volume) = (pool.volume("old").unwrap(), pool.volume("a").unwrap());
    write_each(&old, 10_001..=10_000 + BLOCKS);
    assert_eq!(pool.stat().unwrap().finder.remembered.held, BLOCKS);
    // An odd factor makes each LBN turn up once, and no two neighbours one after another.
    for lbn in (0..BLOCKS).map(|number| number * 389 % BLOCKS) {
        write(&volume, lbn * BLOCK as u64, &content(1 + lbn, BLOCK)).unwrap();
    }
    trim(&old, 0, size_bytes).unwrap();
    flush(&old).unwrap();
    let report = pool.arrange(None, &Silent, &StopFlag::new()).unwrap();
    assert_eq!(report.moved_blocks, BLOCKS);
    pool.set_mode("a", DedupMode::Offline).unwrap();
    let found = pool.find(&Silent, &StopFlag::new()).unwrap();
    assert_eq!(found.identified_blocks, BLOCKS);
    pool.create_volume("b", size_bytes, DedupMode::Inline).unwrap();
    let inline = pool.volume("b").unwrap();
    for id in 10_001..=10_000 + BLOCKS {
        write(&inline, 0, &content(id, BLOCK)).unwrap();
        assert_eq!(read(&inline, 0, BLOCK).unwrap(), content(id, BLOCK), "content {id}");
    }
    write_each(&inline, 1..=BLOCKS);
    assert_eq!(pool.stat().unwrap().physical_blocks, BLOCKS);
}
