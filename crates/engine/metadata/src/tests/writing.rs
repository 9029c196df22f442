//! The writes of a checkpoint.

use super::pair::Pair;
use super::{checksum_of, record};
use gemelo_base::random::Random;
use gemelo_disk::testing::DiskLayer;
use gemelo_disk::{Disk, DiskWrite};
use gemelo_format::{Change, Fingerprint, Lbn, MAP_PAGE_ENTRIES, Pbn, Policy, VolumeId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const LEAVES: u64 = 1500;
/// Leaves that change between two checkpoints.
const CHANGED: u64 = 150;
const ROUNDS: u64 = 30;

/// Counts pages that are written, and the runs that they make.
struct RunsDisk {
    below: Arc<dyn Disk>,
    pages: AtomicU64,
    runs: AtomicU64,
}

impl DiskLayer for RunsDisk {
    fn below(&self) -> &dyn Disk {
        &*self.below
    }

    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        self.pages.fetch_add(writes.len() as u64, Ordering::Relaxed);
        let runs = writes.chunk_by(DiskWrite::is_followed_by).count();
        self.runs.fetch_add(runs as u64, Ordering::Relaxed);
        self.below.write_many(writes);
    }
}

fn store(leaf: u64, pbn: u64) -> Change {
    Change::Store {
        volume: VolumeId(1),
        lbn: Lbn(leaf * MAP_PAGE_ENTRIES as u64),
        pbn: Pbn::new(pbn).unwrap(),
        fingerprint: Fingerprint::of_hash(u128::from(pbn) << 64 | u128::from(pbn)),
        checksum: checksum_of(pbn),
    }
}

/// Returns the pages of a run, in the mean over rounds of changes of random leaves. The disk has
/// this many slots for each that is in use.
fn pages_of_run(kind: Policy, slots: u64) -> f64 {
    let mut pair = Pair::new(kind, 1);
    pair.apply(&Change::Create(record(1, LEAVES * MAP_PAGE_ENTRIES as u64 * 512)));
    (0..LEAVES).for_each(|leaf| drop(pair.apply(&store(leaf, 1 + leaf))));
    pair.backend.freeze();
    let root = pair.write();
    pair.backend.finish();
    let (below, [pages, runs]) = (pair.metadata(), [0; 2].map(AtomicU64::new));
    let disk = Arc::new(RunsDisk { below, pages, runs });
    pair.reload_from(Arc::clone(&disk) as Arc<dyn Disk>, &root, 8 << 20);
    pair.backend.note_allocated(slots * pair.backend.slots().in_use);
    let mut random = Random::new(7);
    for round in 0..ROUNDS {
        for change in 0..CHANGED {
            let pbn = 1 + LEAVES + round * CHANGED + change;
            pair.apply(&store(random.below(LEAVES), pbn));
        }
        if round == ROUNDS / 3 {
            [&disk.pages, &disk.runs].iter().for_each(|count| count.store(0, Ordering::Relaxed));
        }
        pair.backend.freeze();
        pair.write();
        pair.backend.finish();
    }
    let [pages, runs] = [&disk.pages, &disk.runs].map(|count| count.load(Ordering::Relaxed));
    pages as f64 / runs as f64
}

#[test]
fn random_changes_are_written_in_runs_where_the_disk_has_slots() {
    for kind in [Policy::Dtb, Policy::Compact] {
        let (few, many) = (pages_of_run(kind, 0), pages_of_run(kind, 2));
        assert!(many > 3.0 && many > 2.0 * few, "{kind:?}: {many:.1} pages a run, before {few:.1}");
    }
}
