//! Bits that flip in the data or the metadata of pools at work, while clients, the finder, the
//! collector, the arranger, the scrub and changes of modes run, and in the images that power cuts
//! leave.
//!
//! A read returns a content that the history of requests allows, or an error. With flips in data,
//! an error is right only for a block that may have a content which a flip has destroyed: that one,
//! and those that share it. With a flip in the metadata any block may be unreadable, and the pool
//! may refuse to open; whatever is read has to be right all the same. At the end everything that is
//! lost is written again, and all is as it should be.
//!
//! Pools of one mode and mixed ones take turns, and pools that compress and others: of a block that
//! compressed contents share, a flip destroys those that it hits. [`crate::common::simulated`]
//! tells what rot does.
//!
//! Or one write of a pool at work lands in a wrong place of its disk. Any block may be unreadable
//! then, the checker says so, and a repair leaves a sound pool.
//!
//! On disks with durable writes, a flip in the contents of the last commit may undo this commit, as
//! if a crash had torn it. So their data rots in images only, and an image that loses its last
//! commit by flips is not judged further.

use crate::common::collide::Collider;
use crate::common::history::{NEVER, Rotten};
use crate::common::judge::{Contents, History};
use crate::common::repeat::Repeat;
use crate::common::simulated::rot::{RotKind, RotRate, rot_place};
use crate::common::simulated::{DATA, Fault, METADATA, Nature, Shot, Simulation};
use crate::common::stored::{copies_of, destroyed};
use crate::common::storm::{Storm, targets};
use crate::common::{
    BLOCK, COMPRESSIONS, content, first_seed, flush, open_ticking, options_with, read, rounds,
    write,
};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, CheckReport, check};
use gemelo_format::{
    CommitHeader, Compression, DedupMode, FingerprintKind, PACKED_TABLE_BYTES, PAGE_BYTES,
    PackedPlace, Policy, PoolSeed,
};
use gemelo_volume::{
    InlineOverload, LossChoice, Pool, PoolOptions, RepairOptions, ScrubOptions, Tuning, repair,
};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Blocks of the data store and of the largest volume.
const POOL_BLOCKS: u64 = 150;
const MAX_BLOCKS: u64 = 24;
/// Lives of a pool. Each ends with a power cut or a kill.
const LIVES: u64 = 4;
/// Pools of each policy. Each gives some 80 images.
const POOLS: u64 = 30;
/// Pools of each policy with a misdirected write.
const MISDIRECTED_POOLS: u64 = 16;
/// The modes of the volumes of a pool, in turns. The last pool is mixed, and modes are changed.
const MODES: [&[DedupMode]; 4] = [
    &[DedupMode::Off],
    &[DedupMode::Inline],
    &[DedupMode::Offline],
    &[DedupMode::Inline, DedupMode::Offline, DedupMode::Off],
];
/// One pool in this many has flips in its metadata, and the others in their data.
const METADATA_ONE_IN: u64 = 3;
/// Blocks that a pool grows by before everything that is lost is written again.
const ROOM_BLOCKS: u64 = 400;

/// Counts over all pools of a policy.
#[derive(Debug, Default)]
struct Tally {
    images: u64,
    /// Contents that flips destroyed, in pools at work and in images.
    destroyed: u64,
    /// Blocks that could not be read in an image.
    damaged_blocks: u64,
    /// Blocks that were written again at the end, or healed by that.
    healed_blocks: u64,
    /// Images that were refused, because of their metadata.
    refused: u64,
    /// Images that lost their last commit by flips in its contents.
    undone: u64,
}

/// A pool and what is done to it.
struct Story {
    random: Random,
    tuning: Tuning,
    collider: Option<Collider>,
    modes: &'static [DedupMode],
    compresses: bool,
    writes_durably: bool,
    /// The disk that rots.
    rots: usize,
    kind: RotKind,
    tally: Tally,
}

