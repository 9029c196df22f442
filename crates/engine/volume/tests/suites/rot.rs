//! Flipped bits, lost ends of files and damaged blocks: a read returns the right content or an
//! error, and a write of a lost content restores it.

use crate::common::shape::twins;
use crate::common::simulated::Simulation;
use crate::common::stored::{Stored, copies_of};
use crate::common::{
    BLOCK, Kind, content, first_seed, flush, kinds, open, options_of, read, rounds, trim, write,
};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, CheckReport, check};
use gemelo_device::{BlockDevice, DeviceError, Operation, Request};
use gemelo_format::{DedupMode, FingerprintKind, Policy};
use gemelo_store::PoolDisks;
use gemelo_volume::{
    LossChoice, Pool, PoolOptions, RepairCost, RepairOptions, ScrubOptions, Tuning, record_damage,
    repair,
};

/// Settings with which contents are read from the disk, where they rot.
fn tuning() -> Tuning {
    Tuning { content_cache_bytes: Some(0), ..crate::common::tuning_on_disk() }
}

const MODES: [DedupMode; 3] = [DedupMode::Off, DedupMode::Inline, DedupMode::Offline];
/// Blocks of the volume whose contents are compared.
const BLOCKS: u64 = 96;

fn check_data(disks: &PoolDisks) -> CheckReport {
    check(disks, CheckOptions { data: true }, &Silent, &StopFlag::new()).unwrap()
}

fn repair_data(disks: &PoolDisks) -> Vec<RepairCost> {
    let options = RepairOptions { data: true, choice: LossChoice::RollBack };
    repair(disks, options, &Silent, &StopFlag::new()).unwrap().costs
}

/// Makes a pool with a volume that was written in every way, some of it in the checkpoint and some
/// in the journal. Returns also the flushed contents of the volume.
fn worked_pool(kind: Kind, mode: DedupMode, is_closed: bool) -> ([Vec<u8>; 2], Vec<Vec<u8>>) {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_of(kind, 400)).unwrap();
    let pool =
        open(&simulation.disks(), Tuning { max_journal_data_bytes: None, ..tuning() }).unwrap();
    pool.create_volume("a", BLOCKS * BLOCK as u64, mode).unwrap();
    let volume = pool.volume("a").unwrap();
    let mut expected = vec![vec![0; BLOCK]; BLOCKS as usize];
    let mut random = Random::new(7);
    for phase in 0..3 {
        for step in 0..60 {
            // The commits of one phase carry their contents.
            if phase == 2 && step % 8 == 0 {
                flush(&volume).unwrap();
            }
            let lbn = random.below(BLOCKS);
            let id = random.below(40) + 1;
            let bytes = content(id, BLOCK);
            let at = lbn as usize;
            match random.below(8) {
                0 => {
                    trim(&volume, lbn * BLOCK as u64, BLOCK as u64).unwrap();
                    expected[at] = vec![0; BLOCK];
                }
                1 => {
                    write(&volume, lbn * BLOCK as u64 + 100, &bytes[..200]).unwrap();
                    expected[at][100..300].copy_from_slice(&bytes[..200]);
                }
                _ => {
                    write(&volume, lbn * BLOCK as u64, &bytes).unwrap();
                    expected[at] = bytes;
                }
            }
        }
        flush(&volume).unwrap();
        if phase == 0 {
            pool.find(&Silent, &StopFlag::new()).unwrap();
            pool.snapshot_volume("a", "snapshot").unwrap();
            pool.checkpoint().unwrap();
        }
    }
    if is_closed {
        pool.close().unwrap();
    }
    (simulation.images(), expected)
}

/// Results of reads of a damaged pool.
#[derive(Default)]
struct Tally {
    right: u64,
    errors: u64,
    refused: u64,
}

