//! Batches that leave the reads that would wait for the medium: the others are done, checked and
//! counted, and nothing is done twice or in another order.

use crate::common::simulated::Simulation;
use crate::common::{BLOCK, content, options, read, tuning_on_disk, write};
use gemelo_base::ManualClock;
use gemelo_device::{BlockDevice, DeviceError, Durability, Operation, Request, Waiting};
use gemelo_disk::testing::DiskLayer;
use gemelo_disk::{Disk, DiskRead};
use gemelo_format::DedupMode;
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, Tuning, Volume};
use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// A disk whose reads of some contents wait for the medium.
struct ColdDisk {
    below: Arc<dyn Disk>,
    cold: Mutex<HashSet<Vec<u8>>>,
}

impl DiskLayer for ColdDisk {
    fn below(&self) -> &dyn Disk {
        &*self.below
    }

    fn read_ready(&self, reads: &mut [DiskRead<'_>]) {
        self.below.read_many(reads);
        let cold = self.cold.lock().unwrap();
        for read in reads.iter_mut().filter(|read| cold.contains(&*read.buffer)) {
            read.buffer.fill(0xee);
            read.outcome = Err(io::ErrorKind::WouldBlock.into());
        }
    }
}

struct Cold {
    simulation: Simulation,
    data: Arc<ColdDisk>,
    pool: Pool,
    volume: Volume,
}

impl Cold {
    /// Makes a pool whose block 0 has the content 1, and so on. Reads of the contents 2 and 5 wait.
    fn new() -> Self {
        let simulation = Simulation::new(1);
        Pool::format(&simulation.disks(), &options(100)).unwrap();
        let PoolDisks { data, metadata, .. } = simulation.disks();
        let cold = [2, 5].map(|id| content(id, BLOCK)).into();
        let data = Arc::new(ColdDisk { below: data, cold: Mutex::new(cold) });
        let disks = PoolDisks::new(data.clone(), metadata);
        // Contents are read from the disk.
        let tuning = Tuning { content_cache_bytes: Some(0), ..tuning_on_disk() };
        let pool = Pool::open_disks(disks, tuning, Arc::new(ManualClock::new())).unwrap();
        pool.create_volume("a", 64 * BLOCK as u64, DedupMode::Inline).unwrap();
        let volume = pool.volume("a").unwrap();
        for (block, id) in (0..).zip(1..=6) {
            write(&volume, block * BLOCK as u64, &content(id, BLOCK)).unwrap();
        }
        pool.flush().unwrap();
        Self { simulation, data, pool, volume }
    }

    /// Flips a bit of a content on the disk.
    fn rot(&self, id: u64) {
        let (image, wanted) = (self.simulation.images()[0].clone(), content(id, BLOCK));
        let at = image.chunks(BLOCK).position(|block| *block == wanted).unwrap() * BLOCK + 33;
        self.data.below.write_at(at as u64, &[wanted[33] ^ 4]).unwrap();
    }