impl Story {
    fn new(policy: Policy, seed: u64) -> (Self, Simulation) {
        let mut random = Random::new(seed);
        let writes_durably = seed / (2 * MODES.len() as u64 * METADATA_ONE_IN) % 2 == 1;
        let simulation = Simulation::new(random.next_u64()).with_durable_writes(writes_durably);
        let collides = random.below(4) == 0;
        let fingerprint =
            if collides { FingerprintKind::Xxh3Compare } else { FingerprintKind::Blake3 };
        let pools_before = seed / (MODES.len() as u64 * METADATA_ONE_IN);
        let compresses = pools_before % 2 == 1;
        let compression =
            compresses.then(|| COMPRESSIONS[(pools_before / 2) as usize % COMPRESSIONS.len()]);
        let options = PoolOptions { fingerprint, compression, ..options_with(policy, POOL_BLOCKS) };
        Pool::format(&simulation.disks(), &options).unwrap();
        let content_cache_bytes = Some(16 * BLOCK as u64 * random.below(2));
        let inline_overload = InlineOverload::ALL[random.below(2) as usize];
        let max_journal_data_bytes = writes_durably.then_some(0);
        let tuning = Tuning {
            content_cache_bytes,
            inline_overload,
            max_journal_data_bytes,
            ..crate::common::tuning()
        };
        let collider = collides.then(|| Collider::of(&simulation.disks()));
        let modes = MODES[(seed % MODES.len() as u64) as usize];
        let is_metadata = seed / MODES.len() as u64 % METADATA_ONE_IN == METADATA_ONE_IN - 1;
        let rots = if is_metadata { METADATA } else { DATA };
        let tally = Tally::default();
        let story = Self {
            random,
            tuning,
            collider,
            modes,
            compresses,
            writes_durably,
            rots,
            kind: RotKind::Flip,
            tally,
        };
        (story, simulation)
    }

    /// The same story with a misdirected write of a disk instead of flips.
    fn misdirected(self, rots: usize) -> Self {
        Self { rots, kind: RotKind::Misdirect, ..self }
    }

    /// Returns whether contents alone are lost, and it is known which.
    fn loses_contents(&self) -> bool {
        self.rots == DATA && self.kind == RotKind::Flip
    }

    /// Runs the pool through all its lives.
    fn run(mut self, mut simulation: Simulation) -> Tally {
        let mut history = History::new(&Contents::default());
        for life in 0..LIVES {
            // A damaged page of the metadata stays damaged, so metadata rot in the last life only.
            let rots = match self.loses_contents() {
                true => !self.writes_durably,
                false => life == LIVES - 1,
            };
            (simulation, history) = self.live(&simulation, &history, rots);
        }
        if self.loses_contents() {
            self.heal(&simulation, &history);
        } else {
            self.repair(&simulation);
        }
        self.tally
    }

    /// Opens the pool and works. Returns the disks as the next life finds them.
    fn live(
        &mut self,
        simulation: &Simulation,
        before: &History,
        rots: bool,
    ) -> (Simulation, History) {
        let pool = open_ticking(&simulation.disks(), self.tuning).unwrap();
        let contents = Contents::of(&pool);
        before.check(&contents, NEVER).unwrap_or_else(|why| panic!("when opened: {why}"));
        let mut history = before.successor(&contents);
        let clock = Arc::new(AtomicU64::new(1));
        simulation.set_nature(self.nature(rots), &clock);
        simulation.set_fault(Fault::CrashAt(100 + self.random.below(600)));
        let storm = Storm {
            simulation,
            pool: &pool,
            clock: Arc::clone(&clock),
            collider: self.collider.clone(),
            targets: Mutex::new(targets(&pool, &contents)),
            next_volume: contents.volumes.len(),
            modes: self.modes,
            compresses: self.compresses,
            max_blocks: MAX_BLOCKS,
            clients: 2 + self.random.below(2),
            steps: 60 + self.random.below(80),
            seed: self.random.next_u64(),
        };
        let log = storm.rage();
        simulation.set_nature(Nature::default(), &clock);
        drop(pool);
        let rotten = simulation.take_rotten();
        self.tally.destroyed += rotten.len() as u64;
        let first_flip = rotten.first().map_or(NEVER, |rotten| rotten.at);
        if self.loses_contents() {
            history.add_rotten(rotten);
        } else if rots {
            history.allow_damaged_metadata();
        }
        history.add(log).unwrap_or_else(|why| panic!("while the pool was open: {why}"));
        let next = if self.random.below(2) == 0 {
            simulation.after_kill()
        } else {
            simulation.after_crash(self.random.next_u64())
        };
        for Shot { at, images } in simulation.take_shots() {
            let images = images.map(|image| image.to_vec());
            history.forget(at);
            match (self.loses_contents(), rots) {
                (true, _) => self.judge_data(images, &mut history, at),
                (_, true) => self.judge_metadata(images, &history, (at, at >= first_flip)),
                // In these lives the pool only grows old.
                (_, false) => {}
            }
        }
        history.forget(NEVER);
        (next, history)
    }

