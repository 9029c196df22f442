//! Opens a pool: takes what [`recover`] has read, counts the free blocks, makes durable what the
//! earlier process may have left in doubt, and puts the engine together.

use super::recovery::{Recovered, recover};
use super::replayed_data::hold_in;
use super::{Pool, Tuning};
use crate::engine::{ContentSpace, ContentStore, Engine, EngineParts, Health, start_all};
use crate::error::{Result, VolumeError};
use crate::journal::Journal;
use gemelo_base::Clock;
use gemelo_base::background::Worker;
use gemelo_base::locks::Mutex;
use gemelo_format::{Commit, DiskRole, LastCommit, Pbn, PoolSeed, Root, Superblock};
use gemelo_metadata::{Damage, MetadataBackend, MetadataError};
use gemelo_store::{FreeVeto, PoolDisks, Store};
use std::sync::Arc;

/// An opening that has taken so long does not wait for the index; the background completes it.
const MAX_INDEX_NS: u64 = 2_000_000_000;

/// The number of the first commit of a pool.
const FIRST_COMMIT: u64 = 1;

/// Opens the pool on two disks.
pub(super) fn open_disks(disks: PoolDisks, tuning: Tuning, clock: Arc<dyn Clock>) -> Result<Pool> {
    let began_ns = clock.now_ns();
    let recovered = recover(&disks, None, &tuning)?;
    pool_of(disks, recovered, tuning, clock, began_ns)
}

/// Returns the pool with the recovered state, whose opening began then.
pub(super) fn pool_of(
    disks: PoolDisks,
    recovered: Recovered,
    tuning: Tuning,
    clock: Arc<dyn Clock>,
    began_ns: u64,
) -> Result<Pool> {
    let is_salvaged = recovered.is_salvaged;
    let Recovered {
        found_damage,
        superblock,
        mut store,
        replayed_data,
        backend,
        root,
        last_commit,
        incomplete,
        generation,
        mut journal,
        next_commit,
        mut damage,
        ..
    } = recovered;
    let mut space = space_of(&*backend, &superblock, &mut damage)?;
    if next_commit > FIRST_COMMIT {
        space.blocks_mut().note_used_before();
    }
    let is_read_only = tuning.read_only || is_kept(&superblock, &damage, is_salvaged);
    let tuning = Tuning { read_only: is_read_only, ..tuning };
    let free_veto = disks.free_veto();
    let mut unwritten = Vec::new();
    if is_read_only {
        store = replayed_data.overlay();
    } else {
        extend_data(&*store, backend.totals().data_blocks)?;
        unwritten = replayed_data.write(|pbn| space.is_used(pbn))?;
        if !is_salvaged {
            let newest = Newest { root: &root, commit: last_commit.as_ref(), incomplete };
            write_again(&disks, &*store, &superblock, &mut journal, newest)?;
        }
    }
    let data_blocks = backend.totals().data_blocks;
    let asked = free_veto.as_ref().filter(|_| !is_read_only);
    let opened = |free_veto: &Arc<dyn FreeVeto>| {
        free_veto.opened(&|each| space.each_used(each), &|pbn| space.is_used(pbn))
    };
    let held = asked.map(opened).unwrap_or_default();
    let health = Arc::new(Health::new(is_read_only, found_damage).of(&superblock));
    assert!(space.blocks().blocks() == data_blocks, "the space is that of the data store");
    let place = (&disks, store, data_blocks);
    let (contents, remembered) =
        ContentStore::open(place, &superblock, &tuning, (&clock, &health))?;
    if let Some(buffer) = contents.buffer() {
        hold_in(buffer, &unwritten)?;
    }
    let engine = Engine::new(EngineParts {
        contents,
        remembered,
        health,
        metadata: Arc::clone(&disks.metadata),
        writes_beside: disks.data.writes_durably() && disks.metadata.writes_durably(),
        clock,
        superblock,
        tuning,
        backend,
        space,
        free_veto,
        held,
        journal,
        journal_data_bytes: replayed_data.bytes(),
        next_commit,
        generation,
    });
    let engine = Arc::new(engine);
    let workers = if is_read_only { Vec::new() } else { start(&engine, began_ns)? };
    let damage = damage.harmless.into_iter().chain(damage.lost).collect();
    Ok(Pool { engine, workers: Mutex::new(workers), damage, disks })
}