    /// The number of reads, their bytes, the failures, and the reads whose latency was counted.
    fn counted(&self) -> [u64; 4] {
        let stat = self.volume.stat();
        let load = &self.pool.volumes()[0].load;
        assert_eq!(load.requests_in_flight, 0);
        let timed = load.operations[0].requests;
        [stat.reads, stat.read_bytes, stat.failed_requests, timed]
    }
}

/// Reads ranges of bytes as one batch. Returns the places of those that were left, and for each of
/// the others the outcome with its data.
fn read_ready(
    volume: &Volume,
    ranges: &[Range<usize>],
) -> (Vec<usize>, Vec<Result<Vec<u8>, DeviceError>>) {
    let mut buffers: Vec<Vec<u8>> = ranges.iter().map(|range| vec![0xff; range.len()]).collect();
    let pairs = ranges.iter().zip(&mut buffers);
    let mut batch: Vec<Request<'_>> = pairs
        .map(|(range, buffer)| Request {
            operation: Operation::Read { offset: range.start as u64, buffer },
            outcome: Ok(()),
        })
        .collect();
    let left = volume.submit(&mut batch, Waiting::None);
    let outcomes: Vec<_> = batch.into_iter().map(|request| request.outcome).collect();
    let done = outcomes.into_iter().zip(buffers).map(|(outcome, data)| outcome.map(|()| data));
    (left, done.collect())
}

fn request(operation: Operation<'_>) -> Request<'_> {
    Request { operation, outcome: Ok(()) }
}

fn blocks(first: usize, count: usize) -> Range<usize> {
    first * BLOCK..(first + count) * BLOCK
}

#[test]
fn a_batch_leaves_reads_that_would_wait_and_does_the_others() {
    let cold = Cold::new();
    let all: Vec<u8> = (1..=6).flat_map(|id| content(id, BLOCK)).chain([0; BLOCK]).collect();
    let ranges = [
        blocks(0, 1),
        blocks(1, 1),
        blocks(2, 3),
        3 * BLOCK + 9..3 * BLOCK + 99,
        600..700,
        blocks(5, 2),
    ];
    let (left, done) = read_ready(&cold.volume, &ranges);
    assert_eq!(left, [1, 2, 4]);
    for place in [0, 3, 5] {
        assert!(*done[place].as_ref().unwrap() == all[ranges[place].clone()], "{place}");
    }
    let bytes = |places: &[usize]| places.iter().map(|at| ranges[*at].len() as u64).sum::<u64>();
    assert_eq!(cold.counted(), [3, bytes(&[0, 3, 5]), 0, 3]);
    for place in left {
        let range = ranges[place].clone();
        let data = read(&cold.volume, range.start as u64, range.len()).unwrap();
        assert!(data == all[range], "{place}");
    }
    assert_eq!(cold.counted(), [6, bytes(&[0, 1, 2, 3, 4, 5]), 0, 6]);
    let mut buffers = [[0; BLOCK]; 3];
    let [first, second, third] = &mut buffers;
    let read =
        |block: usize, buffer| request(Operation::Read { offset: (block * BLOCK) as u64, buffer });
    let mut batch = [read(1, first), read(0, second), read(4, third)];
    assert_eq!(cold.volume.submit(&mut batch, Waiting::First), [2], "the first one is waited for");
    assert!(buffers[0] == content(2, BLOCK)[..] && buffers[1] == content(1, BLOCK)[..]);
    cold.data.cold.lock().unwrap().clear();
    let (left, done) = read_ready(&cold.volume, &ranges);
    assert!(left.is_empty() && done.iter().all(Result::is_ok));
}

#[test]
fn requests_of_the_same_place_keep_their_order() {
    let cold = Cold::new();
    let (fresh, mut old, mut new) = (content(9, BLOCK), [0; BLOCK], [0; BLOCK]);
    let offset = BLOCK as u64;
    let write = |offset| Operation::Write { offset, data: &fresh, durability: Durability::Flushed };
    // The read comes before the write, so it is not left.
    let mut batch = [
        request(Operation::Read { offset, buffer: &mut old }),
        request(write(offset)),
        request(Operation::Read { offset, buffer: &mut new }),
    ];
    assert!(cold.volume.submit(&mut batch, Waiting::None).is_empty());
    assert!(batch.iter().all(|request| request.outcome.is_ok()));
    assert!(old[..] == content(2, BLOCK) && new[..] == fresh);
    // Here nothing conflicts with the read, and a flush needs no read.
    let mut batch = [
        request(Operation::Flush),
        request(write(0)),
        request(Operation::Read { offset: 4 * offset, buffer: &mut old }),
    ];
    assert_eq!(cold.volume.submit(&mut batch, Waiting::None), [2]);
    assert!(read(&cold.volume, 0, BLOCK).unwrap() == fresh);
}

#[test]
fn damage_is_found_although_other_reads_are_left() {
    let cold = Cold::new();
    cold.rot(1);
    cold.rot(4);
    let ranges = [blocks(0, 1), blocks(1, 1), blocks(2, 1), blocks(3, 2)];
    let (left, done) = read_ready(&cold.volume, &ranges);
    // The content 4 is looked at when the content 5 behind it is there.
    assert_eq!(left, [1, 3]);
    assert!(matches!(done[0], Err(DeviceError::Damaged { offset: 0 })), "{:?}", done[0]);
    assert!(*done[2].as_ref().unwrap() == content(3, BLOCK));
    assert_eq!((cold.counted()[2], cold.pool.damaged_blocks().len()), (1, 1));
    assert!(read(&cold.volume, 3 * BLOCK as u64, 2 * BLOCK).is_err());
    assert_eq!((cold.counted()[2], cold.pool.damaged_blocks().len()), (2, 2));
}
