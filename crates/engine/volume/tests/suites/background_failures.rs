//! The tasks of the background when they cannot work: for as long as disks do not answer, and with
//! one damaged page or block. They take no space and hardly any calls of the disks, say so once in
//! the log and in the figures for as long as it is true, and all is well afterwards.

mod each;

use crate::common::hold::Call;
use crate::common::shape::{first_slots_of, twins, used_pages};
use crate::common::simulated::{METADATA, Simulation};
use crate::common::stored::copies_of;
use crate::common::{BLOCK, Kind, content, flush, open, options_of, read, trim, tuning, write};
use gemelo_base::background::FailureLog;
use gemelo_base::{ManualClock, Recorder, Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_format::{Compression, DedupMode, PAGE_BYTES, Policy};
use gemelo_volume::{
    FinderTuning, LayoutTuning, LossChoice, Pool, PoolOptions, RepairOptions, StopReason, Tuning,
    Volume, repair,
};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Blocks of each volume. Their maps do not fit in the cache.
const BLOCKS: u64 = 6000;
const SECOND_NS: u64 = 1_000_000_000;
/// The threads of the background look at least once within it.
const LOOK: Duration = Duration::from_millis(60);
/// Simulated time between two looks.
const STEP_S: u64 = 5;
/// Tries of a task in ten minutes: after 1, 2, 4, ..., 32 and then every 60 seconds; and those of
/// requests, which a busy machine has come late. One that never waits would make hundreds.
const MAX_TRIES: u64 = 30;
/// Policies with which a checkpoint reads pages from the disk.
const PAGED: [Policy; 3] = [Policy::Dtb, Policy::Cbt, Policy::Compact];

fn busy() -> Tuning {
    Tuning {
        background: true,
        // Requests need pages that it does not have.
        cache_bytes: Some(64 << 10),
        commit_interval: Duration::from_secs(5),
        finder: FinderTuning { delay: Duration::from_secs(1), ..FinderTuning::default() },
        layout: LayoutTuning { delay: Duration::from_secs(1), ..tuning().layout },
        content_cache_bytes: Some(0),
        ..tuning()
    }
}

struct World {
    simulation: Simulation,
    clock: Arc<ManualClock>,
    pool: Pool,
    volumes: [Volume; 2],
    recorder: Recorder,
    log: FailureLog,
}

impl World {
    /// A pool with an in-line and an off-line volume of scattered contents.
    fn new(kind: Kind) -> Self {
        Self::with(kind, busy())
    }

    fn with(kind: Kind, tuning: Tuning) -> Self {
        Self::open(Self::filled(kind), tuning)
    }

    /// The disks of such a pool, which is closed.
    fn filled(kind: Kind) -> Simulation {
        let simulation = Simulation::new(1);
        let options = PoolOptions { journal_bytes: Some(4 << 20), ..options_of(kind, 4 * BLOCKS) };
        Pool::format(&simulation.disks(), &options).unwrap();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        for (name, mode) in [("in", DedupMode::Inline), ("off", DedupMode::Offline)] {
            pool.create_volume(name, BLOCKS * BLOCK as u64, mode).unwrap();
            let volume = pool.volume(name).unwrap();
            for number in 0..BLOCKS {
                let lbn = number * 7 % BLOCKS;
                write(&volume, lbn * BLOCK as u64, &content(1 + lbn, BLOCK)).unwrap();
            }
        }
        pool.close().unwrap();
        simulation
    }

    fn open(simulation: Simulation, tuning: Tuning) -> Self {
        let clock = Arc::new(ManualClock::new());
        let pool = Pool::open_disks(simulation.disks(), tuning, clock.clone()).unwrap();
        Self::of(simulation, clock, pool)
    }

    fn of(simulation: Simulation, clock: Arc<ManualClock>, pool: Pool) -> Self {
        let volumes = ["in", "off"].map(|name| pool.volume(name).unwrap());
        let (recorder, log) = (Recorder::new(), FailureLog::default());
        Self { simulation, clock, pool, volumes, recorder, log }
    }

    /// Lets time pass in steps, and looks at the tasks at each as a server does.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds / STEP_S {
            self.clock.advance_ns(STEP_S * SECOND_NS);
            std::thread::sleep(LOOK);
            self.log.look(&self.pool.tasks(), &self.recorder);
        }
    }

    fn metadata_bytes(&self) -> u64 {
        self.pool.stat().unwrap().metadata_disk_bytes
    }

    /// The tasks that fail at present.
    fn failing(&self) -> Vec<String> {
        let tasks = self.pool.tasks().into_iter();
        tasks.filter(|task| task.failure.is_some()).map(|task| task.name).collect()
    }

    /// Gives each task something to do. Returns whether all of it succeeded.
    fn change(&self, round: u64) -> bool {
        let mut all = true;
        for number in 0..200 {
            let lbn = (round * 200 + number) * 29 % BLOCKS;
            for volume in &self.volumes {
                let bytes = content(1 + BLOCKS + lbn + round % 3, BLOCK);
                all &= write(volume, lbn * BLOCK as u64, &bytes).is_ok();
            }
        }
        let at = round % 50 * 64 * BLOCK as u64;
        all &= trim(&self.volumes[0], at, 64 * BLOCK as u64).is_ok();
        all
    }

    /// Waits until every task works. A try that the clock has overtaken counts as a long one, and
    /// is followed by a pause of ten minutes at most.
    fn recover(&mut self, what: &str) {
        for _ in 0..130 {
            if self.failing().is_empty() {
                break;
            }
            self.pass(STEP_S);
        }
        assert_eq!(self.failing(), Vec::<String>::new(), "{what}: {:?}", self.pool.tasks());
        self.pass(STEP_S);
    }

    /// All is well: changes are made and durable, and the pool is sound.
    fn end(self, what: &str) {
        assert_eq!(self.close_and_check(what), 0, "{what}: blocks are lost");
    }

    /// Changes are made and durable, and the pool is sound. Returns the number of lost blocks.
    fn close_and_check(self, what: &str) -> u64 {
        assert!(self.change(90) && flush(&self.volumes[0]).is_ok(), "{what}");
        assert_eq!(self.pool.prove_served(10).unwrap(), Vec::<String>::new(), "{what}");
        let Self { simulation, pool, volumes, .. } = self;
        drop(volumes);
        pool.close().unwrap();
        let found =
            check(&simulation.disks(), CheckOptions { data: true }, &Silent, &StopFlag::new());
        let found = found.unwrap();
        assert!(found.is_sound(), "{what}: {:?}", found.problems);
        found.lost_blocks
    }
}

