//! Opening a pool: the newest checkpoint, the journal after it, and what is computed from both.

use super::{Pool, PoolDisks, Tuning};
use crate::backend::MetadataBackend;
use crate::backend::log::{Damage, LogBackend};
use crate::counters::PoolCounters;
use crate::engine::{Committer, Engine, Keeper, State, VolumeShared};
use crate::error::{DiskRole, Result, VolumeError};
use crate::fingerprint::Fingerprinter;
use crate::format::{PoolSeed, Root, Superblock, check_data_header, find_roots, read_superblock};
use crate::journal::Journal;
use crate::readers::Readers;
use crate::space::Space;
use gemelo_base::Clock;
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// A checkpoint with the journal replayed on it.
pub(crate) struct Recovered {
    pub(crate) superblock: Superblock,
    pub(crate) seed: PoolSeed,
    pub(crate) root: Root,
    pub(crate) backend: LogBackend,
    pub(crate) journal: Journal,
    pub(crate) next_commit: u64,
    pub(crate) damage: Damage,
}

/// Reads all metadata; writes nothing.
pub(crate) fn recover(disks: &PoolDisks) -> Result<Recovered> {
    let mut damage = Damage::default();
    let superblock = read_superblock(&*disks.metadata, &mut damage.harmless)?;
    let seed = PoolSeed::of(&superblock);
    check_data_header(&*disks.data, &superblock)?;
    let found = find_roots(&*disks.metadata, &superblock, seed)?;
    let root = found.newest;
    for offset in found.to_repair {
        damage.harmless.push(format!("the root at byte {offset}"));
    }
    let mut backend = LogBackend::load(&*disks.metadata, &superblock, &root, seed, &mut damage)?;
    let mut journal = Journal::new(&superblock, &root, seed);
    let next_commit = journal.replay(&*disks.metadata, &root, |changes| backend.replay(&changes))?;
    backend.settle()?;
    Ok(Recovered { superblock, seed, root, backend, journal, next_commit, damage })
}

impl Pool {
    /// Opens the pool on two disks. Where a part of the metadata is lost, the pool is open for reading only.
    ///
    /// # Errors
    /// If it is no pool, or damaged so that it cannot be served.
    pub fn open_disks(disks: PoolDisks, tuning: Tuning, clock: Arc<dyn Clock>) -> Result<Self> {
        let recovered = recover(&disks)?;
        let is_read_only = tuning.read_only || !recovered.damage.lost.is_empty();
        if !is_read_only {
            // Commits of a process that was killed may be in the system's cache alone.
            disks.data.sync().map_err(VolumeError::io(DiskRole::Data, "sync"))?;
            disks.metadata.sync().map_err(VolumeError::io(DiskRole::Metadata, "sync"))?;
        }
        let Recovered { superblock, seed, root, backend, journal, next_commit, damage } = recovered;
        let mut space = Space::new(backend.totals().data_blocks);
        backend.visit_used(&mut |pbn| {
            space.claim(pbn);
        })?;
        let volumes = backend
            .volumes()
            .into_iter()
            .map(|info| (info.name, VolumeShared::new(info.id, info.size_bytes, info.mode, info.read_only)));
        let engine = Engine {
            fingerprinter: Fingerprinter::new(superblock.fingerprint, superblock.key),
            volumes: RwLock::new(volumes.collect()),
            state: RwLock::new(State::new(Box::new(backend), next_commit)),
            committer: Mutex::new(Committer::new(journal, next_commit - 1, root.generation)),
            space: Mutex::new(space),
            data: disks.data,
            metadata: disks.metadata,
            clock,
            superblock,
            seed,
            tuning,
            is_read_only,
            readers: Readers::default(),
            limbo: Mutex::default(),
            checkpointer: Mutex::default(),
            stopped: OnceLock::new(),
            counters: PoolCounters::default(),
            open_bytes: AtomicU64::new(0),
        };
        let engine = Arc::new(engine);
        let keeper = if engine.tuning.background && !is_read_only {
            let keeper = Keeper::start(Arc::clone(&engine));
            Some(keeper.map_err(|source| VolumeError::Io {
                disk: DiskRole::Metadata,
                action: "start the thread that looks after",
                source,
            })?)
        } else {
            None
        };
        let damage = damage.harmless.into_iter().chain(damage.lost).collect();
        Ok(Self { engine, keeper: Mutex::new(keeper), directory: None, damage })
    }
}