/// Returns whether nothing may be written to a pool, which has lost metadata or has a feature that
/// this program does not know.
fn is_kept(superblock: &Superblock, damage: &Damage, is_salvaged: bool) -> bool {
    !damage.lost.is_empty() && !is_salvaged || superblock.check_writable().is_err()
}

/// Returns the space of the data disk, with the blocks that are in use.
fn space_of(
    backend: &dyn MetadataBackend,
    superblock: &Superblock,
    damage: &mut Damage,
) -> Result<ContentSpace> {
    let mut space = ContentSpace::new(superblock.store, backend.totals().data_blocks);
    superblock.header_copy.into_iter().for_each(|block| space.claim_block(block));
    let mut is_in_header = false;
    let visited = space.claim_visited(|claim| {
        backend.visit_used(Pbn::FIRST, &mut |pbn| {
            is_in_header |= superblock.is_in_header_copy(pbn);
            claim(pbn);
        })
    });
    if is_in_header {
        return Err(VolumeError::content_in_header());
    }
    match visited {
        // No block can be written while it is unknown which blocks are free.
        Err(MetadataError::Damaged { what }) => damage.lost.push(what),
        other => other?,
    }
    space.blocks_mut().begin_where_most_is_free();
    Ok(space)
}

/// Begins the work of an engine that may write.
fn start(engine: &Arc<Engine>, began_ns: u64) -> Result<Vec<Worker>> {
    engine.log.settle_moves()?;
    // On a file system that is full already, the pool uses the room that it has.
    let _ = engine.log.reserve_slots();
    let end_ns = began_ns.saturating_add(MAX_INDEX_NS);
    let is_late = || engine.tuning.background && engine.clock.now_ns() >= end_ns;
    // Damage keeps the pool from taking changes, and `stopped` tells it. The background goes on.
    let _ = engine.log.complete_index(&is_late);
    if !engine.tuning.background {
        // A clean-up that fails here is done at the next opening.
        let _ = engine.volumes.clearer.clear_left(&|| false);
        return Ok(Vec::new());
    }
    start_all(engine).map_err(|source| VolumeError::Io {
        disk: DiskRole::Metadata,
        action: "start the threads that look after",
        source,
    })
}

/// The newest state that the opening has read.
#[derive(Clone, Copy)]
struct Newest<'n> {
    root: &'n Root,
    commit: Option<&'n LastCommit>,
    incomplete: Option<Commit>,
}

/// Makes durable what the opening has read. The earlier process may have been killed between a
/// write and its sync, or its sync may have failed. After a failed sync Linux takes the pages for
/// clean, so another sync alone would do nothing. Only the newest root and the newest commit can be
/// in doubt, because each was written after a good sync of everything that it refers to. The same
/// bytes are written there again, and synced. An incomplete commit is erased, because contents that
/// are written from now on might complete it.
fn write_again(
    disks: &PoolDisks,
    store: &dyn Store,
    superblock: &Superblock,
    journal: &mut Journal,
    newest: Newest<'_>,
) -> Result<()> {
    let (io, Newest { root, commit, incomplete }) = (VolumeError::io, newest);
    if let Some(Commit { offset, .. }) = incomplete {
        journal.erase(&*disks.metadata, offset)?;
    }
    let page = root.encode(superblock, PoolSeed::of(superblock));
    let metadata = &disks.metadata;
    for offset in Root::offsets(root.generation) {
        metadata.write_at(offset, page.as_slice()).map_err(io(DiskRole::Metadata, "write"))?;
        metadata.sync().map_err(io(DiskRole::Metadata, "sync"))?;
    }
    journal.marker().mark_root(&*disks.metadata, root.generation, root.next_commit);
    if let Some(commit) = commit {
        journal.rewrite(&*disks.metadata, commit)?;
    }
    store.sync().map_err(io(DiskRole::Data, "sync"))?;
    disks.metadata.sync().map_err(io(DiskRole::Metadata, "sync"))
}

/// Restores the length of a data disk whose end was lost, where no content was in the lost part.
fn extend_data(store: &dyn Store, data_blocks: u64) -> Result<()> {
    let io = |action| VolumeError::io(DiskRole::Data, action);
    if store.blocks().map_err(io("measure"))? < data_blocks {
        store.enlarge(data_blocks).map_err(io("enlarge"))?;
        store.write_labels()?;
    }
    Ok(())
}
