//! What every backend does: the same random changes to each and to a plain model, with checkpoints in between that succeed,
//! fail, or are what the next process begins with.

use super::{BackendContext, Damage, LoadOptions, MetadataBackend, PageWrites, empty, load};
use crate::error::VolumeError;
use gemelo_base::random::{Random, mix64};
use gemelo_disk::FileDisk;
use gemelo_format::{
    BackendKind, Birth, Change, Checksum, DedupMode, Fingerprint, FingerprintKind, Layout, Lbn,
    Origin, Pbn, Place, PoolSeed, Root, Superblock, Version, VolumeId, VolumeRecord,
};
use gemelo_store::PoolDisks;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const DATA_BLOCKS: u64 = 200_000;
const VOLUME_BLOCKS: u64 = 1 << 33;
/// So little that pages come and go all the time.
const CACHE_BYTES: u64 = 64 << 10;

fn superblock(backend: BackendKind) -> Superblock {
    let fingerprint = FingerprintKind::Blake3;
    Superblock {
        version: Version::V2,
        block_bytes: 512,
        pool_id: [1; 16],
        key: [2; 32],
        fingerprint,
        backend,
        journal_pages: 16,
        header_copy: None,
    }
}

/// The record of a volume named after its id.
pub(super) fn record(id: u32, size_bytes: u64) -> VolumeRecord {
    VolumeRecord {
        id: VolumeId(id),
        name: format!("v{id}"),
        size_bytes,
        mode: DedupMode::Inline,
        read_only: false,
        is_hidden: false,
        birth: Birth { created_s: Some(1_700_000_000), origin: Origin::Empty },
    }
}

/// The place of a block, with a checksum that follows from its number.
fn stored(pbn: u32) -> Place {
    Place::Stored(Pbn::new(pbn).unwrap(), checksum_of(pbn))
}

fn checksum_of(pbn: u32) -> Checksum {
    Checksum(mix64(u64::from(pbn)) as u32)
}

/// The map of each volume, and the fingerprint of each block that is referred to.
#[derive(Clone, Default)]
struct Model {
    maps: BTreeMap<u32, BTreeMap<u64, u32>>,
    fingerprints: BTreeMap<u32, Fingerprint>,
}

impl Model {
    fn references(&self) -> BTreeMap<u32, u32> {
        let mut counts = BTreeMap::new();
        self.maps
            .values()
            .flat_map(BTreeMap::values)
            .for_each(|pbn| *counts.entry(*pbn).or_default() += 1);
        counts
    }
}

/// A backend beside its model.
struct Pair {
    disks: PoolDisks,
    superblock: Superblock,
    backend: Box<dyn MetadataBackend>,
    model: Model,
    random: Random,
    next_pbn: u32,
    /// Freed, and free for use since a checkpoint.
    free: Vec<u32>,
    generation: u64,
    _directory: tempfile::TempDir,
}

impl Pair {
    fn new(kind: BackendKind, seed: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let disk = |name| Arc::new(FileDisk::create(&directory.path().join(name)).unwrap());
        let disks = PoolDisks::new(disk("data"), disk("metadata"));
        let superblock = superblock(kind);
        let home = BackendContext { disk: Arc::clone(&disks.metadata), superblock: &superblock };
        let backend = empty(&home, DATA_BLOCKS);
        let random = Random::new(seed);
        let (model, free) = (Model::default(), Vec::new());
        Self {
            disks,
            superblock,
            backend,
            model,
            random,
            next_pbn: 1,
            free,
            generation: 0,
            _directory: directory,
        }
    }

    fn apply(&mut self, change: &Change) -> Vec<u32> {
        let mut freed = Vec::new();
        self.backend.apply(std::slice::from_ref(change), &mut freed).unwrap();
        freed.into_iter().map(Pbn::number).collect()
    }

    fn create(&mut self, id: u32) {
        self.apply(&Change::Create(record(id, VOLUME_BLOCKS * 512)));
        self.model.maps.insert(id, BTreeMap::new());
    }

