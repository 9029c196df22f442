//! Crashes at every call that changes a disk. Flushed writes survive, and unflushed blocks have
//! their old or new content, never another block's.

use crate::common::aged::age;
use crate::common::driver::{Driver, Model, check_recovered};
use crate::common::repeat::Repeat;
use crate::common::scatter::ScatterStore;
use crate::common::simulated::{Fault, Simulation};
use crate::common::{
    BLOCK, COMPRESSIONS, first_seed, index_sampling, open_ticking, options_with, rounds, tuning,
};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_format::{Policy, WordForm};
use gemelo_store::{BlockStore, OpenStore};
use gemelo_volume::{InlineOverload, Pool, PoolOptions, Tuning};

/// Blocks of the data store. It is small enough to be full now and then.
const POOL_BLOCKS: u64 = 150;
/// The same of one that compresses, so that the cleaner has to make room.
const PACKED_BLOCKS: u64 = 80;
/// Successive crashes of one pool.
const CRASHES: u64 = 5;
/// Pools of each policy.
const ROUNDS: u64 = 800;
/// The most steps between two crashes.
const MAX_STEPS: u64 = 400;

fn pool_of(policy: Policy) -> PoolOptions {
    options_with(policy, POOL_BLOCKS)
}

/// Runs a pool until it has crashed several times. Returns the number of crashes, of blocks that
/// the arranger has moved, of those that the cleaner has emptied, of contents that were compressed
/// again, of volumes that were rolled back, and of contents moved out of the end of the store.
fn live(options: &PoolOptions, open_store: OpenStore, seed: u64) -> [u64; 6] {
    let mut random = Random::new(seed);
    // A third of the disks write durably, so that commits are written beside their contents.
    let mut simulation = Simulation::new(random.next_u64())
        .with_store(open_store)
        .with_durable_writes(seed % 3 == 2);
    // Half of the journals are long, so that nearly all commits carry their contents.
    let journal_bytes = Some([64 << 10, 1 << 20][random.below(2) as usize]);
    let options = PoolOptions { journal_bytes, ..options.clone() };
    Pool::format(&simulation.disks(), &options).unwrap();
    // Half of the pools leave blocks of in-line volumes to the finder while the buffer is full.
    let inline_overload = InlineOverload::ALL[(seed % 2) as usize];
    // The others carry what a commit of such a journal may carry.
    let max_journal_data_bytes =
        [None, Some(0), Some(3 * BLOCK as u64), None][(seed / 2 % 4) as usize];
    let index_sampling = index_sampling(seed / 5 % 2 == 1);
    let tuning = Tuning { inline_overload, max_journal_data_bytes, index_sampling, ..tuning() };
    let mut model = Model::default();
    if seed % 8 == 7 {
        age(&simulation, &mut model, &mut random, tuning);
    }
    let (mut crashes, mut cleaned) = (0, 0);
    for _ in 0..CRASHES {
        check_from_outside(&simulation);
        let pool = open_ticking(&simulation.disks(), tuning).unwrap();
        check_recovered(&pool, &mut model);
        simulation.set_fault(Fault::CrashAt(1 + random.below(200)));
        let steps = random.below(MAX_STEPS);
        let mut driver = Driver::new(&simulation, &pool, &mut model, &mut random);
        // A full store refuses writes, which this test allows.
        driver.may_fail = true;
        let is_down = (0..steps).any(|_| driver.step().is_err());
        crashes += 1;
        cleaned += pool.stat().map_or(0, |stat| stat.activity.cleaned_blocks);
        let ends_well = !is_down && random.below(4) == 0;
        if ends_well {
            // A stop writes the index as well, which a crash may cut short.
            simulation.set_fault(Fault::CrashAt(1 + random.below(60)));
            let _ = pool.close();
        }
        simulation = if !is_down && !ends_well && random.below(3) == 0 {
            simulation.after_kill()
        } else {
            simulation.after_crash(random.next_u64())
        };
        simulation = crash_while_opening(simulation, tuning, &mut random);
    }
    let pool = open_ticking(&simulation.disks(), tuning).unwrap();
    check_recovered(&pool, &mut model);
    pool.close().unwrap();
    let pool = open_ticking(&simulation.disks(), tuning).unwrap();
    check_recovered(&pool, &mut model);
    let Model { moved_blocks, recompressed_blocks, rolled_back, shrunk, .. } = model;
    [crashes, moved_blocks, cleaned, recompressed_blocks, rolled_back, shrunk]
}

