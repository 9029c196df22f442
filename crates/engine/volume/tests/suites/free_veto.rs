//! The veto of a pool's blocks: it learns of contents whose fingerprints are durable, and
//! blocks that it keeps are not free until it gives them back.

use crate::common::hold::Call;
use crate::common::simulated::{DATA, METADATA, Simulation};
use crate::common::{BLOCK, content, flush, open, options, read, tuning, tuning_on_disk, write};
use gemelo_base::background::FailureLog;
use gemelo_base::{Recorder, Silent, StopFlag, SystemClock};
use gemelo_device::DeviceError;
use gemelo_format::{DedupMode, Fingerprint, Pbn};
use gemelo_store::{EachPbn, FreeVeto, PoolDisks, Store, VetoedStore};
use gemelo_volume::{Pool, Tuning, Volume};
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Blocks of the pools here that contents can have.
const BLOCKS: u64 = 20;

#[derive(Default)]
struct TestVeto {
    /// Blocks that it was told of, in this order.
    identified: Mutex<Vec<Pbn>>,
    keeps: AtomicBool,
    /// Blocks that it keeps, and that nothing refers to.
    kept: Mutex<BTreeSet<Pbn>>,
    due: AtomicU64,
    /// Blocks whose contents were found damaged.
    doubted: Mutex<Vec<Pbn>>,
    used_at_opening: Mutex<Vec<Pbn>>,
    /// Blocks that are read elsewhere, and what a power cut leaves of the data disk once the
    /// content of one of them was written.
    elsewhere: Mutex<BTreeSet<Pbn>>,
    restored: Mutex<Vec<(Pbn, Vec<u8>)>>,
    simulation: Mutex<Option<Simulation>>,
}

impl TestVeto {
    fn take_identified(&self) -> Vec<Pbn> {
        std::mem::take(&mut *self.identified.lock().unwrap())
    }
}

impl FreeVeto for TestVeto {
    fn store_over(&self, own: VetoedStore) -> Arc<dyn Store> {
        own.store
    }

    fn is_elsewhere(&self, pbn: Pbn) -> bool {
        self.elsewhere.lock().unwrap().contains(&pbn)
    }

    fn restore(&self, pbn: Pbn, write: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        write()?;
        self.elsewhere.lock().unwrap().remove(&pbn);
        let simulation = self.simulation.lock().unwrap();
        let [data, _] = simulation.as_ref().unwrap().durable().images();
        let at = pbn.number() as usize * BLOCK;
        self.restored.lock().unwrap().push((pbn, data[at..at + BLOCK].to_vec()));
        Ok(())
    }

    fn opened(&self, each_used: &EachPbn<'_>, _is_used: &dyn Fn(Pbn) -> bool) -> Vec<Pbn> {
        let mut used = Vec::new();
        each_used(&mut |pbn| used.push(pbn));
        *self.used_at_opening.lock().unwrap() = used;
        self.kept.lock().unwrap().iter().copied().collect()
    }

    fn identified(&self, pbns: &[Pbn]) {
        self.identified.lock().unwrap().extend(pbns);
    }

    fn doubt(&self, pbn: Pbn, _copy: Option<Pbn>) {
        self.doubted.lock().unwrap().push(pbn);
    }

    fn lent(&self, _after: Option<Pbn>, _most: usize) -> io::Result<Vec<(Pbn, Fingerprint)>> {
        Ok(Vec::new())
    }

    fn keep(&self, pbn: Pbn) -> bool {
        let keeps = self.keeps.load(Ordering::Relaxed);
        if keeps {
            self.kept.lock().unwrap().insert(pbn);
        }
        keeps
    }

    fn due_blocks(&self) -> u64 {
        self.due.load(Ordering::Relaxed)
    }

    fn is_kept(&self, pbn: Pbn) -> bool {
        self.kept.lock().unwrap().contains(&pbn)
    }

    fn may_come_back(&self, _: Pbn) -> bool {
        false
    }

    fn want_back(&self, _: &[Pbn]) {}

    fn is_coming_back(&self) -> bool {
        false
    }
}

/// A pool with a veto, and a volume of each mode.
struct World {
    simulation: Simulation,
    free_veto: Arc<TestVeto>,
    disks: PoolDisks,
    pool: Pool,
}

impl World {
    fn new() -> Self {
        Self::with(tuning_on_disk())
    }

