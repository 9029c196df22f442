//! A file system that gets full below a pool: removals always succeed and make room.

use crate::common::{content, flush, read, trim, write};
use gemelo_base::random::Random;
use gemelo_base::{ManualClock, Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_device::DeviceError;
use gemelo_disk::testing::DiskLayer;
use gemelo_disk::{Disk, DiskWrite, FileDisk};
use gemelo_format::{DedupMode, Policy};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, PoolOptions, Tuning, Volume};
use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

/// Bytes of a block of the pools here, and of the file systems.
const BLOCK: usize = 4096;
/// Blocks of the volume that is removed.
const BLOCKS: u64 = 1500;
/// The distance of LBNs that are in different pages of a map.
const APART: u64 = 1024;

/// A file on a file system with a limited number of free blocks, which all of its files share.
struct SparseDisk {
    file: FileDisk,
    used: Mutex<HashSet<u64>>,
    left: Arc<Mutex<u64>>,
}

impl SparseDisk {
    fn take(&self, offset: u64, length: u64) -> io::Result<()> {
        let blocks = offset / BLOCK as u64..(offset + length).div_ceil(BLOCK as u64);
        let (mut used, mut left) = (self.used.lock().unwrap(), self.left.lock().unwrap());
        let new: Vec<u64> = blocks.filter(|block| !used.contains(block)).collect();
        let rest = left.checked_sub(new.len() as u64);
        *left = rest.ok_or_else(|| io::Error::from(io::ErrorKind::StorageFull))?;
        used.extend(new);
        Ok(())
    }
}

impl DiskLayer for SparseDisk {
    fn below(&self) -> &dyn Disk {
        &self.file
    }

    fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
        self.take(offset, length)
    }
    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        for write in writes {
            let taken = self.take(write.offset, write.bytes.len() as u64);
            write.outcome = taken.and_then(|()| self.file.write_at(write.offset, write.bytes));
        }
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let blocks: Range<u64> = offset / BLOCK as u64..(offset + length) / BLOCK as u64;
        let (mut used, mut left) = (self.used.lock().unwrap(), self.left.lock().unwrap());
        *left += blocks.filter(|block| used.remove(block)).count() as u64;
        Ok(())
    }
}

fn options(policy: Policy) -> PoolOptions {
    PoolOptions {
        policy,
        capacity_bytes: 100_000 * BLOCK as u64,
        journal_bytes: Some(128 << 10),
        ..PoolOptions::default()
    }
}

fn open(disks: &PoolDisks) -> Pool {
    let tuning = Tuning { background: false, cache_bytes: Some(256 << 10), ..Tuning::default() };
    Pool::open_disks(disks.clone(), tuning, Arc::new(ManualClock::new())).unwrap()
}

fn unique(random: &mut Random, blocks: u64) -> Vec<u8> {
    (0..blocks).flat_map(|_| content(random.next_u64() | 1, BLOCK)).collect()
}

fn fill(volume: &Volume, random: &mut Random, blocks: u64) {
    for first in (0..blocks).step_by(64) {
        write(volume, first * BLOCK as u64, &unique(random, 64.min(blocks - first))).unwrap();
    }
}

/// Writes blocks so far apart that the map needs a page for each. The metadata get as large as the
/// contents.
fn scatter(volume: &Volume, random: &mut Random, blocks: u64) {
    for number in 0..blocks {
        write(volume, number * APART * BLOCK as u64, &unique(random, 1)).unwrap();
    }
}

