//! The space of volumes, counted from the disks.

use super::simulated::Simulation;
use gemelo_base::StopFlag;
use gemelo_check::{CheckReport, Walk, WalkVolume};
use gemelo_format::{Pbn, StoreKind};
use gemelo_volume::{Pool, SnapshotSpace, VolumeSpace};
use std::collections::BTreeSet;

fn pbns<'v>(walk: &Walk, volumes: impl IntoIterator<Item = &'v WalkVolume>) -> BTreeSet<Pbn> {
    let places = volumes.into_iter().flat_map(|volume| walk.places(volume).unwrap());
    places.filter_map(gemelo_format::MapEntry::pbn).collect()
}

/// The blocks of the data store that have a part of these contents.
fn blocks_of(kind: StoreKind, pbns: &BTreeSet<Pbn>) -> BTreeSet<u64> {
    pbns.iter().flat_map(|pbn| kind.first_block(*pbn)..=kind.last_block(*pbn)).collect()
}

fn references<'v>(walk: &Walk, volumes: impl Iterator<Item = &'v WalkVolume>) -> u64 {
    let places = volumes.flat_map(|volume| walk.places(volume).unwrap());
    places.filter(|place| place.pbn().is_some()).count() as u64
}

/// Compares the space of every volume, and of the pool, with a count from the disks.
pub fn compare_space(simulation: &Simulation, pool: &Pool, what: &str) {
    pool.flush().unwrap();
    // A content that was moved with all references takes its old place until a checkpoint.
    if pool.stat().unwrap().pending_blocks > 0 {
        pool.checkpoint().unwrap();
    }
    let mut report = CheckReport::default();
    let walk = Walk::of(&simulation.disks(), &mut report).unwrap().unwrap();
    let all: Vec<&WalkVolume> = walk.volumes.values().collect();
    for summary in pool.volumes() {
        let id = summary.record.id;
        let own = pbns(&walk, [&walk.volumes[&id]]);
        let others = pbns(&walk, all.iter().copied().filter(|volume| volume.record.id != id));
        let kind = walk.superblock.store;
        let (own, others) = (blocks_of(kind, &own), blocks_of(kind, &others));
        let expected = VolumeSpace {
            exclusive_blocks: own.difference(&others).count() as u64,
            shared_blocks: own.intersection(&others).count() as u64,
        };
        let found = pool.volume_space(&summary.record.name, &StopFlag::new()).unwrap();
        assert_eq!(found, expected, "{what}: {}", summary.record.name);
    }
    let live = || all.iter().copied().filter(|volume| !volume.record.read_only);
    let expected = SnapshotSpace {
        logical_blocks: references(&walk, all.iter().copied()),
        physical_blocks: pbns(&walk, all.iter().copied()).len() as u64,
        logical_blocks_without_snapshots: references(&walk, live()),
        physical_blocks_without_snapshots: pbns(&walk, live()).len() as u64,
        used_blocks: blocks_of(walk.superblock.store, &pbns(&walk, all.iter().copied())).len()
            as u64,
        used_blocks_without_snapshots: blocks_of(walk.superblock.store, &pbns(&walk, live())).len()
            as u64,
    };
    assert_eq!(pool.snapshot_space(&StopFlag::new()).unwrap(), expected, "{what}");
}
