//! Contents in the journal that have lost their places in a pool that compresses.
//!
//! After a lost commit, a block may have contents of later commits where an earlier one, which the
//! journal still carries, had its content. Putting that back would destroy the others. Each content
//! is therefore put back only if all contents that maps expect in its blocks can be read
//! afterwards. The others are set apart, and a repair stores them elsewhere.

use super::copies::Expected;
use super::recovery::{Recovered, each_place};
use crate::engine::Engine;
use crate::error::Result;
use gemelo_format::{Checksum, MapEntry, PackedPlace, Pbn, PoolSeed, StoreKind};
use gemelo_store::{ContentRead, PackedStore, Store, block_number};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A content without a place.
pub(super) struct Displaced {
    /// The block that maps refer to, and the checksum that they expect.
    pub(super) expected: Expected,
    pub(super) content: Vec<u8>,
}

/// Takes the contents out of the journal data that cannot be put back, and those that need not be.
/// `blocks` is the store of the blocks that contents share.
pub(super) fn set_apart(
    recovered: &mut Recovered,
    blocks: &Arc<dyn Store>,
) -> Result<Vec<Displaced>> {
    let forms = recovered.replayed_data.forms();
    if recovered.superblock.store == StoreKind::Plain || forms.is_empty() {
        return Ok(Vec::new());
    }
    let mut images = Images::new(recovered, blocks, &forms)?;
    let mut displaced = Vec::new();
    for (pbn, form) in forms {
        match images.put_back(pbn, &form) {
            JournalFate::PutBack => continue,
            JournalFate::Needless => {}
            JournalFate::Displaced(content, checksum) => {
                displaced.push(Displaced { expected: Expected { pbn, checksum }, content });
            }
        }
        recovered.replayed_data.forget(pbn);
    }
    Ok(displaced)
}

/// The fate of a content in the journal.
enum JournalFate {
    PutBack,
    /// No map expects it.
    Needless,
    Displaced(Vec<u8>, Checksum),
}

/// The blocks that contents are put back into, and the contents that must stay in them.
struct Images {
    store: Arc<dyn Store>,
    seed: PoolSeed,
    block_bytes: usize,
    bytes: BTreeMap<u32, Vec<u8>>,
    /// The checksums that maps expect of contents in these blocks.
    expected: BTreeMap<Pbn, BTreeSet<Checksum>>,
    /// The contents that can be read there.
    kept: BTreeMap<Pbn, Checksum>,
}

impl Images {
    fn new(
        recovered: &Recovered,
        blocks: &Arc<dyn Store>,
        forms: &[(Pbn, Vec<u8>)],
    ) -> Result<Self> {
        let kind = recovered.superblock.store;
        let parts = |pbn: Pbn| kind.first_block(pbn) as u32..=kind.last_block(pbn) as u32;
        let touched: BTreeSet<u32> = forms.iter().flat_map(|(pbn, _)| parts(*pbn)).collect();
        let mut expected: BTreeMap<Pbn, BTreeSet<Checksum>> = BTreeMap::new();
        for volume in recovered.backend.volumes() {
            each_place(&*recovered.backend, volume.id, |_, place| {
                if let MapEntry::Stored(pbn, checksum) = place
                    && parts(pbn).any(|block| touched.contains(&block))
                {
                    expected.entry(pbn).or_default().insert(checksum);
                }
                Ok(())
            })?;
        }
        let numbers: BTreeSet<u32> =
            expected.keys().flat_map(|pbn| parts(*pbn)).chain(touched).collect();
        let block_bytes = recovered.superblock.block_bytes as usize;
        let read = |number: u32| Some((number, read_block(&**blocks, number, block_bytes)?));
        let mut images = Self {
            store: Arc::clone(&recovered.store),
            seed: PoolSeed::of(&recovered.superblock),
            block_bytes,
            bytes: numbers.into_iter().filter_map(read).collect(),
            expected,
            kept: BTreeMap::new(),
        };
        let pbns: Vec<Pbn> = images.expected.keys().copied().collect();
        for pbn in pbns {
            let found = images.checksum_of(pbn, &BTreeMap::new());
            images
                .kept
                .extend(found.filter(|found| images.expects(pbn, *found)).map(|it| (pbn, it)));
        }
        Ok(images)
    }

    fn expects(&self, pbn: Pbn, checksum: Checksum) -> bool {
        self.expected.get(&pbn).is_some_and(|checksums| checksums.contains(&checksum))
    }

    /// The checksum of a content as it would be read if these blocks were others.
    fn checksum_of(&self, pbn: Pbn, others: &BTreeMap<u32, Vec<u8>>) -> Option<Checksum> {
        let block = |number: u32| others.get(&number).or_else(|| self.bytes.get(&number));
        let first = PackedPlace::of(pbn).block;
        let next = block(first + 1).map(Vec::as_slice);
        let form = PackedStore::form_in(pbn, block(first)?, next)?;
        Some(self.seed.of_content(&self.store.content_of_form(pbn, &form)?))
    }

    /// Puts a content back, if that destroys none of those that are there.
    fn put_back(&mut self, pbn: Pbn, form: &[u8]) -> JournalFate {
        let Some(content) = self.store.content_of_form(pbn, form) else {
            return JournalFate::Needless;
        };
        let checksum = self.seed.of_content(&content);
        match self.kept.get(&pbn) {
            _ if !self.expects(pbn, checksum) => return JournalFate::Needless,
            // What was read may be in the page cache alone.
            Some(there) if *there == checksum => return JournalFate::PutBack,
            Some(_) => return JournalFate::Displaced(content, checksum),
            None => {}
        }
        let read = |number: u32| self.bytes.get(&number).cloned();
        let patched = PackedStore::patched(self.block_bytes, (pbn, form), &read);
        let Ok(patched) = patched else { return JournalFate::Displaced(content, checksum) };
        let patched: BTreeMap<u32, Vec<u8>> = patched.into_iter().collect();
        let stays =
            |(other, there): (&Pbn, &Checksum)| self.checksum_of(*other, &patched) == Some(*there);
        if self.checksum_of(pbn, &patched) != Some(checksum) || !self.kept.iter().all(stays) {
            return JournalFate::Displaced(content, checksum);
        }
        self.bytes.extend(patched);
        self.kept.insert(pbn, checksum);
        JournalFate::PutBack
    }
}

/// The contents with the PBNs and the checksums that maps have for them.
pub(super) fn contents_of(displaced: &[Displaced]) -> Vec<(Pbn, Checksum, &[u8])> {
    let all = displaced.iter();
    all.map(|one| (one.expected.pbn, one.expected.checksum, &*one.content)).collect()
}

/// Stores contents elsewhere that have no place. Returns the number of those for which there is
/// no room.
pub(super) fn store_displaced(engine: &Engine, displaced: &[Displaced]) -> Result<u64> {
    let moved = engine.relocator.store_elsewhere(&contents_of(displaced))?;
    Ok(moved.into_iter().filter(|is_moved| !is_moved).count() as u64)
}

fn read_block(blocks: &dyn Store, number: u32, block_bytes: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; block_bytes];
    let mut reads = [ContentRead::new(block_number(number)?, 0, &mut bytes)];
    blocks.read(&mut reads);
    let [read] = reads;
    read.outcome.is_ok().then_some(bytes)
}