    /// Dense at the start of a volume, sparse beyond.
    fn lbn(&mut self) -> u64 {
        match self.random.below(4) {
            0 => self.random.below(VOLUME_BLOCKS),
            1 => VOLUME_BLOCKS / 2 + self.random.below(3000),
            _ => self.random.below(20_000),
        }
    }

    fn any_volume(&mut self) -> u32 {
        let at = self.random.below(self.model.maps.len() as u64) as usize;
        *self.model.maps.keys().nth(at).unwrap()
    }

    fn store(&mut self, id: u32, lbn: u64) {
        let pbn = self.free.pop().unwrap_or_else(|| {
            self.next_pbn += 1;
            self.next_pbn - 1
        });
        let bits = mix64(self.random.below(1 << 20));
        let is_off = self.random.below(20) == 0;
        let fingerprint = if is_off {
            Fingerprint::NONE
        } else {
            Fingerprint::of_hash(u128::from(bits) << 64 | u128::from(bits))
        };
        let (volume, lbn_, pbn_) = (VolumeId(id), Lbn(lbn), Pbn::new(pbn).unwrap());
        let checksum = checksum_of(pbn);
        let freed =
            self.apply(&Change::Store { volume, lbn: lbn_, pbn: pbn_, fingerprint, checksum });
        self.model.fingerprints.insert(pbn, fingerprint);
        self.put(id, lbn, Some(pbn), &freed);
    }

    /// Sets a word of the model, and compares what that frees.
    fn put(&mut self, id: u32, lbn: u64, pbn: Option<u32>, freed: &[u32]) {
        let map = self.model.maps.get_mut(&id).unwrap();
        let before = match pbn {
            Some(pbn) => map.insert(lbn, pbn),
            None => map.remove(&lbn),
        };
        // A look at all maps for each change would take too long: what is freed is counted at the end.
        assert!(freed.iter().all(|pbn| before == Some(*pbn)));
    }

    fn share(&mut self, id: u32, lbn: u64) {
        let other = self.any_volume();
        let from = self.lbn();
        let Some(pbn) = self.model.maps[&other].range(from..).next().map(|(_, pbn)| *pbn) else {
            return;
        };
        let (volume, pbn_) = (VolumeId(id), Pbn::new(pbn).unwrap());
        let freed = self.apply(&Change::Share {
            volume,
            lbn: Lbn(lbn),
            pbn: pbn_,
            checksum: checksum_of(pbn),
        });
        self.put(id, lbn, Some(pbn), &freed);
    }

    /// A block without a fingerprint gets one.
    fn identify(&mut self, id: u32, from: u64) {
        let fingerprints = &self.model.fingerprints;
        let mut pbns = self.model.maps[&id].range(from..).map(|(_, pbn)| *pbn);
        let Some(pbn) = pbns.find(|pbn| fingerprints[pbn].is_none()) else { return };
        let bits = mix64(self.random.below(1 << 20));
        let fingerprint = Fingerprint::of_hash(u128::from(bits) << 64 | u128::from(bits));
        self.apply(&Change::Identify { pbn: Pbn::new(pbn).unwrap(), fingerprint });
        self.model.fingerprints.insert(pbn, fingerprint);
    }

    fn unmap(&mut self, id: u32, first: u64) {
        let count = 1 + self.random.below(200);
        self.apply(&Change::Unmap { volume: VolumeId(id), first: Lbn(first), count });
        self.model
            .maps
            .get_mut(&id)
            .unwrap()
            .retain(|lbn, _| !(first..first + count).contains(lbn));
    }