/// Opens a pool whose images were damaged and reads all of the volume. No content may be wrong.
fn read_all(images: [Vec<u8>; 2], expected: &[Vec<u8>], what: &str, tally: &mut Tally) {
    let simulation = Simulation::of_images(1, images);
    let Ok(pool) = open(&simulation.disks(), tuning()) else {
        tally.refused += 1;
        return;
    };
    let Ok(volume) = pool.volume("a") else {
        panic!("{what}: the volume is gone, and nothing says why: {:?}", pool.damage());
    };
    for (lbn, right) in expected.iter().enumerate() {
        match read(&volume, (lbn * BLOCK) as u64, BLOCK) {
            Ok(found) => {
                assert!(found == *right, "{what}: block {lbn} is wrong, and nothing says so");
                tally.right += 1;
            }
            Err(_) => tally.errors += 1,
        }
    }
}

#[test]
fn of_ten_thousand_flipped_bits_none_gives_a_wrong_content() {
    let flips = rounds(10_000);
    let lives: Vec<_> = kinds()
        .flat_map(|kind| MODES.map(|mode| (kind, mode)))
        .flat_map(|(kind, mode)| [true, false].map(|is_closed| (kind, mode, is_closed)))
        .collect();
    let each = flips.div_ceil(lives.len() as u64);
    std::thread::scope(|scope| {
        for half in lives.chunks(lives.len().div_ceil(2)) {
            scope.spawn(move || half.iter().for_each(|life| flip_in(*life, each)));
        }
    });
}

fn flip_in((kind, mode, is_closed): (Kind, DedupMode, bool), flips: u64) {
    let (images, expected) = worked_pool(kind, mode, is_closed);
    let mut random = Random::new(first_seed());
    let mut tally = Tally::default();
    // Only sectors in use are flipped. A flipped bit in unused zeros proves little.
    let written: Vec<Vec<usize>> = images.iter().map(|image| written_sectors(image)).collect();
    for number in 0..flips {
        // Metadata is small, but gets half of all flips.
        let disk = (number % 2) as usize;
        let sectors = &written[disk];
        let sector = sectors[random.below(sectors.len() as u64) as usize];
        let at = sector * BLOCK + random.below(BLOCK as u64) as usize;
        let bit = random.below(8) as u8;
        let mut damaged = images.clone();
        damaged[disk][at] ^= 1 << bit;
        let what =
            format!("{kind:?}, {mode:?}, closed {is_closed}, disk {disk}, byte {at}, bit {bit}");
        read_all(damaged, &expected, &what, &mut tally);
    }
    assert!(tally.errors > 0 && tally.right > 0, "{kind:?}, {mode:?}: flips were noticed");
    assert!(tally.refused < flips / 4, "{kind:?}, {mode:?}: {} of {flips} refused", tally.refused);
}

/// The sectors of an image that are not all zeros.
fn written_sectors(image: &[u8]) -> Vec<usize> {
    let sectors = image.chunks(BLOCK).enumerate();
    sectors.filter(|(_, sector)| sector.iter().any(|byte| *byte != 0)).map(|(at, _)| at).collect()
}

/// Flips a bit of every stored copy of the content.
fn rot_of(simulation: &Simulation) {
    let image = simulation.images()[0].clone();
    for Stored { at, .. } in copies_of(simulation, &content(MARK, BLOCK)) {
        simulation.disks().data.write_at(at as u64, &[image[at] ^ 4]).unwrap();
    }
}

/// A pool with one content at LBNs 0 and 1, and a way to damage it on the disk.
struct Rotten {
    simulation: Simulation,
    pool: Pool,
}

const MARK: u64 = 777;

impl Rotten {
    fn new(mode: DedupMode, options: &PoolOptions) -> Self {
        let simulation = Simulation::new(1);
        Pool::format(&simulation.disks(), options).unwrap();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        pool.create_volume("a", 32 * BLOCK as u64, mode).unwrap();
        let rotten = Self { simulation, pool };
        for lbn in 0..2 {
            rotten.write_mark(lbn);
        }
        rotten.pool.find(&Silent, &StopFlag::new()).unwrap();
        rotten.pool.flush().unwrap();
        rotten
    }

    fn write_mark(&self, lbn: u64) {
        write(&self.pool.volume("a").unwrap(), lbn * BLOCK as u64, &content(MARK, BLOCK)).unwrap();
    }

