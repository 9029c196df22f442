//! The layout `compact`: the arrays of `table`, and an index in memory that is computed from the
//! records.
//!
//! The index has a PBN and some bits of the fingerprint for each block, so that one in 16 to 32
//! look-ups of an unknown content reads a record for nothing, and no content is missed. An entry
//! may be out of date; the record of its PBN decides. Changes of the index come from merges, and
//! from the reading of the records after an opening ([`super::catch_up`]).

mod bits;
mod bucket;
mod loading;
mod room;
mod saved;
mod table;

use super::array;
use super::held::{self, FoundCandidates};
use super::layout::{IndexEdit, IndexState, Layout, MAX_CANDIDATES, StoredIndex, Visitor};
use super::pages::Pages;
use crate::IndexSampling;
use crate::error::{MetadataError, Result};
use bucket::RUN_BITS;
use gemelo_base::locks::{Mutex, RwLock};
use gemelo_format::{Part, Tree, WordForm};
pub(super) use loading::Loading;
use loading::{Progress, Saved};
use saved::SavedFor;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use table::Table;

/// Bits of a hash beyond those that number the PBNs of the data store. An unknown content finds an
/// entry in one of 16 look-ups of a full store, and in one of 32 of a store that is half full.
const SPARE_BITS: u32 = 4;
/// The least bits of a hash.
const MIN_HASH_BITS: u32 = 16;
/// Changes that are made in one hold of the lock: some 50 us.
const EDITS_AT_ONCE: usize = 64;
/// Hashes that are looked up in one hold of the lock.
const HASHES_AT_ONCE: usize = 64;

/// The layout of arrays with an index in memory.
pub(crate) struct CompactLayout;

/// An index in memory, which all states of the metadata share.
#[derive(Clone)]
pub(crate) struct MemoryIndex {
    table: Arc<RwLock<Table>>,
    progress: Arc<Mutex<Progress>>,
    saved: Saved,
    made_for: SavedFor,
    /// The edits of the checkpoint that is being written.
    unfinished: Arc<Mutex<Vec<Arc<Vec<IndexEdit>>>>>,
    /// The PBN at which the search for stale entries goes on.
    swept: Arc<AtomicU64>,
    /// The number of checkpoints that have ended well.
    checkpoints: Arc<AtomicU64>,
    figures: Arc<Figures>,
    sampling: IndexSampling,
}

/// Figures of the table, for which nobody waits.
struct Figures {
    entries: AtomicU64,
    bytes: AtomicU64,
}

impl Figures {
    fn of(table: &Table) -> Self {
        let [entries, bytes] = [table.entries(), table.bytes()].map(AtomicU64::new);
        Self { entries, bytes }
    }

    fn note(&self, table: &Table) {
        self.entries.store(table.entries(), Ordering::Relaxed);
        self.bytes.store(table.bytes(), Ordering::Relaxed);
    }
}

impl MemoryIndex {
    /// Adds and removes entries, those of contents in the sample. One that is there is not added
    /// again.
    pub(super) fn edit(&self, edits: &[IndexEdit]) {
        for some in edits.chunks(EDITS_AT_ONCE) {
            let sampled = || some.iter().filter(|edit| self.has(edit.hash));
            let mut table = self.table.write();
            table.touch(sampled().map(|edit| edit.hash));
            sampled().for_each(|edit| table.edit(edit));
            self.note_meanwhile(sampled().copied());
            self.figures.note(&table);
        }
    }

    /// Notes edits of the checkpoint that is being written, so that they can be taken back.
    pub(super) fn note(&self, edits: Vec<IndexEdit>) -> Arc<Vec<IndexEdit>> {
        let edits = Arc::new(edits);
        self.unfinished.lock().push(Arc::clone(&edits));
        edits
    }

    /// Keeps the edits of a checkpoint, which has ended well.
    pub(super) fn finish(&self) {
        *self.unfinished.lock() = Vec::new();
        self.checkpoints.fetch_add(1, Ordering::Release);
    }

