//! Power cuts and kills while several threads issue all kinds of requests and commands to a pool,
//! on slow and failing disks, with contents whose fingerprints collide.
//!
//! While the threads work, the simulated disks give images of power cuts at random moments. Each of
//! these images is a pool of its own: it has to pass the checker, to open, and to have contents
//! that the history of requests allows at that moment. Then the power is cut, or the process is
//! killed, and the next threads go on with what is left.
//!
//! Threads are scheduled by the system: a seed gives the same work, not the same order. More rounds
//! of its seed find a failure again: `GEMELO_TEST_SEED=7 GEMELO_TEST_ROUNDS=1
//! GEMELO_TEST_AGAIN=50`.

use crate::common::bytes::Bytes;
use crate::common::collide::Collider;
use crate::common::judge::{Contents, History};
use crate::common::repeat::Repeat;
use crate::common::simulated::{Fault, Nature, Shot, Simulation};
use crate::common::storm::{Storm, targets};
use crate::common::{
    BLOCK, any_compression, first_seed, index_sampling, open_ticking, options_with, rounds, tuning,
};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_format::{DedupMode, FingerprintKind, Policy};
use gemelo_volume::{InlineOverload, Pool, PoolOptions, Tuning};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Blocks of the data store and of the largest volume. The stores are small enough to be full now
/// and then. The second kind of pool has volumes that are copied and removed piece by piece.
const SIZES: [(u64, u64); 2] = [(130, 24), (420, 112)];
/// Lives of a pool: each ends with a power cut, a kill or a close.
const LIVES: u64 = 4;
/// The modes of the volumes. In-line is chosen twice as often as the others.
const MODES: [DedupMode; 4] =
    [DedupMode::Inline, DedupMode::Inline, DedupMode::Offline, DedupMode::Off];
/// Pools of each policy. Each gives some 125 images.
const POOLS: u64 = 50;

/// The end of a life, unless a fault ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    PowerCut,
    Kill,
    Close,
}

/// A pool and the work on it.
struct Life<'a> {
    random: &'a mut Random,
    tuning: Tuning,
    collider: Option<Collider>,
    compresses: bool,
    writes_durably: bool,
    max_blocks: u64,
    /// The number of images that were checked.
    points: u64,
}

impl Life<'_> {
    /// Opens the pool and works. Returns the disks as the next life finds them.
    fn live(&mut self, simulation: &Simulation, before: &mut History) -> (Simulation, History) {
        let clock = Arc::new(AtomicU64::new(1));
        simulation.set_nature(Nature { shot_one_in: 4, ..Nature::default() }, &clock);
        let pool = open_ticking(&simulation.disks(), self.tuning).unwrap();
        simulation.set_nature(Nature::default(), &clock);
        // A power cut during the opening must not lose anything that the life before made durable.
        for shot in simulation.take_shots() {
            self.judge(&shot.images, before, u64::MAX);
        }
        let contents = Contents::of(&pool);
        before.check(&contents, u64::MAX).unwrap_or_else(|why| panic!("when opened: {why}"));
        let mut history = History::new(&contents);
        let (nature, fault, end) = (self.nature(), self.fault(), self.end());
        simulation.set_nature(nature, &clock);
        simulation.set_fault(fault);
        let log = self.storm(simulation, &pool, &contents, &clock).rage();
        simulation.set_nature(Nature::default(), &clock);
        simulation.set_full(false);
        let is_sound = matches!(fault, Fault::Never) && nature.error_one_in == 0;
        assert!(pool.stopped().is_none() || !is_sound, "{:?}", pool.stopped());
        if end == End::Close && matches!(fault, Fault::Never) {
            // An error of the metadata disk stops a pool, which cannot be closed then.
            assert!(pool.close().is_ok() || nature.error_one_in > 0);
        } else {
            drop(pool);
        }
        let shots = simulation.take_shots();
        let next = match (end, fault) {
            // The next process finds unsynced writes, also those of a failed sync, in the cache.
            (End::Kill, _) | (_, Fault::FailSync(_)) => simulation.after_kill(),
            _ => simulation.after_crash(self.random.next_u64()),
        };
        history.add(log).unwrap_or_else(|why| panic!("while the pool was open: {why}"));
        for Shot { at, images } in shots {
            history.forget(at);
            self.judge(&images, &history, at);
        }
        history.forget(u64::MAX);
        (next, history)
    }

    fn storm<'s>(
        &mut self,
        simulation: &'s Simulation,
        pool: &'s Pool,
        contents: &Contents,
        clock: &Arc<AtomicU64>,
    ) -> Storm<'s> {
        Storm {
            simulation,
            pool,
            clock: Arc::clone(clock),
            collider: self.collider.clone(),
            targets: Mutex::new(targets(pool, contents)),
            next_volume: contents.volumes.len(),
            modes: &MODES,
            compresses: self.compresses,
            max_blocks: self.max_blocks,
            clients: 2 + self.random.below(3),
            steps: 60 + self.random.below(120),
            seed: self.random.next_u64(),
        }
    }

    fn nature(&mut self) -> Nature {
        let slow_one_in = [0, 3, 10][self.random.below(3) as usize];
        let max_delay = Duration::from_micros([300, 1000][self.random.below(2) as usize]);
        let error_one_in = [0, 0, 0, 300][self.random.below(4) as usize];
        let full_one_in = [0, 0, 4, 20][self.random.below(4) as usize];
        Nature { slow_one_in, max_delay, error_one_in, full_one_in, shot_one_in: 9, rot: None }
    }

    fn fault(&mut self) -> Fault {
        match self.random.below(4) {
            0 => Fault::FailSync(1 + self.random.below(60)),
            1 => Fault::Never,
            _ => Fault::CrashAt(1 + self.random.below(600)),
        }
    }

    fn end(&mut self) -> End {
        [End::PowerCut, End::Kill, End::Close][self.random.below(3) as usize]
    }

    /// Checks that a pool is in a state that a power cut at a moment allows.
    fn judge(&mut self, images: &[Bytes; 2], history: &History, at: u64) {
        let simulation =
            Simulation::of_images(at, images.clone()).with_durable_writes(self.writes_durably);
        let options = CheckOptions { data: true };
        let report = check(&simulation.disks(), options, &Silent, &StopFlag::new()).unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
        let pool = open_ticking(&simulation.disks(), self.tuning).unwrap();
        let contents = Contents::of(&pool);
        history.check(&contents, at).unwrap_or_else(|why| panic!("power cut at {at}: {why}"));
        let wrong = pool.prove(10).unwrap();
        assert_eq!(wrong, Vec::<String>::new());
        self.points += 1;
    }
}