    fn nature(&mut self, rots: bool) -> Nature {
        let slow_one_in = [0, 3, 10][self.random.below(3) as usize];
        let max_delay = Duration::from_micros([200, 600][self.random.below(2) as usize]);
        let (kind, which) = (self.kind, self.rots);
        let (one_in, most) = match self.loses_contents() {
            true => (30, u64::MAX),
            // Structures with a copy survive one flip, and not a flip in each copy.
            false => (60, 1),
        };
        let rot = RotRate { kind, which, one_in, most };
        let rot = Some(rot).filter(|_| rots);
        Nature { slow_one_in, max_delay, error_one_in: 0, full_one_in: 0, shot_one_in: 9, rot }
    }

    /// Flips a bit of an image. Returns its byte.
    fn flip(&mut self, image: &mut [u8]) -> Option<usize> {
        let byte = rot_place(image, &mut self.random)?;
        image[byte] ^= 1 << self.random.below(8);
        Some(byte)
    }

    /// Flips a bit of the data. Returns the contents that this destroys.
    fn flip_data(&mut self, images: &mut [Vec<u8>; 2], at: u64) -> Vec<Rotten> {
        let before = Simulation::of_images(at, images.clone());
        let Some(byte) = self.flip(&mut images[DATA]) else { return Vec::new() };
        let after = Simulation::of_images(at, images.clone());
        let contents = destroyed(&before, &after, (byte / BLOCK) as u32);
        self.tally.destroyed += contents.len() as u64;
        contents.into_iter().map(|content| Rotten { at, content }).collect()
    }

    /// Checks the image of a power cut, half of them with some more flips in the data.
    fn judge_data(&mut self, mut images: [Vec<u8>; 2], history: &mut History, at: u64) {
        let flips = if self.random.below(2) == 0 { 1 + self.random.below(4) } else { 0 };
        let more: Vec<Rotten> = (0..flips).flat_map(|_| self.flip_data(&mut images, at)).collect();
        let simulation = Simulation::of_images(at, images);
        let report = check_pool(&simulation, false);
        assert!(report.is_clean(), "flips in data are none in metadata: {:?}", report.problems);
        let commit = commits(&simulation).pop_last();
        let pool = open_ticking(&simulation.disks(), self.tuning).unwrap();
        let contents = Contents::of(&pool);
        // Its number may have been given again.
        let is_undone = commit.is_some_and(|commit| !commits(&simulation).contains(&commit));
        if is_undone && !more.is_empty() {
            self.tally.undone += 1;
            return;
        }
        let checked = history.with_rotten(more, |history| history.check(&contents, at));
        checked.unwrap_or_else(|why| panic!("power cut at {at}: {why}"));
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
        self.tally.damaged_blocks += contents.damaged_blocks() as u64;
        self.tally.images += 1;
    }

    /// Checks the image of a power cut in which a bit of the metadata has flipped: before, or now.
    fn judge_metadata(
        &mut self,
        mut images: [Vec<u8>; 2],
        history: &History,
        (at, has_flipped): (u64, bool),
    ) {
        if !has_flipped && self.kind == RotKind::Flip {
            self.flip(&mut images[METADATA]);
        }
        self.tally.images += 1;
        let simulation = Simulation::of_images(at, images);
        let checked = check(&simulation.disks(), WITH_DATA, &Silent, &StopFlag::new());
        let is_told = checked.is_err() || checked.is_ok_and(|report| !report.is_clean());
        let Ok(pool) = open_ticking(&simulation.disks(), self.tuning) else {
            assert!(is_told, "a check passes a pool that does not open");
            self.tally.refused += 1;
            return;
        };
        let contents = Contents::of(&pool);
        history.check(&contents, at).unwrap_or_else(|why| {
            panic!("power cut at {at}, damage {:?}: {why}", pool.damage());
        });
        assert!(is_told || contents.damaged_blocks() == 0, "a check passes blocks that are lost");
        self.tally.damaged_blocks += contents.damaged_blocks() as u64;
    }

