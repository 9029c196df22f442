//! Every page of the metadata flipped or cut off: the damage is found, no wrong content is served,
//! and a repair keeps all that is intact.

use crate::common::aged::age;
use crate::common::driver::{Driver, Model, check_recovered};
use crate::common::shape::{twins, used_pages};
use crate::common::simulated::Simulation;
use crate::common::{
    BLOCK, any_compression, content, flush, open, options, options_with, read, rounds, tuning,
    tuning_on_disk, write,
};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, CheckReport, check, check_within};
use gemelo_device::DeviceError;
use gemelo_format::{
    DedupMode, Policy, PoolSeed, Root, Slot, build_chain, find_roots, read_chain, read_superblock,
};
use gemelo_store::PoolDisks;
use gemelo_volume::{
    LossChoice, Pool, PoolOptions, RepairCost, RepairOptions, Tuning, VolumeError, repair_outlook,
    repair_outlook_within, repair_within,
};

const PAGE: usize = 4096;

/// Every policy, with a few seeds each.
fn lives(usual: u64) -> impl Iterator<Item = (Policy, u64)> {
    let seeds = 0..rounds(usual);
    Policy::ALL.into_iter().flat_map(move |policy| seeds.clone().map(move |seed| (policy, seed)))
}

/// Checks a pool. With little memory, in which a few dozen blocks are compared at once, the check
/// finds the same.
fn check_with(disks: &PoolDisks, data: bool) -> CheckReport {
    let (options, stop) = (CheckOptions { data }, StopFlag::new());
    let report = check(disks, options, &Silent, &stop).unwrap();
    let in_order = |mut report: CheckReport| {
        report.problems.sort_unstable_by(|one, other| one.what.cmp(&other.what));
        report
    };
    let little = check_within(1 << 10, disks, options, &Silent, &stop).unwrap();
    assert_eq!(in_order(little), in_order(report.clone()));
    report
}

/// Repairs a pool with little memory. Returns the losses, which were announced before.
fn repair_with(disks: &PoolDisks, data: bool) -> Result<Vec<RepairCost>, VolumeError> {
    let outlook = repair_outlook(disks, data, &Silent, &StopFlag::new()).unwrap();
    let little = repair_outlook_within(1 << 10, disks, data, &Silent, &StopFlag::new());
    assert_eq!(little.unwrap(), outlook);
    let options = RepairOptions { data, choice: LossChoice::RollBack };
    let given_up = repair_within(1 << 10, disks, options, &Silent, &StopFlag::new())?;
    assert_eq!(given_up, outlook.roll_back);
    Ok(given_up.costs)
}

/// Makes a pool and a model of it by random work.
fn worked_pool(policy: Policy, seed: u64, is_closed: bool) -> (Simulation, Model) {
    let mut random = Random::new(seed);
    let simulation = Simulation::new(seed);
    // A third of the pools compress.
    let compression = (seed % 3 == 2).then(|| any_compression(&mut random));
    let options = PoolOptions { compression, ..options_with(policy, 300) };
    Pool::format(&simulation.disks(), &options).unwrap();
    let mut model = Model::default();
    if seed % 2 == 1 {
        age(&simulation, &mut model, &mut random, tuning());
    }
    let pool = open(&simulation.disks(), tuning()).unwrap();
    let mut driver = Driver::new(&simulation, &pool, &mut model, &mut random);
    driver.may_fail = true;
    for _ in 0..150 {
        driver.step().unwrap();
    }
    if is_closed {
        pool.close().unwrap();
    } else {
        pool.flush().unwrap();
    }
    (simulation, model)
}

