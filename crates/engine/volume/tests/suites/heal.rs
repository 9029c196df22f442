//! Damaged contents that have another copy: a repair heals them as a scrub does, from the same
//! proof, and gives up only what has none.

use crate::common::hold::Call;
use crate::common::simulated::{DATA, METADATA, Simulation};
use crate::common::stored::{Stored, copies_of};
use crate::common::{
    BLOCK, Kind, content, first_seed, kinds, open, options_of, options_with, read, rounds,
    tuning_on_disk, write,
};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, CheckReport, check};
use gemelo_format::{
    Compression, DedupMode, Fingerprint, FingerprintKind, Fingerprinter, PackedPlace, Policy,
    read_superblock,
};
use gemelo_store::{Copies, PoolDisks};
use gemelo_volume::{
    LossChoice, Pool, PoolOptions, RepairOptions, RepairPlan, ScrubOptions, Tuning, VolumeError,
    repair, repair_outlook,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const MARK: u64 = 777;
/// LBNs of the in-line volume that have the content.
const SHARED: u64 = 8;

/// Settings with which contents are read from the disk, where they rot.
fn tuning() -> Tuning {
    Tuning { content_cache_bytes: Some(0), ..tuning_on_disk() }
}

fn check_data(disks: &PoolDisks) -> CheckReport {
    check(disks, CheckOptions { data: true }, &Silent, &StopFlag::new()).unwrap()
}

/// Repairs a pool. Returns what was given up, which has to be what was announced.
fn repair_data(disks: &PoolDisks) -> Result<RepairPlan, VolumeError> {
    let outlook = repair_outlook(disks, true, &Silent, &StopFlag::new())?;
    let options = RepairOptions { data: true, choice: LossChoice::RollBack };
    let plan = repair(disks, options, &Silent, &StopFlag::new())?;
    assert_eq!(plan, outlook.roll_back, "what was announced");
    Ok(plan)
}

/// Makes a pool in which an in-line volume has a content eight times and another volume has a copy
/// of its own.
fn pool_with_copy(options: &PoolOptions, other: DedupMode) -> Simulation {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), options).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    for (name, mode) in [("in", DedupMode::Inline), ("other", other)] {
        pool.create_volume(name, 64 * BLOCK as u64, mode).unwrap();
    }
    let (shared, other) = (pool.volume("in").unwrap(), pool.volume("other").unwrap());
    for lbn in 0..SHARED {
        write(&shared, lbn * BLOCK as u64, &content(MARK, BLOCK)).unwrap();
    }
    write(&shared, 50 * BLOCK as u64, &content(5, BLOCK)).unwrap();
    write(&other, 0, &content(MARK, BLOCK)).unwrap();
    pool.close().unwrap();
    simulation
}

/// The places on the data disk that hold the content.
fn copies(simulation: &Simulation) -> Vec<Stored> {
    copies_of(simulation, &content(MARK, BLOCK))
}

fn flip(simulation: &Simulation, stored: Stored) {
    let at = stored.at as u64;
    let mut byte = [0];
    simulation.disks().data.read_at(at, &mut byte).unwrap();
    simulation.disks().data.write_at(at, &[byte[0] ^ 4]).unwrap();
}

/// Blocks of a volume from 0 on that have the content; the others fail.
fn right(pool: &Pool, name: &str, blocks: u64) -> u64 {
    let volume = pool.volume(name).unwrap();
    let reads = (0..blocks).map(|lbn| read(&volume, lbn * BLOCK as u64, BLOCK));
    reads.filter_map(Result::ok).inspect(|bytes| assert!(*bytes == content(MARK, BLOCK))).count()
        as u64
}

fn assert_whole(simulation: &Simulation, what: &str) {
    let pool = open(&simulation.disks(), tuning()).unwrap();
    assert_eq!((right(&pool, "in", SHARED), right(&pool, "other", 1)), (SHARED, 1), "{what}");
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{what}");
    pool.close().unwrap();
    let report = check_data(&simulation.disks());
    assert!(report.is_sound() && report.lost_blocks == 0, "{what}: {:?}", report.problems);
}

/// A way to use a damaged pool before it is mended.
#[derive(Debug, Clone, Copy)]
enum Before {
    Nothing,
    /// Reads find the damage, and mark the block.
    Reads,
    /// A check finds the damage, and it is recorded.
    Check,
}