    /// Writes all lost contents again, after which every block has its content.
    fn heal(&mut self, simulation: &Simulation, history: &History) {
        let pool = open_ticking(&simulation.disks(), self.tuning).unwrap();
        pool.grow((POOL_BLOCKS + ROOM_BLOCKS) * BLOCK as u64).unwrap();
        let contents = Contents::of(&pool);
        history.check(&contents, NEVER).unwrap_or_else(|why| panic!("at the end: {why}"));
        let mut expected = contents.clone();
        for (name, volume) in &mut expected.volumes {
            let device = pool.volume(name).unwrap();
            let lost = volume.blocks.iter_mut().enumerate().filter(|(_, block)| block.is_none());
            for (number, block) in lost {
                let lost = history.lost_contents(name, number).swap_remove(0);
                if !volume.read_only {
                    write(&device, (number * BLOCK) as u64, &lost).unwrap();
                    *block = Some(lost);
                }
            }
        }
        let healed = Contents::of(&pool);
        for (name, volume) in &healed.volumes {
            for (number, block) in volume.blocks.iter().enumerate() {
                let expected = expected.volumes[name].blocks[number].as_deref();
                match (block.as_deref(), expected) {
                    (found, Some(expected)) => assert!(found == Some(expected), "{name}, {number}"),
                    // A snapshot is healed if the content was written to a block of its own.
                    (None, None) => {}
                    (Some(found), None) => {
                        let lost = history.lost_contents(name, number);
                        assert!(lost.iter().any(|lost| **lost == *found), "{name}, {number}");
                    }
                }
            }
        }
        self.tally.healed_blocks += (contents.damaged_blocks() - healed.damaged_blocks()) as u64;
        for (name, volume) in &healed.volumes {
            if volume.blocks.contains(&None) {
                pool.remove_volume(name).unwrap();
            }
        }
        pool.find(&Silent, &StopFlag::new()).unwrap();
        pool.close().unwrap();
        let report = check_pool(simulation, true);
        assert!(report.is_clean(), "after everything was written again: {:?}", report.problems);
    }

    /// Repairs the metadata. The pool is then sound, and takes writes.
    fn repair(&mut self, simulation: &Simulation) {
        let options = RepairOptions { data: true, choice: LossChoice::RollBack };
        if repair(&simulation.disks(), options, &Silent, &StopFlag::new()).is_err() {
            self.tally.refused += 1;
            return;
        }
        let report = check_pool(simulation, true);
        assert!(report.is_clean(), "after the repair: {:?}", report.problems);
        let pool = open_ticking(&simulation.disks(), self.tuning).unwrap();
        pool.grow((POOL_BLOCKS + ROOM_BLOCKS) * BLOCK as u64).unwrap();
        pool.create_volume("new", (MAX_BLOCKS as usize * BLOCK) as u64, self.modes[0]).unwrap();
        let volume = pool.volume("new").unwrap();
        for lbn in 0..MAX_BLOCKS {
            write(&volume, lbn * BLOCK as u64, &content(lbn + 1, BLOCK)).unwrap();
        }
        flush(&volume).unwrap();
        for lbn in 0..MAX_BLOCKS {
            let found = read(&volume, lbn * BLOCK as u64, BLOCK).unwrap();
            assert!(found == content(lbn + 1, BLOCK), "block {lbn}");
        }
        let scrub = pool.scrub(ScrubOptions::default(), &Silent, &StopFlag::new()).unwrap();
        assert!(scrub.problems.is_empty(), "{:?}", scrub.problems);
    }
}

/// The commits in the journal: the number of each, and its first page.
fn commits(simulation: &Simulation) -> BTreeSet<(u64, Vec<u8>)> {
    let superblock = simulation.disks().read_superblock(&mut Vec::new()).unwrap();
    let seed = PoolSeed::of(&superblock);
    let [_, metadata] = simulation.images();
    let pages = metadata.chunks(PAGE_BYTES);
    pages
        .filter_map(|page| Some((CommitHeader::decode(page, seed)?.number, page.to_vec())))
        .collect()
}

