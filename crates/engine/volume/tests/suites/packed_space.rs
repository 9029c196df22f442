//! The space of pools that compress: its figures add up in every state, and a pool is full only
//! when its bytes are.

use crate::common::aged::age;
use crate::common::driver::{Driver, Model};
use crate::common::repeat::Repeat;
use crate::common::simulated::{DATA, Simulation};
use crate::common::space::compare_space;
use crate::common::{
    BLOCK, COMPRESSIONS, Kind, first_seed, flush, kinds, open, options_of, read, rounds, trim,
    tuning_on_disk, write,
};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, CheckReport, Walk, check};
use gemelo_device::DeviceError;
use gemelo_format::{
    DedupMode, MapEntry, PackedPlace, Pbn, Policy, SLOT_HEAD_BYTES, SlotHead, slot_offset,
};
use gemelo_volume::{Pool, Volume};
use std::collections::BTreeSet;

fn checked(simulation: &Simulation) -> CheckReport {
    let options = CheckOptions { data: true };
    check(&simulation.disks(), options, &Silent, &StopFlag::new()).unwrap()
}

/// The bytes that a content takes, by its head in the image.
fn stored_bytes(data: &[u8], pbn: Pbn) -> u64 {
    let place = PackedPlace::of(pbn);
    if place.is_whole() {
        return BLOCK as u64;
    }
    let block = &data[place.block as usize * BLOCK..][..BLOCK];
    let offset = slot_offset(block, place.slot).unwrap();
    let head = block[offset..][..SLOT_HEAD_BYTES].try_into().unwrap();
    (SLOT_HEAD_BYTES + usize::from(SlotHead::decode(head).length)) as u64
}

/// The bytes of all contents to which a volume refers, counted from the image.
fn bytes_of_contents(simulation: &Simulation) -> u64 {
    let walk = Walk::of(&simulation.disks(), &mut CheckReport::default()).unwrap().unwrap();
    let maps = walk.volumes.values().flat_map(|volume| walk.places(volume).unwrap());
    let pbns: BTreeSet<Pbn> = maps.filter_map(MapEntry::pbn).collect();
    let data = &simulation.images()[DATA];
    pbns.into_iter().map(|pbn| stored_bytes(data, pbn)).sum()
}

/// Compares all figures of space. Returns whether no freed content takes space.
fn compare(simulation: &Simulation, pool: &Pool, model: &Model, what: &str) -> bool {
    compare_space(simulation, pool, what);
    let stat = pool.stat().unwrap();
    let blocks = model.volumes.values().flat_map(|volume| &volume.blocks);
    let written = blocks.filter(|block| block.live.iter().any(|byte| *byte != 0)).count() as u64;
    assert_eq!(stat.logical_blocks, written, "{what}: zeros take no space");
    assert_eq!(stat.used_blocks + stat.free_blocks, stat.capacity_blocks, "{what}");
    let report = checked(simulation);
    assert!(report.is_clean(), "{what}: {:?}", report.problems);
    assert_eq!(report.references, stat.logical_blocks, "{what}");
    assert_eq!(report.physical_blocks, stat.physical_blocks, "{what}");
    assert_eq!(report.used_blocks + report.free_blocks, stat.capacity_blocks, "{what}");
    let (space, bytes) = (report.space.unwrap(), BLOCK as u64);
    assert_eq!(space.logical_bytes, stat.logical_blocks * bytes, "{what}");
    assert_eq!(space.deduplicated_bytes, stat.physical_blocks * bytes, "{what}");
    assert_eq!(space.compressed_bytes, bytes_of_contents(simulation), "{what}");
    assert_eq!(space.used_bytes(), report.used_blocks * bytes, "{what}");
    let is_settled = stat.pending_blocks == 0;
    assert!(report.used_blocks <= stat.used_blocks, "{what}");
    assert!(!is_settled || report.used_blocks == stat.used_blocks, "{what}");
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{what}");
    is_settled
}

#[test]
fn the_figures_of_space_add_up_in_every_state() {
    let (mut compared, mut settled) = (0u64, 0u64);
    for seed in first_seed()..first_seed() + rounds(15) {
        let _repeat = Repeat::of(seed);
        let policy = Policy::ALL[seed as usize % Policy::ALL.len()];
        let compression = COMPRESSIONS[seed as usize % COMPRESSIONS.len()];
        let mut random = Random::new(seed);
        let simulation = Simulation::new(seed);
        let options = options_of((policy, Some(compression)), 180);
        Pool::format(&simulation.disks(), &options).unwrap();
        let mut model = Model::default();
        // Half of the pools were full once.
        if seed % 2 == 1 {
            age(&simulation, &mut model, &mut random, tuning_on_disk());
        }
        for life in 0..3 {
            let pool = open(&simulation.disks(), tuning_on_disk()).unwrap();
            for round in 0..5 {
                let mut driver = Driver::new(&simulation, &pool, &mut model, &mut random);
                driver.may_fail = true;
                (0..40).for_each(|_| driver.step().unwrap());
                let what = format!("{policy:?}, {compression}, seed {seed}, {life}.{round}");
                compared += 1;
                settled += u64::from(compare(&simulation, &pool, &model, &what));
            }
            pool.close().unwrap();
        }
    }
    eprintln!("{settled} of {compared} states without freed contents");
    assert!(settled > compared / 10, "{settled} of {compared} states without freed contents");
}

/// Blocks of a data store that gets full.
const BLOCKS: u64 = 1_500;