    /// Reads a block, and a part of it. A client gets no byte of a damaged block.
    fn read(&self, lbn: u64) -> Result<Vec<u8>, DeviceError> {
        let volume = self.pool.volume("a").unwrap();
        let [whole, part] = [(0, BLOCK), (8, 100)].map(|(within, length)| {
            let mut buffer = vec![0xEE; length];
            let operation =
                Operation::Read { offset: lbn * BLOCK as u64 + within, buffer: &mut buffer };
            let mut batch = [Request { operation, outcome: Ok(()) }];
            volume.execute(&mut batch);
            let [Request { outcome, .. }] = batch;
            let is_without = |byte| buffer == vec![byte; length];
            assert!(
                outcome.is_ok() || is_without(0) || is_without(0xEE),
                "bytes of a damaged block"
            );
            outcome.map(|()| buffer)
        });
        let (whole, part) = (whole?, part?);
        assert!(part == whole[8..108]);
        Ok(whole)
    }

    fn rot(&self) {
        rot_of(&self.simulation);
    }

    fn reopen(self) -> Self {
        self.pool.close().unwrap();
        let pool = open(&self.simulation.disks(), tuning()).unwrap();
        Self { simulation: self.simulation, pool }
    }

    fn assert_healed(&self, lbns: &[u64]) {
        for lbn in lbns {
            assert_eq!(self.read(*lbn).unwrap(), content(MARK, BLOCK), "block {lbn}");
        }
        let stat = self.pool.stat().unwrap();
        assert_eq!(stat.physical_blocks, 1, "the content is stored once");
        assert_eq!(stat.activity.healed_blocks, 1);
        assert_eq!(self.pool.damaged_blocks(), [], "and nothing is damaged any more");
        assert_eq!(self.pool.prove(10).unwrap(), Vec::<String>::new());
        self.pool.flush().unwrap();
        let report = check_data(&self.simulation.disks());
        assert!(report.is_clean(), "{:?}", report.problems);
    }
}

#[test]
fn a_read_that_finds_damage_is_an_error_noted_once_and_a_new_write_heals_all() {
    for kind in kinds() {
        // The new write goes to another LBN, or to a damaged one.
        for target in [5, 1] {
            let rotten = Rotten::new(DedupMode::Inline, &options_of(kind, 100));
            rotten.rot();
            for _ in 0..3 {
                assert!(
                    matches!(rotten.read(0), Err(DeviceError::Damaged { offset: 0 })),
                    "{kind:?}"
                );
            }
            assert_eq!(rotten.pool.stat().unwrap().activity.damaged_blocks, 1);
            let noted = rotten.pool.damaged_blocks();
            assert_eq!((noted.len(), noted[0].volume.as_str(), noted[0].lbn), (1, "a", 0));
            rotten.write_mark(target);
            rotten.assert_healed(&[0, 1, target]);
        }
    }
}

