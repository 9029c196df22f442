//! Pools that compress are full only when their bytes are: over block sizes, sizes of the store and
//! policies, with contents of any compressibility, overwritten at random.

use crate::common::repeat::Repeat;
use crate::common::simulated::Simulation;
use crate::common::{COMPRESSIONS, first_seed, flush, open, options_with, read, write};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_device::DeviceError;
use gemelo_format::{Compression, DedupMode, Policy};
use gemelo_store::{Codec, packed_blocks};
use gemelo_volume::{Pool, PoolOptions, Tuning, Volume};

/// Makes a content of which `noise` of 64 parts do not compress.
fn content(id: u64, (block, noise): (usize, u64)) -> Vec<u8> {
    let mut random = Random::new(id);
    let noise = block * noise as usize / 64;
    let mut content: Vec<u8> = (0..noise).map(|_| random.next_u64() as u8).collect();
    content.resize(block, id as u8 | 1);
    content
}

/// The noise of contents, in 64 parts.
#[derive(Debug, Clone, Copy)]
enum Noise {
    /// The same in all contents.
    Fixed(u64),
    /// From none to all.
    Any,
    /// A little in one half of the contents, much in the other.
    Ends,
}

impl Noise {
    fn of(self, id: u64) -> u64 {
        match self {
            Self::Fixed(noise) => noise,
            Self::Any => id % 65,
            Self::Ends => 2 + id % 2 * 50,
        }
    }
}

/// A pool.
#[derive(Debug, Clone, Copy)]
struct Case {
    seed: u64,
    policy: Policy,
    compression: Compression,
    block: usize,
    blocks: u64,
    noise: Noise,
}

/// A volume and the contents that it must have.
struct Filled {
    case: Case,
    volume: Volume,
    codec: Codec,
    /// The content of each block, and its compressed bytes.
    ids: Vec<(u64, Option<usize>)>,
}

impl Filled {
    fn content(&self, id: u64) -> Vec<u8> {
        content(id, (self.case.block, self.case.noise.of(id)))
    }

    fn write(&mut self, lbn: usize, id: u64) -> Result<(), DeviceError> {
        let content = self.content(id);
        write(&self.volume, (lbn * self.case.block) as u64, &content)?;
        let compressed = self.codec.compress(self.case.compression, &[&content]);
        let bytes = compressed.parts().next().flatten().map(|(_, bytes)| bytes.len());
        if lbn == self.ids.len() {
            self.ids.push((0, None));
        }
        self.ids[lbn] = (id, bytes);
        Ok(())
    }

    fn check(&self) {
        for (lbn, (id, _)) in self.ids.iter().enumerate() {
            let found = read(&self.volume, (lbn * self.case.block) as u64, self.case.block);
            assert!(found.unwrap() == self.content(*id), "{:?}: block {lbn}", self.case);
        }
    }

    /// The blocks that the contents take if they are packed in the order of their LBNs.
    fn least_blocks(&self) -> u64 {
        packed_blocks(self.case.block, self.ids.iter().map(|(_, bytes)| *bytes))
    }
}

/// The bytes of a write buffer, which holds at least 24 blocks.
const MIN_BUFFER_BYTES: u64 = 256 << 10;
/// One in this many writes is to a further block.
const OVERWRITES: u64 = 16;

/// Fills a pool to 70 %, and overwrites it at random with a further block now and then, until it
/// refuses a write. Returns the blocks that its contents would take if they were packed anew.
fn fill_up(case: Case) -> u64 {
    let _repeat = Repeat::of(case.seed);
    let simulation = Simulation::new(case.seed);
    let block_bytes = case.block as u64;
    let options = PoolOptions {
        compression: Some(case.compression),
        block_bytes: case.block as u32,
        capacity_bytes: case.blocks * block_bytes,
        journal_bytes: Some(1 << 20),
        ..options_with(case.policy, case.blocks)
    };
    Pool::format(&simulation.disks(), &options).unwrap();
    let buffer = (24 * block_bytes).max(MIN_BUFFER_BYTES);
    let tuning = Tuning { write_buffer_bytes: buffer, ..crate::common::tuning_on_disk() };
    let pool = open(&simulation.disks(), tuning).unwrap();
    let most = 7 * case.blocks;
    pool.create_volume("a", most * block_bytes, DedupMode::Off).unwrap();
    let volume = pool.volume("a").unwrap();
    let codec = Codec::thorough(case.block);
    let mut random = Random::new(case.seed);
    let mut filled = Filled { case, volume, codec, ids: Vec::new() };
    while pool.stat().unwrap().used_blocks * 10 < case.blocks * 7 {
        filled.write(filled.ids.len(), random.next_u64()).unwrap();
    }
    for number in 0.. {
        if number % (OVERWRITES / 2) == 0 {
            flush(&filled.volume).unwrap();
        }
        let lbn = match number % OVERWRITES {
            0 => filled.ids.len(),
            _ => random.below(filled.ids.len() as u64) as usize,
        };
        match filled.write(lbn, random.next_u64()) {
            Ok(()) => assert!((filled.ids.len() as u64) < most, "{case:?} refuses nothing"),
            Err(error) => {
                assert!(matches!(error, DeviceError::NoSpace), "{case:?}: {error}");
                break;
            }
        }
    }
    filled.check();
    let least = filled.least_blocks();
    drop(filled);
    assert_eq!(pool.prove(9).unwrap(), Vec::<String>::new(), "{case:?}");
    pool.remove_volume("a").unwrap();
    pool.close().unwrap();
    let options = CheckOptions { data: true };
    let report = check(&simulation.disks(), options, &Silent, &StopFlag::new()).unwrap();
    assert!(report.is_clean(), "{case:?}: {:?}", report.problems);
    least
}

/// Pools with these block sizes and blocks refuse a write when no more than this number of blocks
/// is wasted, besides the cleaner's own blocks. It is given both numbers.
fn compare(stores: &[(usize, u64)], wasted: fn(u64, u64) -> u64) {
    let noises = [Noise::Fixed(31), Noise::Any, Noise::Ends];
    let cases = stores.iter().flat_map(|store| noises.map(|noise| (*store, noise)));
    for (seed, ((block, blocks), noise)) in (first_seed()..).zip(cases) {
        let policy = Policy::ALL[seed as usize % Policy::ALL.len()];
        let compression = COMPRESSIONS[seed as usize % 2];
        let case = Case { seed, policy, compression, block, blocks, noise };
        let least = fill_up(case);
        let own = blocks.isqrt().clamp(8, 256);
        let percent = least * 100 / blocks;
        eprintln!("{case:?}: full at {percent} %, with {own} blocks of the cleaner");
        let bound = blocks - 1 - own - wasted(blocks, own);
        assert!(least >= bound, "{case:?}: a write was refused at {least} of {blocks} blocks");
    }
}

fn two_of_each_window(blocks: u64, own: u64) -> u64 {
    2 * blocks.div_ceil(own.min(64))
}

#[test]
fn a_pool_is_full_when_two_blocks_of_each_window_are_wasted() {
    compare(&[(4096, 2000)], two_of_each_window);
}

#[test]
fn a_pool_of_small_blocks_is_full_when_two_blocks_of_each_window_are_wasted() {
    compare(&[(512, 4000)], two_of_each_window);
}

/// In a store of few blocks the cleaner moves all contents in the end, whose runs waste less.
#[test]
fn a_small_pool_is_full_when_a_twentieth_of_it_is_wasted() {
    compare(&[(512, 700), (4096, 700), (65536, 200)], |blocks, _| blocks / 20);
}