fn check_from_outside(simulation: &Simulation) {
    let options = CheckOptions { data: true };
    let report = check(&simulation.disks(), options, &Silent, &StopFlag::new()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}

/// Now and then the machine crashes again while the pool is opened.
fn crash_while_opening(simulation: Simulation, tuning: Tuning, random: &mut Random) -> Simulation {
    if random.below(4) > 0 {
        return simulation;
    }
    simulation.set_fault(Fault::CrashAt(1 + random.below(3)));
    let opened = open_ticking(&simulation.disks(), tuning);
    simulation.pull_plug();
    drop(opened);
    simulation.after_crash(random.next_u64())
}

/// Returns the number of blocks that the cleaner has emptied, and of contents that were compressed
/// again.
fn crash_again_and_again(options: &PoolOptions, open_store: OpenStore, most: u64) -> [u64; 2] {
    let first = first_seed();
    let mut sums = [0; 6];
    for seed in first..first + rounds(most) {
        let _repeat = Repeat::of(seed);
        let counts = live(options, open_store, seed);
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let [crashes, moved, cleaned, recompressed, rolled_back, shrunk] = sums;
    eprintln!(
        "{:?}: {crashes} crashes, {moved} blocks moved, {cleaned} emptied, {recompressed} \
         compressed again, {rolled_back} rolled back, {shrunk} moved out of the end",
        options.policy
    );
    assert!(shrunk > 0 || most < ROUNDS, "no store was made smaller");
    assert!(moved > 0 || most < ROUNDS, "the arranger has moved nothing");
    assert!(rolled_back > 0 || most < ROUNDS, "nothing was rolled back");
    [cleaned, recompressed]
}

fn crash_with(policy: Policy) {
    crash_again_and_again(&pool_of(policy), BlockStore::open, ROUNDS);
}

gemelo_format::test_each_policy!(what_was_flushed_survives_every_crash, crash_with);

/// Words of maps with PBNs of 36 bits and checksums of 28.
#[test]
fn what_was_flushed_survives_every_crash_of_a_pool_that_may_become_large() {
    let max_capacity_bytes = Some(WordForm::Wide.end() * BLOCK as u64);
    let options = PoolOptions { max_capacity_bytes, ..pool_of(Policy::Compact) };
    assert!(options.is_wide());
    crash_again_and_again(&options, BlockStore::open, ROUNDS / 2);
}

/// Neither the engine nor the checker may assume the place or the form of a content.
#[test]
fn what_was_flushed_survives_crashes_over_another_store() {
    for policy in Policy::ALL {
        crash_again_and_again(&pool_of(policy), ScatterStore::open, ROUNDS / 8);
    }
}

/// Contents that share blocks survive as others do, also while they are moved.
#[test]
fn what_was_flushed_survives_crashes_where_contents_are_compressed() {
    let (mut cleaned, mut recompressed) = (0, 0);
    for policy in Policy::ALL {
        for compression in COMPRESSIONS {
            let compression = Some(compression);
            let options = PoolOptions { compression, ..options_with(policy, PACKED_BLOCKS) };
            let [emptied, again] = crash_again_and_again(&options, BlockStore::open, ROUNDS / 16);
            cleaned += emptied;
            recompressed += again;
        }
    }
    let is_whole = rounds(ROUNDS) >= ROUNDS;
    assert!(cleaned > 0 || !is_whole, "the cleaner has emptied nothing");
    assert!(recompressed > 0 || !is_whole, "nothing was compressed again");
}