    /// Volumes do not change as a whole during a checkpoint.
    fn step(&mut self, may_change_volumes: bool) {
        let (id, lbn) = (self.any_volume(), self.lbn());
        match self.random.below(if may_change_volumes { 1000 } else { 997 }) {
            0..700 => self.store(id, lbn),
            700..830 => self.share(id, lbn),
            830..850 => self.identify(id, lbn),
            850..997 => self.unmap(id, lbn),
            997 if self.model.maps.len() < 4 => {
                let volume = self.backend.totals().next_volume;
                let name = format!("v{volume}");
                let clone = Change::Clone {
                    source: VolumeId(id),
                    volume: VolumeId(volume),
                    name,
                    read_only: false,
                    created_s: Some(1_700_000_000),
                };
                self.apply(&clone);
                self.model.maps.insert(volume, self.model.maps[&id].clone());
            }
            998 => {
                let size_bytes = 512 * (VOLUME_BLOCKS / 4);
                self.apply(&Change::Resize { volume: VolumeId(id), size_bytes });
                self.apply(&Change::Resize {
                    volume: VolumeId(id),
                    size_bytes: 512 * VOLUME_BLOCKS,
                });
                self.model.maps.get_mut(&id).unwrap().retain(|lbn, _| *lbn < VOLUME_BLOCKS / 4);
            }
            999 if self.model.maps.len() > 2 => {
                self.apply(&Change::Remove { volume: VolumeId(id) });
                self.model.maps.remove(&id);
            }
            _ => {}
        }
    }

    /// Writes what was frozen and gives the root that would be written.
    fn write(&mut self) -> Root {
        if let Some(merge) = self.backend.merge() {
            merge().unwrap();
        }
        let mut writes = PageWrites::new();
        let pages = self.backend.local_pages_mut().unwrap();
        while pages.gather(64, &mut writes).unwrap() {}
        let (table, table_bytes) = pages.seal(&mut writes).unwrap();
        for (slot, page) in writes {
            let offset = slot.offset(self.superblock.journal_pages);
            self.disks.metadata.write_at(offset, page.as_slice()).unwrap();
        }
        let totals = self.backend.totals();
        Root {
            generation: self.generation + 1,
            next_commit: 1,
            journal_offset: 0,
            table,
            table_bytes,
            data_blocks: totals.data_blocks,
            next_volume: totals.next_volume,
            references: totals.references,
            physical: totals.physical,
        }
    }

    fn reload(&mut self, root: &Root) {
        let options = LoadOptions { cache_bytes: CACHE_BYTES, salvages: false };
        let mut damage = Damage::default();
        let disk = Arc::clone(&self.disks.metadata);
        let home = BackendContext { disk, superblock: &self.superblock };
        self.backend = load(&home, root, options, &mut damage).unwrap();
        self.backend.settle().unwrap();
        assert_eq!((damage.lost, damage.harmless), (Vec::new(), Vec::new()));
    }

    /// Blocks that nothing refers to any more, and that no state on disk does.
    fn free_unused(&mut self) {
        let used: BTreeSet<u32> = self.model.references().into_keys().collect();
        self.free = (1..self.next_pbn).filter(|pbn| !used.contains(pbn)).collect();
        self.model.fingerprints.retain(|pbn, _| used.contains(pbn));
    }

    fn compare(&self) {
        assert_eq!(self.backend.prove(5).unwrap(), Vec::<String>::new());
        let references = self.model.references();
        let totals = self.backend.totals();
        let sum: u64 = references.values().map(|count| u64::from(*count)).sum();
        assert_eq!((totals.references, totals.physical), (sum, references.len() as u64));
        let mut used = BTreeSet::new();
        self.backend.visit_used(&mut |pbn| assert!(used.insert(pbn.number()))).unwrap();
        assert!(used.iter().eq(references.keys()));
        for (id, map) in &self.model.maps {
            self.compare_map(VolumeId(*id), map);
        }
        let pbns: Vec<Pbn> = references.keys().filter_map(|pbn| Pbn::new(*pbn)).collect();
        let (mut records, mut found) = (Vec::new(), Vec::new());
        self.backend.records(&pbns, &mut records).unwrap();
        let wanted: Vec<Fingerprint> = records.iter().map(|record| record.fingerprint).collect();
        self.backend.find(&wanted, &mut found).unwrap();
        for ((pbn, record), found) in pbns.iter().zip(&records).zip(found) {
            let fingerprint = self.model.fingerprints[&pbn.number()];
            let right = references[&pbn.number()];
            // A page that volumes share holds one reference, in the backends that share pages.
            let least = if self.superblock.backend.layout() == Layout::Pages { 1 } else { right };
            assert_eq!(record.fingerprint, fingerprint);
            assert!(
                (least..=right).contains(&record.references),
                "{record:?} has {right} references"
            );
            let same = found.map(|pbn| self.model.fingerprints[&pbn.number()]);
            // Of a content that is stored twice an index may know nothing once one of them is gone.
            assert!(same.is_none() || same == Some(fingerprint), "{same:?}, not {fingerprint:?}");
        }
    }

