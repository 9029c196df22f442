//! Blocks with several references: which of them move, and where to.

use super::*;

/// A scattered off-line volume, and another one that shares stretches of 50 blocks with it.
#[test]
fn volumes_that_share_stretches_are_read_with_few_seeks_afterwards() {
    const STRETCH: u64 = 50;
    let simulation = Simulation::new(1);
    let PoolDisks { data, metadata, .. } = simulation.disks();
    let data = Arc::new(SeekDisk::new(data));
    let disks = PoolDisks::new(Arc::clone(&data) as Arc<dyn Disk>, metadata);
    Pool::format(&disks, &options_with(Policy::Compact, POOL_BLOCKS)).unwrap();
    let pool = open(&disks, Tuning { content_cache_bytes: Some(0), ..tuning() }).unwrap();
    for name in ["a", "b"] {
        pool.create_volume(name, BLOCKS * BLOCK as u64, DedupMode::Offline).unwrap();
    }
    let [a, b] = ["a", "b"].map(|name| pool.volume(name).unwrap());
    let of_a = scatter(&a);
    let mut of_b = of_a.clone();
    let mut random = Random::new(9);
    let mut left: Vec<u64> = (0..BLOCKS).collect();
    while !left.is_empty() {
        let lbn = left.swap_remove(random.below(left.len() as u64) as usize);
        let bytes = &mut of_b[at(lbn) as usize..at(lbn + 1) as usize];
        if lbn / STRETCH % 2 == 1 {
            bytes.copy_from_slice(&content(40_000 + lbn, BLOCK));
        }
        write(&b, at(lbn), bytes).unwrap();
    }
    pool.find(&Silent, &StopFlag::new()).unwrap();
    flush(&b).unwrap();
    let stored = pool.stat().unwrap().physical_blocks;
    assert_eq!(stored, BLOCKS + BLOCKS / 2);
    let seeks = |volume: &Volume, expected: &[u8]| {
        data.take();
        for part in (0..BLOCKS).step_by(100) {
            let bytes = read(volume, at(part), 100 * BLOCK).unwrap();
            assert!(bytes == expected[at(part) as usize..at(part + 100) as usize]);
        }
        data.take().seeks
    };
    let before = [seeks(&a, &of_a), seeks(&b, &of_b)];
    arrange(&pool);
    flush(&b).unwrap();
    let after = [seeks(&a, &of_a), seeks(&b, &of_b)];
    eprintln!("seeks of both volumes: {before:?} and {after:?}");
    assert_eq!(pool.stat().unwrap().physical_blocks, stored, "nothing is stored twice");
    assert!(before.iter().all(|seeks| *seeks > 300), "{before:?}");
    assert!(after[0] <= 8 && after[1] <= 3 * BLOCKS / STRETCH, "{after:?}");
}

/// Two scattered volumes with the same contents, each at other LBNs than in the other one.
fn two_volumes(policy: Policy) -> (World, Volume, Vec<u8>) {
    let world = World::new(policy, DedupMode::Offline);
    // The blocks of the first volume become known, so those of the other one are given up.
    world.pool.find(&Silent, &StopFlag::new()).unwrap();
    world.pool.create_volume("b", BLOCKS * BLOCK as u64, DedupMode::Offline).unwrap();
    let other = world.pool.volume("b").unwrap();
    let of = |lbn: u64| &world.expected[at(lbn) as usize..at(lbn + 1) as usize];
    let turned = |lbn: u64| of((lbn + BLOCKS / 2) % BLOCKS);
    for lbn in 0..BLOCKS {
        write(&other, at(lbn), turned(lbn)).unwrap();
    }
    let expected = (0..BLOCKS).flat_map(turned).copied().collect();
    world.pool.find(&Silent, &StopFlag::new()).unwrap();
    flush(&other).unwrap();
    (world, other, expected)
}