#[test]
fn what_has_another_copy_is_whole_after_a_repair_and_after_a_scrub() {
    for kind in kinds() {
        for other in [DedupMode::Off, DedupMode::Offline] {
            for before in [Before::Nothing, Before::Reads, Before::Check] {
                for repairs in [true, false] {
                    let what = format!("{kind:?}, {other:?}, {before:?}, repairs {repairs}");
                    let simulation = pool_with_copy(&options_of(kind, 100), other);
                    let damaged = copies(&simulation)[0];
                    let is_packed = !PackedPlace::of(damaged.pbn).is_whole();
                    assert_eq!(is_packed, kind.1.is_some(), "{what}");
                    flip(&simulation, damaged);
                    let damaged = damaged.pbn.number();
                    match before {
                        Before::Nothing => {}
                        Before::Reads => {
                            let pool = open(&simulation.disks(), tuning()).unwrap();
                            assert_eq!(right(&pool, "in", SHARED), 0, "{what}");
                            pool.close().unwrap();
                        }
                        Before::Check => {
                            let report = check_data(&simulation.disks());
                            assert_eq!(report.damaged_blocks, [damaged], "{what}");
                            let blocks = report.damaged_blocks;
                            gemelo_volume::record_damage(&simulation.disks(), &blocks).unwrap();
                        }
                    }
                    if repairs {
                        let plan = repair_data(&simulation.disks()).unwrap();
                        assert_eq!(plan.costs, [], "{what}");
                        assert_eq!(plan.healed_blocks, [damaged], "{what}");
                    } else {
                        let pool = open(&simulation.disks(), tuning()).unwrap();
                        let options = ScrubOptions { heals: true, ..ScrubOptions::default() };
                        let report = pool.scrub(options, &Silent, &StopFlag::new()).unwrap();
                        assert_eq!(
                            (report.is_clean(), report.healed_contents),
                            (true, 1),
                            "{what}"
                        );
                        pool.close().unwrap();
                    }
                    assert_whole(&simulation, &what);
                }
            }
        }
    }
}

/// A block that cannot be read at all, and a data disk that has lost its end, are healed as well.
#[test]
fn a_block_that_is_gone_is_healed() {
    for policy in Policy::ALL {
        // The copy of the off-line volume lies before the damaged block.
        let simulation = pool_with_copy(&options_with(policy, 100), DedupMode::Off);
        let pool = open(&simulation.disks(), tuning()).unwrap();
        pool.create_volume("later", 64 * BLOCK as u64, DedupMode::Off).unwrap();
        write(&pool.volume("later").unwrap(), 0, &content(9, BLOCK)).unwrap();
        let last = pool.volume("other").unwrap();
        write(&last, BLOCK as u64, &content(MARK, BLOCK)).unwrap();
        pool.set_mode("other", DedupMode::Offline).unwrap();
        pool.close().unwrap();
        let places: Vec<usize> =
            copies(&simulation).iter().map(|place| place.pbn.number() as usize).collect();
        assert_eq!(places.len(), 3);
        let [mut data, metadata] = simulation.images();
        data[places[0] * BLOCK..][..BLOCK].fill(0);
        data.truncate(places[2] * BLOCK);
        let simulation = Simulation::of_images(1, [data, metadata]);
        let plan = repair_data(&simulation.disks()).unwrap();
        // The last copy has no fingerprint, so nothing proves which content it had.
        assert_eq!(plan.healed_blocks, [places[0] as u64], "{policy:?}");
        let costs: Vec<_> =
            plan.costs.iter().map(|cost| (&*cost.volume, cost.lost_blocks)).collect();
        assert_eq!(costs, [("other", 1)], "{policy:?}");
        let pool = open(&simulation.disks(), tuning()).unwrap();
        assert_eq!((right(&pool, "in", SHARED), right(&pool, "other", 2)), (SHARED, 1));
    }
}

/// Without a fingerprint, or with one that does not prove equality, a copy proves nothing: the
/// block is lost, and never gets a content that is not certain.
#[test]
fn what_nothing_proves_is_given_up() {
    let weak = PoolOptions {
        fingerprint: FingerprintKind::Xxh3Compare,
        ..options_with(Policy::Compact, 100)
    };
    let strong = options_with(Policy::Compact, 100);
    let packed = PoolOptions { compression: Some(Compression::Lz4), ..strong.clone() };
    let weak_packed = PoolOptions { compression: Some(Compression::Lz4), ..weak.clone() };
    for (options, which, lost) in [
        (strong, 1, ("other", 1)),
        (packed, 1, ("other", 1)),
        (weak, 0, ("in", SHARED)),
        (weak_packed, 0, ("in", SHARED)),
    ] {
        let simulation = pool_with_copy(&options, DedupMode::Off);
        flip(&simulation, copies(&simulation)[which]);
        let plan = repair_data(&simulation.disks()).unwrap();
        assert!(plan.healed_blocks.is_empty());
        let costs: Vec<_> =
            plan.costs.iter().map(|cost| (&*cost.volume, cost.lost_blocks)).collect();
        assert_eq!(costs, [lost]);
        let pool = open(&simulation.disks(), tuning()).unwrap();
        let (shared, other) = (right(&pool, "in", SHARED), right(&pool, "other", 1));
        assert_eq!(shared + other, SHARED + 1 - lost.1);
    }
}

