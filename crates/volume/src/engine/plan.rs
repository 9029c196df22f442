//! The plan of a write: a decision for each block of a list, made without a lock and carried out
//! with one.

use super::checked::FingerprintMatch;
use super::patch::Patches;
use super::write::{Failed, Item, Source};
use super::{Engine, State, VolumeShared};
use crate::backend::Record;
use crate::error::{Result, VolumeError};
use gemelo_base::is_zero;
use gemelo_format::{
    Change, Checksum, DedupMode, DiskRole, Fingerprint, Lbn, Pbn, Place, VolumeId,
};
use gemelo_store::ContentWrite;
use hashbrown::HashTable;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Its request has failed already.
    Failed,
    /// The block has this content already.
    Unchanged,
    /// The content is all zeros.
    Unmap,
    /// This block has the content.
    Share(Pbn),
    /// Its content is the one of this suspect block, and is written there again.
    Heal(Pbn),
    /// The suspect block could not be written. The next pass stores the content elsewhere.
    Retry,
    /// Its content is that of an earlier one of the list.
    Follow(usize),
    /// The content is not known, and gets a block of its own.
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

/// See the module.
pub(super) struct Plan<'p, 'a> {
    blocks: Vec<Block<'p>>,
    fingerprints: Vec<Fingerprint>,
    places: Vec<Place>,
    found: Vec<Option<Pbn>>,
    /// The state of the pool when it was looked up.
    version: (u64, usize),
    checksums: Vec<Checksum>,
    /// The records of the found blocks.
    records: Vec<Record>,
    most_references: u32,
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

    /// Compares the contents with those that the index knows, in one list. True for equal ones.
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

    /// The suspect block that has the content of this one, if writing it again is right: equal
    /// fingerprints have to suffice as a proof, because a damaged content cannot be compared.
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

    /// Gives each fresh block its PBN.
    pub(super) fn place(&mut self, pbns: Vec<Pbn>) {
        let fresh = self.blocks.iter_mut().filter(|block| block.step == Step::Fresh);
        for (block, pbn) in fresh.zip(pbns) {
            block.pbn = Some(pbn);
        }
    }

    /// Writes the fresh blocks, and the suspect ones whose content is here.
    pub(super) fn write(&mut self, engine: &Engine, failed: &mut Failed<'_>) {
        let target = |block: &Block<'p>| match block.step {
            Step::Heal(pbn) => Some(pbn),
            _ => block.pbn,
        };
        let mut writes: Vec<ContentWrite<'_>> = self
            .blocks
            .iter()
            .filter_map(|block| Some(ContentWrite::new(target(block)?, block.content)))
            .collect();
        engine.data.write(&mut writes);
        let mut lost: Vec<Pbn> = Vec::new();
        for write in writes {
            let Err(error) = write.outcome else { continue };
            let error = VolumeError::io(DiskRole::Data, "write")(error);
            let fresh = self.blocks.iter().find(|block| block.pbn == Some(write.pbn));
            fresh.into_iter().for_each(|block| failed(block.request, &error));
            lost.push(write.pbn);
        }
        if lost.is_empty() {
            return;
        }
        // A block whose leader failed was never tried itself; it goes through another pass.
        for block in self
            .blocks
            .iter_mut()
            .filter(|block| target(block).is_some_and(|pbn| lost.contains(&pbn)))
        {
            block.step = match block.step {
                Step::Heal(pbn) => {
                    engine.damages.note_unwritable(pbn);
                    Step::Retry
                }
                _ => Step::Failed,
            };
        }
    }

    /// Whether the block needs another pass.
    pub(super) fn must_retry(&self, at: usize) -> bool {
        self.blocks.get(at).is_some_and(|block| block.step == Step::Retry)
    }

    /// The suspect block whose content was written anew.
    pub(super) fn healed(&self, at: usize) -> Option<Pbn> {
        match self.blocks.get(at)?.step {
            Step::Heal(pbn) => Some(pbn),
            _ => None,
        }
    }

    pub(super) fn has_failed(&self, at: usize) -> bool {
        self.blocks.get(at).is_none_or(|block| block.step == Step::Failed)
    }

    /// The PBN taken for a block.
    pub(super) fn fresh(&self, at: usize) -> Option<Pbn> {
        self.blocks.get(at)?.pbn
    }

    /// The LBN of a patched block, and the place that it must still have.
    pub(super) fn patched(&self, at: usize) -> Option<(Lbn, Place)> {
        let block = self.blocks.get(at)?;
        Some((block.lbn, block.base?))
    }

    /// The earlier block whose content this one has.
    pub(super) fn leader(&self, at: usize) -> Option<usize> {
        match self.blocks.get(at)?.step {
            Step::Follow(leader) => Some(leader),
            _ => None,
        }
    }

    /// The block that is to be shared, and the fingerprint it has to have still.
    pub(super) fn shared(&self, at: usize) -> Option<(Pbn, Fingerprint)> {
        let pbn = match self.blocks.get(at)?.step {
            Step::Share(pbn) | Step::Heal(pbn) => pbn,
            Step::Follow(leader) => self.fresh(leader).or_else(|| self.healed(leader))?,
            _ => return None,
        };
        Some((pbn, self.fingerprint(at)))
    }

    /// Which contents that were not known are known by now, because another writer has stored them
    /// meanwhile; nothing if nothing has changed since the look-up. They go through another pass,
    /// and are shared there.
    pub(super) fn stored_meanwhile(&self, state: &State) -> Result<Vec<bool>> {
        if state.version() == self.version {
            return Ok(Vec::new());
        }
        let mut now = Vec::with_capacity(self.blocks.len());
        state.backend().find(&self.fingerprints, &mut now)?;
        let before_and_now = self.found.iter().zip(now);
        Ok(before_and_now.map(|(before, now)| before.is_none() && now.is_some()).collect())
    }

    /// The change of the metadata.
    pub(super) fn change(&self, volume: VolumeId, at: usize) -> Option<Change> {
        let block = self.blocks.get(at)?;
        let lbn = block.lbn;
        match block.step {
            Step::Failed | Step::Retry | Step::Unchanged => None,
            Step::Heal(pbn) if self.places.get(at)?.pbn() == Some(pbn) => None,
            Step::Unmap => Some(Change::Unmap { volume, first: lbn, count: 1 }),
            Step::Share(_) | Step::Heal(_) | Step::Follow(_) => {
                let (pbn, checksum) = (self.shared(at)?.0, self.checksum(at));
                Some(Change::Share { volume, lbn, pbn, checksum })
            }
            Step::Fresh => {
                let (pbn, fingerprint, checksum) =
                    (block.pbn?, self.fingerprint(at), self.checksum(at));
                Some(Change::Store { volume, lbn, pbn, fingerprint, checksum })
            }
        }
    }

    /// Counts what was done.
    pub(super) fn tally(&self, done: &[bool]) -> Tally {
        let mut tally = Tally::default();
        for (at, block) in
            self.blocks.iter().enumerate().filter(|(at, _)| done.get(*at) == Some(&true))
        {
            tally.patched += u64::from(block.base.is_some());
            tally.zero += u64::from(block.is_zero);
            match block.step {
                Step::Failed | Step::Retry | Step::Unmap => {}
                Step::Unchanged => tally.unchanged += u64::from(!block.is_zero),
                Step::Share(_) | Step::Heal(_) | Step::Follow(_) => tally.duplicate += 1,
                Step::Fresh => {
                    tally.unique += 1;
                    tally.cow += u64::from(matches!(self.places.get(at), Some(Place::Stored(..))));
                }
            }
        }
        tally
    }
}
