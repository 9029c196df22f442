//! A backend beside a plain model: random changes go to both, and both are compared.

use super::model::Model;
use super::{CACHE_BYTES, NEW, VOLUME_BLOCKS, checksum_of, record, superblock};
use crate::{
    BackendContext, CacheSize, Damage, DifferingEntry, IndexSampling, LoadOptions, MetadataBackend,
    NewMetadata, PageWrites, Sealed, empty, load,
};
use gemelo_base::random::{Random, mix64};
use gemelo_disk::{Disk, FileDisk};
use gemelo_format::{Change, Fingerprint, Lbn, Pbn, Policy, Root, Superblock, VolumeId, WordForm};
use gemelo_store::PoolDisks;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A backend beside its model.
pub(super) struct Pair {
    disks: PoolDisks,
    pub(super) superblock: Superblock,
    pub(super) backend: Box<dyn MetadataBackend>,
    pub(super) model: Model,
    pub(super) random: Random,
    first_pbn: u64,
    next_pbn: u64,
    /// PBNs that were freed and that no checkpoint needs.
    free: Vec<u64>,
    pub(super) generation: u64,
    /// The contents that the index has after the next opening.
    pub(super) sampling: IndexSampling,
    _directory: tempfile::TempDir,
}

impl Pair {
    pub(super) fn new(kind: Policy, seed: u64) -> Self {
        Self::of((kind, seed), superblock(), NEW, 1)
    }

    /// A pair in a pool of 2^36 blocks, whose PBNs begin with this one.
    pub(super) fn wide(seed: u64, first_pbn: u64) -> Self {
        let superblock = Superblock { words: WordForm::Wide, ..superblock() };
        let new = NewMetadata { data_blocks: WordForm::Wide.end(), ..NEW };
        Self::of((Policy::Compact, seed), superblock, new, first_pbn)
    }

    fn of(
        (kind, seed): (Policy, u64),
        superblock: Superblock,
        new: NewMetadata,
        first_pbn: u64,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let disk = |name| Arc::new(FileDisk::create(&directory.path().join(name)).unwrap());
        let disks = PoolDisks::new(disk("data"), disk("metadata"));
        let home = BackendContext::new(Arc::clone(&disks.metadata), &superblock);
        let backend = empty(kind, &home, new);
        let random = Random::new(seed);
        let (model, free) = (Model::default(), Vec::new());
        Self {
            disks,
            superblock,
            backend,
            model,
            random,
            first_pbn,
            next_pbn: first_pbn,
            free,
            generation: 0,
            sampling: IndexSampling::ALL,
            _directory: directory,
        }
    }

    pub(super) fn apply(&mut self, change: &Change) -> Vec<u64> {
        let mut freed = Vec::new();
        self.backend.apply(std::slice::from_ref(change), &mut freed).unwrap();
        freed.into_iter().map(Pbn::number).collect()
    }

    pub(super) fn create(&mut self, id: u32) {
        self.apply(&Change::Create(record(id, VOLUME_BLOCKS * 512)));
        self.model.maps.insert(id, BTreeMap::new());
        self.model.families.push(vec![id]);
    }

    /// Chooses an LBN: dense at the start of a volume, sparse beyond.
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

    pub(super) fn store(&mut self, id: u32, lbn: u64) {
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
        self.model.checksums.insert(pbn, checksum);
        self.put(id, lbn, Some(pbn), &freed);
    }

    /// Sets a word of the model, and compares what that frees.
    fn put(&mut self, id: u32, lbn: u64, pbn: Option<u64>, freed: &[u64]) {
        let map = self.model.maps.get_mut(&id).unwrap();
        let before = match pbn {
            Some(pbn) => map.insert(lbn, pbn),
            None => map.remove(&lbn),
        };
        // A look at all maps for each change would take too long: what is freed is counted at the
        // end.
        assert!(freed.iter().all(|pbn| before == Some(*pbn)));
    }

    fn share(&mut self, id: u32, lbn: u64) {
        let other = self.any_volume();
        // At times the entry that another volume has at the same LBN.
        let from = if self.random.below(2) == 0 { lbn } else { self.lbn() };
        let Some(pbn) = self.model.maps[&other].range(from..).next().map(|(_, pbn)| *pbn) else {
            return;
        };
        self.share_block(id, lbn, pbn);
    }