    /// Takes back the edits of a checkpoint that was given up. The next one does not repeat them if
    /// a block has its earlier content again by then.
    pub(super) fn abandon(&self) {
        for edits in std::mem::take(&mut *self.unfinished.lock()).iter().rev() {
            let back = edits.iter().rev().map(|edit| IndexEdit { comes: !edit.comes, ..*edit });
            self.edit(&back.collect::<Vec<_>>());
        }
    }

    pub(super) fn swept(&self) -> u64 {
        self.swept.load(Ordering::Relaxed)
    }

    pub(super) fn set_swept(&self, pbn: u64) {
        self.swept.store(pbn, Ordering::Relaxed);
    }

    const fn has(&self, hash: u64) -> bool {
        self.sampling.has(hash)
    }

    /// Looks up a list, unless this thread has just looked it up. A look that reads nothing does
    /// not wait either: what it finds locked is looked up before the next one.
    fn candidates(&self, hashes: &[(usize, u64)], found: &mut Vec<(usize, u64)>) -> Result<()> {
        let checkpoints = self.checkpoints.load(Ordering::Acquire);
        if held::add_found(checkpoints, hashes, found) {
            return Ok(());
        }
        let listed: Vec<u64> = hashes.iter().map(|(_, hash)| *hash).collect();
        let mut all = FoundCandidates { checkpoints, hashes: listed, pbns: Vec::new() };
        for (number, some) in all.hashes.chunks(HASHES_AT_ONCE).enumerate() {
            let table =
                if held::is_noting() { self.table.try_read() } else { Some(self.table.read()) };
            let Some(table) = table else {
                let (index, hashes) = (self.clone(), all.hashes);
                held::wait_for(Box::new(move || index.find_ahead(hashes)));
                return Err(MetadataError::Missing);
            };
            self.add(&table, (number * HASHES_AT_ONCE, some), &mut all.pbns);
        }
        found.extend(all.pbns.iter().map(|(place, pbn)| (hashes[*place].0, *pbn)));
        held::keep_found(all);
        Ok(())
    }

    /// Adds what the table has for some hashes of a list, whose places begin with the first.
    fn add(&self, table: &Table, (first, hashes): (usize, &[u64]), found: &mut Vec<(usize, u64)>) {
        for (place, hash) in (first..).zip(hashes).filter(|(_, hash)| self.has(**hash)) {
            table.candidates(*hash, MAX_CANDIDATES, |pbn| found.push((place, pbn)));
        }
    }

    /// Looks up a list for the next look.
    fn find_ahead(&self, hashes: Vec<u64>) {
        // A checkpoint that ends from now on makes the list void.
        let checkpoints = self.checkpoints.load(Ordering::Acquire);
        let mut pbns = Vec::new();
        for (number, some) in hashes.chunks(HASHES_AT_ONCE).enumerate() {
            self.add(&self.table.read(), (number * HASHES_AT_ONCE, some), &mut pbns);
        }
        held::keep_found(FoundCandidates { checkpoints, hashes, pbns });
    }
}

/// Bits of a hash, for PBNs below this one and contents of this sample.
const fn hash_bits(pbn_end: u64, sampling: IndexSampling) -> u32 {
    let bits = u64::BITS - pbn_end.saturating_sub(1).leading_zeros();
    // An entry of the first bucket, which has the longest tags, fits in a word, however far the
    // store grows.
    let most = u64::BITS + RUN_BITS - WordForm::Wide.end().ilog2();
    let bits = (bits + SPARE_BITS).saturating_sub(sampling.bits());
    let bits = if bits > most { most } else { bits };
    if bits < MIN_HASH_BITS { MIN_HASH_BITS } else { bits }
}