/// A failed write of contents ends all changes, so it is the metadata disk that does not answer.
#[test]
fn a_disk_that_does_not_answer_for_ten_minutes_costs_a_few_tries_and_one_line_each() {
    for policy in PAGED {
        for compression in [None, Some(Compression::Lz4)] {
            outage(policy, compression);
        }
    }
}

fn outage(policy: Policy, compression: Option<Compression>) {
    let what = format!("{policy:?} {compression:?}");
    let mut world = World::new((policy, compression));
    world.pass(30);
    assert_eq!(world.failing(), Vec::<String>::new(), "{what}");
    assert!(world.change(1), "{what}");
    let before = world.metadata_bytes();
    world.simulation.set_broken(METADATA, true);
    assert!(!world.change(2), "{what}: clients see it");
    let calls = world.simulation.calls();
    world.pass(600);
    let calls = world.simulation.calls() - calls;
    let failing = world.failing();
    assert!(failing.contains(&"commit".to_owned()), "{what}: {failing:?}");
    for task in world.pool.tasks().iter().filter(|task| task.name != "requests") {
        assert!(task.failures <= MAX_TRIES, "{what}: {task:?}");
    }
    // A try of the finder or of the arranger reads a list of some hundred pages.
    assert!(calls < 40_000, "{what}: {calls} calls of the disks");
    assert!(world.metadata_bytes() <= before, "{what}: {} bytes", world.metadata_bytes());
    let lines = world.recorder.warnings();
    for name in &failing {
        let begins = format!("{name} fails: ");
        assert_eq!(lines.iter().filter(|line| line.starts_with(&begins)).count(), 1, "{lines:?}");
    }
    world.simulation.set_broken(METADATA, false);
    world.recover(&what);
    let (begun, ended) = (world.recorder.warnings(), world.recorder.logged());
    assert_eq!(begun.len(), ended.len(), "{what}: {begun:?} {ended:?}");
    assert!(world.pool.stopped().is_none(), "{what}");
    world.end(&what);
}

/// A metadata disk that fails while a checkpoint writes its pages is not filled by the tries.
#[test]
fn a_checkpoint_that_fails_again_and_again_takes_no_space() {
    for policy in PAGED {
        let world = World::with((policy, None), tuning());
        world.change(0);
        world.pool.checkpoint().unwrap();
        world.change(1);
        let sizes: Vec<u64> = (0..30)
            .map(|_| {
                world.simulation.fail_next(METADATA, Call::Write, slots_of(&world));
                assert!(world.pool.checkpoint().is_err(), "{policy:?}");
                world.metadata_bytes()
            })
            .collect();
        assert_eq!(sizes[29], sizes[0], "{policy:?}: {sizes:?}");
        world.pool.checkpoint().unwrap();
        world.end(&format!("{policy:?}"));
    }
}