    fn share_block(&mut self, id: u32, lbn: u64, pbn: u64) {
        let (volume, checksum) = (VolumeId(id), self.model.checksums[&pbn]);
        let (lbn_, pbn_) = (Lbn(lbn), Pbn::new(pbn).unwrap());
        let freed = self.apply(&Change::Share { volume, lbn: lbn_, pbn: pbn_, checksum });
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

    /// Moves some blocks to fresh ones, which have all their references then.
    pub(super) fn move_blocks(&mut self) {
        for _ in 0..20 {
            let (id, lbn) = (self.any_volume(), self.lbn());
            self.move_block(id, lbn);
        }
    }

    fn move_block(&mut self, id: u32, at: u64) {
        let Some(from) = self.model.maps[&id].range(at..).next().map(|(_, pbn)| *pbn) else {
            return;
        };
        // A block that was freed may be one whose content was moved away.
        let to = self.next_pbn;
        self.next_pbn += 1;
        let [from_, to_] = [from, to].map(|pbn| Pbn::new(pbn).unwrap());
        let checksum = self.model.checksums[&from];
        let change = Change::Move { from: from_, to: to_, checksum };
        self.backend.check_change(&change).unwrap();
        assert_eq!(self.apply(&change), [from]);
        self.model.move_block(from, to);
    }

    fn unmap(&mut self, id: u32, first: u64) {
        let count = 1 + self.random.below(200);
        self.unmap_count(id, first, count);
    }

    fn unmap_count(&mut self, id: u32, first: u64, count: u64) {
        self.apply(&Change::Unmap { volume: VolumeId(id), first: Lbn(first), count });
        self.model
            .maps
            .get_mut(&id)
            .unwrap()
            .retain(|lbn, _| !(first..first + count).contains(lbn));
    }

    /// A change of a whole volume, or of a large part of one.
    pub(super) fn change_volume(&mut self) {
        let (id, lbn, volumes) = (self.any_volume(), self.lbn(), self.model.maps.len());
        match self.random.below(10) {
            0..5 if volumes < 12 => self.clone_volume(id),
            5 if volumes > 2 => self.remove(id),
            6 if volumes > 2 => drop(self.remove_in_pieces(id)),
            7 => {
                let count = self.random.below(1 << 22);
                self.unmap_count(id, lbn, count);
            }
            8 => self.cut(id, VOLUME_BLOCKS / 2 + 1300),
            9 if volumes > 1 => self.roll_back(id),
            _ => {}
        }
    }

    pub(super) fn clone_volume(&mut self, id: u32) {
        let volume = self.backend.totals().next_volume;
        self.apply(&Change::Clone {
            source: VolumeId(id),
            volume: VolumeId(volume),
            name: format!("v{volume}"),
            read_only: false,
            created_s: Some(1_700_000_000),
        });
        self.model.maps.insert(volume, self.model.maps[&id].clone());
        let (family, at) = self.model.family(id);
        family.insert(at, volume);
    }

    /// Gives a volume the map of another one, and clears what it had.
    fn roll_back(&mut self, id: u32) {
        let (source, left) = (self.any_volume(), self.backend.totals().next_volume);
        if source == id {
            return;
        }
        let [volume, source_id, left_id] = [id, source, left].map(VolumeId);
        let change = Change::Rollback { volume, source: source_id, left: left_id };
        self.backend.check_change(&change).unwrap();
        self.apply(&change);
        self.forget(id);
        self.model.maps.insert(id, self.model.maps[&source].clone());
        let (family, at) = self.model.family(source);
        family.insert(at, id);
        if self.random.below(2) == 0 {
            self.remove_in_pieces(left);
        } else {
            self.apply(&Change::Remove { volume: left_id });
        }
    }

    pub(super) fn remove(&mut self, id: u32) {
        self.apply(&Change::Remove { volume: VolumeId(id) });
        self.forget(id);
    }

    fn forget(&mut self, id: u32) {
        if self.model.maps.remove(&id).is_some() {
            let (family, at) = self.model.family(id);
            family.remove(at);
        }
    }

    /// Removes a volume as the engine removes a large one. Returns the number of pieces.
    pub(super) fn remove_in_pieces(&mut self, id: u32) -> usize {
        self.hide(id);
        let (mut next, mut pieces) = (Lbn(0), 0);
        while let Some(end) = self.unmap_piece(id, next, 1024) {
            next = end;
            pieces += 1;
        }
        self.apply(&Change::Remove { volume: VolumeId(id) });
        pieces
    }

    /// Hides some volume, but not the last one.
    pub(super) fn hide_any(&mut self) -> u32 {
        if self.model.maps.len() < 2 {
            let id = self.any_volume();
            self.clone_volume(id);
        }
        let id = self.any_volume();
        self.hide(id);
        id
    }

    /// Hides a volume. The model has none of it from then on.
    pub(super) fn hide(&mut self, id: u32) {
        self.apply(&Change::Hide { volume: VolumeId(id) });
        self.forget(id);
    }

    /// Unmaps the next piece of a hidden volume. Returns its end.
    pub(super) fn unmap_piece(&mut self, id: u32, from: Lbn, most: u64) -> Option<Lbn> {
        let volume = VolumeId(id);
        let piece = self.backend.next_piece(volume, from, most).unwrap()?;
        let (first, end) = (piece.start, piece.end);
        let mut next = first;
        while next < end {
            next = self.backend.warm(volume, next, end).unwrap();
        }
        let unmap = Change::Unmap { volume, first, count: end.0 - first.0 };
        self.backend.check_change(&unmap).unwrap();
        self.apply(&unmap);
        Some(end)
    }

    fn cut(&mut self, id: u32, blocks: u64) {
        for (blocks, padding_bytes) in [(blocks, 1), (VOLUME_BLOCKS, 0)] {
            let (volume, size_bytes) = (VolumeId(id), 512 * blocks);
            self.apply(&Change::Resize { volume, size_bytes, padding_bytes });
        }
        self.model.maps.get_mut(&id).unwrap().retain(|lbn, _| *lbn < blocks);
    }

    /// Volumes change as a whole during a checkpoint only if the backend allows it.
    pub(super) fn step(&mut self, may_change_volumes: bool) {
        let (id, lbn) = (self.any_volume(), self.lbn());
        match self.random.below(if may_change_volumes { 1000 } else { 997 }) {
            0..700 => self.store(id, lbn),
            700..830 => self.share(id, lbn),
            830..850 => self.identify(id, lbn),
            850..997 => self.unmap(id, lbn),
            997 if self.model.maps.len() < 4 => self.clone_volume(id),
            998 => self.cut(id, VOLUME_BLOCKS / 4),
            999 if self.model.maps.len() > 2 => self.remove(id),
            _ => {}
        }
    }

    /// Writes the frozen pages. Returns the root that a checkpoint would write.
    pub(super) fn write(&mut self) -> Root {
        if let Some(merge) = self.backend.merge() {
            merge().unwrap();
        }
        self.write_table()
    }

    /// Writes the table of what was merged, and returns the root.
    pub(super) fn write_table(&mut self) -> Root {
        let mut writes = PageWrites::new();
        let Sealed { table, table_bytes } = self.backend.seal(&mut writes).unwrap();
        for (slot, page) in writes {
            for offset in self.superblock.regions().slot(slot) {
                self.disks.metadata.write_at(offset, page.as_slice()).unwrap();
            }
        }
        let totals = self.backend.totals();
        Root {
            generation: self.generation + 1,
            next_commit: 1,
            journal_offset: 0,
            policy: self.backend.policy(),
            table,
            table_bytes,
            data_blocks: totals.data_blocks,
            next_volume: totals.next_volume,
            references: totals.references,
            physical: totals.physical,
        }
    }

    pub(super) fn reload(&mut self, root: &Root) {
        self.reload_with(root, CACHE_BYTES);
    }

    pub(super) fn reload_with(&mut self, root: &Root, cache_bytes: u64) {
        self.reload_from(Arc::clone(&self.disks.metadata), root, cache_bytes);
    }

    pub(super) fn metadata(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disks.metadata)
    }

