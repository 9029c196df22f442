//! The plan of a write: a decision for each block of a list, made without a lock and carried out
//! with one.

mod carry_out;

use super::checked::FingerprintMatch;
use super::patch::Patches;
use super::write::{Item, Source};
use super::{Engine, VolumeShared};
use crate::backend::Record;
use crate::error::Result;
use gemelo_base::is_zero;
use gemelo_format::{Checksum, DedupMode, Fingerprint, Lbn, Pbn, Place};
use hashbrown::HashTable;
use std::num::NonZeroU64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The block's request has failed already.
    Failed,
    /// The block has this content already.
    Unchanged,
    /// The content is all zeros.
    Unmap,
    /// The content is in this PBN, which is shared.
    Share(Pbn),
    /// The content belongs to this suspect block, and is written there again.
    Heal(Pbn),
    /// The suspect block could not be written. The next pass stores the content elsewhere.
    Retry,
    /// The content equals that of an earlier block of the list.
    Follow(usize),
    /// The content is unknown, and gets a PBN of its own.
    Fresh,
}

/// Blocks counted by their outcome.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) unique: u64,
    pub(super) duplicate: u64,
    pub(super) unchanged: u64,
    pub(super) zero: u64,
    pub(super) cow: u64,
    pub(super) patched: u64,
}

struct Block<'p> {
    lbn: Lbn,
    content: &'p [u8],
    /// The place that a patched block had when it was read.
    base: Option<Place>,
    step: Step,
    is_zero: bool,
    pbn: Option<Pbn>,
    request: usize,
}

impl Block<'_> {
    fn has_fingerprint(&self, mode: DedupMode) -> bool {
        mode == DedupMode::Inline && self.step != Step::Failed && !self.is_zero
    }
}

/// The decisions for a list of blocks, and the results of the look-ups that they rest on.
pub(super) struct Plan<'p, 'a> {
    blocks: Vec<Block<'p>>,
    fingerprints: Vec<Fingerprint>,
    places: Vec<Place>,
    found: Vec<Option<Pbn>>,
    /// The version of the metadata at the look-up.
    version: (u64, usize),
    checksums: Vec<Checksum>,
    /// The records of the found blocks.
    records: Vec<Record>,
    most_references: u32,
    /// The ticket of the fresh blocks whose fingerprints are taken later.
    ticket: Option<NonZeroU64>,
    items: std::marker::PhantomData<&'p Item<'a>>,
}

