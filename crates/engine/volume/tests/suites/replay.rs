//! An opening after a crash reads a bounded number of pages, in long lists.

use crate::common::simulated::Simulation;
use crate::common::{BLOCK, content, open, options_with, tuning, write};
use gemelo_disk::testing::DiskLayer;
use gemelo_disk::{Disk, DiskRead};
use gemelo_format::{COPIES, DedupMode, MAP_PAGE_ENTRIES, PAGE_BYTES, Policy, Regions, RingPiece};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, PoolOptions, Tuning};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// LBNs with contents, each in a page of the map of its own.
const LEAVES: u64 = 1500;
const LEAF_BYTES: u64 = MAP_PAGE_ENTRIES as u64 * BLOCK as u64;
const MAX_READS: u64 = 400;
/// Writes of a flush.
const BATCH: u64 = 4;

/// The journal, which each of these openings reads.
const JOURNAL_BYTES: u64 = 32 << 20;

/// Counts lists of reads, and the pages in them, without those of the journal.
struct CountingDisk {
    below: Arc<dyn Disk>,
    lists: AtomicU64,
    pages: AtomicU64,
}

impl DiskLayer for CountingDisk {
    fn below(&self) -> &dyn Disk {
        &*self.below
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        let regions = Regions::new(JOURNAL_BYTES / (2 * PAGE_BYTES as u64));
        let pieces = regions.ring(0, JOURNAL_BYTES as usize / COPIES);
        let ring = pieces.flat_map(|RingPiece { bytes, offsets }| {
            offsets.map(|start| start..start + bytes.len() as u64)
        });
        let ring: Vec<_> = ring.collect();
        let is_journal =
            |read: &&DiskRead<'_>| ring.iter().any(|piece| piece.contains(&read.offset));
        let pages = (reads.len() - reads.iter().filter(is_journal).count()) as u64;
        self.lists.fetch_add(u64::from(pages > 0), Ordering::Relaxed);
        self.pages.fetch_add(pages, Ordering::Relaxed);
        self.below.read_many(reads);
    }
}

/// Opens a pool, and returns it with the lists and pages that the opening has read.
fn counted(simulation: &Simulation, tuning: Tuning) -> (Pool, [u64; 2]) {
    let PoolDisks { metadata: below, data, .. } = simulation.disks();
    let metadata =
        Arc::new(CountingDisk { below, lists: AtomicU64::new(0), pages: AtomicU64::new(0) });
    let pool = open(&PoolDisks::new(data, Arc::clone(&metadata) as Arc<dyn Disk>), tuning).unwrap();
    let read = [&metadata.lists, &metadata.pages].map(|count| count.load(Ordering::Relaxed));
    (pool, read)
}

fn overwrite(pool: &Pool, first_id: u64) {
    let volume = pool.volume("a").unwrap();
    for leaf in 0..LEAVES {
        write(&volume, leaf * LEAF_BYTES, &content(first_id + leaf, BLOCK)).unwrap();
        if leaf % BATCH == 0 {
            pool.flush().unwrap();
        }
    }
    pool.flush().unwrap();
}

/// Lists and pages that the opening after a crash reads beyond those of one after a close.
fn replay_reads(policy: Policy, max_replay_reads: u64) -> [u64; 2] {
    let simulation = Simulation::new(1);
    let journal_bytes = Some(JOURNAL_BYTES);
    let options = PoolOptions { journal_bytes, ..options_with(policy, 4 * LEAVES) };
    Pool::format(&simulation.disks(), &options).unwrap();
    let tuning = Tuning { cache_bytes: Some(64 << 20), max_replay_reads, ..tuning() };
    let pool = open(&simulation.disks(), tuning).unwrap();
    pool.create_volume("a", LEAVES * LEAF_BYTES, DedupMode::Inline).unwrap();
    overwrite(&pool, 1);
    pool.close().unwrap();
    let (pool, after_close) = counted(&simulation, tuning);
    overwrite(&pool, 1 + LEAVES);
    drop(pool);
    let (pool, after_crash) = counted(&simulation, tuning);
    let stat = pool.stat().unwrap();
    assert_eq!((stat.logical_blocks, stat.physical_blocks), (LEAVES, LEAVES), "{policy:?}");
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{policy:?}");
    [0, 1].map(|at| after_crash[at] - after_close[at])
}

#[test]
fn an_opening_after_a_crash_reads_a_bounded_number_of_pages() {
    for policy in [Policy::Dtb, Policy::Compact] {
        let [_, pages] = replay_reads(policy, MAX_READS);
        assert!(pages <= MAX_READS, "{policy:?}: {pages} pages");
    }
}

#[test]
fn a_replay_of_many_small_commits_reads_in_long_lists() {
    let [lists, pages] = replay_reads(Policy::Compact, u64::MAX);
    assert!(pages >= LEAVES, "{pages} pages: a page for each LBN");
    assert!(lists <= LEAVES / 20, "{lists} lists of {pages} pages");
}