fn marked(simulation: &Simulation) -> u64 {
    let options = CheckOptions { data: false };
    let report = check(&simulation.disks(), options, &Silent, &StopFlag::new()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    assert_eq!(report.is_sound(), report.marked_blocks == 0);
    report.marked_blocks
}

/// The mark is in the journal at first, then in a checkpoint, and a write of the content clears it.
#[test]
fn a_check_without_contents_counts_the_blocks_that_are_marked_as_damaged() {
    for kind in kinds() {
        let rotten = Rotten::new(DedupMode::Inline, &options_of(kind, 100));
        rotten.rot();
        assert_eq!(marked(&rotten.simulation), 0, "{kind:?}: nobody has read it");
        assert!(rotten.read(1).is_err());
        rotten.pool.flush().unwrap();
        assert_eq!(marked(&rotten.simulation), 1, "{kind:?}: a mark in the journal");
        let rotten = rotten.reopen();
        assert_eq!(marked(&rotten.simulation), 1, "{kind:?}: a mark in a checkpoint");
        rotten.write_mark(9);
        rotten.pool.flush().unwrap();
        assert_eq!(marked(&rotten.simulation), 0, "{kind:?}: it has healed");
        let Rotten { simulation, pool } = rotten.reopen();
        rot_of(&simulation);
        assert!(read(&pool.volume("a").unwrap(), 0, BLOCK).is_err());
        pool.remove_volume("a").unwrap();
        pool.close().unwrap();
        assert_eq!(marked(&simulation), 0, "{kind:?}: nothing refers to the block");
    }
}

#[test]
fn damage_is_remembered_over_a_restart() {
    for kind in kinds() {
        let rotten = Rotten::new(DedupMode::Inline, &options_of(kind, 100));
        rotten.rot();
        assert!(rotten.read(1).is_err());
        let rotten = rotten.reopen();
        rotten.write_mark(9);
        rotten.assert_healed(&[0, 1, 9]);
    }
}

#[test]
fn damage_that_a_check_records_is_not_shared_and_heals() {
    for kind in kinds() {
        let Rotten { simulation, pool } = Rotten::new(DedupMode::Inline, &options_of(kind, 100));
        pool.close().unwrap();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        let rotten = Rotten { simulation, pool };
        rotten.rot();
        let Rotten { simulation, pool } = rotten;
        pool.close().unwrap();
        let report = check_data(&simulation.disks());
        assert_eq!(report.problems.len(), 1);
        record_damage(&simulation.disks(), &report.damaged_blocks).unwrap();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        let rotten = Rotten { simulation, pool };
        rotten.write_mark(7);
        rotten.assert_healed(&[0, 1, 7]);
    }
}

#[test]
fn a_scrub_of_a_served_pool_finds_damage_and_clears_what_is_good_again() {
    for kind in kinds() {
        let rotten = Rotten::new(DedupMode::Inline, &options_of(kind, 100));
        let intact = rotten.simulation.images()[0].clone();
        rotten.rot();
        let scrub = || {
            rotten.pool.scrub(ScrubOptions::default(), &Silent, &StopFlag::new()).unwrap().problems
        };
        let problems = scrub();
        assert_eq!(problems.len(), 1, "{kind:?}");
        let what = &problems[0].what;
        assert!(what.ends_with("block 0 of 'a', block 1 of 'a'"), "{kind:?}: {what}");
        // The medium turned out to be intact, as after a loose cable.
        rotten.simulation.disks().data.write_at(0, &intact).unwrap();
        assert_eq!(scrub(), [], "{kind:?}");
        rotten.write_mark(3);
        let stat = rotten.pool.stat().unwrap();
        let shared_as_ever = (stat.physical_blocks, stat.activity.healed_blocks);
        assert_eq!(shared_as_ever, (1, 0), "{kind:?}");
    }
}

#[test]
fn the_finder_heals_a_damaged_block_with_a_fresh_copy() {
    for kind in kinds() {
        let rotten = Rotten::new(DedupMode::Offline, &options_of(kind, 100));
        rotten.rot();
        assert!(rotten.read(0).is_err());
        rotten.write_mark(6);
        rotten.pool.find(&Silent, &StopFlag::new()).unwrap();
        rotten.assert_healed(&[0, 1, 6]);
    }
}

#[test]
fn a_fingerprint_that_proves_nothing_heals_nothing() {
    for kind in kinds() {
        let fingerprint = FingerprintKind::Xxh3Compare;
        let options = PoolOptions { fingerprint, ..options_of(kind, 100) };
        let rotten = Rotten::new(DedupMode::Inline, &options);
        rotten.rot();
        assert!(rotten.read(0).is_err());
        rotten.write_mark(5);
        rotten.write_mark(6);
        assert_eq!(rotten.read(5).unwrap(), content(MARK, BLOCK));
        assert!(rotten.read(0).is_err(), "a damaged content cannot be compared with the new one");
        let stored = rotten.pool.stat().unwrap().physical_blocks;
        assert_eq!(stored, 2, "{kind:?}: the new copy is the one to be shared");
    }
}

#[test]
fn a_part_written_to_a_damaged_block_is_refused_and_does_not_bless_it() {
    for kind in kinds() {
        let rotten = Rotten::new(DedupMode::Off, &options_of(kind, 100));
        rotten.rot();
        let volume = rotten.pool.volume("a").unwrap();
        assert!(matches!(write(&volume, 10, &[1; 20]), Err(DeviceError::Damaged { .. })));
        assert!(rotten.read(0).is_err());
        rotten.write_mark(0);
        assert_eq!(rotten.read(0).unwrap(), content(MARK, BLOCK), "{kind:?}");
    }
}

#[test]
fn a_data_store_that_lost_its_end_is_damage_and_never_zeros() {
    for kind in kinds() {
        let (images, expected) = worked_pool(kind, DedupMode::Off, true);
        let [mut data, metadata] = images;
        data.truncate(20 * BLOCK);
        let simulation = Simulation::of_images(1, [data, metadata]);
        let pool = open(&simulation.disks(), tuning()).unwrap();
        assert!(pool.is_read_only() && !pool.damage().is_empty(), "{kind:?}");
        drop(pool);
        assert!(!check_data(&simulation.disks()).is_clean());
        let cost = repair_data(&simulation.disks());
        assert!(
            cost.iter().any(|cost| cost.volume == "a" && cost.lost_blocks > 0),
            "{kind:?}: {cost:?}"
        );
        let pool = open(&simulation.disks(), tuning()).unwrap();
        assert!(!pool.is_read_only());
        let volume = pool.volume("a").unwrap();
        write(&volume, 0, &content(5, BLOCK)).unwrap();
        for (lbn, right) in expected.iter().enumerate().skip(1) {
            let found = read(&volume, (lbn * BLOCK) as u64, BLOCK);
            assert!(found.is_err() || found.as_ref().unwrap() == right, "{kind:?}: block {lbn}");
        }
    }
}

#[test]
fn the_header_of_the_data_store_has_a_copy() {
    let (images, expected) = worked_pool((Policy::Compact, None), DedupMode::Inline, true);
    let [mut data, metadata] = images;
    data[..BLOCK].fill(0x55);
    let simulation = Simulation::of_images(1, [data, metadata]);
    let report = check_data(&simulation.disks());
    assert_eq!(report.problems.len(), 1);
    assert!(!report.problems[0].loses_data, "{:?}", report.problems);
    read_all(simulation.images(), &expected, "without block 0", &mut Tally::default());
    repair_data(&simulation.disks());
    assert!(check_data(&simulation.disks()).is_clean());
    assert!(simulation.images()[0].starts_with(b"GEMELODS"));
}

#[test]
fn a_flip_in_a_copy_of_a_page_that_has_one_costs_nothing() {
    let (images, expected) = worked_pool((Policy::Compact, None), DedupMode::Inline, true);
    for offset in twins(&images[1]).into_iter().flatten() {
        let mut images = images.clone();
        images[1][offset + 20] ^= 1;
        let mut tally = Tally::default();
        read_all(images, &expected, &format!("byte {offset}"), &mut tally);
        assert_eq!((tally.errors, tally.refused), (0, 0), "byte {offset}");
    }
}

/// A repair marks what is lost, so that a check is clean afterwards, and a new write is as any
/// other.
#[test]
fn a_repair_marks_lost_contents_with_every_backend() {
    for kind in kinds() {
        let rotten = Rotten::new(DedupMode::Inline, &options_of(kind, 100));
        rotten.rot();
        let Rotten { simulation, pool } = rotten;
        pool.close().unwrap();
        let lost = |costs: &[RepairCost]| costs.iter().map(|cost| cost.lost_blocks).sum::<u64>();
        assert_eq!(lost(&repair_data(&simulation.disks())), 2, "{kind:?}");
        let report = check_data(&simulation.disks());
        assert!(report.is_clean(), "{kind:?}: {:?}", report.problems);
        assert_eq!((report.lost_blocks, report.physical_blocks), (2, 0), "{kind:?}");
        let pool = open(&simulation.disks(), tuning()).unwrap();
        let rotten = Rotten { simulation, pool };
        assert!(rotten.read(0).is_err() && rotten.read(1).is_err());
        rotten.write_mark(0);
        assert!(rotten.read(0).unwrap() == content(MARK, BLOCK) && rotten.read(1).is_err());
        assert_eq!(rotten.pool.prove(10).unwrap(), Vec::<String>::new());
    }
}