const WITH_DATA: CheckOptions = CheckOptions { data: true };

fn check_pool(simulation: &Simulation, data: bool) -> CheckReport {
    check(&simulation.disks(), CheckOptions { data }, &Silent, &StopFlag::new()).unwrap()
}

fn rot(policy: Policy) {
    let first = first_seed();
    let mut sum = Tally::default();
    for seed in first..first + rounds(POOLS) {
        let _repeat = Repeat::of(seed);
        let (story, simulation) = Story::new(policy, seed);
        let tally = story.run(simulation);
        sum.images += tally.images;
        sum.destroyed += tally.destroyed;
        sum.damaged_blocks += tally.damaged_blocks;
        sum.healed_blocks += tally.healed_blocks;
        sum.refused += tally.refused;
        sum.undone += tally.undone;
    }
    eprintln!("{policy:?}: {sum:?}");
    let is_whole = rounds(POOLS) >= POOLS;
    assert!(!is_whole || sum.damaged_blocks > 0 && sum.healed_blocks > 0, "{sum:?}");
    assert!(!is_whole || sum.refused < sum.images / 4 && sum.undone < sum.images / 4, "{sum:?}");
}

/// Of a content that goes on in the next block, a bit may flip when only one part is on the disk.
/// The write of the other part makes it one that rot has destroyed.
#[test]
fn a_content_is_known_to_be_lost_when_its_second_part_is_written() {
    let simulation = Simulation::new(1);
    let compression = Some(Compression::Lz4);
    let options = PoolOptions { compression, ..options_with(Policy::Compact, POOL_BLOCKS) };
    Pool::format(&simulation.disks(), &options).unwrap();
    let pool = open_ticking(&simulation.disks(), crate::common::tuning()).unwrap();
    pool.create_volume("a", MAX_BLOCKS * BLOCK as u64, DedupMode::Off).unwrap();
    let volume = pool.volume("a").unwrap();
    for lbn in 0..MAX_BLOCKS {
        write(&volume, lbn * BLOCK as u64, &content(lbn + 1, BLOCK)).unwrap();
    }
    drop(volume);
    pool.close().unwrap();
    let mut stored = (1..=MAX_BLOCKS).flat_map(|id| {
        let content = content(id, BLOCK);
        copies_of(&simulation, &content).into_iter().map(move |stored| (stored, content.clone()))
    });
    let (stored, content) =
        stored.find(|(stored, _)| PackedPlace::of(stored.pbn).is_spanning()).unwrap();
    let block = PackedPlace::of(stored.pbn).block as usize;
    let rest = (block + 1) * BLOCK + PACKED_TABLE_BYTES;
    for (written, flipped) in [(block, rest), (block + 1, stored.at)] {
        let mut images = simulation.images();
        let second = written * BLOCK..(written + 1) * BLOCK;
        let bytes = images[DATA][second.clone()].to_vec();
        images[DATA][second.clone()].fill(0);
        let torn = Simulation::of_images(1, images);
        torn.rot(flipped, 3);
        let is_lost = |rotten: Vec<Rotten>| rotten.iter().any(|rotten| *rotten.content == *content);
        assert!(!is_lost(torn.take_rotten()), "it was not there");
        torn.disks().data.write_at(second.start as u64, &bytes).unwrap();
        assert!(is_lost(torn.take_rotten()), "block {written} is written");
    }
}

fn misdirect(policy: Policy) {
    let first = first_seed();
    let (mut images, mut misdirected) = (0, 0);
    for seed in first..first + rounds(MISDIRECTED_POOLS) {
        let _repeat = Repeat::of(seed);
        let (story, simulation) = Story::new(policy, seed);
        let tally = story.misdirected([DATA, METADATA][(seed % 2) as usize]).run(simulation);
        images += tally.images;
        misdirected += tally.destroyed;
    }
    eprintln!("{policy:?}: {misdirected} misdirected writes, {images} images");
    assert!(misdirected > 0 || rounds(MISDIRECTED_POOLS) < MISDIRECTED_POOLS);
}

gemelo_format::test_each_policy!(a_misdirected_write_in_a_pool_at_work_is_told, misdirect);
gemelo_format::test_each_policy!(rot_in_a_pool_at_work_gives_no_wrong_content, rot);