/// Returns the numbers of blocks with the right content and with damage. All else fails the test.
fn compare(pool: &Pool, model: &Model, what: &str) -> (u64, u64) {
    let (mut right, mut lost) = (0, 0);
    for (name, expected) in &model.volumes {
        let Ok(volume) = pool.volume(name) else { panic!("{what}: {name} is gone") };
        for (number, block) in expected.blocks.iter().enumerate() {
            match read(&volume, (number * BLOCK) as u64, BLOCK) {
                Ok(bytes) => {
                    assert!(bytes == block.live, "{what}: block {number} of {name} is wrong");
                    right += 1;
                }
                Err(DeviceError::Damaged { .. }) => lost += 1,
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
    (right, lost)
}

/// Writes to a damaged pool. Cached pages may be found damaged at any time: the request that needs
/// one fails, and nothing else goes wrong.
fn try_writes(pool: &Pool, model: &Model, what: &str) {
    for (name, expected) in model.volumes.iter().filter(|(_, volume)| !volume.read_only) {
        let volume = pool.volume(name).unwrap();
        for (number, block) in expected.blocks.iter().enumerate() {
            let _ = write(&volume, (number * BLOCK) as u64, &block.live);
        }
    }
    let _ = pool.checkpoint();
    compare(pool, model, what);
}

/// The ways in which damage to a closed pool was noticed.
#[derive(Debug, PartialEq, Eq)]
enum Noticed {
    No,
    Yes,
    /// An opening was refused because the newest root or its pages are lost. A repair goes back to
    /// older contents.
    RootLost,
}

/// Damages a closed pool in this way.
fn damaged(
    (images, model): (&[Vec<u8>; 2], &Model),
    what: &str,
    damage: impl FnOnce(&mut Vec<u8>),
) -> Noticed {
    let mut images = images.clone();
    damage(&mut images[1]);
    let simulation = Simulation::of_images(1, images);
    let disks = simulation.disks();
    let Ok(report) = check(&disks, CheckOptions::default(), &Silent, &StopFlag::new()) else {
        assert!(open(&disks, tuning()).is_err(), "{what}: opened, but not checked");
        return Noticed::Yes;
    };
    match open(&disks, tuning()) {
        Ok(pool) => {
            let (_, lost) = compare(&pool, model, what);
            try_writes(&pool, model, what);
            assert!(!report.is_clean() || pool.damage().is_empty() && lost == 0, "{what}");
        }
        Err(_) => assert!(!report.is_clean(), "{what}: refused, but clean"),
    }
    if report.is_clean() {
        return Noticed::No;
    }
    let outlook = repair_outlook(&disks, false, &Silent, &StopFlag::new()).unwrap();
    let lost = outlook.lost_history;
    assert!(lost.is_none() || open(&disks, tuning()).is_err(), "{what}: old contents are served");
    let is_root_lost = lost.is_some_and(|lost| lost.what.starts_with("the root of checkpoint"));
    if repair_with(&disks, false).is_ok() {
        let superblock = read_superblock(&*disks.metadata, &mut Vec::new()).unwrap();
        let least = superblock.regions().fixed_bytes();
        assert!(disks.metadata.len().unwrap() >= least, "{what}: too short after the repair");
        let again = check_with(&disks, true);
        assert!(again.is_clean(), "{what}: after the repair {:?}", again.problems.first());
        let pool = open(&disks, tuning()).unwrap();
        assert!(!pool.is_read_only());
        if !is_root_lost {
            compare(&pool, model, what);
        }
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
    }
    if is_root_lost { Noticed::RootLost } else { Noticed::Yes }
}

fn newest_root_of(simulation: &Simulation) -> [u64; 2] {
    let disk = simulation.disks().metadata;
    let superblock = read_superblock(&*disk, &mut Vec::new()).unwrap();
    let roots = find_roots(&*disk, &superblock, PoolSeed::of(&superblock)).unwrap();
    Root::offsets(roots.newest.generation)
}

#[test]
fn no_flipped_byte_of_the_metadata_gives_wrong_data() {
    for (policy, seed) in lives(3) {
        let (simulation, model) = worked_pool(policy, seed, true);
        let images = simulation.images();
        let mut random = Random::new(seed);
        let mut noticed = 0;
        let used = used_pages(&images[1]);
        let newest_root = newest_root_of(&simulation).map(|offset| offset as usize);
        for twins in twins(&images[1]) {
            if !twins.iter().any(|offset| used.contains(&(offset / PAGE))) {
                continue;
            }
            // One copy, the other one, and both of them.
            for hit in [&twins[..1], &twins[1..], &twins[..]] {
                let within = random.below(PAGE as u64) as usize;
                let bit = 1u8 << random.below(8);
                let what = format!("{policy:?}, seed {seed}, pages {hit:?}, byte {within}");
                let found = damaged((&images, &model), &what, |metadata| {
                    hit.iter().for_each(|offset| metadata[offset + within] ^= bit);
                });
                assert!(*hit != newest_root || found == Noticed::RootLost, "{what}: {found:?}");
                noticed += u64::from(found != Noticed::No);
            }
        }
        assert!(noticed >= 6, "{noticed}: the root and its table are hit three times each");
    }
}

#[test]
fn no_cut_off_metadata_gives_wrong_data() {
    Policy::ALL.into_iter().for_each(cut_off);
}

fn cut_off(policy: Policy) {
    let (simulation, model) = worked_pool(policy, 7, true);
    let images = simulation.images();
    let used = used_pages(&images[1]);
    let pages = 0..images[1].len() / PAGE;
    for length in pages.filter(|page| used.contains(page) || page % 16 == 0).map(|page| page * PAGE)
    {
        let what = format!("{policy:?} cut to {length} bytes");
        damaged((&images, &model), &what, |metadata| metadata.truncate(length));
    }
}

/// Makes a pool with a commit for each of four blocks after the last checkpoint.
fn journaled() -> [Vec<u8>; 2] {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options(100)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    pool.create_volume("a", 8 * BLOCK as u64, DedupMode::Inline).unwrap();
    pool.checkpoint().unwrap();
    let volume = pool.volume("a").unwrap();
    for block in 0..4u64 {
        write(&volume, block * BLOCK as u64, &content(block + 1, BLOCK)).unwrap();
        flush(&volume).unwrap();
    }
    simulation.images()
}

/// The pages at which the two copies of each commit begin, by the number of the commit.
fn commits(metadata: &[u8]) -> Vec<[usize; 2]> {
    let mut found: Vec<(u64, usize)> = (0..metadata.len() / PAGE)
        .filter(|page| metadata[page * PAGE..].starts_with(b"GEMELOJC"))
        .map(|page| {
            let number = metadata[page * PAGE + 8..page * PAGE + 16].try_into().unwrap();
            (u64::from_le_bytes(number), page)
        })
        .collect();
    found.sort_unstable();
    found.as_chunks::<2>().0.iter().map(|[a, b]| [a.1, b.1]).collect()
}

#[test]
fn one_damaged_copy_of_any_commit_is_no_loss() {
    let images = journaled();
    for page in commits(&images[1]).into_iter().flatten() {
        for byte in [9, 50] {
            let mut images = images.clone();
            images[1][page * PAGE + byte] ^= 1;
            let simulation = Simulation::of_images(1, images);
            let pool = open(&simulation.disks(), tuning()).unwrap();
            let volume = pool.volume("a").unwrap();
            for block in 0..4u64 {
                let found = read(&volume, block * BLOCK as u64, BLOCK).unwrap();
                assert_eq!(found, content(block + 1, BLOCK), "page {page}, byte {byte}");
            }
        }
    }
}

#[test]
fn a_damaged_commit_is_told_from_one_that_a_crash_cut_off() {
    let images = journaled();
    let pages = commits(&images[1]);
    let last_four = &pages[pages.len() - 4..];
    for (number, copies) in last_four.iter().enumerate() {
        for byte in [9, 50] {
            let mut images = images.clone();
            copies.iter().for_each(|page| images[1][page * PAGE + byte] ^= 1);
            let simulation = Simulation::of_images(1, images);
            let report = check_with(&simulation.disks(), false);
            if number < 3 {
                assert!(open(&simulation.disks(), tuning()).is_err(), "commit {number}");
                assert!(!report.is_clean());
                let undone = (3 - number) as u64;
                let cost = RepairCost { volume: "a".into(), lost_blocks: 0, undone_blocks: undone };
                assert_eq!(repair_with(&simulation.disks(), false).unwrap(), [cost]);
                assert!(check_with(&simulation.disks(), true).is_clean());
            } else {
                assert!(report.is_clean());
            }
            let pool = open(&simulation.disks(), tuning()).unwrap();
            let volume = pool.volume("a").unwrap();
            for block in 0..4u64 {
                let expected = if (block as usize) < number {
                    content(block + 1, BLOCK)
                } else {
                    vec![0; BLOCK]
                };
                assert_eq!(
                    read(&volume, block * BLOCK as u64, BLOCK).unwrap(),
                    expected,
                    "commit {number}"
                );
            }
        }
    }
}

#[test]
fn a_repair_keeps_every_intact_block_when_a_commit_about_another_volume_is_lost() {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options(300)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    for name in ["kept", "other"] {
        pool.create_volume(name, 64 * BLOCK as u64, DedupMode::Off).unwrap();
    }
    let kept: Vec<u8> = (1..=64).flat_map(|id| content(id, BLOCK)).collect();
    write(&pool.volume("kept").unwrap(), 0, &kept).unwrap();
    pool.checkpoint().unwrap();
    for id in 100..102u64 {
        write(&pool.volume("other").unwrap(), 0, &content(id, BLOCK)).unwrap();
        pool.flush().unwrap();
    }
    let mut images = simulation.images();
    let pages = commits(&images[1]);
    pages[pages.len() - 2].iter().for_each(|page| images[1][page * PAGE + 50] ^= 1);
    let simulation = Simulation::of_images(1, images);
    assert!(open(&simulation.disks(), tuning()).is_err());
    let given_up = repair_with(&simulation.disks(), false).unwrap();
    let cost = RepairCost { volume: "other".into(), lost_blocks: 0, undone_blocks: 1 };
    assert_eq!(given_up, [cost]);
    let pool = open(&simulation.disks(), tuning()).unwrap();
    assert_eq!(read(&pool.volume("kept").unwrap(), 0, kept.len()).unwrap(), kept);
}

#[test]
fn history_that_is_lost_never_shows_what_another_block_holds() {
    // Block 0 is freed and its PBN reused for block 5, in commits that follow a damaged one.
    let simulation = Simulation::new(1);
    // Two blocks of the store are the header and its copy.
    Pool::format(&simulation.disks(), &options(11)).unwrap();
    let pool = open(&simulation.disks(), tuning_on_disk()).unwrap();
    pool.create_volume("a", 64 * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    write(&volume, 0, &content(1, BLOCK)).unwrap();
    pool.checkpoint().unwrap();
    crate::common::trim(&volume, 0, BLOCK as u64).unwrap();
    flush(&volume).unwrap();
    for block in 0..9u64 {
        write(&volume, (5 + block) * BLOCK as u64, &content(100 + block, BLOCK)).unwrap();
    }
    flush(&volume).unwrap();
    let mut images = simulation.images();
    let pages = commits(&images[1]);
    let trim_commit = pages[pages.len() - 2];
    trim_commit.iter().for_each(|page| images[1][page * PAGE + 50] ^= 1);
    let simulation = Simulation::of_images(1, images);
    assert!(open(&simulation.disks(), tuning()).is_err());
    repair_with(&simulation.disks(), false).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    let found = read(&pool.volume("a").unwrap(), 0, BLOCK);
    assert!(matches!(found, Err(DeviceError::Damaged { .. })), "{found:?}");
}

#[test]
fn a_damaged_content_is_found_by_a_scrub_and_by_verified_reads() {
    Policy::ALL.into_iter().for_each(damage_content);
}

fn damage_content(policy: Policy) {
    let (simulation, _) = worked_pool(policy, 3, true);
    let pool = open(&simulation.disks(), tuning()).unwrap();
    pool.create_volume("scrubbed", 4 * BLOCK as u64, DedupMode::Inline).unwrap();
    let mark = content(777, BLOCK);
    write(&pool.volume("scrubbed").unwrap(), BLOCK as u64, &mark).unwrap();
    pool.close().unwrap();
    let mut images = simulation.images();
    let at = images[0].windows(BLOCK).position(|bytes| bytes == mark).unwrap();
    images[0][at + 17] ^= 0x40;
    let simulation = Simulation::of_images(1, images);
    assert!(check_with(&simulation.disks(), false).is_clean());
    let report = check_with(&simulation.disks(), true);
    assert_eq!(report.problems.len(), 1);
    assert!(report.problems[0].what.contains("block 1 of 'scrubbed'"), "{:?}", report.problems);
    let pool = open(&simulation.disks(), Tuning { verify_reads: true, ..tuning() }).unwrap();
    let volume = pool.volume("scrubbed").unwrap();
    let is_damaged = |result| matches!(result, Err(DeviceError::Damaged { offset: 512 }));
    assert!(is_damaged(read(&volume, 0, 4 * BLOCK)));
    assert!(is_damaged(read(&volume, 700, 10)));
    assert!(read(&volume, 0, BLOCK).is_ok());
    pool.close().unwrap();
    repair_with(&simulation.disks(), true).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    let volume = pool.volume("scrubbed").unwrap();
    assert!(is_damaged(read(&volume, 0, 4 * BLOCK)), "the repair says what is lost");
    write(&volume, BLOCK as u64, &mark).unwrap();
    assert_eq!(read(&volume, BLOCK as u64, BLOCK).unwrap(), mark, "and a write makes it good");
}

#[test]
fn the_data_store_of_another_pool_is_refused() {
    let (one, _) = worked_pool(Policy::Compact, 1, true);
    let (two, _) = worked_pool(Policy::Dtb, 2, true);
    let disks = PoolDisks::new(one.disks().data, two.disks().metadata);
    assert!(open(&disks, tuning()).is_err());
}

#[test]
fn a_crashed_pool_passes_the_check() {
    for (policy, seed) in lives(20) {
        let (simulation, mut model) = worked_pool(policy, seed, false);
        let simulation = simulation.after_crash(seed);
        let report = check_with(&simulation.disks(), true);
        assert!(report.is_clean(), "{policy:?}, seed {seed}: {:?}", report.problems);
        let pool = open(&simulation.disks(), tuning()).unwrap();
        check_recovered(&pool, &mut model);
        let stat = pool.stat().unwrap();
        assert_eq!(
            (report.references, report.physical_blocks),
            (stat.logical_blocks, stat.physical_blocks)
        );
        assert_eq!(report.free_blocks, stat.free_blocks);
    }
}

/// Replaces the table of the newest checkpoint, with valid checksums.
fn replace_table(metadata: &mut Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) {
    let simulation = Simulation::of_images(1, [Vec::new(), metadata.clone()]);
    let disk = simulation.disks().metadata;
    let superblock = read_superblock(&*disk, &mut Vec::new()).unwrap();
    let seed = PoolSeed::of(&superblock);
    let mut root = find_roots(&*disk, &superblock, seed).unwrap().newest;
    let chain = read_chain(&*disk, &superblock, &root, seed).unwrap();
    let mut stream = chain.stream;
    change(&mut stream);
    // More slots than there are pages, so they are free.
    let mut next = metadata.len() / PAGE;
    let chain = build_chain(&stream, seed, || {
        next += 1;
        Slot::new(next as u32)
    })
    .unwrap();
    for (slot, page) in chain.pages {
        for offset in superblock.regions().slot(slot) {
            let offset = offset as usize;
            metadata.resize(metadata.len().max(offset + PAGE), 0);
            metadata[offset..offset + PAGE].copy_from_slice(&*page);
        }
    }
    (root.table, root.table_bytes) = (chain.first, stream.len() as u64);
    for offset in Root::offsets(root.generation) {
        metadata[offset as usize..offset as usize + PAGE]
            .copy_from_slice(&*root.encode(&superblock, seed));
    }
}

#[test]
fn a_table_that_makes_no_sense_is_an_error_and_no_panic() {
    let images = Policy::ALL.map(|policy| worked_pool(policy, 1, true).0.images());
    for (images, seed) in
        images.iter().flat_map(|images| (0..rounds(100)).map(move |seed| (images, seed)))
    {
        let mut random = Random::new(seed);
        let [data, mut metadata] = images.clone();
        replace_table(&mut metadata, |stream| {
            for _ in 0..=random.below(3) {
                let at = random.below(stream.len() as u64) as usize;
                stream[at] = random.next_u64() as u8;
            }
        });
        let simulation = Simulation::of_images(1, [data, metadata]);
        let disks = simulation.disks();
        let _ = check(&disks, CheckOptions::default(), &Silent, &StopFlag::new());
        if let Ok(pool) = open(&disks, tuning()) {
            let _ = (pool.prove(1), pool.stat(), pool.checkpoint());
            for volume in pool.volumes().iter().take(3) {
                let held = pool.volume(&volume.record.name).unwrap();
                let _ =
                    (read(&held, 0, BLOCK), write(&held, 0, &content(seed, BLOCK)), flush(&held));
                let _ = pool.remove_volume(&volume.record.name);
            }
        }
        let options = CheckOptions { data: true };
        let checked = check(&disks, options, &Silent, &StopFlag::new());
        if checked.is_ok_and(|report| !report.is_clean()) {
            let _ = repair_with(&disks, true);
        }
    }
}
