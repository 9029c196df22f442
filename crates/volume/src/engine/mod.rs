//! The engine: what happens to requests between volumes and disks.
//!
//! Locks, in the order in which they are taken: what keeps a volume from being removed or cut, the catalogue, a volume's
//! gate, the collector, the lead of the crowd, the checkpointer, the committer, the sync of a disk, the state, limbo and
//! space. Data is read and written without the state.

mod checked;
mod checkpoint;
mod commit;
mod copy;
mod crowd;
mod damage;
mod data;
mod finder;
mod keeper;
mod patch;
mod pieces;
mod plan;
mod read;
mod reserve;
mod segment;
mod volume_space;
mod volumes;
mod worker;
mod write;

pub(crate) use checked::Wanted;
pub use damage::DamagedBlock;
pub(crate) use damage::Damages;
pub use finder::FinderReport;
pub(crate) use reserve::LEAST_RESERVE_SLOTS;
pub(crate) use segment::Range;
pub use volume_space::{SnapshotSpace, VolumeSpace};
pub(crate) use volumes::VolumeShared;
pub(crate) use worker::Worker;

use crate::backend::MetadataBackend;
use crate::counters::PoolCounters;
use crate::error::{Result, VolumeError};
use crate::pool::Tuning;
use crate::readers::{Limbo, Readers};
use crate::space::Space;
pub(crate) use commit::Committer;
use commit::OpenCommit;
use copy::Copying;
pub(crate) use crowd::Crowd;
use gemelo_base::Clock;
use gemelo_disk::Disk;
use gemelo_format::{DiskRole, Fingerprinter, PoolSeed, Superblock, VolumeId};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// State guarded by one lock: the metadata, the open commit, and copies under way.
pub(crate) struct State {
    pub(crate) backend: Box<dyn MetadataBackend>,
    pub(crate) open: OpenCommit,
    /// Volumes that are being copied.
    copies: Vec<Copying>,
}

impl State {
    pub(crate) fn new(backend: Box<dyn MetadataBackend>, next_commit: u64) -> Self {
        Self { backend, open: OpenCommit::new(next_commit), copies: Vec::new() }
    }
}

/// A pool that is open.
pub(crate) struct Engine {
    pub(crate) data: Arc<dyn Disk>,
    pub(crate) metadata: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) superblock: Superblock,
    pub(crate) seed: PoolSeed,
    pub(crate) tuning: Tuning,
    pub(crate) fingerprinter: Fingerprinter,
    pub(crate) is_read_only: bool,
    pub(crate) state: RwLock<State>,
    pub(crate) space: Mutex<Space>,
    pub(crate) readers: Readers,
    pub(crate) limbo: Mutex<Limbo>,
    pub(crate) crowd: Crowd,
    pub(crate) committer: Mutex<Committer>,
    pub(crate) checkpointer: Mutex<()>,
    /// Held by the collector while it has free blocks, and by a writer that finds none.
    pub(crate) collector: Mutex<()>,
    /// Held while the data disk, or the metadata disk, is synced.
    pub(crate) syncing: [Mutex<()>; 2],
    pub(crate) stopped: OnceLock<(DiskRole, &'static str)>,
    /// Volumes by name. Locked for a look or an insertion alone, so that clients find their volumes at any time.
    pub(crate) volumes: RwLock<BTreeMap<String, Arc<VolumeShared>>>,
    /// Held while the list of volumes, or the size of the pool, changes: such changes come one after another. Holds the
    /// names of volumes that are being made.
    pub(crate) catalogue: Mutex<BTreeSet<String>>,
    /// Volumes that a crash has left half made or half removed.
    pub(crate) hidden: Mutex<Vec<VolumeId>>,
    pub(crate) counters: PoolCounters,
    pub(crate) damages: Damages,
    /// Bytes of the open commit, to be looked at without a lock.
    pub(crate) open_bytes: AtomicU64,
    /// Bytes of the commits that wait, to be looked at without a lock.
    pub(crate) waiting_bytes: AtomicU64,
    /// Blocks that writes under way have taken, and that nothing refers to yet. It grows with the space locked alone, so
    /// that the sum of these and the free blocks is known at one instant.
    pub(crate) taken_blocks: AtomicU64,
    /// Slots of the metadata disk that have their space; grows with the allocator locked alone.
    pub(crate) allocated_slots: AtomicU64,
    pub(crate) allocator: Mutex<()>,
}

impl Engine {
    pub(crate) const fn block_bytes(&self) -> usize {
        self.superblock.block_bytes as usize
    }

    /// Fails if the pool takes no changes.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.is_read_only {
            return Err(VolumeError::ReadOnly);
        }
        match self.stopped.get() {
            None => Ok(()),
            Some((disk, action)) => Err(VolumeError::Stopped { disk: *disk, action }),
        }
    }

    /// Counts references and free blocks again. A freed block is in the open commit, in one that waits, in limbo or free;
    /// it goes from one to the next under these locks, which are held together so that each block is counted once.
    pub(crate) fn prove(&self, most: usize) -> Result<Vec<String>> {
        let committer = self.committer.lock();
        let state = self.state.read();
        let mut wrong = state.backend.prove(most)?;
        let totals = state.backend.totals();
        let limbo = self.limbo.lock();
        let space = self.space.lock();
        let freed = state.open.freed.len() + committer.waiting_blocks() + limbo.len();
        let usable = totals.data_blocks.saturating_sub(self.superblock.reserved_blocks());
        let expected = usable.saturating_sub(totals.physical + freed as u64);
        let free = space.free();
        if free != expected {
            wrong.push(format!("{free} blocks are free, which should be {expected}"));
        }
        Ok(wrong)
    }

    /// No changes from now on: what is durable is not known any more.
    pub(crate) fn stop(&self, disk: DiskRole, action: &'static str) {
        // Only the first reason counts.
        let _ = self.stopped.set((disk, action));
    }
}
