//! Scrubs: a wrong page cache is not believed, damage is found on the medium, and what has another
//! copy is healed.

mod elsewhere;

use crate::common::simulated::Simulation;
use crate::common::stored::copies_of;
use crate::common::{BLOCK, content, kinds, options_of, options_with, read, tuning_on_disk, write};
use gemelo_base::{Clock, ManualClock, Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_disk::testing::DiskLayer;
use gemelo_disk::{Disk, DiskRead, DiskWrite};
use gemelo_format::{Compression, DedupMode, FingerprintKind, Policy};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, PoolOptions, ScrubOptions, ScrubReport, Tuning};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// A disk under a page cache that has its own opinion of some bytes. A write corrects it.
struct CachedDisk {
    below: Arc<dyn Disk>,
    cached: Mutex<HashMap<u64, u8>>,
}

impl DiskLayer for CachedDisk {
    fn below(&self) -> &dyn Disk {
        &*self.below
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        self.below.read_many(reads);
        let cached = self.cached.lock().unwrap();
        for read in reads {
            for (at, byte) in (read.offset..).zip(read.buffer.iter_mut()) {
                *byte = cached.get(&at).copied().unwrap_or(*byte);
            }
        }
    }

    fn read_medium(&self, reads: &mut [DiskRead<'_>]) {
        self.below.read_medium(reads);
    }

    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        for write in writes.iter() {
            let range = write.offset..write.offset + write.bytes.len() as u64;
            self.cached.lock().unwrap().retain(|at, _| !range.contains(at));
        }
        self.below.write_many(writes);
    }
}

const MARK: u64 = 777;

/// A pool with one content in the volumes "a" and "b", in two blocks.
struct Scrubbed {
    simulation: Simulation,
    data: Arc<CachedDisk>,
    clock: Arc<ManualClock>,
    pool: Pool,
}

impl Scrubbed {
    fn new(modes: [DedupMode; 2], options: &PoolOptions) -> Self {
        let simulation = Simulation::new(1);
        Pool::format(&simulation.disks(), options).unwrap();
        let PoolDisks { data, metadata, .. } = simulation.disks();
        let data = Arc::new(CachedDisk { below: data, cached: Mutex::default() });
        let clock = Arc::new(ManualClock::new());
        let disks = PoolDisks::new(data.clone(), metadata);
        // Contents are read from the disk, where they rot.
        let tuning = Tuning { background: false, content_cache_bytes: Some(0), ..tuning_on_disk() };
        let pool = Pool::open_disks(disks, tuning, clock.clone()).unwrap();
        for (name, mode) in ["a", "b"].into_iter().zip(modes) {
            pool.create_volume(name, 64 * BLOCK as u64, mode).unwrap();
            write(&pool.volume(name).unwrap(), 0, &content(MARK, BLOCK)).unwrap();
        }
        pool.flush().unwrap();
        Self { simulation, data, clock, pool }
    }

    /// A byte of each copy of the content, in the order of their blocks.
    fn places(&self) -> Vec<u64> {
        let copies = copies_of(&self.simulation, &content(MARK, BLOCK));
        copies.iter().map(|stored| stored.at as u64).collect()
    }

    fn flip(&self, at: u64) -> u8 {
        let mut byte = [0];
        self.data.below.read_at(at, &mut byte).unwrap();
        self.data.below.write_at(at, &[byte[0] ^ 4]).unwrap();
        byte[0]
    }

    fn scrub(&self, heals: bool) -> ScrubReport {
        let options = ScrubOptions { heals, max_bytes_per_s: None };
        self.pool.scrub(options, &Silent, &StopFlag::new()).unwrap()
    }

    fn reads_mark(&self, name: &str) -> bool {
        let found = read(&self.pool.volume(name).unwrap(), 0, BLOCK);
        found.is_ok_and(|bytes| bytes == content(MARK, BLOCK))
    }

    /// Both volumes are right, and a check from outside finds nothing.
    fn assert_sound(self) {
        assert!(self.reads_mark("a") && self.reads_mark("b"));
        assert_eq!(self.pool.damaged_blocks(), []);
        assert_eq!(self.pool.prove(10).unwrap(), Vec::<String>::new());
        self.pool.close().unwrap();
        let options = CheckOptions { data: true };
        let report = check(&self.simulation.disks(), options, &Silent, &StopFlag::new()).unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
    }
}