    fn compare_map(&self, volume: VolumeId, map: &BTreeMap<u64, u32>) {
        assert_eq!(self.backend.mapped_blocks(volume), map.len() as u64);
        let (mut next, mut places) = (Lbn(0), Vec::new());
        for (lbn, pbn) in map {
            let found = self.backend.next_mapped(volume, next, Lbn(VOLUME_BLOCKS)).unwrap();
            assert_eq!(found, Some(Lbn(*lbn)));
            places.clear();
            self.backend.look_up(volume, &[Lbn(*lbn), Lbn(lbn + 1)], &mut places).unwrap();
            let after = map.get(&(lbn + 1)).map_or(Place::Unmapped, |pbn| stored(*pbn));
            assert_eq!(places, [stored(*pbn), after]);
            next = Lbn(lbn + 1);
        }
        assert_eq!(self.backend.next_mapped(volume, next, Lbn(VOLUME_BLOCKS)).unwrap(), None);
    }
}

fn conform(kind: BackendKind) {
    for seed in 0..2 {
        let mut pair = Pair::new(kind, seed);
        pair.create(1);
        pair.create(2);
        let root = pair.write();
        pair.reload(&root);
        for round in 0..8 {
            (0..3000).for_each(|_| pair.step(true));
            pair.backend.freeze();
            let at_freeze = pair.model.clone();
            // Totals of the root are those of the instant of the freeze.
            let root = pair.write();
            (0..500).for_each(|_| pair.step(false));
            match round % 3 {
                0 => {
                    pair.backend.abandon();
                    pair.compare();
                }
                1 => {
                    pair.backend.finish();
                    pair.generation += 1;
                    pair.compare();
                }
                // The next process has the state of the freeze.
                _ => {
                    pair.model = at_freeze;
                    pair.backend.finish();
                    let pages = pair.backend.totals().pages;
                    pair.reload(&root);
                    assert_eq!(pair.backend.totals().pages, pages, "no slot is lost");
                    pair.compare();
                    pair.free_unused();
                }
            }
        }
    }
}

#[test]
fn log_conforms() {
    conform(BackendKind::Log);
}

#[test]
fn ram_conforms() {
    conform(BackendKind::Ram);
}

#[test]
fn table_conforms() {
    conform(BackendKind::Table);
}

#[test]
fn btree_conforms() {
    conform(BackendKind::BTree);
}

#[test]
fn what_does_not_fit_the_state_is_an_error() {
    for kind in BackendKind::ALL {
        let mut pair = Pair::new(kind, 1);
        pair.create(1);
        let (volume, missing, lbn) = (VolumeId(1), VolumeId(9), Lbn(0));
        let pbn = Pbn::new(DATA_BLOCKS as u32).unwrap();
        let wrong = [
            Change::Share { volume, lbn, pbn, checksum: Checksum(1) },
            Change::Share {
                volume,
                lbn: Lbn(VOLUME_BLOCKS),
                pbn: Pbn::FIRST,
                checksum: Checksum(1),
            },
            Change::Remove { volume: missing },
            Change::Unmap { volume: missing, first: lbn, count: 1 },
            Change::Rename { volume: missing, name: "x".into() },
            Change::Clone {
                source: missing,
                volume: VolumeId(5),
                name: "x".into(),
                read_only: true,
                created_s: None,
            },
            Change::Create(record(volume.0, 512)),
        ];
        for change in wrong {
            let result = pair.backend.apply(std::slice::from_ref(&change), &mut Vec::new());
            assert!(matches!(result, Err(VolumeError::Damaged { .. })), "{kind:?}: {change:?}");
        }
        let mut places = Vec::new();
        assert!(pair.backend.look_up(missing, &[lbn], &mut places).is_err());
        assert_eq!(PoolSeed::of(&pair.superblock), PoolSeed::of(&superblock(kind)));
    }
}
