//! The space of volumes compared with a brute-force count: the checker's walk over the disks, which
//! shares only the format with the engine.

use crate::common::repeat::Repeat;
use crate::common::simulated::Simulation;
use crate::common::space::compare_space;
use crate::common::{
    BLOCK, any_compression, content, first_seed, open, options_with, rounds, trim, tuning, write,
};
use gemelo_base::StopFlag;
use gemelo_base::random::Random;
use gemelo_format::{DedupMode, Policy};
use gemelo_volume::{Pool, PoolOptions, VolumeError, VolumeSpace};

/// More LBNs than a map page of the policies in memory has.
const VOLUME_BLOCKS: u64 = 1100;
/// Enough for all volumes, even if they share nothing.
const DATA_BLOCKS: u64 = 8000;

/// Makes one random change of the pool.
fn step(pool: &Pool, random: &mut Random, made: &mut u64) {
    let volumes = pool.volumes();
    let chosen = &volumes[random.below(volumes.len() as u64) as usize].record;
    match random.below(24) {
        0 if volumes.len() < 6 => {
            *made += 1;
            let name = format!("v{made}");
            match random.below(2) {
                0 => pool.snapshot_volume(&chosen.name, &name).unwrap(),
                _ => pool.clone_volume(&chosen.name, &name).unwrap(),
            }
        }
        1 if volumes.len() > 2 => pool.remove_volume(&chosen.name).unwrap(),
        2 if volumes.iter().all(|volume| volume.record.read_only) || volumes.len() < 3 => {
            *made += 1;
            let mode = [DedupMode::Off, DedupMode::Inline][random.below(2) as usize];
            pool.create_volume(&format!("v{made}"), VOLUME_BLOCKS * BLOCK as u64, mode).unwrap();
        }
        // A snapshot keeps its size.
        3 if !chosen.read_only => {
            let blocks = VOLUME_BLOCKS / 2 + random.below(VOLUME_BLOCKS / 2);
            pool.resize_volume(&chosen.name, blocks * BLOCK as u64).unwrap();
        }
        4 => pool.checkpoint().unwrap(),
        _ if chosen.read_only => {}
        kind => {
            let size_blocks = chosen.size_bytes / BLOCK as u64;
            let count = (1 + random.below(60)).min(size_blocks);
            let first = random.below(size_blocks - count + 1);
            let volume = pool.volume(&chosen.name).unwrap();
            if kind == 5 {
                trim(&volume, first * BLOCK as u64, count * BLOCK as u64).unwrap();
                return;
            }
            // A few contents are shared often, many a little.
            let kinds = if random.below(4) == 0 { 5 } else { 3000 };
            let ids = (0..count).map(|_| 1 + random.below(kinds));
            let bytes: Vec<u8> = ids.flat_map(|id| content(id, BLOCK)).collect();
            write(&volume, first * BLOCK as u64, &bytes).unwrap();
        }
    }
}

#[test]
fn the_space_of_volumes_is_what_a_count_of_everything_gives() {
    for seed in first_seed()..first_seed() + rounds(8) {
        let _repeat = Repeat::of(seed);
        let policy = Policy::ALL[seed as usize % Policy::ALL.len()];
        let mut random = Random::new(seed);
        let simulation = Simulation::new(seed);
        // Half of the pools compress.
        let compression = (seed % 2 == 1).then(|| any_compression(&mut random));
        let options = PoolOptions { compression, ..options_with(policy, DATA_BLOCKS) };
        Pool::format(&simulation.disks(), &options).unwrap();
        let mut made = 0;
        for life in 0..2 {
            let pool = open(&simulation.disks(), tuning()).unwrap();
            if life == 0 {
                let size_bytes = VOLUME_BLOCKS * BLOCK as u64;
                pool.create_volume("v0", size_bytes, DedupMode::Inline).unwrap();
            }
            for round in 0..6 {
                (0..40).for_each(|_| step(&pool, &mut random, &mut made));
                compare_space(
                    &simulation,
                    &pool,
                    &format!("{policy:?}, seed {seed}, {life}.{round}"),
                );
            }
            pool.close().unwrap();
        }
    }
}

#[test]
fn removing_a_volume_frees_what_it_held_alone() {
    for policy in Policy::ALL {
        let simulation = Simulation::new(1);
        Pool::format(&simulation.disks(), &options_with(policy, 500)).unwrap();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        pool.create_volume("a", 100 * BLOCK as u64, DedupMode::Inline).unwrap();
        let a = pool.volume("a").unwrap();
        let bytes: Vec<u8> = (0..50).flat_map(|id| content(1 + id % 40, BLOCK)).collect();
        write(&a, 0, &bytes).unwrap();
        let alone = VolumeSpace { exclusive_blocks: 40, shared_blocks: 0 };
        assert_eq!(pool.volume_space("a", &StopFlag::new()).unwrap(), alone, "{policy:?}");
        pool.snapshot_volume("a", "s").unwrap();
        let shared = VolumeSpace { exclusive_blocks: 0, shared_blocks: 40 };
        for name in ["a", "s"] {
            assert_eq!(pool.volume_space(name, &StopFlag::new()).unwrap(), shared, "{policy:?}");
        }
        // Contents 1 to 10 are at two LBNs each, and the volume overwrites one of these.
        let fresh: Vec<u8> = (0..15).flat_map(|id| content(100 + id, BLOCK)).collect();
        write(&a, 0, &fresh).unwrap();
        let space = pool.snapshot_space(&StopFlag::new()).unwrap();
        assert_eq!((space.logical_blocks, space.physical_blocks), (100, 55));
        assert_eq!(
            (space.logical_blocks_without_snapshots, space.physical_blocks_without_snapshots),
            (50, 50)
        );
        let of_s = pool.volume_space("s", &StopFlag::new()).unwrap();
        assert_eq!(of_s, VolumeSpace { exclusive_blocks: 5, shared_blocks: 35 }, "{policy:?}");
        let before = pool.stat().unwrap().physical_blocks;
        pool.remove_volume("s").unwrap();
        assert_eq!(pool.stat().unwrap().physical_blocks, before - 5, "{policy:?}");
        let gone = pool.volume_space("s", &StopFlag::new());
        assert!(matches!(gone, Err(VolumeError::NoSuchVolume { .. })));
        let stop = StopFlag::new();
        stop.raise();
        assert!(matches!(pool.volume_space("a", &stop), Err(VolumeError::Interrupted)));
    }
}