#[test]
fn shared_blocks_move_with_all_their_references_to_the_order_of_the_first() {
    for policy in Policy::ALL {
        let (world, other, expected) = two_volumes(policy);
        assert_eq!(world.pool.stat().unwrap().physical_blocks, BLOCKS, "{policy:?}");
        assert!(world.share() < 0.05, "{policy:?}: {}", world.share());
        let report = world.arrange();
        assert_eq!((report.moved_blocks, report.overtaken_blocks), (BLOCKS, 0), "{policy:?}");
        let orders = world.pool.volumes();
        let share = |at: usize| orders[at].layout.sequential_share().unwrap();
        assert!(share(0) > 0.95 && share(1) > 0.95, "{policy:?}: {} {}", share(0), share(1));
        world.assert_intact();
        assert!(read(&other, 0, expected.len()).unwrap() == expected, "{policy:?}");
        flush(&other).unwrap();
        assert_eq!(world.pool.stat().unwrap().physical_blocks, BLOCKS, "{policy:?}");
        assert_eq!(world.arrange().moved_blocks, 0, "no volume moves them away again");
        drop(other);
        world.check();
    }
}

#[test]
fn blocks_with_many_references_move() {
    const VOLUMES: usize = 20;
    for policy in Policy::ALL {
        let world = World::new(policy, DedupMode::Offline);
        world.pool.find(&Silent, &StopFlag::new()).unwrap();
        let bytes = BLOCKS * BLOCK as u64;
        for name in 1..VOLUMES {
            let name = name.to_string();
            world.pool.create_volume(&name, bytes, DedupMode::Inline).unwrap();
            let volume = world.pool.volume(&name).unwrap();
            write(&volume, 0, &world.expected).unwrap();
            flush(&volume).unwrap();
        }
        assert_eq!(world.pool.stat().unwrap().physical_blocks, BLOCKS, "{policy:?}");
        let report = world.arrange();
        assert_eq!((report.moved_blocks, report.overtaken_blocks), (BLOCKS, 0), "{policy:?}");
        let volumes = world.pool.volumes();
        let share = |at: usize| volumes[at].layout.sequential_share().unwrap();
        assert!((0..VOLUMES).all(|at| share(at) > 0.95), "{policy:?}: {}", share(0));
        world.assert_intact();
        world.check();
    }
}

#[test]
fn what_was_moved_with_its_references_survives_a_power_cut() {
    for policy in Policy::ALL {
        let (world, other, expected) = two_volumes(policy);
        world.arrange();
        flush(&other).unwrap();
        drop(other);
        let World { simulation, pool, volume, expected: of_a } = world;
        let after = simulation.after_worst_crash();
        drop((volume, pool));
        let pool = open(&after.disks(), tuning()).unwrap();
        for (name, expected) in [("a", of_a), ("b", expected)] {
            let volume = pool.volume(name).unwrap();
            assert!(read(&volume, 0, expected.len()).unwrap() == expected, "{policy:?} {name}");
        }
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
        pool.close().unwrap();
        let options = CheckOptions { data: true };
        let report = check(&after.disks(), options, &Silent, &StopFlag::new()).unwrap();
        assert!(report.is_clean(), "{policy:?}: {:?}", report.problems);
    }
}

#[test]
fn blocks_that_a_snapshot_has_as_well_move_with_it() {
    for policy in Policy::ALL {
        let world = World::new(policy, DedupMode::Off);
        world.pool.snapshot_volume("a", "before").unwrap();
        let physical = world.pool.stat().unwrap().physical_blocks;
        // The block of another LBN of the same page is the volume's own from now on.
        write(&world.volume, 0, &world.expected[..BLOCK]).unwrap();
        let report = world.arrange();
        // The snapshot has a block of its own at LBN 0, which alone is not worth it.
        assert_eq!((report.moved_blocks, report.overtaken_blocks), (BLOCKS, 0), "{policy:?}");
        assert_eq!(world.pool.stat().unwrap().physical_blocks, physical + 1, "{policy:?}");
        for at in 0..2 {
            let share = world.pool.volumes()[at].layout.sequential_share().unwrap();
            assert!(share > 0.95, "{policy:?}: {share}");
        }
        assert_eq!(world.arrange().moved_blocks, 0, "{policy:?}");
        let before = world.pool.volume("before").unwrap();
        assert!(read(&before, 0, world.expected.len()).unwrap() == world.expected);
        drop(before);
        world.assert_intact();
        world.check();
    }
}