/// Bytes that an index of this many contents, or of a sample of them, takes, about, in a store of
/// this many blocks. An entry has its PBN, its tag, and some 2 bits of its run; a twentieth more is
/// not used in the slots and segments, and some sizes of slots have a segment that is filled in
/// part.
pub(in super::super) fn bytes_of(contents: u64, pbn_end: u64, sampling: IndexSampling) -> u64 {
    const OPEN_BYTES: u64 = 1 << 20;
    let entries = contents / u64::from(sampling.rate());
    let bits_of = |number: u64| u64::from(u64::BITS - number.leading_zeros());
    let hash_bits = u64::from(hash_bits(pbn_end.max(2), sampling));
    let tag_and_run = hash_bits.saturating_sub(bits_of(entries)) + 3;
    entries * (bits_of(contents) + tag_and_run) * 21 / 20 / 8 + OPEN_BYTES
}

impl IndexState for MemoryIndex {
    fn empty(pbn_end: u64, sampling: IndexSampling) -> Self {
        let hash_bits = hash_bits(pbn_end, sampling);
        let table = Table::new(hash_bits);
        let figures = Arc::new(Figures::of(&table));
        let made_for = SavedFor { hash_bits, sample: sampling.rate(), pbn_end };
        Self {
            table: Arc::new(RwLock::new(table)),
            progress: Arc::default(),
            saved: Saved::default(),
            made_for,
            unfinished: Arc::default(),
            swept: Arc::default(),
            checkpoints: Arc::default(),
            figures,
            sampling,
        }
    }

    fn load(stored: StoredIndex, pbn_end: u64, sampling: IndexSampling) -> Result<Self> {
        if (stored.buckets, stored.entries) == (0, 0) {
            return Ok(Self::empty(pbn_end, sampling));
        }
        Err(MetadataError::damaged(
            "the checkpoint's table names an index of another policy than the root does",
        ))
    }

    fn begin_loading(&mut self, pages: &Pages, tree: Tree) -> Option<Loading> {
        self.begin(pages, tree)
    }

    fn save(&self, pages: &Pages) -> Result<Self> {
        self.save_in(pages)
    }

    fn stored(&self) -> StoredIndex {
        StoredIndex { tree: self.saved.named(), ..StoredIndex::default() }
    }

    fn entries(&self) -> u64 {
        self.figures.entries.load(Ordering::Relaxed)
    }

    fn bytes(&self) -> u64 {
        self.figures.bytes.load(Ordering::Relaxed)
    }

    fn in_memory(&self) -> Option<&MemoryIndex> {
        Some(self)
    }
}

impl Layout for CompactLayout {
    type Index = MemoryIndex;

    fn walk_index(pages: &Pages, index: &MemoryIndex, visitor: &mut dyn Visitor) -> Result<()> {
        array::walk(pages, &index.saved.tree, Part::Saved, 0, visitor)
    }

    fn candidates(
        _pages: &Pages,
        index: &MemoryIndex,
        hashes: &[(usize, u64)],
        found: &mut Vec<(usize, u64)>,
    ) -> Result<()> {
        index.candidates(hashes, found)
    }