/// The places of the slots of pages.
fn slots_of(world: &World) -> Range<u64> {
    first_slots_of(&world.simulation).start..u64::MAX
}

/// What one damaged page of a pool leads to.
fn damaged(image: &[Vec<u8>; 2], policy: Policy, page: usize) -> bool {
    let what = format!("{policy:?}, page {page}");
    let mut images = image.clone();
    let pairs = twins(&images[1]);
    let Some(pair) = pairs.iter().find(|pair| pair.contains(&(page * PAGE_BYTES))) else {
        return false;
    };
    pair.iter().for_each(|at| images[1][at + 100] ^= 0xFF);
    let simulation = Simulation::of_images(1, images);
    let clock = Arc::new(ManualClock::new());
    let Ok(pool) = Pool::open_disks(simulation.disks(), busy(), clock.clone()) else {
        return false;
    };
    if pool.is_read_only() {
        return false;
    }
    let mut world = World::of(simulation, clock, pool);
    let _ = world.change(1);
    world.pass(60);
    let _ = world.change(2);
    world.pass(10);
    let Some(reason) = world.pool.stopped() else { return false };
    assert!(matches!(reason, StopReason::Damage { .. }), "{what}: {reason}");
    assert!(reason.to_string().contains("the page in slot"), "{what}: {reason}");
    let (before, calls) = (world.metadata_bytes(), world.simulation.calls());
    world.pass(120);
    assert!(world.simulation.calls() - calls < 100, "{what}: a pool that refuses changes is still");
    assert_eq!(world.metadata_bytes(), before, "{what}");
    for refused in [
        world.pool.create_volume("new", BLOCK as u64, DedupMode::Off),
        world.pool.snapshot_volume("in", "new"),
    ] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("damaged"), "{what}: {refused}");
    }
    assert!(world.recorder.warnings().len() <= 11, "{what}: {:?}", world.recorder.warnings());
    flush(&world.volumes[0]).unwrap_or_else(|error| panic!("{what}: {error}"));
    let World { simulation, pool, volumes, .. } = world;
    drop(volumes);
    assert!(pool.close().unwrap_err().to_string().contains("damaged"), "{what}");
    let options = RepairOptions { data: false, choice: LossChoice::RollBack };
    repair(&simulation.disks(), options, &Silent, &StopFlag::new()).unwrap();
    let mut world = World::open(simulation, busy());
    world.pass(10);
    world.recover(&what);
    // A repair gives up what only the damaged page knew.
    world.close_and_check(&what);
    true
}

#[test]
fn a_damaged_page_makes_the_pool_refuse_changes_and_say_so() {
    for policy in PAGED {
        let World { simulation, pool, volumes, .. } = World::new((policy, None));
        drop((pool, volumes));
        let images = simulation.images();
        let used = used_pages(&images[1]);
        let step = (used.len() / 24).max(1);
        // Which pages are read depends on the key of the fingerprints: others are tried if none of
        // some two dozen was.
        let is_refused = |first: usize| {
            let some = used.iter().skip(first).step_by(step);
            some.filter(|page| damaged(&images, policy, **page)).count() > 0
        };
        let refused = (0..step).any(is_refused);
        assert!(refused, "{policy:?}: no page of {} was found damaged", used.len());
    }
}

#[test]
fn a_damaged_block_is_not_examined_over_and_over() {
    for policy in PAGED {
        let World { simulation, pool, volumes, .. } = World::new((policy, None));
        drop(volumes);
        pool.close().unwrap();
        // Before the background has read the block to move it.
        let stored = copies_of(&simulation, &content(1 + 77, BLOCK));
        assert!(!stored.is_empty(), "{policy:?}");
        for copy in stored {
            simulation.disks().data.write_at(copy.at as u64, &[0xA5; 8]).unwrap();
        }
        let mut world = World::open(simulation, busy());
        world.pass(60);
        let before = world.pool.stat().unwrap().activity;
        let calls = world.simulation.calls();
        world.pass(600);
        let after = world.pool.stat().unwrap().activity;
        assert!(
            after.examined_blocks - before.examined_blocks < BLOCKS + 1000,
            "{policy:?}: {after:?}"
        );
        assert!(world.simulation.calls() - calls < 20_000, "{policy:?}");
        assert!(read(&world.volumes[1], 77 * BLOCK as u64, BLOCK).is_err(), "{policy:?}");
        write(&world.volumes[0], 77 * BLOCK as u64, &content(9, BLOCK)).unwrap();
        write(&world.volumes[1], 77 * BLOCK as u64, &content(9, BLOCK)).unwrap();
        world.pass(30);
        world.end(&format!("{policy:?}"));
    }
}