/// Writes at random places until there is no room, and then some times more.
fn write_until_full(volume: &Volume, random: &mut Random) {
    let mut refused = 0;
    while refused < 20 {
        let offset = random.below(2 * BLOCKS) * APART * BLOCK as u64;
        let blocks = 1 + random.below(8);
        match write(volume, offset, &unique(random, blocks)) {
            Ok(()) => {}
            Err(DeviceError::NoSpace) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        if random.below(10) == 0 {
            // A flush that finds no room for a checkpoint loses nothing.
            let _ = flush(volume);
        }
    }
}

/// Fills a pool until all writes fail, each time with other blocks left on the file system, and
/// makes room again by a removal.
fn get_out(disks: &PoolDisks, policy: Policy, make_full: impl Fn(), room: impl Fn() -> u64) {
    Pool::format(disks, &options(policy)).unwrap();
    let mut random = Random::new(7);
    let pool = open(disks);
    for name in ["a", "b"] {
        pool.create_volume(name, 4 * BLOCKS * APART * BLOCK as u64, DedupMode::Inline).unwrap();
    }
    scatter(&pool.volume("a").unwrap(), &mut random, BLOCKS);
    fill(&pool.volume("b").unwrap(), &mut random, BLOCKS);
    let kept =
        |pool: &Pool| read(&pool.volume("b").unwrap(), 600 * BLOCK as u64, 100 * BLOCK).unwrap();
    let before_all = kept(&pool);
    make_full();
    write_until_full(&pool.volume("a").unwrap(), &mut random);
    // The pool is opened anew, as a command in a process of its own does.
    drop(pool);
    let pool = open(disks);
    trim(&pool.volume("b").unwrap(), 1000 * BLOCK as u64, 200 * BLOCK as u64).unwrap();
    pool.remove_volume("a").unwrap_or_else(|error| panic!("{policy:?}: {error}"));
    pool.close().unwrap();
    let before = room();
    let pool = open(disks);
    pool.gc(None, &Silent, &StopFlag::new()).unwrap();
    let freed = room() - before;
    assert!(freed > BLOCKS * 9 / 10, "{policy:?}: {freed} blocks are free again");
    let volume = pool.volume("b").unwrap();
    fill(&volume, &mut random, 500);
    flush(&volume).unwrap();
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
    assert!(kept(&pool) == before_all, "{policy:?}: what was flushed is there");
    pool.remove_volume("b").unwrap();
    pool.close().unwrap();
    let options = CheckOptions { data: true };
    assert!(check(disks, options, &Silent, &StopFlag::new()).unwrap().is_clean());
}

#[test]
fn a_full_file_system_takes_removals_at_every_level() {
    for policy in Policy::ALL {
        // Numbers of blocks left within the last MiB.
        for level in [0, 1, 9, 100, 170, 256] {
            let directory = tempfile::tempdir().unwrap();
            let left = Arc::new(Mutex::new(1 << 30));
            let disk = |name: &str| {
                let file = FileDisk::create(&directory.path().join(name)).unwrap();
                Arc::new(SparseDisk { file, used: Mutex::default(), left: Arc::clone(&left) })
            };
            let disks = PoolDisks::new(disk("data"), disk("metadata"));
            let room = || *left.lock().unwrap();
            get_out(&disks, policy, || *left.lock().unwrap() = level, room);
        }
    }
}

/// A mounted file system, until it is dropped.
struct Mounted<'p>(&'p Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

/// The same test on a file system of the kernel, which tells how much room it has.
#[test]
fn a_full_tmpfs_takes_removals() {
    let directory = tempfile::tempdir().unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=96m", "tmpfs"]).arg(directory.path());
    if !mount.output().is_ok_and(|output| output.status.success()) {
        gemelo_tools::skip!("mounting a file system needs root");
    }
    let mounted = Mounted(directory.path());
    let room = || {
        let status = rustix::fs::statvfs(mounted.0).unwrap();
        status.f_bavail * status.f_frsize / BLOCK as u64
    };
    for (number, level) in [0, 3, 77, 256].into_iter().enumerate() {
        let pool = directory.path().join(number.to_string());
        std::fs::create_dir(&pool).unwrap();
        let disk = |name: &str| Arc::new(FileDisk::create(&pool.join(name)).unwrap());
        let disks = PoolDisks::new(disk("data"), disk("metadata"));
        let ballast = pool.join("ballast");
        let make_full = || {
            let file = std::fs::File::create(&ballast).unwrap();
            let bytes = (room() - level) * BLOCK as u64;
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes).unwrap();
        };
        get_out(&disks, Policy::ALL[number % Policy::ALL.len()], make_full, room);
        drop(disks);
        std::fs::remove_dir_all(&pool).unwrap();
    }
}