/// Runs a pool through all its lives. Returns the number of images that were checked.
fn live(policy: Policy, seed: u64) -> u64 {
    let mut random = Random::new(seed);
    // A third of the disks write durably, so that commits are written beside their contents.
    let writes_durably = seed / 3 % 3 == 2;
    let mut simulation = Simulation::new(random.next_u64()).with_durable_writes(writes_durably);
    let collides = random.below(2) == 0;
    let fingerprint = if collides { FingerprintKind::Xxh3Compare } else { FingerprintKind::Blake3 };
    let (pool_blocks, max_blocks) = SIZES[usize::from(random.below(4) == 0)];
    // A long journal has room for commits that carry all their contents.
    let journal_bytes = Some([64 << 10, 1 << 20][random.below(2) as usize]);
    // A third of the pools compress.
    let compression = (seed % 3 == 2).then(|| any_compression(&mut random));
    let compresses = compression.is_some();
    let options = PoolOptions {
        fingerprint,
        journal_bytes,
        compression,
        ..options_with(policy, pool_blocks)
    };
    Pool::format(&simulation.disks(), &options).unwrap();
    let max_references = if random.below(4) == 0 { 3 } else { u32::MAX };
    let inline_overload = InlineOverload::ALL[random.below(2) as usize];
    let verify_bytes = random.below(4) == 0;
    let max_journal_data_bytes = [None, None, Some(4 * BLOCK as u64), Some(0)][(seed % 4) as usize];
    let content_cache_bytes = [3, 16, 0, 400][(seed / 3 % 4) as usize] * BLOCK as u64;
    let tuning = Tuning {
        verify_bytes,
        max_references,
        inline_overload,
        max_journal_data_bytes,
        content_cache_bytes: Some(content_cache_bytes),
        index_sampling: index_sampling(seed / 5 % 2 == 1),
        ..tuning()
    };
    let collider = collides.then(|| Collider::of(&simulation.disks()));
    let mut life = Life {
        random: &mut random,
        tuning,
        collider,
        compresses,
        writes_durably,
        max_blocks,
        points: 0,
    };
    let mut history = History::new(&Contents::default());
    for _ in 0..LIVES {
        (simulation, history) = life.live(&simulation, &mut history);
    }
    let pool = open_ticking(&simulation.disks(), tuning).unwrap();
    history.check(&Contents::of(&pool), u64::MAX).unwrap();
    pool.close().unwrap();
    life.points
}

fn weather(policy: Policy) {
    let first = first_seed();
    let again = std::env::var("GEMELO_TEST_AGAIN").ok().and_then(|text| text.parse().ok());
    let mut points = 0;
    for seed in first..first + rounds(POOLS) {
        for _ in 0..again.unwrap_or(1) {
            let _repeat = Repeat::of(seed);
            points += live(policy, seed);
        }
    }
    eprintln!("{policy:?}: {points} power cuts");
}

gemelo_format::test_each_policy!(threads_lose_and_mix_nothing, weather);
