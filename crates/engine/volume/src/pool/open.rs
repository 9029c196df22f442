//! Opens a pool: reads the newest checkpoint, replays the journal after it, and computes the state.

use super::past_loss::PastLoss;
use super::proof::Prover;
use super::replay::{Replay, note_unreadable};
use super::replayed_data::{ReplayedData, hold_in};
use super::{LossChoice, Pool, Tuning};
use crate::engine::{
    ContentSpace, ContentStore, Engine, EngineParts, Health, Remembered, start_all,
};
use crate::error::{Result, VolumeError};
use crate::journal::Journal;
use gemelo_base::Clock;
use gemelo_base::background::Worker;
use gemelo_base::locks::Mutex;
use gemelo_format::{
    AtLoss, Commit, DiskRole, Fingerprinter, LastCommit, Lbn, LostHistory, MAX_VOLUME_BLOCKS,
    MapEntry, PackedPlace, Pbn, PoolSeed, Reading, ReplayOptions, ReplayedCommit, Root, StoreKind,
    Superblock, VolumeId, WHOLE_SLOT, find_roots, replay_journal,
};
use gemelo_metadata::{
    BackendContext, Damage, FoundDamage, Index, LoadOptions, Map, MetadataBackend, MetadataError,
};
use gemelo_store::{
    BufferOptions, PoolDisks, ReadCache, Store, WriteBuffer, WriteObserver, WrittenContent,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// LBNs that are looked up at once.
const LBNS_AT_ONCE: u64 = 4096;

/// An opening that has taken so long does not wait for the index; the background completes it.
const MAX_INDEX_NS: u64 = 2_000_000_000;

/// The number of the first commit of a pool.
const FIRST_COMMIT: u64 = 1;

/// A checkpoint with the journal replayed on it.
pub(crate) struct Recovered {
    /// Damage that the backend finds from now on.
    pub(crate) found_damage: FoundDamage,
    pub(crate) superblock: Superblock,
    pub(crate) store: Arc<dyn Store>,
    /// Contents that the store may lack.
    pub(crate) replayed_data: ReplayedData,
    pub(crate) backend: Box<dyn MetadataBackend>,
    /// `true` if durable changes are missing.
    pub(crate) has_lost_history: bool,
    /// The history that is missing in the journal.
    pub(crate) lost_history: Option<LostHistory>,
    /// Blocks of each volume that were changed by commits of the lost history.
    pub(crate) undone: BTreeMap<VolumeId, u64>,
    /// Parts of the commits after a lost one that could not be kept.
    pub(crate) past_loss: PastLoss,
    root: Root,
    last_commit: Option<LastCommit>,
    /// A commit after that one, which a crash kept from being complete.
    incomplete: Option<Commit>,
    /// `true` if the loss is recorded, so that the pool may be written.
    is_salvaged: bool,
    generation: u64,
    journal: Journal,
    next_commit: u64,
    damage: Damage,
}

/// Returns where the replay of the journal goes on after a lost commit.
const fn at_loss(salvage: Option<LossChoice>) -> AtLoss {
    match salvage {
        Some(LossChoice::Skip) => AtLoss::Skip,
        Some(LossChoice::RollBack) | None => AtLoss::Stop,
    }
}

/// Reads all metadata and writes nothing. Lost history is an error, unless the caller salvages the
/// pool with a choice about the commits that follow a lost one.
pub(crate) fn recover(
    disks: &PoolDisks,
    salvage: Option<LossChoice>,
    tuning: &Tuning,
) -> Result<Recovered> {
    let (is_salvaged, mut damage) = (salvage.is_some(), Damage::default());
    let found_damage = FoundDamage::default();
    let superblock = disks.read_superblock(&mut damage.harmless)?;
    let seed = PoolSeed::of(&superblock);
    let store = disks.store(&superblock);
    damage.harmless.extend(store.check_labels()?);
    let options = LoadOptions { cache: tuning.metadata_cache(), salvages: is_salvaged };
    let home = BackendContext::new(Arc::clone(&disks.metadata), &superblock)
        .with_sampling(tuning.index_sampling)
        .with_damage(found_damage.clone());
    let Loaded { mut backend, root, newest } = load(&home, options, &mut damage)?;
    let mut past_loss = PastLoss::default();
    let mut replayed_data = ReplayedData::new(&superblock, &store);
    let options = ReplayOptions { at_loss: at_loss(salvage), reading: Reading::OneGood };
    let prover = Prover::new(disks, &store, &superblock, is_salvaged);
    let prove = |contents: &[_]| prover.prove(contents);
    let mut replay = Replay::default();
    let apply = |mut commit: ReplayedCommit| {
        replayed_data.take_from(&mut commit)?;
        if !commit.follows_loss {
            return replay.take(commit.changes, &mut *backend);
        }
        replay.make(&mut *backend)?;
        past_loss.apply(&mut *backend, &commit)
    };
    let replayed = replay_journal(&*disks.metadata, &superblock, &root, options, prove, apply)?;
    replay.make(&mut *backend)?;
    note_unreadable(&replayed, &mut damage);
    // A repair that is interrupted must find the journal as it was.
    let journal = match is_salvaged {
        true => Journal::full(&superblock, &root, seed, replayed.marks),
        false => Journal::new(&superblock, &root, seed, &replayed),
    };
    backend.settle()?;
    let has_lost_history = replayed.lost.is_some() || root.generation < newest;
    if let Some(LostHistory { what, .. }) = &replayed.lost {
        let what = what.clone();
        if !is_salvaged {
            return Err(VolumeError::Damaged { what });
        }
        damage.lost.push(what);
    }
    if has_lost_history {
        replayed_data.leave_out_reused(replayed.given_up.expected);
    }
    find_absent(&superblock, &*store, (&replayed_data, &*backend), &mut damage)?;
    let generation = replayed.generation.max(newest);
    // The number of an incomplete commit is given again once the commit is erased. A repair leaves
    // the journal as it is.
    let taken = replayed.incomplete.filter(|_| is_salvaged).map(|commit| commit.header.number);
    let next_commit = replayed.next_commit.max(taken.map_or(0, |number| number + 1));
    if is_salvaged {
        // The salvage has replaced it.
        found_damage.clear();
    }
    Ok(Recovered {
        found_damage,
        superblock,
        store,
        replayed_data,
        backend,
        has_lost_history,
        lost_history: replayed.lost,
        undone: replayed.given_up.changed_blocks,
        past_loss,
        root,
        last_commit: replayed.last,
        incomplete: replayed.incomplete,
        is_salvaged,
        generation,
        journal,
        next_commit,
        damage,
    })
}

/// The state at a checkpoint.
struct Loaded {
    backend: Box<dyn MetadataBackend>,
    root: Root,
    /// The generation of the newest root, which a damaged pool may not be loaded from.
    newest: u64,
}

/// Loads the newest checkpoint. A salvage takes the one before it if that one is damaged.
fn load(home: &BackendContext<'_>, options: LoadOptions, damage: &mut Damage) -> Result<Loaded> {
    let found = find_roots(&*home.disk, home.superblock, PoolSeed::of(home.superblock))?;
    for offset in found.to_repair {
        damage.harmless.push(format!("the root at byte {offset}"));
    }
    let newest = found.newest.generation;
    let mut root = found.newest;
    let mut loaded = gemelo_metadata::load(home, &root, options, damage);
    if let (true, Err(MetadataError::Damaged { .. }), Some(older)) =
        (options.salvages, &loaded, found.older)
    {
        root = older;
        loaded = gemelo_metadata::load(home, &root, options, damage);
    }
    Ok(Loaded { backend: loaded?, root, newest })
}

/// Finds contents beyond the end of the data disk. A write would make such a disk longer, and the
/// lost contents would look like zeros. The pool therefore takes no changes before it is repaired.
/// Contents that the journal carries are not lost.
fn find_absent(
    superblock: &Superblock,
    store: &dyn Store,
    (replayed_data, backend): (&ReplayedData, &dyn Index),
    damage: &mut Damage,
) -> Result<()> {
    let present = store.blocks().map_err(VolumeError::io(DiskRole::Data, "measure"))?;
    let mut absent = 0u64;
    // The PBNs of a packed store are not in the order of their blocks.
    let first = match superblock.store {
        StoreKind::Plain => present,
        StoreKind::Packed(_) => 0,
    };
    let first = Pbn::new(first).unwrap_or(Pbn::FIRST);
    let visited = backend.visit_used(first, &mut |pbn| {
        let last_block = superblock.store.last_block(pbn);
        let is_absent = last_block >= present && !replayed_data.has(pbn);
        absent += u64::from(is_absent);
    });
    if absent > 0 {
        damage.lost.push(format!(
            "{absent} stored blocks, because the data store ends before them, after {present} blocks"
        ));
    }
    match visited {
        // It is reported where the free blocks are counted.
        Err(MetadataError::Damaged { .. }) => Ok(()),
        other => Ok(other?),
    }
}

/// Calls with every LBN of a volume that is not unmapped.
pub(crate) fn each_place(
    backend: &dyn Map,
    volume: VolumeId,
    mut each: impl FnMut(Lbn, MapEntry) -> Result<()>,
) -> Result<()> {
    let end = Lbn(MAX_VOLUME_BLOCKS);
    let mut from = Lbn(0);
    let mut places = Vec::new();
    while let Some(first) = backend.next_mapped(volume, from, end)? {
        let lbns: Vec<Lbn> = (first.0..end.0.min(first.0 + LBNS_AT_ONCE)).map(Lbn).collect();
        places.clear();
        backend.look_up(volume, &lbns, &mut places)?;
        assert!(places.len() == lbns.len(), "a place for each LBN");
        assert!(first >= from && first < end, "the next mapped LBN is in the range");
        let mapped = lbns.iter().zip(&places).filter(|(_, place)| **place != MapEntry::Unmapped);
        for (lbn, place) in mapped {
            each(*lbn, *place)?;
        }
        from = Lbn(first.0 + LBNS_AT_ONCE);
    }
    Ok(())
}

impl Pool {
    /// Opens the pool on two disks. Where a part of the metadata is lost, the pool is open for
    /// reading only.
    ///
    /// # Errors
    /// Fails if the disks hold no pool, or if the pool is too damaged to be served.
    pub fn open_disks(disks: PoolDisks, tuning: Tuning, clock: Arc<dyn Clock>) -> Result<Self> {
        let began_ns = clock.now_ns();
        let recovered = recover(&disks, None, &tuning)?;
        Self::of_recovered(disks, recovered, tuning, clock, began_ns)
    }

    /// Returns the pool with the recovered state, whose opening began then.
    pub(crate) fn of_recovered(
        disks: PoolDisks,
        recovered: Recovered,
        tuning: Tuning,
        clock: Arc<dyn Clock>,
        began_ns: u64,
    ) -> Result<Self> {
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
        let is_read_only = tuning.read_only || !damage.lost.is_empty() && !is_salvaged;
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
        let held = match &free_veto {
            Some(free_veto) if !is_read_only => {
                free_veto.opened(&|each| space.each_used(each), &|pbn| space.is_used(pbn))
            }
            _ => Vec::new(),
        };
        let health = Arc::new(Health::new(is_read_only, found_damage));
        assert!(space.blocks().blocks() == data_blocks, "the space is that of the data store");
        let (contents, remembered) =
            contents_of((&disks, store, data_blocks), &superblock, &tuning, (&clock, &health))?;
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
        Ok(Self { engine, workers: Mutex::new(workers), damage, disks })
    }
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
    // On a file system that is full already, the pool uses the room that it has.
    let _ = engine.log.reserve_slots();
    let end_ns = began_ns.saturating_add(MAX_INDEX_NS);
    let is_late = || engine.tuning.background && engine.clock.now_ns() >= end_ns;
    // Damage keeps the pool from taking changes, and `stopped` tells it. The background goes on.
    let _ = engine.log.complete_index(&is_late);
    if !engine.tuning.background {
        // A clean-up that fails here is done at the next opening.
        let _ = engine.volumes.clear_left(&|| false);
        return Ok(Vec::new());
    }
    start_all(engine).map_err(|source| VolumeError::Io {
        disk: DiskRole::Metadata,
        action: "start the threads that look after",
        source,
    })
}

/// Returns the plain store for a pool that is read only, and else a buffer over it, with the
/// fingerprints that it remembers.
fn contents_of(
    (disks, store, data_blocks): (&PoolDisks, Arc<dyn Store>, u64),
    superblock: &Superblock,
    tuning: &Tuning,
    (clock, health): (&Arc<dyn Clock>, &Arc<Health>),
) -> Result<(ContentStore, Arc<Remembered>)> {
    let remembered = Arc::new(Remembered::new(
        (tuning.finder.memory_bytes, data_blocks),
        Fingerprinter::new(superblock.fingerprint, superblock.key),
        Arc::clone(clock),
    ));
    if tuning.read_only {
        return Ok((ContentStore::plain(store), remembered));
    }
    let system = disks.data.system_cache();
    // Borrowed contents are decompressed by the time they could be cached.
    let is_apart = superblock.store != StoreKind::Plain && disks.free_veto().is_some();
    let cache_bytes = tuning.content_cache_bytes(system) / if is_apart { 2 } else { 1 };
    let elsewhere =
        is_apart.then(|| Arc::new(ReadCache::new(superblock.block_bytes as usize, cache_bytes)));
    let options = BufferOptions {
        bytes: tuning.write_buffer_bytes,
        cache_bytes,
        caches_reads: !system.keeps_read,
        background: tuning.background,
        threads: tuning.write_threads,
    };
    let observer = match superblock.store {
        StoreKind::Plain => Arc::clone(&remembered) as Arc<dyn WriteObserver>,
        StoreKind::Packed(_) => Arc::new(OfWholeBlocks { observer: Arc::clone(&remembered) }),
    };
    let stopped = Arc::clone(health);
    let told = Arc::new(move |panicked| stopped.stop_by_panic(panicked));
    let blocks = match superblock.store {
        StoreKind::Plain => store,
        StoreKind::Packed(_) => disks.blocks(superblock),
    };
    let buffer = WriteBuffer::new(blocks, options, Arc::clone(clock), Some(observer), told)
        .map_err(VolumeError::io(DiskRole::Data, "start the threads that write to"))?;
    let contents = ContentStore::buffered((buffer, elsewhere), (disks, superblock), health);
    Ok((contents, remembered))
}

/// Shows contents that fill blocks of a packed store to an observer. The finder reads the others
/// when it needs their fingerprints.
struct OfWholeBlocks {
    observer: Arc<Remembered>,
}

impl WriteObserver for OfWholeBlocks {
    fn wants(&self, contents: usize) -> bool {
        self.observer.wants(contents)
    }

    fn written(&self, contents: &[WrittenContent<'_>]) {
        let pbn_of = |block| PackedPlace { block, slot: WHOLE_SLOT }.pbn();
        let contents: Vec<WrittenContent<'_>> = contents
            .iter()
            .filter_map(|one| Some(WrittenContent { pbn: pbn_of(one.pbn.narrow())?, ..*one }))
            .collect();
        self.observer.written(&contents);
    }

    fn missed(&self, contents: usize) {
        self.observer.missed(contents);
    }
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
