//! Pools with a past: full once, overwritten at random, and opened twice again. All blocks of the
//! data store have had contents, and those that are left lie scattered.

use super::driver::{Block, Model, ModelVolume};
use super::simulated::Simulation;
use super::{BLOCK, content, open, trim, write};
use gemelo_base::random::Random;
use gemelo_format::DedupMode;
use gemelo_volume::{Tuning, Volume};

/// More blocks than a pool of a test has room for.
const VOLUME_BLOCKS: u64 = 4000;
/// Blocks that are left for the test.
const LEFT_BLOCKS: u64 = 20;
/// Random overwrites between two openings.
const OVERWRITES: u64 = 40;
const OPENINGS: u64 = 3;

/// Ages a pool that was formatted, and tells the model of the volume that is left.
pub fn age(simulation: &Simulation, model: &mut Model, random: &mut Random, tuning: Tuning) {
    let mut ids = Vec::new();
    for opening in 1..=OPENINGS {
        let pool = open(&simulation.disks(), tuning).unwrap();
        if opening == 1 {
            pool.create_volume("past", VOLUME_BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
            ids = fill(&pool.volume("past").unwrap(), random);
            // A full pool takes no other contents.
            pool.resize_volume("past", ids.len() as u64 / 2 * BLOCK as u64).unwrap();
            ids.truncate(ids.len() / 2);
        }
        overwrite(&pool.volume("past").unwrap(), &mut ids, random);
        if opening == OPENINGS {
            pool.resize_volume("past", LEFT_BLOCKS * BLOCK as u64).unwrap();
            ids.truncate(LEFT_BLOCKS as usize);
        }
        pool.close().unwrap();
    }
    let block = |id: u64| {
        let live = if id == 0 { vec![0; BLOCK] } else { content(id, BLOCK) };
        Block { allowed: vec![live.clone()], live }
    };
    let blocks = ids.into_iter().map(block).collect();
    let volume = ModelVolume { blocks, ..ModelVolume::default() };
    model.volumes.insert("past".to_owned(), volume);
}

/// Writes blocks until there is no space. Returns the numbers of their contents.
fn fill(volume: &Volume, random: &mut Random) -> Vec<u64> {
    let mut ids = Vec::new();
    for lbn in 0..VOLUME_BLOCKS {
        let id = random.next_u64().max(1);
        if write(volume, lbn * BLOCK as u64, &content(id, BLOCK)).is_err() {
            break;
        }
        ids.push(id);
    }
    assert!(
        (LEFT_BLOCKS as usize * 2..VOLUME_BLOCKS as usize).contains(&ids.len()),
        "{} blocks fill the pool",
        ids.len()
    );
    ids
}

/// Writes and trims random blocks. `ids` has the numbers of their contents, 0 for zeros.
fn overwrite(volume: &Volume, ids: &mut [u64], random: &mut Random) {
    for _ in 0..OVERWRITES {
        let lbn = random.below(ids.len() as u64);
        let at = lbn * BLOCK as u64;
        let id = if random.below(4) == 0 { 0 } else { random.next_u64().max(1) };
        let done = match id {
            0 => trim(volume, at, BLOCK as u64),
            id => write(volume, at, &content(id, BLOCK)),
        };
        // Freed blocks may not be for use yet. The content is then the old one.
        if done.is_ok() {
            ids[lbn as usize] = id;
        }
    }
}