    pub(super) fn reload_from(&mut self, disk: Arc<dyn Disk>, root: &Root, cache_bytes: u64) {
        let options = LoadOptions { cache: CacheSize::Given(cache_bytes), salvages: false };
        let mut damage = Damage::default();
        let home = BackendContext::new(disk, &self.superblock).with_sampling(self.sampling);
        self.backend = load(&home, root, options, &mut damage).unwrap();
        self.backend.settle().unwrap();
        assert_eq!((damage.lost, damage.harmless), (Vec::new(), Vec::new()));
    }

    /// The number of blocks that have a reference and a fingerprint.
    pub(super) fn live_fingerprints(&self) -> u64 {
        let references = self.model.references();
        let live = references.keys().filter(|pbn| !self.model.fingerprints[pbn].is_none());
        live.count() as u64
    }

    /// Frees the blocks that neither the present state nor a state on disk refers to.
    pub(super) fn free_unused(&mut self) {
        let used: BTreeSet<u64> = self.model.references().into_keys().collect();
        self.free = (self.first_pbn..self.next_pbn).filter(|pbn| !used.contains(pbn)).collect();
        self.model.fingerprints.retain(|pbn, _| used.contains(pbn));
    }

    pub(super) fn compare(&self) {
        assert_eq!(self.backend.prove(5).unwrap(), Vec::<String>::new());
        let (references, runs) = (self.model.references(), self.model.runs());
        let totals = self.backend.totals();
        let sum: u64 = references.values().map(|count| u64::from(*count)).sum();
        assert_eq!((totals.references, totals.physical), (sum, references.len() as u64));
        let mut used = BTreeSet::new();
        let mut visit = |pbn: Pbn| assert!(used.insert(pbn.number()));
        self.backend.visit_used(Pbn::FIRST, &mut visit).unwrap();
        assert!(used.iter().eq(references.keys()));
        let middle = u64::midpoint(self.first_pbn, self.next_pbn) + 1;
        let (first, mut later) = (Pbn::new(middle).unwrap(), BTreeSet::new());
        self.backend.visit_used(first, &mut |pbn| assert!(later.insert(pbn.number()))).unwrap();
        assert!(later.iter().eq(used.range(first.number()..)));
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
            assert_eq!(record.fingerprint, fingerprint);
            assert_eq!(record.references, runs[&pbn.number()], "{record:?}");
            let same = found.map(|known| self.model.fingerprints[&known.pbn.number()]);
            assert!(found.is_none_or(|known| known.record.references == runs[&known.pbn.number()]));
            // If a content is stored twice, the index may lose it with the first block that is
            // freed.
            assert!(same.is_none() || same == Some(fingerprint), "{same:?}, not {fingerprint:?}");
        }
    }

    fn compare_map(&self, volume: VolumeId, map: &BTreeMap<u64, u64>) {
        assert_eq!(self.backend.mapped_blocks(volume), map.len() as u64);
        let mut next = Lbn(0);
        for lbn in map.keys() {
            let found = self.backend.next_mapped(volume, next, Lbn(VOLUME_BLOCKS)).unwrap();
            assert_eq!(found, Some(Lbn(*lbn)));
            next = Lbn(lbn + 1);
        }
        assert_eq!(self.backend.next_mapped(volume, next, Lbn(VOLUME_BLOCKS)).unwrap(), None);
        let mut mapped_and_next: Vec<u64> = map.keys().flat_map(|lbn| [*lbn, lbn + 1]).collect();
        mapped_and_next.dedup();
        let mut places = Vec::new();
        for some in mapped_and_next.chunks(100) {
            let lbns: Vec<Lbn> = some.iter().map(|lbn| Lbn(*lbn)).collect();
            places.clear();
            self.backend.look_up(volume, &lbns, &mut places).unwrap();
            assert_eq!(
                places,
                some.iter().map(|lbn| self.model.entry(map.get(lbn))).collect::<Vec<_>>()
            );
        }
    }

    /// Compares the maps of any two volumes, in pieces of a leaf.
    pub(super) fn compare_differences(&self) {
        let none = BTreeMap::new();
        for (own, (id, other)) in self.model.maps.iter().flat_map(|own| {
            let others = self.model.maps.iter().map(|(id, map)| (Some(*id), map));
            others.chain([(None, &none)]).map(move |other| (own, other))
        }) {
            let (mut next, mut found) = (Lbn(3), Vec::new());
            while next < Lbn(VOLUME_BLOCKS) {
                let (id, lbns) = (id.map(VolumeId), next..Lbn(VOLUME_BLOCKS));
                let some = self.backend.differences(VolumeId(*own.0), id, lbns, 1).unwrap();
                assert!(some.end > next && some.end <= Lbn(VOLUME_BLOCKS));
                found.extend(some.entries);
                next = some.end;
            }
            assert_eq!(found, self.differing(own.1, other, 3), "{:?} and {id:?}", own.0);
        }
    }

    /// Returns the entries in which two maps of the model differ, from an LBN on.
    fn differing(
        &self,
        own: &BTreeMap<u64, u64>,
        other: &BTreeMap<u64, u64>,
        first: u64,
    ) -> Vec<DifferingEntry> {
        let mut sides = [own, other].map(|map| map.range(first..).peekable());
        let mut differing = Vec::new();
        loop {
            let next = sides.each_mut().map(|side| side.peek().map(|(lbn, _)| **lbn));
            let Some(lbn) = next.into_iter().flatten().min() else { return differing };
            let [own, other] = sides
                .each_mut()
                .map(|side| side.next_if(|(at, _)| **at == lbn).map(|(_, pbn)| pbn));
            if own != other {
                let (own, other) = (self.model.entry(own), self.model.entry(other));
                differing.push(DifferingEntry { lbn: Lbn(lbn), other, own });
            }
        }
    }
}