/// Contents of which the second half is noise, or all.
fn content(id: u64, is_whole: bool) -> Vec<u8> {
    let mut random = Random::new(id);
    let mut content = vec![id as u8; if is_whole { 0 } else { BLOCK / 2 }];
    content.resize_with(BLOCK, || random.next_u64() as u8);
    content
}

/// A volume of a full pool: the content of each block, and whether it is whole.
struct Full {
    volume: Volume,
    ids: Vec<Option<(u64, bool)>>,
    /// Bytes that a content takes of which a half is noise.
    half_bytes: u64,
}

impl Full {
    /// Fills a pool with contents of which a half is noise, up to this share of its blocks.
    fn new(pool: &Pool, percent: u64) -> Self {
        let most = 3 * BLOCKS as usize;
        pool.create_volume("a", (most * BLOCK) as u64, DedupMode::Off).unwrap();
        let mut full =
            Self { volume: pool.volume("a").unwrap(), ids: vec![None; most], half_bytes: 0 };
        let mut lbn = 0;
        while lbn % 64 > 0 || pool.stat().unwrap().used_blocks * 100 < BLOCKS * percent {
            full.write(lbn, lbn as u64 + 1, false).unwrap();
            lbn += 1;
        }
        full.half_bytes = pool.stat().unwrap().activity.packed_bytes / lbn as u64;
        full.ids.truncate(lbn);
        flush(&full.volume).unwrap();
        full
    }

    fn write(&mut self, lbn: usize, id: u64, is_whole: bool) -> Result<(), DeviceError> {
        write(&self.volume, (lbn * BLOCK) as u64, &content(id, is_whole))?;
        self.ids[lbn] = Some((id, is_whole));
        Ok(())
    }

    fn trim(&mut self, lbn: usize) {
        trim(&self.volume, (lbn * BLOCK) as u64, BLOCK as u64).unwrap();
        self.ids[lbn] = None;
    }

    /// The bytes that all contents take.
    fn bytes(&self) -> u64 {
        let bytes = |(_, is_whole): &(u64, bool)| match is_whole {
            true => BLOCK as u64,
            false => self.half_bytes,
        };
        self.ids.iter().flatten().map(bytes).sum()
    }

    /// The share of the bytes of the pool that contents take, in percent.
    fn percent(&self) -> u64 {
        self.bytes() * 100 / (BLOCKS * BLOCK as u64)
    }

    fn check(&self, what: &str) {
        for (lbn, id) in self.ids.iter().enumerate() {
            let found = read(&self.volume, (lbn * BLOCK) as u64, BLOCK).unwrap();
            let right = id.map_or(vec![0; BLOCK], |(id, is_whole)| content(id, is_whole));
            assert!(found == right, "{what}: block {lbn}");
        }
    }
}

/// Contents that do not shrink overwrite compressed ones at random in a pool that is nearly full,
/// until it has no bytes left. It refuses nothing before, takes trims and removals then, and has
/// room again at once. Returns the share of the bytes, in percent, at which it refused a write.
fn fill_up(kind: Kind, seed: u64) -> u64 {
    let what = format!("{kind:?}");
    let simulation = Simulation::new(seed);
    Pool::format(&simulation.disks(), &options_of(kind, BLOCKS)).unwrap();
    let pool = open(&simulation.disks(), tuning_on_disk()).unwrap();
    let mut random = Random::new(seed);
    let mut full = Full::new(&pool, 94);
    for next in 1 << 32.. {
        let lbn = random.below(full.ids.len() as u64) as usize;
        if let Err(error) = full.write(lbn, next, next % 4 > 0) {
            assert!(matches!(error, DeviceError::NoSpace), "{what}: {error}");
            break;
        }
        if next % 32 == 0 {
            flush(&full.volume).unwrap();
        }
    }
    let percent = full.percent();
    full.check(&what);
    empty(&pool, full, &what);
    pool.close().unwrap();
    let report = checked(&simulation);
    assert!(report.is_clean(), "{what}: {:?}", report.problems);
    eprintln!("{what}: full at {percent} % of the bytes");
    percent
}

/// Removes everything from a full pool: blocks, a snapshot, the volume.
fn empty(pool: &Pool, mut full: Full, what: &str) {
    pool.snapshot_volume("a", "s").unwrap();
    full.trim(0);
    pool.remove_volume("s").unwrap();
    let half = full.ids.len() / 2;
    (0..half).for_each(|lbn| full.trim(lbn));
    flush(&full.volume).unwrap();
    for lbn in 0..half / 2 {
        full.write(lbn, (1 << 40) + lbn as u64, false).unwrap();
    }
    full.check(what);
    drop(full);
    pool.remove_volume("a").unwrap();
    pool.gc(None, &Silent, &StopFlag::new()).unwrap();
    assert_eq!(pool.stat().unwrap().used_blocks, 0, "{what}");
    assert_eq!(pool.prove(9).unwrap(), Vec::<String>::new(), "{what}");
}

/// The other bytes are blocks that are kept for the cleaner, and the tables of blocks: 16 bytes of
/// 512 in each.
#[test]
fn a_pool_is_full_only_when_its_bytes_are() {
    for (seed, kind) in (1..).zip(kinds().filter(|(_, compression)| compression.is_some())) {
        let percent = fill_up(kind, seed);
        assert!(percent >= 90, "{kind:?}: a write was refused at {percent} % of the bytes");
    }
}