    fn with(tuning: Tuning) -> Self {
        let (simulation, free_veto) = (Simulation::new(1), Arc::new(TestVeto::default()));
        let disks = simulation.disks().with_free_veto(Arc::clone(&free_veto) as Arc<dyn FreeVeto>);
        // Blocks 0 and the last one hold headers.
        Pool::format(&disks, &options(BLOCKS + 2)).unwrap();
        let pool = open(&disks, tuning).unwrap();
        let modes = [DedupMode::Off, DedupMode::Inline, DedupMode::Offline];
        for (name, mode) in ["off", "inline", "offline"].into_iter().zip(modes) {
            pool.create_volume(name, 4 * BLOCKS * BLOCK as u64, mode).unwrap();
        }
        Self { simulation, free_veto, disks, pool }
    }

    fn volume(&self, name: &str) -> Volume {
        self.pool.volume(name).unwrap()
    }

    fn reopen(self) -> Self {
        let Self { simulation, free_veto, disks, pool } = self;
        pool.close().unwrap();
        let pool = open(&disks, tuning_on_disk()).unwrap();
        Self { simulation, free_veto, disks, pool }
    }

    /// The block that has this content.
    fn pbn_of(&self, id: u64) -> Pbn {
        let [data, _] = self.simulation.images();
        let at = data.chunks(BLOCK).position(|block| *block == content(id, BLOCK)).unwrap();
        Pbn::new(at as u64).unwrap()
    }
}

fn put(volume: &Volume, lbn: u64, id: u64) -> Result<(), DeviceError> {
    write(volume, lbn * BLOCK as u64, &content(id, BLOCK))
}

#[test]
fn a_veto_learns_of_a_content_once_its_fingerprint_is_durable() {
    let world = World::new();
    let free_veto = &world.free_veto;
    put(&world.volume("inline"), 0, 1).unwrap();
    put(&world.volume("inline"), 1, 2).unwrap();
    put(&world.volume("inline"), 2, 1).unwrap();
    put(&world.volume("off"), 0, 3).unwrap();
    put(&world.volume("offline"), 0, 4).unwrap();
    assert_eq!(free_veto.take_identified(), [], "nothing is durable");
    world.pool.flush().unwrap();
    assert_eq!(free_veto.take_identified(), [world.pbn_of(1), world.pbn_of(2)]);
    world.pool.find(&Silent, &StopFlag::new()).unwrap();
    world.pool.flush().unwrap();
    assert_eq!(free_veto.take_identified(), [world.pbn_of(4)], "the finder knows it now");
    world.pool.flush().unwrap();
    world.pool.checkpoint().unwrap();
    assert_eq!(free_veto.take_identified(), [], "each is told once");
    let pbns = [1, 2, 3, 4].map(|id| world.pbn_of(id));
    let known = world.pool.fingerprints_of(&pbns).unwrap();
    assert_eq!(known.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false, true]);
}

/// Others read a content in the data store as soon as the veto knows of it. So it must be
/// there, and not in the journal alone.
#[test]
fn a_veto_learns_of_a_content_in_the_journal_after_a_sync_of_the_data_store() {
    let world = World::with(tuning());
    let (free_veto, volume) = (&world.free_veto, world.volume("inline"));
    put(&volume, 0, 1).unwrap();
    flush(&volume).unwrap();
    put(&volume, 1, 2).unwrap();
    flush(&volume).unwrap();
    assert_eq!(world.pool.stat().unwrap().activity.journal_data_commits, 2);
    assert_eq!(free_veto.take_identified(), [], "they may not be in the data store");
    put(&volume, 0, 3).unwrap();
    flush(&volume).unwrap();
    world.pool.checkpoint().unwrap();
    let mut known = free_veto.take_identified();
    known.sort_unstable();
    assert_eq!(known, [world.pbn_of(2), world.pbn_of(3)], "the first was freed meanwhile");
    let [data, _] = world.simulation.after_worst_crash().images();
    assert!(known.iter().all(|pbn| {
        let at = pbn.number() as usize * BLOCK;
        [2, 3].iter().any(|id| data[at..at + BLOCK] == content(*id, BLOCK))
    }));
}

