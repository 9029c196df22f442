//! Reads the metadata of a pool: the newest checkpoint, and the journal after it.

use super::past_loss::PastLoss;
use super::proof::Prover;
use super::replay::{Replay, note_unreadable};
use super::replayed_data::ReplayedData;
use super::{LossChoice, Tuning};
use crate::error::{Result, VolumeError};
use crate::journal::Journal;
use gemelo_format::{
    AtLoss, Commit, DiskRole, LastCommit, Lbn, LostHistory, MAX_VOLUME_BLOCKS, MapEntry, Pbn,
    PoolSeed, Reading, ReplayOptions, ReplayedCommit, Root, StoreKind, Superblock, VolumeId,
    find_roots, replay_journal,
};
use gemelo_metadata::{
    BackendContext, Damage, FoundDamage, Index, LoadOptions, Map, MetadataBackend, MetadataError,
};
use gemelo_store::{PoolDisks, Store};
use std::collections::BTreeMap;
use std::sync::Arc;

/// LBNs that are looked up at once.
const LBNS_AT_ONCE: u64 = 4096;

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
    pub(super) root: Root,
    pub(super) last_commit: Option<LastCommit>,
    /// A commit after that one, which a crash kept from being complete.
    pub(super) incomplete: Option<Commit>,
    /// `true` if the loss is recorded, so that the pool may be written.
    pub(super) is_salvaged: bool,
    pub(super) generation: u64,
    pub(super) journal: Journal,
    pub(super) next_commit: u64,
    pub(super) damage: Damage,
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
