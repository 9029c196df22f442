//! The tasks that only some pools have to do: each cannot work for ten minutes.

use super::*;
use gemelo_base::Clock;
use gemelo_base::background::TaskStat;
use std::sync::atomic::{AtomicU64, Ordering};

/// A task, a pool in which it has something to do and cannot, and what mends that.
struct Case {
    task: &'static str,
    fails: fn(Policy) -> World,
    mend: fn(&World),
}

fn make_pages_unreadable(simulation: &Simulation) {
    let slots = first_slots_of(simulation).start..u64::MAX;
    simulation.make_unreadable(METADATA, slots);
}

fn make_readable(world: &World) {
    world.simulation.make_readable(METADATA);
}

/// A clock at one of whose looks the pages of the metadata become unreadable.
struct BreakingClock {
    clock: Arc<ManualClock>,
    simulation: Simulation,
    left: AtomicU64,
}

impl Clock for BreakingClock {
    fn now_ns(&self) -> u64 {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            make_pages_unreadable(&self.simulation);
        }
        self.clock.now_ns()
    }

    fn sleep_until_ns(&self, deadline_ns: u64) {
        self.clock.sleep_until_ns(deadline_ns);
    }
}

/// A pool whose pages become unreadable when its opening has read all but the index. Earlier, the
/// opening fails.
fn unread_index(policy: Policy) -> World {
    let images = World::filled((policy, None)).images();
    let open = |left| {
        let simulation = Simulation::of_images(1, images.clone());
        let clock = Arc::new(ManualClock::new());
        let breaking = BreakingClock {
            clock: Arc::clone(&clock),
            simulation: simulation.clone(),
            left: AtomicU64::new(left),
        };
        let pool = Pool::open_disks(simulation.disks(), busy(), Arc::new(breaking)).ok()?;
        std::thread::sleep(LOOK);
        let world = World::of(simulation, clock, pool);
        world.task("index").failure.is_some().then_some(world)
    };
    (1..40).find_map(open).unwrap_or_else(|| panic!("{policy:?}: no index failed"))
}

/// A pool whose volume is removed while its pages cannot be read.
fn unread_volume(policy: Policy) -> World {
    let world = World::new((policy, None));
    world.pool.snapshot_volume("in", "gone").unwrap();
    assert!(world.change(1) && flush(&world.volumes[0]).is_ok());
    make_pages_unreadable(&world.simulation);
    world.pool.remove_volume("gone").unwrap();
    world
}

/// A pool whose data disk becomes full below it, and that gives no space back. An error of any
/// other kind stops the pool.
fn full(policy: Policy) -> World {
    let world = World::with((policy, None), Tuning { collect_bytes_per_s: 0, ..busy() });
    world.simulation.set_full(true);
    let _ = world.change(1);
    world
}

impl World {
    fn task(&self, name: &str) -> TaskStat {
        self.pool.tasks().into_iter().find(|task| task.name == name).unwrap()
    }

    fn disk_bytes(&self) -> usize {
        self.simulation.images().iter().map(Vec::len).sum()
    }
}

/// What a task that cannot work for ten minutes costs, and what is told of it.
fn ten_minutes(Case { task, fails, mend }: Case, policy: Policy) {
    let what = format!("{task} {policy:?}");
    let mut world = fails(policy);
    world.pass(60);
    let (before, calls) = (world.disk_bytes(), world.simulation.calls());
    world.pass(540);
    let stat = world.task(task);
    let failure = stat.failure.clone().unwrap_or_else(|| panic!("{what}: {stat:?}"));
    assert!((5..=MAX_TRIES).contains(&failure.tries), "{what}: {stat:?}");
    assert!(failure.since_ns > 500 * SECOND_NS, "{what}: {stat:?}");
    let warning = stat.warning().unwrap();
    assert!(warning.starts_with(&format!("{task} fails since ")), "{warning}");
    assert_eq!(world.disk_bytes(), before, "{what}");
    let calls = world.simulation.calls() - calls;
    assert!(calls < 40_000, "{what}: {calls} calls of the disks");
    mend(&world);
    world.recover(&what);
    assert!(world.task(task).warning().is_none(), "{what}");
    let begins = format!("{task} fails: ");
    let told = world.recorder.warnings();
    let told = told.iter().filter(|line| line.starts_with(&begins)).count();
    let ends = format!("{task} works again");
    let ended = world.recorder.logged().iter().filter(|line| **line == ends).count();
    assert_eq!((told, ended), (1, 1), "{what}");
    world.end(&what);
}

/// Other policies have their index on the disk, or all of it in one file.
#[test]
fn an_index_that_cannot_be_completed_for_ten_minutes_is_told_once_and_takes_nothing() {
    let case = Case { task: "index", fails: unread_index, mend: make_readable };
    ten_minutes(case, Policy::Compact);
}

#[test]
fn a_removal_that_cannot_be_made_for_ten_minutes_is_told_once_and_takes_nothing() {
    for policy in PAGED {
        let case = Case { task: "removal", fails: unread_volume, mend: make_readable };
        ten_minutes(case, policy);
    }
}

#[test]
fn contents_without_space_for_ten_minutes_are_told_once_and_take_nothing() {
    let mend = |world: &World| world.simulation.set_full(false);
    ten_minutes(Case { task: "write-out", fails: full, mend }, Policy::Compact);
}