impl<'p, 'a: 'p> Plan<'p, 'a> {
    pub(super) fn new(items: &[&'p Item<'a>], patches: &'p Patches) -> Self {
        let mut patched = 0;
        let block = |item: &&'p Item<'a>| {
            let (content, base, step) = match &item.source {
                Source::Whole(content) => (*content, None, Step::Fresh),
                Source::Part(..) | Source::ZeroPart(_) => {
                    patched += 1;
                    match patches.get(patched - 1) {
                        Some((base, content)) => (content, Some(base), Step::Fresh),
                        None => (&[][..], None, Step::Failed),
                    }
                }
            };
            Block {
                lbn: item.lbn,
                content,
                base,
                step,
                is_zero: false,
                pbn: None,
                request: item.request,
            }
        };
        Self {
            blocks: items.iter().map(block).collect(),
            fingerprints: Vec::with_capacity(items.len()),
            places: Vec::with_capacity(items.len()),
            found: Vec::with_capacity(items.len()),
            version: (0, 0),
            checksums: Vec::new(),
            records: Vec::new(),
            most_references: u32::MAX,
            ticket: None,
            items: std::marker::PhantomData,
        }
    }

    pub(super) fn take_fingerprints(&mut self, engine: &Engine, mode: DedupMode) {
        let mut contents = Vec::with_capacity(self.blocks.len());
        for block in &mut self.blocks {
            block.is_zero = is_zero(block.content);
            if block.has_fingerprint(mode) {
                contents.push(block.content);
            }
        }
        self.fingerprints.resize(self.blocks.len(), Fingerprint::NONE);
        let blocks = self.blocks.iter().zip(&mut self.fingerprints);
        let mut wanted = blocks.filter(|(block, _)| block.has_fingerprint(mode));
        engine.fingerprinter.of_all(&contents, |fingerprint| {
            if let Some((_, slot)) = wanted.next() {
                *slot = fingerprint;
            }
        });
    }

    /// Looks all blocks up at once.
    pub(super) fn look_up(&mut self, engine: &Engine, volume: &VolumeShared) -> Result<()> {
        let lbns: Vec<Lbn> = self.blocks.iter().map(|block| block.lbn).collect();
        self.records.reserve(lbns.len());
        self.most_references = engine.tuning.most_references;
        let state = engine.state();
        self.version = state.version();
        state.backend().look_up(volume.id(), &lbns, &mut self.places)?;
        state.backend().find(&self.fingerprints, &mut self.found)?;
        let pbns: Vec<Pbn> = self.found.iter().map(|pbn| pbn.unwrap_or(Pbn::FIRST)).collect();
        state.backend().records(&pbns, &mut self.records)?;
        state.backend().prefetch(&self.places)
    }

    /// Computes the checksums of all contents that get a map entry.
    pub(super) fn take_checksums(&mut self, engine: &Engine) {
        let checksum = |block: &Block<'_>| match block.step {
            Step::Fresh | Step::Share(_) | Step::Heal(_) | Step::Follow(_) => {
                engine.seed.of_content(block.content)
            }
            Step::Failed | Step::Retry | Step::Unchanged | Step::Unmap => Checksum(0),
        };
        self.checksums = self.blocks.iter().map(checksum).collect();
    }

    pub(super) fn decide(&mut self, engine: &Engine) {
        let must_compare = engine.tuning.verify_bytes || engine.fingerprinter.must_compare();
        let mut leaders: HashTable<usize> = HashTable::with_capacity(self.blocks.len());
        let equal = must_compare.then(|| self.compare(engine));
        for at in 0..self.blocks.len() {
            let step = self.step(engine, at, equal.as_deref(), &mut leaders);
            if let Some(block) = self.blocks.get_mut(at) {
                block.step = step;
            }
        }
    }

    /// Compares the contents in one list with the blocks that the index has for them. Returns
    /// `true` for each equal one.
    fn compare(&self, engine: &Engine) -> Vec<bool> {
        let likeness = |at: usize| {
            let (block, pbn) = (self.blocks.get(at)?, (*self.found.get(at)?)?);
            let is_sound = self.records.get(at).is_some_and(|record| !record.is_suspect);
            let is_asked = block.step != Step::Failed && !block.is_zero && is_sound;
            let (fingerprint, content) = (self.fingerprint(at), block.content);
            is_asked.then_some((at, FingerprintMatch { pbn, fingerprint, content }))
        };
        let (asked, likenesses): (Vec<usize>, Vec<FingerprintMatch<'_>>) =
            (0..self.blocks.len()).filter_map(likeness).unzip();
        let mut equal = vec![false; self.blocks.len()];
        for (at, is_equal) in asked.into_iter().zip(engine.are_equal(&likenesses)) {
            if let Some(flag) = equal.get_mut(at) {
                *flag = is_equal;
            }
        }
        equal
    }

    /// Decides on one block. `equal` has the outcomes of comparisons, if contents have to be
    /// compared.
    fn step(
        &self,
        engine: &Engine,
        at: usize,
        equal: Option<&[bool]>,
        leaders: &mut HashTable<usize>,
    ) -> Step {
        let must_compare = equal.is_some();
        let (Some(block), Some(place)) = (self.blocks.get(at), self.places.get(at)) else {
            return Step::Failed;
        };
        if block.step == Step::Failed {
            return Step::Failed;
        }
        if block.is_zero {
            return if *place == Place::Unmapped { Step::Unchanged } else { Step::Unmap };
        }
        let fingerprint = self.fingerprint(at);
        if fingerprint.is_none() {
            return Step::Fresh;
        }
        if let (Some(Some(pbn)), Some(record)) = (self.found.get(at), self.records.get(at))
            && !record.is_suspect
            && equal.is_none_or(|equal| equal.get(at) == Some(&true))
        {
            if place.pbn() == Some(*pbn) {
                return Step::Unchanged;
            }
            if record.references < self.most_references {
                return Step::Share(*pbn);
            }
        }
        let is_same = |leader: &usize| self.fingerprint(*leader) == fingerprint;
        if let Some(leader) = leaders.find(fingerprint.low(), is_same) {
            let is_equal =
                self.blocks.get(*leader).is_some_and(|leader| leader.content == block.content);
            return if !must_compare || is_equal { Step::Follow(*leader) } else { Step::Fresh };
        }
        leaders.insert_unique(fingerprint.low(), at, |leader| self.fingerprint(*leader).low());
        self.healable(engine, at, must_compare).map_or(Step::Fresh, Step::Heal)
    }

    /// Returns the suspect block that has this block's content, if that may be written there again.
    /// Equal fingerprints have to be enough proof, because a damaged content cannot be compared.
    fn healable(&self, engine: &Engine, at: usize, must_compare: bool) -> Option<Pbn> {
        let (pbn, record) = ((*self.found.get(at)?)?, self.records.get(at)?);
        let is_shareable = record.references < self.most_references;
        let is_right = record.is_suspect && is_shareable && !must_compare;
        (is_right && !engine.damages.is_unwritable(pbn)).then_some(pbn)
    }

    fn checksum(&self, at: usize) -> Checksum {
        self.checksums.get(at).copied().unwrap_or(Checksum(0))
    }

    fn fingerprint(&self, at: usize) -> Fingerprint {
        self.fingerprints.get(at).copied().unwrap_or(Fingerprint::NONE)
    }

    pub(super) const fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn fresh_blocks(&self) -> usize {
        self.blocks.iter().filter(|block| block.step == Step::Fresh).count()
    }
}