/// A pool with a background, and a volume whose first content waits for a sync of the data store.
fn pool_that_syncs_for_its_veto() -> (Simulation, Arc<TestVeto>, Pool) {
    let (simulation, free_veto) = (Simulation::new(1), Arc::new(TestVeto::default()));
    let disks = simulation.disks().with_free_veto(Arc::clone(&free_veto) as Arc<dyn FreeVeto>);
    Pool::format(&disks, &options(BLOCKS + 2)).unwrap();
    let commit_interval = Duration::from_millis(20);
    let tuning = Tuning { background: true, commit_interval, ..tuning() };
    let pool = Pool::open_disks(disks, tuning, Arc::new(SystemClock::new())).unwrap();
    pool.create_volume("inline", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
    (simulation, free_veto, pool)
}

fn put_first(pool: &Pool) {
    let volume = pool.volume("inline").unwrap();
    put(&volume, 0, 1).unwrap();
    flush(&volume).unwrap();
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The background syncs the data store for the veto, also in a pool that is otherwise idle.
#[test]
fn a_veto_learns_of_a_content_in_the_journal_within_the_commit_interval() {
    let (_simulation, free_veto, pool) = pool_that_syncs_for_its_veto();
    put_first(&pool);
    wait_until("it never learns", || !free_veto.take_identified().is_empty());
}

/// A sync of the data store that failed may have lost contents, so the pool stops and nothing is
/// tried again.
#[test]
fn a_sync_for_the_veto_that_fails_stops_the_pool_and_is_told_once() {
    let (simulation, free_veto, pool) = pool_that_syncs_for_its_veto();
    simulation.fail_next(DATA, Call::Sync, 0..u64::MAX);
    put_first(&pool);
    wait_until("it does not stop", || pool.stopped().is_some());
    let (recorder, mut log) = (Recorder::new(), FailureLog::default());
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(20));
        log.look(&pool.tasks(), &recorder);
    }
    let veto = pool.tasks().into_iter().find(|task| task.name == "veto").unwrap();
    assert_eq!(veto.failures, 1, "{veto:?}");
    assert!(veto.warning().unwrap().contains("the test made it fail"), "{veto:?}");
    let told = recorder.warnings();
    assert_eq!(told.iter().filter(|line| line.starts_with("veto fails: ")).count(), 1, "{told:?}");
    assert!(free_veto.take_identified().is_empty(), "the content may be lost");
}

/// A checkpoint makes changes durable whose commit could not be written.
#[test]
fn a_veto_learns_of_contents_that_a_checkpoint_makes_durable() {
    let world = World::new();
    let volume = world.volume("inline");
    put(&volume, 0, 1).unwrap();
    world.simulation.fail_next(METADATA, Call::Write, 0..u64::MAX);
    assert!(flush(&volume).is_err());
    assert_eq!(world.free_veto.take_identified(), []);
    world.simulation.fail_next(METADATA, Call::Write, 0..u64::MAX);
    world.pool.checkpoint().unwrap();
    assert_eq!(world.free_veto.take_identified(), [world.pbn_of(1)]);
}

#[test]
fn a_kept_block_is_not_free_until_it_is_given_back() {
    let world = World::new();
    let (free_veto, volume) = (&world.free_veto, world.volume("inline"));
    let free = || world.pool.stat().unwrap().free_blocks;
    assert_eq!(free(), BLOCKS);
    put(&volume, 0, 1).unwrap();
    flush(&volume).unwrap();
    let pbn = world.pbn_of(1);
    free_veto.keeps.store(true, Ordering::Relaxed);
    put(&volume, 0, 2).unwrap();
    flush(&volume).unwrap();
    assert_eq!((world.pool.held_blocks(), free()), (1, BLOCKS - 2));
    assert_eq!(*free_veto.kept.lock().unwrap(), BTreeSet::from([pbn]));
    assert_eq!(world.pool.prove(10).unwrap(), Vec::<String>::new());
    free_veto.keeps.store(false, Ordering::Relaxed);
    for id in 3..BLOCKS + 1 {
        put(&volume, id, id).unwrap();
    }
    assert!(matches!(put(&volume, 50, 50), Err(DeviceError::NoSpace)));
    flush(&volume).unwrap();
    assert_eq!(world.pbn_of(1), pbn, "its content is there");
    free_veto.kept.lock().unwrap().clear();
    world.pool.free_kept(&[pbn]);
    assert_eq!((world.pool.held_blocks(), free()), (0, 1));
    put(&volume, 50, 50).unwrap();
    flush(&volume).unwrap();
    assert_eq!(world.pbn_of(50), pbn);
    assert_eq!(world.pool.prove(10).unwrap(), Vec::<String>::new());
}

