//! One kind of request on one metadata policy, to be counted in instructions.
//!
//! Usage: `instructions POLICY LOAD REQUESTS [checkpoint]`; [`Load::ALL`] has the loads. The pool
//! is made in the directory for temporary files, everything runs in one thread, and places and
//! contents are the same in every run. The requests are made by the function [`measured`], so that
//! `valgrind --tool=callgrind --toggle-collect='*measured*'` counts them alone; a checkpoint
//! belongs to them if it is asked for. `benches/instructions.sh` does so for both policies and all
//! loads.

#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its figures or aborts"
)]

use gemelo_base::SystemClock;
use gemelo_base::random::{Random, mix64};
use gemelo_device::{BlockDevice, Durability, Operation, Request};
use gemelo_format::{DedupMode, Policy};
use gemelo_volume::{Pool, PoolOptions, Tuning, Volume};
use std::sync::Arc;

const BLOCK: usize = 4096;
const CAPACITY_BYTES: u64 = 1 << 30;
const VOLUME_BLOCKS: u64 = (512 << 20) / BLOCK as u64;
/// Blocks at the start of the volume that are written before. Duplicates are among their contents.
const WRITTEN_BLOCKS: u64 = 16384;
/// Requests after which a flush comes.
const FLUSH_EACH: u64 = 64;
const KIB64: usize = 64 << 10;
const MIB: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// New contents at places that were never written.
    Unique,
    /// New contents at places that were written before.
    Overwrite,
    /// Known contents at places that were never written.
    Duplicate,
    Read,
}

/// A kind of requests, their length, and their number in a batch.
struct Load {
    name: &'static str,
    kind: Kind,
    bytes: usize,
    depth: usize,
    is_flushed: bool,
}

const fn load(name: &'static str, kind: Kind, bytes: usize, depth: usize) -> Load {
    Load { name, kind, bytes, depth, is_flushed: false }
}

impl Load {
    const ALL: [Self; 13] = [
        load("unique-32", Kind::Unique, BLOCK, 32),
        load("unique-1", Kind::Unique, BLOCK, 1),
        Self { is_flushed: true, ..load("flushed-32", Kind::Unique, BLOCK, 32) },
        load("overwrite-32", Kind::Overwrite, BLOCK, 32),
        load("overwrite-1", Kind::Overwrite, BLOCK, 1),
        load("duplicate-32", Kind::Duplicate, BLOCK, 32),
        load("duplicate-1", Kind::Duplicate, BLOCK, 1),
        load("read-32", Kind::Read, BLOCK, 32),
        load("read-1", Kind::Read, BLOCK, 1),
        load("write-64k", Kind::Unique, KIB64, 1),
        load("read-64k", Kind::Read, KIB64, 1),
        load("write-1m", Kind::Unique, MIB, 1),
        load("read-1m", Kind::Read, MIB, 1),
    ];

    const fn blocks(&self) -> u64 {
        (self.bytes / BLOCK) as u64
    }

    /// The first block of a request.
    fn place(&self, random: &mut Random) -> u64 {
        let (first, end) = match self.kind {
            Kind::Unique | Kind::Duplicate => (WRITTEN_BLOCKS, VOLUME_BLOCKS),
            Kind::Overwrite | Kind::Read => (0, WRITTEN_BLOCKS),
        };
        first + random.below((end - first) / self.blocks()) * self.blocks()
    }
}

/// Fills a block with a content. Eight bytes identify it.
fn stamp(id: u64, block: &mut [u8]) {
    block[..8].copy_from_slice(&mix64(id).to_le_bytes());
}

fn execute<'a>(volume: &Volume, operations: impl Iterator<Item = Operation<'a>>) {
    let mut batch: Vec<Request<'a>> =
        operations.map(|operation| Request { operation, outcome: Ok(()) }).collect();
    volume.execute(&mut batch);
    assert!(batch.iter().all(|request| request.outcome.is_ok()));
}

fn write(volume: &Volume, requests: &[(u64, &[u8])]) {
    let writes = requests.iter().map(|(block, data)| Operation::Write {
        offset: block * BLOCK as u64,
        data,
        durability: Durability::Flushed,
    });
    execute(volume, writes);
}

fn flush(volume: &Volume) {
    execute(volume, std::iter::once(Operation::Flush));
}

/// Writes the blocks that overwrites, duplicates and reads need.
fn prepare(pool: &Pool, volume: &Volume) {
    let mut data = vec![0x5A; MIB];
    for first in (0..WRITTEN_BLOCKS).step_by(MIB / BLOCK) {
        (first..).zip(data.chunks_mut(BLOCK)).for_each(|(id, block)| stamp(id, block));
        write(volume, &[(first, data.as_slice())]);
    }
    flush(volume);
    // Deltas take turns with their memory: the second checkpoint makes the first one's serve again.
    pool.checkpoint().unwrap();
    pool.checkpoint().unwrap();
}

/// Makes the next contents of a request.
fn fill(load: &Load, next: &mut u64, random: &mut Random, data: &mut [u8]) {
    for block in data.chunks_mut(BLOCK) {
        *next += 1;
        let is_known = load.kind == Kind::Duplicate;
        stamp(if is_known { random.below(WRITTEN_BLOCKS) } else { *next }, block);
    }
}

#[inline(never)]
fn measured(pool: &Pool, volume: &Volume, load: &Load, requests: u64, ends_with_checkpoint: bool) {
    let (mut random, mut next) = (Random::new(7), 1 << 40);
    let mut buffers = vec![vec![0x5Au8; load.bytes]; load.depth];
    for done in (0..requests).step_by(load.depth) {
        let places: Vec<u64> = buffers.iter().map(|_| load.place(&mut random)).collect();
        if load.kind == Kind::Read {
            let reads = places
                .iter()
                .zip(&mut buffers)
                .map(|(block, buffer)| Operation::Read { offset: block * BLOCK as u64, buffer });
            execute(volume, reads);
            continue;
        }
        buffers.iter_mut().for_each(|data| fill(load, &mut next, &mut random, data));
        let writes = places.iter().copied().zip(buffers.iter().map(Vec::as_slice));
        write(volume, &writes.collect::<Vec<_>>());
        if load.is_flushed && (done + load.depth as u64).is_multiple_of(FLUSH_EACH) {
            flush(volume);
        }
    }
    if ends_with_checkpoint {
        pool.checkpoint().unwrap();
    }
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let [policy, name, requests, rest @ ..] = arguments.as_slice() else {
        println!("usage: instructions POLICY LOAD REQUESTS [checkpoint]");
        return;
    };
    let policy = Policy::ALL.into_iter().find(|kind| kind.name() == policy).unwrap();
    let load = Load::ALL.into_iter().find(|load| load.name == name).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let options = PoolOptions { capacity_bytes: CAPACITY_BYTES, policy, ..PoolOptions::default() };
    Pool::create(&path, &options).unwrap();
    let tuning = Tuning { background: false, ..Tuning::default() };
    let pool = Pool::open(&path, tuning, Arc::new(SystemClock::new())).unwrap();
    pool.create_volume("v", VOLUME_BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("v").unwrap();
    prepare(&pool, &volume);
    measured(&pool, &volume, &load, requests.parse().unwrap(), !rest.is_empty());
    let stat = pool.stat().unwrap();
    println!("{} blocks are mapped, {} stored", stat.logical_blocks, stat.physical_blocks);
}