/// Contents that other members of a domain have.
struct Others {
    contents: BTreeMap<[u8; 16], Vec<u8>>,
}

impl Copies for Others {
    fn read(&self, wanted: &[Fingerprint], found: &mut dyn FnMut(&[u8])) {
        for fingerprint in wanted {
            // A content from another member is not trusted.
            found(&content(4, BLOCK));
            if let Some(bytes) = self.contents.get(&fingerprint.to_bytes()) {
                found(bytes);
            }
        }
    }
}

#[test]
fn other_members_heal_what_the_pool_has_once() {
    for (kind, repairs) in kinds().flat_map(|kind| [(kind, true), (kind, false)]) {
        let simulation = pool_with_copy(&options_of(kind, 100), DedupMode::Inline);
        let damaged = copies(&simulation);
        assert_eq!(damaged.len(), 1);
        flip(&simulation, damaged[0]);
        let disks = simulation.disks();
        let superblock = read_superblock(&*disks.metadata, &mut Vec::new()).unwrap();
        let fingerprinter = Fingerprinter::new(superblock.fingerprint, superblock.key);
        let mark = content(MARK, BLOCK);
        let contents = BTreeMap::from([(fingerprinter.of(&mark).to_bytes(), mark)]);
        let disks = disks.with_copies(Arc::new(Others { contents }));
        if repairs {
            let plan = repair_data(&disks).unwrap();
            assert_eq!(plan.healed_blocks, [damaged[0].pbn.number()], "{kind:?}");
        } else {
            let pool = open(&disks, tuning()).unwrap();
            let told = pool.scrub(ScrubOptions::default(), &Silent, &StopFlag::new()).unwrap();
            assert!(!told.is_clean() && told.can_be_healed(), "{kind:?}: {told:?}");
            let options = ScrubOptions { heals: true, ..ScrubOptions::default() };
            let report = pool.scrub(options, &Silent, &StopFlag::new()).unwrap();
            assert_eq!((report.is_clean(), report.healed_contents), (true, 1), "{kind:?}");
            pool.close().unwrap();
        }
        assert_whole(&simulation, &format!("{kind:?}"));
    }
}

/// A copy that cannot be written is no loss: the repair says so, and a later one heals.
#[test]
fn what_could_not_be_healed_is_not_given_up() {
    for kind in kinds().filter(|(policy, _)| *policy == Policy::Compact) {
        let simulation = pool_with_copy(&options_of(kind, 100), DedupMode::Off);
        let damaged = copies(&simulation)[0];
        flip(&simulation, damaged);
        let start = (damaged.at / BLOCK * BLOCK) as u64;
        // The writer tries again, and gives up at the sync.
        for _ in 0..20 {
            simulation.fail_next(DATA, Call::Write, start..start + BLOCK as u64);
        }
        let options = RepairOptions { data: true, choice: LossChoice::RollBack };
        let failed = repair(&simulation.disks(), options, &Silent, &StopFlag::new()).unwrap_err();
        assert!(!matches!(failed, VolumeError::Damaged { .. }), "{kind:?}: {failed}");
        let simulation = Simulation::of_images(1, simulation.images());
        assert_eq!(check_data(&simulation.disks()).lost_blocks, 0, "{kind:?}");
        assert_eq!(repair_data(&simulation.disks()).unwrap().costs, [], "{kind:?}");
        assert_whole(&simulation, "after a second repair");
    }
}

/// A kind of damage.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Bit,
    Sector,
    Page,
    /// Garbage over several pages, up to 1 MiB.
    Burst,
}

/// Blocks of the volumes of [`mixed_pool`].
const BLOCKS: u64 = 48;

/// Makes a pool whose volumes have the same contents: one in-line, one with blocks of its own, one
/// off-line that was found in part. Returns its images.
fn mixed_pool(kind: Kind) -> [Vec<u8>; 2] {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_of(kind, 400)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    for (name, mode) in
        [("in", DedupMode::Inline), ("off", DedupMode::Off), ("found", DedupMode::Offline)]
    {
        pool.create_volume(name, BLOCKS * BLOCK as u64, mode).unwrap();
        let volume = pool.volume(name).unwrap();
        for lbn in 0..BLOCKS {
            write(&volume, lbn * BLOCK as u64, &content(expected(lbn), BLOCK)).unwrap();
            if name == "found" && lbn == BLOCKS / 2 {
                pool.find(&Silent, &StopFlag::new()).unwrap();
            }
        }
    }
    pool.snapshot_volume("in", "snapshot").unwrap();
    pool.close().unwrap();
    simulation.images()
}

/// The content of a block of the volumes: each content is there twice.
const fn expected(lbn: u64) -> u64 {
    1 + lbn / 2
}