#[test]
fn a_wrong_cache_is_not_believed() {
    for (kind, mode) in kinds().flat_map(|kind| [(kind, DedupMode::Off), (kind, DedupMode::Inline)])
    {
        let scrubbed = Scrubbed::new([mode; 2], &options_of(kind, 100));
        for place in scrubbed.places() {
            scrubbed.data.cached.lock().unwrap().insert(place, 0);
        }
        assert!(scrubbed.scrub(false).is_clean());
        assert!(scrubbed.reads_mark("a"), "the second look is at the medium");
        assert_eq!(scrubbed.pool.stat().unwrap().activity.damaged_blocks, 0);
    }
}

#[test]
fn what_only_the_cache_has_is_written_back() {
    for (kind, mode) in kinds().flat_map(|kind| [(kind, DedupMode::Off), (kind, DedupMode::Inline)])
    {
        let scrubbed = Scrubbed::new([mode; 2], &options_of(kind, 100));
        let places = scrubbed.places();
        for place in &places {
            let right = scrubbed.flip(*place);
            scrubbed.data.cached.lock().unwrap().insert(*place, right);
        }
        assert!(scrubbed.places().is_empty());
        let report = scrubbed.scrub(true);
        assert!(report.is_clean(), "{:?}", report.problems);
        assert_eq!(report.healed_contents, places.len() as u64);
        assert_eq!(scrubbed.places(), places, "the medium is right again");
        scrubbed.assert_sound();
    }
}

#[test]
fn a_copy_in_another_block_heals() {
    for kind in kinds() {
        for other in [DedupMode::Off, DedupMode::Offline] {
            let modes = [DedupMode::Inline, other];
            let scrubbed = Scrubbed::new(modes, &options_of(kind, 100));
            let places = scrubbed.places();
            assert_eq!(places.len(), 2);
            scrubbed.flip(places[0]);
            let report = scrubbed.scrub(false);
            assert_eq!(report.problems.len(), 1, "{kind:?}");
            assert!(report.problems[0].what.contains("block 0 of 'a'"), "{report:?}");
            assert!(report.can_be_healed(), "{report:?}");
            assert!(!scrubbed.reads_mark("a"), "a scrub that does not heal changes nothing");
            let report = scrubbed.scrub(true);
            assert!(report.is_clean(), "{:?}", report.problems);
            assert_eq!((report.checked_contents, report.healed_contents), (2, 1));
            scrubbed.assert_sound();
        }
    }
}

/// A block without a fingerprint is not healed from a block with the same checksum, and neither is
/// one whose fingerprint does not prove equality.
#[test]
fn what_proves_nothing_heals_nothing() {
    let weak = PoolOptions {
        fingerprint: FingerprintKind::Xxh3Compare,
        ..options_with(Policy::Compact, 100)
    };
    let strong = options_with(Policy::Compact, 100);
    let packed = |options: &PoolOptions| PoolOptions {
        compression: Some(Compression::Lz4),
        ..options.clone()
    };
    let (one, both) = ([DedupMode::Inline, DedupMode::Off], [DedupMode::Off, DedupMode::Off]);
    for (modes, options) in
        [(one, packed(&weak)), (one, weak), (both, packed(&strong)), (both, strong)]
    {
        let scrubbed = Scrubbed::new(modes, &options);
        scrubbed.flip(scrubbed.places()[0]);
        let report = scrubbed.scrub(true);
        assert_eq!((report.problems.len(), report.healed_contents), (1, 0));
        assert!(!report.can_be_healed(), "{report:?}");
        assert!(!scrubbed.reads_mark("a") && scrubbed.reads_mark("b"));
    }
}

#[test]
fn a_scrub_keeps_to_its_rate() {
    let scrubbed = Scrubbed::new([DedupMode::Off; 2], &options_with(Policy::Compact, 100));
    let volume = scrubbed.pool.volume("a").unwrap();
    for lbn in 1..60 {
        write(&volume, lbn * BLOCK as u64, &content(lbn, BLOCK)).unwrap();
    }
    let begun_ns = scrubbed.clock.now_ns();
    let options = ScrubOptions { max_bytes_per_s: Some(BLOCK as u64), heals: true };
    let report = scrubbed.pool.scrub(options, &Silent, &StopFlag::new()).unwrap();
    assert_eq!(report.checked_contents, 61);
    let took_s = (scrubbed.clock.now_ns() - begun_ns) / 1_000_000_000;
    assert_eq!(took_s, 61, "one block a second");
    let stop = StopFlag::new();
    stop.raise();
    assert!(scrubbed.pool.scrub(options, &Silent, &stop).is_err(), "it can be stopped");
}