    fn merge_index(
        pages: &Pages,
        index: &MemoryIndex,
        edits: Vec<IndexEdit>,
    ) -> Result<MemoryIndex> {
        // Noted first, so that whatever was done can be taken back.
        let is_changed = !edits.is_empty();
        index.edit(&index.note(edits));
        index.clone().without_old(pages, is_changed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::held::{HeldPages, MissingPages};
    use super::*;
    use crate::BackendContext;
    use crate::tests::superblock;
    use gemelo_base::random::mix64;
    use gemelo_disk::testing::MemoryDisk;
    use gemelo_format::PoolSeed;

    fn pbns_of(index: &MemoryIndex, hash: u64) -> Vec<u64> {
        let mut found = Vec::new();
        index.candidates(&[(0, hash)], &mut found).unwrap();
        found.into_iter().map(|(_, pbn)| pbn).collect()
    }

    /// The bytes of an entry in a store of 2^28 blocks, from those in a smaller one.
    const fn at_a_tebibyte(bytes: f64, pbn_bits: u32) -> f64 {
        bytes + (28 - pbn_bits) as f64 / 8.0
    }

    #[test]
    fn a_store_of_any_size_may_grow_to_the_largest() {
        let pbn = WordForm::Wide.end() - 1;
        for bits in 1..=WordForm::Wide.end().ilog2() {
            let index = MemoryIndex::empty(1 << bits, IndexSampling::ALL);
            index.edit(&[IndexEdit { hash: u64::MAX, pbn, comes: true }]);
            assert_eq!(pbns_of(&index, u64::MAX), [pbn], "a store of 2^{bits} blocks");
        }
    }

    /// What it wants to know is looked up between the looks, and is known until a checkpoint ends.
    #[test]
    fn a_look_does_not_wait_for_an_index_that_changes() {
        let superblock = superblock();
        let home = BackendContext::new(Arc::new(MemoryDisk::default()), &superblock);
        let pages = Arc::new(Pages::new(&home, PoolSeed::of(&superblock), 0));
        let index = MemoryIndex::empty(1 << 20, IndexSampling::ALL);
        let known = [(3, mix64(1)), (5, mix64(2)), (8, mix64(3))];
        index.edit(&[
            IndexEdit { hash: mix64(1), pbn: 10, comes: true },
            IndexEdit { hash: mix64(3), pbn: 30, comes: true },
        ]);
        let held = HeldPages::hold();
        let look = |hashes: &[(usize, u64)]| {
            let mut found = Vec::new();
            held.look(|| index.candidates(hashes, &mut found)).map(|_| found)
        };
        let changing = index.table.write();
        assert_eq!(look(&known), None, "it is being changed");
        drop(changing);
        MissingPages::noted(&pages).unwrap().read();
        let changing = index.table.write();
        assert_eq!(look(&known), Some(vec![(3, 10), (8, 30)]));
        // A part of the list is known as well, and another hash is not.
        assert_eq!(look(&[(0, mix64(3))]), Some(vec![(0, 30)]));
        assert_eq!(look(&[(0, mix64(4))]), None);
        drop(changing);
        assert_eq!(look(&known), Some(vec![(3, 10), (8, 30)]));
        index.finish();
        let changing = index.table.write();
        assert_eq!(look(&known), None, "what was frozen before may be in the index alone");
        drop(changing);
    }

    #[test]
    fn an_entry_takes_less_than_five_bytes_at_any_fill() {
        // A store of 2^28 blocks has tags of the same lengths as this one, and longer PBNs.
        const PBN_BITS: u32 = 20;
        let index = MemoryIndex::empty(1 << PBN_BITS, IndexSampling::ALL);
        let edit = |pbn| IndexEdit { hash: mix64(pbn), pbn, comes: true };
        for first in (0..1 << PBN_BITS).step_by(4096) {
            index.edit(&(first..first + 4096).map(edit).collect::<Vec<_>>());
            let entries = index.entries();
            assert_eq!(entries, first + 4096, "none is missing");
            let used = index.bytes() - index.table.read().open_bytes();
            let each = at_a_tebibyte(used as f64 / entries as f64, PBN_BITS);
            assert!(entries < 1 << (PBN_BITS - 1) || each < 4.8, "{each} bytes at {entries}");
        }
        let mut reads = 0;
        for pbn in (0..1 << PBN_BITS).step_by(101) {
            assert!(pbns_of(&index, mix64(pbn)).contains(&pbn), "{pbn} is found by its hash");
            reads += pbns_of(&index, mix64(pbn | 1 << 40)).len();
        }
        let share = reads as f64 / f64::from((1u32 << PBN_BITS).div_ceil(101));
        assert!(share < 1.2 / 16.0, "{share} records are read for an unknown content");
    }
}