/// Damages a place in what is used of an image. Contents have no copies elsewhere, so a long burst
/// would leave none.
fn damage(image: &mut [u8], disk: usize, kind: Damage, random: &mut Random) {
    let used = image.chunks(BLOCK).enumerate();
    let used: Vec<usize> =
        used.filter(|(_, sector)| sector.iter().any(|byte| *byte != 0)).map(|(at, _)| at).collect();
    let at = used[random.below(used.len() as u64) as usize] * BLOCK;
    let length = match kind {
        Damage::Bit => {
            image[at + random.below(BLOCK as u64) as usize] ^= 1 << random.below(8);
            return;
        }
        Damage::Sector => BLOCK,
        Damage::Page => 4096,
        Damage::Burst => 4096 << random.below(if disk == DATA { 5 } else { 9 }),
    };
    let end = (at + length).min(image.len());
    image[at..end].iter_mut().for_each(|byte| *byte = random.next_u64() as u8);
}

/// After a repair of any damage every block is right or among the reported losses, and what
/// a whole copy proves is right.
#[test]
fn of_four_thousand_damaged_places_a_repair_loses_only_what_has_no_copy() {
    let kinds: Vec<Kind> = kinds().collect();
    let each = rounds(4000).div_ceil(kinds.len() as u64);
    std::thread::scope(|scope| {
        for some in kinds.chunks(kinds.len().div_ceil(2)) {
            scope.spawn(move || some.iter().for_each(|kind| damage_many(*kind, each)));
        }
    });
}

#[derive(Debug, Default)]
struct Tally {
    healed: u64,
    lost: u64,
}

fn damage_many(pool: Kind, places: u64) {
    let images = mixed_pool(pool);
    let mut tally = Tally::default();
    for number in 0..places {
        let seed = first_seed() + number;
        let mut random = Random::new(seed);
        let mut damaged = images.clone();
        let disk = if seed % 4 == 3 { METADATA } else { DATA };
        let kinds = [Damage::Bit, Damage::Sector, Damage::Page, Damage::Burst];
        let kind = kinds[random.below(4) as usize];
        damage(&mut damaged[disk], disk, kind, &mut random);
        let what = format!("{pool:?}, seed {seed}, disk {disk}, {kind:?}");
        let simulation = Simulation::of_images(1, damaged);
        let outlook = repair_outlook(&simulation.disks(), true, &Silent, &StopFlag::new()).unwrap();
        assert!(outlook.lost_history.is_none(), "{what}");
        let plan = repair_data(&simulation.disks()).unwrap();
        // The other copy of metadata is far enough away.
        assert!(disk == DATA || plan.costs.is_empty(), "{what}: {:?}", plan.costs);
        compare(&simulation, &plan, disk, &what, &mut tally);
    }
    eprintln!("{pool:?}: {tally:?}");
    assert!(
        places < 100 || tally.healed > places / 10 && tally.lost > places / 10,
        "{pool:?}: {tally:?}"
    );
}

/// Compares all blocks of a repaired pool.
fn compare(simulation: &Simulation, plan: &RepairPlan, disk: usize, what: &str, tally: &mut Tally) {
    let report = check_data(&simulation.disks());
    assert!(report.is_clean(), "{what}: {:?}", report.problems);
    let pool = open(&simulation.disks(), tuning()).unwrap();
    let mut failed: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for name in ["in", "snapshot", "off", "found"] {
        let volume = pool.volume(name).unwrap();
        for lbn in 0..BLOCKS {
            match read(&volume, lbn * BLOCK as u64, BLOCK) {
                Ok(bytes) => {
                    assert!(bytes == content(expected(lbn), BLOCK), "{what}: '{name}' {lbn}");
                }
                Err(_) => failed.entry(name).or_default().push(lbn),
            }
        }
    }
    for (name, lbns) in &failed {
        let cost = plan.costs.iter().find(|cost| cost.volume == *name);
        let lost = cost.map_or(0, |cost| cost.lost_blocks);
        assert_eq!(lost, lbns.len() as u64, "{what}: losses of '{name}' were reported");
    }
    // A content of the in-line volume that any volume can still show has a copy that proves it.
    let shown = |lbn: &u64| {
        ["off", "found"].iter().any(|name| {
            let lost = failed.get(name);
            let is_lost = |other: u64| lost.is_some_and(|lost| lost.contains(&other));
            !is_lost(lbn & !1) || !is_lost(lbn | 1)
        })
    };
    for name in ["in", "snapshot"].into_iter().filter(|_| disk == DATA) {
        let lost = failed.get(name).map(Vec::as_slice).unwrap_or_default();
        assert_eq!(lost.iter().find(|lbn| shown(lbn)), None, "{what}: '{name}' had a copy");
    }
    tally.healed += plan.healed_blocks.len() as u64;
    tally.lost += u64::from(!failed.is_empty());
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{what}");
}
