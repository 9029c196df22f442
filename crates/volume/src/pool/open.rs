//! Opening a pool: the newest checkpoint, the journal after it, and what is computed from both.

use super::{Pool, PoolDisks, Tuning};
use crate::backend::{self, Damage, LoadOptions, MetadataBackend};
use crate::counters::PoolCounters;
use crate::engine::{Committer, Crowd, Engine, State, VolumeShared, Worker};
use crate::error::{DiskRole, Result, VolumeError};
use crate::fingerprint::Fingerprinter;
use crate::format::{PoolSeed, Superblock, check_data_header, find_roots, read_superblock};
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
    pub(crate) backend: Box<dyn MetadataBackend>,
    /// Whether changes that were durable are not in it.
    pub(crate) has_lost_history: bool,
    /// Whether what is lost is known to be, and the pool may be written.
    is_salvaged: bool,
    seed: PoolSeed,
    generation: u64,
    journal: Journal,
    next_commit: u64,
    damage: Damage,
}

/// Reads all metadata; writes nothing. Lost history is an error, unless what is left is to be salvaged.
pub(crate) fn recover(disks: &PoolDisks, salvage: bool, cache_bytes: u64) -> Result<Recovered> {
    let mut damage = Damage::default();
    let superblock = read_superblock(&*disks.metadata, &mut damage.harmless)?;
    let seed = PoolSeed::of(&superblock);
    check_data_header(&*disks.data, &superblock)?;
    let found = find_roots(&*disks.metadata, &superblock, seed)?;
    for offset in found.to_repair {
        damage.harmless.push(format!("the root at byte {offset}"));
    }
    let newest = found.newest.generation;
    let mut root = found.newest;
    let options = LoadOptions { cache_bytes, salvages: salvage };
    let mut loaded = backend::load(disks, &superblock, &root, options, &mut damage);
    if let (true, Err(VolumeError::Damaged { .. }), Some(older)) = (salvage, &loaded, found.older) {
        root = older;
        loaded = backend::load(disks, &superblock, &root, options, &mut damage);
    }
    let mut backend = loaded?;
    let mut journal = Journal::new(&superblock, &root, seed);
    let replayed =
        journal.replay(&*disks.metadata, &root, |changes| backend.apply(&changes, &mut Vec::new()))?;
    backend.settle()?;
    let has_lost_history = replayed.lost.is_some() || root.generation < newest;
    if let Some(what) = replayed.lost {
        if !salvage {
            return Err(VolumeError::Damaged { what });
        }
        damage.lost.push(what);
    }
    let generation = replayed.generation.max(newest);
    let next_commit = replayed.next_commit;
    Ok(Recovered {
        superblock,
        backend,
        has_lost_history,
        is_salvaged: salvage,
        seed,
        generation,
        journal,
        next_commit,
        damage,
    })
}

impl Pool {
    /// Opens the pool on two disks. Where a part of the metadata is lost, the pool is open for reading only.
    ///
    /// # Errors
    /// If it is no pool, or damaged so that it cannot be served.
    pub fn open_disks(disks: PoolDisks, tuning: Tuning, clock: Arc<dyn Clock>) -> Result<Self> {
        let recovered = recover(&disks, false, tuning.cache_bytes)?;
        Self::of_recovered(disks, recovered, tuning, clock)
    }

    /// The pool of what was recovered.
    pub(crate) fn of_recovered(
        disks: PoolDisks,
        recovered: Recovered,
        tuning: Tuning,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let is_salvaged = recovered.is_salvaged;
        let Recovered { superblock, backend, seed, generation, journal, next_commit, mut damage, .. } =
            recovered;
        let mut space = Space::new(backend.totals().data_blocks);
        match backend.visit_used(&mut |pbn| {
            space.claim(pbn);
        }) {
            // Without knowing which blocks are free none can be written.
            Err(VolumeError::Damaged { what }) => damage.lost.push(what),
            other => other?,
        }
        let is_read_only = tuning.read_only || !damage.lost.is_empty() && !is_salvaged;
        let tuning = Tuning { read_only: is_read_only, ..tuning };
        if !is_read_only {
            // Commits of a process that was killed may be in the system's cache alone.
            disks.data.sync().map_err(VolumeError::io(DiskRole::Data, "sync"))?;
            disks.metadata.sync().map_err(VolumeError::io(DiskRole::Metadata, "sync"))?;
        }
        let hidden =
            backend.volumes().into_iter().filter(|info| info.is_hidden).map(|info| info.id).collect();
        let volumes =
            backend.volumes().into_iter().filter(|info| !info.is_hidden).map(|info| {
                (info.name, VolumeShared::new(info.id, info.size_bytes, info.mode, info.read_only))
            });
        let engine = Engine {
            fingerprinter: Fingerprinter::new(superblock.fingerprint, superblock.key),
            volumes: RwLock::new(volumes.collect()),
            state: RwLock::new(State::new(backend, next_commit)),
            crowd: Crowd::default(),
            committer: Mutex::new(Committer::new(journal, next_commit - 1, generation)),
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
            collector: Mutex::default(),
            stopped: OnceLock::new(),
            hidden: Mutex::new(hidden),
            counters: PoolCounters::default(),
            open_bytes: AtomicU64::new(0),
        };
        let engine = Arc::new(engine);
        if !engine.is_read_only && !engine.tuning.background {
            // What fails here is done at the next opening.
            let _ = engine.clear_left(&|| false);
        }
        let workers = if engine.tuning.background && !is_read_only {
            Worker::start_all(&engine).map_err(|source| VolumeError::Io {
                disk: DiskRole::Metadata,
                action: "start the threads that look after",
                source,
            })?
        } else {
            Vec::new()
        };
        let damage = damage.harmless.into_iter().chain(damage.lost).collect();
        Ok(Self { engine, workers: Mutex::new(workers), damage })
    }
}
