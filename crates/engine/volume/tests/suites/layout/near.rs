//! Overwrites at random that find a place among their neighbours.

use crate::common::seek::SeekDisk;
use crate::common::simulated::Simulation;
use crate::common::{BLOCK, content, flush, open, options_with, read, tuning, write};
use gemelo_base::random::Random;
use gemelo_disk::Disk;
use gemelo_format::{DedupMode, Policy};
use gemelo_store::PoolDisks;
use gemelo_volume::{LayoutTuning, Pool, Tuning};
use std::sync::Arc;

/// Blocks of the volume, of the pool, and of a read.
const BLOCKS: u64 = 1024;
const POOL_BLOCKS: u64 = 4000;
const READ_BLOCKS: u64 = 256;
/// Overwrites, and how many of them are in one commit.
const OVERWRITES: u64 = 4 * BLOCKS;
const COMMIT_OVERWRITES: u64 = 32;

/// Overwrites a volume at random that was written in a row. Returns the seeks of reading all of it.
fn seeks_after_overwrites(near_per_s: u64) -> u64 {
    let simulation = Simulation::new(1);
    let PoolDisks { data, metadata, .. } = simulation.disks();
    let data = Arc::new(SeekDisk::new(data));
    let disks = PoolDisks::new(Arc::clone(&data) as Arc<dyn Disk>, metadata);
    Pool::format(&disks, &options_with(Policy::Compact, POOL_BLOCKS)).unwrap();
    let layout = LayoutTuning { near_per_s, ..LayoutTuning::default() };
    let pool = open(&disks, Tuning { layout, content_cache_bytes: Some(0), ..tuning() }).unwrap();
    pool.create_volume("a", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    let mut ids: Vec<u64> = (0..BLOCKS).collect();
    let all: Vec<u8> = ids.iter().flat_map(|id| content(*id, BLOCK)).collect();
    write(&volume, 0, &all).unwrap();
    flush(&volume).unwrap();
    let mut random = Random::new(5);
    for number in 0..OVERWRITES {
        let lbn = random.below(BLOCKS);
        ids[lbn as usize] = BLOCKS + number;
        write(&volume, lbn * BLOCK as u64, &content(BLOCKS + number, BLOCK)).unwrap();
        if number % COMMIT_OVERWRITES == 0 {
            flush(&volume).unwrap();
        }
    }
    flush(&volume).unwrap();
    data.take();
    for first in (0..BLOCKS).step_by(READ_BLOCKS as usize) {
        let bytes = read(&volume, first * BLOCK as u64, READ_BLOCKS as usize * BLOCK).unwrap();
        let written = ids[first as usize..][..READ_BLOCKS as usize].iter();
        assert!(bytes == written.flat_map(|id| content(*id, BLOCK)).collect::<Vec<u8>>());
    }
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
    data.take().seeks
}

#[test]
fn scattered_overwrites_leave_what_is_read_together_together() {
    let (near, elsewhere) = (seeks_after_overwrites(u64::MAX), seeks_after_overwrites(0));
    eprintln!("{near} seeks near their neighbours, {elsewhere} elsewhere");
    assert!(near * 3 < elsewhere, "{near} {elsewhere}");
    // No time passes: the budget of an eighth of a second is all that there is.
    let few = seeks_after_overwrites(8 * 100);
    assert!(few * 4 > elsewhere * 3, "{few} {elsewhere}");
}
