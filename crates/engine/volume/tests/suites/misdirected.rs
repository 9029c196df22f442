//! Misdirected writes: one write of a life lands at another place of its disk. Nothing panics, and
//! what is read later is right or an error.

use crate::common::repeat::Repeat;
use crate::common::{
    BLOCK, Kind, content, first_seed, flush, kinds, open, options_of, read, rounds, tuning, write,
};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_disk::Disk;
use gemelo_disk::testing::{MemoryDisk, MisdirectingDisk};
use gemelo_format::DedupMode;
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, Tuning, Volume};
use std::sync::Arc;

/// Lives over all kinds of pools.
const ROUNDS: u64 = 6000;
/// Blocks of the volume.
const BLOCKS: u64 = 48;

/// Settings with which contents are read from the disk.
fn on_disk(seed: u64) -> Tuning {
    let max_journal_data_bytes = if seed.is_multiple_of(2) { Some(0) } else { None };
    Tuning { content_cache_bytes: Some(0), max_journal_data_bytes, ..tuning() }
}

/// Writes the volume, with flushes and checkpoints. Returns the flushed contents: of a block whose
/// last write was not flushed, also the one before.
fn work(pool: &Pool, volume: &Volume, random: &mut Random) -> Vec<Vec<Vec<u8>>> {
    let mut possible = vec![vec![vec![0; BLOCK]]; BLOCKS as usize];
    for step in 0..90 {
        let (lbn, id) = (random.below(BLOCKS), 1 + random.below(30));
        let bytes = content(id, BLOCK);
        // An error leaves the old content or the new one.
        let is_written = write(volume, lbn * BLOCK as u64, &bytes).is_ok();
        possible[lbn as usize].push(bytes);
        if is_written && step % 7 == 0 && flush(volume).is_ok() {
            for contents in &mut possible {
                contents.drain(..contents.len() - 1);
            }
        }
        if step % 30 == 29 {
            // Damage that a checkpoint finds stops it.
            let _ = pool.checkpoint();
        }
    }
    possible
}

/// Lives a life with one misdirected write. Returns the blocks that read right, and those that are
/// lost, or all of them if the pool does not open.
fn live(kind: Kind, seed: u64) -> [u64; 2] {
    let mut random = Random::new(seed);
    let [data, metadata] = [(); 2].map(|()| Arc::new(MemoryDisk::default()) as Arc<dyn Disk>);
    let plain = PoolDisks::new(Arc::clone(&data), Arc::clone(&metadata));
    Pool::format(&plain, &options_of(kind, 300)).unwrap();
    let mode = [DedupMode::Inline, DedupMode::Off][(seed % 2) as usize];
    open(&plain, on_disk(seed)).unwrap().create_volume("a", BLOCKS * BLOCK as u64, mode).unwrap();
    let after = random.below(80);
    let misdirect = |disk| Arc::new(MisdirectingDisk::new(disk, after, seed)) as Arc<dyn Disk>;
    let disks = match random.below(2) {
        0 => PoolDisks::new(misdirect(data), metadata),
        _ => PoolDisks::new(data, misdirect(metadata)),
    };
    let Ok(pool) = open(&disks, on_disk(seed)) else { return [0, BLOCKS] };
    let Ok(volume) = pool.volume("a") else { return [0, BLOCKS] };
    let possible = work(&pool, &volume, &mut random);
    drop((volume, pool));
    let report = check(&plain, CheckOptions { data: true }, &Silent, &StopFlag::new());
    let Ok(pool) = open(&plain, on_disk(seed)) else {
        assert!(report.is_err() || !report.unwrap().is_clean(), "a check tells why");
        return [0, BLOCKS];
    };
    let volume = pool.volume("a").unwrap();
    let mut tally = [0; 2];
    for (lbn, possible) in possible.iter().enumerate() {
        match read(&volume, (lbn * BLOCK) as u64, BLOCK) {
            Ok(found) => {
                assert!(possible.contains(&found), "{kind:?}: block {lbn} is wrong");
                tally[0] += 1;
            }
            Err(_) => tally[1] += 1,
        }
    }
    tally
}

#[test]
fn a_misdirected_write_never_gives_a_wrong_content() {
    let kinds: Vec<Kind> = kinds().collect();
    let (first, mut tally) = (first_seed(), [0; 2]);
    let each = rounds(ROUNDS).div_ceil(kinds.len() as u64);
    for kind in kinds {
        for seed in first..first + each {
            let _repeat = Repeat::of(seed);
            let [right, lost] = live(kind, seed);
            tally = [tally[0] + right, tally[1] + lost];
        }
    }
    let [right, lost] = tally;
    eprintln!("{right} blocks are right, {lost} are lost");
    assert!(right > 10 * lost && lost > 0, "{right} blocks are right, {lost} are lost");
}