#[test]
fn what_a_veto_holds_at_an_opening_is_not_free() {
    let world = World::new();
    let volume = world.volume("inline");
    for id in 1..4 {
        put(&volume, id, id).unwrap();
    }
    flush(&volume).unwrap();
    world.free_veto.keeps.store(true, Ordering::Relaxed);
    put(&volume, 1, 0).unwrap();
    flush(&volume).unwrap();
    let kept = world.pbn_of(1);
    drop(volume);
    let world = world.reopen();
    let used = world.free_veto.used_at_opening.lock().unwrap().clone();
    assert!(used.contains(&world.pbn_of(2)) && used.contains(&world.pbn_of(3)), "{used:?}");
    assert!(!used.contains(&kept), "nothing refers to it");
    let free = world.pool.stat().unwrap().free_blocks;
    assert_eq!((world.pool.held_blocks(), free), (1, BLOCKS - 3));
    assert_eq!(world.pool.prove(10).unwrap(), Vec::<String>::new());
    world.pool.free_kept(&[kept]);
    assert_eq!(world.pool.stat().unwrap().free_blocks, BLOCKS - 2);
    assert_eq!(world.pool.prove(10).unwrap(), Vec::<String>::new());
    let volume = world.volume("inline");
    assert!(read(&volume, 2 * BLOCK as u64, BLOCK).unwrap() == content(2, BLOCK));
}

/// A full pool has one kept block. A write waits for it while the veto is about to give it
/// back.
#[test]
fn a_writer_waits_for_blocks_that_are_soon_given_back() {
    let world = World::new();
    let (free_veto, volume) = (&world.free_veto, world.volume("inline"));
    put(&volume, 0, 1).unwrap();
    flush(&volume).unwrap();
    let pbn = world.pbn_of(1);
    free_veto.keeps.store(true, Ordering::Relaxed);
    for id in 2..=BLOCKS {
        put(&volume, id, id).unwrap();
    }
    put(&volume, 0, 0).unwrap();
    flush(&volume).unwrap();
    assert!(matches!(put(&volume, 40, 40), Err(DeviceError::NoSpace)), "it is not due");
    free_veto.due.store(1, Ordering::Relaxed);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| put(&volume, 40, 40));
        std::thread::sleep(Duration::from_millis(50));
        free_veto.due.store(0, Ordering::Relaxed);
        world.pool.free_kept(&[pbn]);
        writer.join().unwrap()
    });
    written.unwrap();
    assert!(read(&volume, 40 * BLOCK as u64, BLOCK).unwrap() == content(40, BLOCK));
}

/// Others read a content in the data store, so the veto does not learn of one that has no
/// space there, although commits and checkpoints keep it.
#[test]
fn a_veto_learns_of_a_content_without_space_once_there_is_some() {
    let world = World::new();
    world.pool.checkpoint().unwrap();
    world.free_veto.take_identified();
    world.simulation.thin_out();
    world.simulation.set_full(true);
    put(&world.volume("inline"), 0, 1).unwrap();
    for _ in 0..3 {
        world.pool.flush().unwrap();
        world.pool.checkpoint().unwrap();
        assert_eq!(world.free_veto.take_identified(), []);
    }
    world.simulation.set_full(false);
    world.pool.checkpoint().unwrap();
    assert_eq!(world.free_veto.take_identified(), [world.pbn_of(1)]);
}

/// The veto records that the content is read at its own place. So it must be there, and not in the
/// write buffer alone.
#[test]
fn a_heal_of_a_content_that_lies_elsewhere_is_durable_before_the_veto_records_it() {
    let world = World::with(Tuning { content_cache_bytes: Some(0), ..tuning_on_disk() });
    let (free_veto, volume) = (&world.free_veto, world.volume("inline"));
    *free_veto.simulation.lock().unwrap() = Some(world.simulation.clone());
    put(&volume, 0, 1).unwrap();
    put(&volume, 1, 2).unwrap();
    flush(&volume).unwrap();
    let (one, two) = (world.pbn_of(1), world.pbn_of(2));
    for pbn in [one, two] {
        let at = pbn.number() * BLOCK as u64;
        world.simulation.disks().data.write_at(at, &[7; 64]).unwrap();
    }
    assert!(read(&volume, 0, 2 * BLOCK).is_err());
    free_veto.elsewhere.lock().unwrap().insert(one);
    put(&volume, 2, 1).unwrap();
    put(&volume, 3, 2).unwrap();
    let restored = free_veto.restored.lock().unwrap().clone();
    assert_eq!(restored, [(one, content(1, BLOCK))], "only the one that lies elsewhere");
    let expected = [content(1, BLOCK), content(2, BLOCK)].concat();
    assert_eq!(read(&volume, 0, 2 * BLOCK).unwrap(), expected);
}

#[test]
fn a_pool_whose_blocks_others_name_keeps_its_size() {
    let world = World::new();
    let options = gemelo_volume::ShrinkOptions::default();
    let shrunk = world.pool.shrink(10 * BLOCK as u64, options, (&Silent, &StopFlag::new()));
    let refused = shrunk.unwrap_err().to_string();
    assert!(refused.contains("a member of a domain keeps its size"), "{refused}");
    assert_eq!(world.pool.stat().unwrap().capacity_blocks, BLOCKS);
}
