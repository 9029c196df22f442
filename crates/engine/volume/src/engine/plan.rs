//! The plan of a write: a decision for each block of a list, made without a lock and carried out
//! with one.

mod carry_out;

pub(super) use carry_out::Shared;

use super::VolumeShared;
use super::checked::FingerprintMatch;
use super::item::{Item, Source};
use super::patch::Patches;
use super::write::Writer;
use crate::error::Result;
use gemelo_base::is_zero;
use gemelo_format::{Checksum, DedupMode, Fingerprint, Lbn, MapEntry, Pbn};
use gemelo_metadata::{KnownBlock, Record};
use hashbrown::HashTable;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockFate {
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
    /// The content is unknown, and goes to this PBN, which was allocated to it.
    Store(Pbn),
    /// The content could not be written to this PBN, which was allocated to it.
    Lost(Pbn),
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

/// A block that the index has for a content.
#[derive(Debug, Clone, Copy)]
struct KnownContent {
    pbn: Pbn,
    record: Record,
    /// `true` if its content is the same, by comparison or because the fingerprint proves it.
    is_equal: bool,
}

/// A block of the list, the decision about it, and the results of the look-ups that it rests on.
struct Block<'p> {
    lbn: Lbn,
    request: usize,
    content: &'p [u8],
    /// The place that a patched block had when it was read.
    base: Option<MapEntry>,
    is_zero: bool,
    fingerprint: Fingerprint,
    /// The place at the look-up.
    place: MapEntry,
    found: Option<KnownContent>,
    step: BlockFate,
    /// The checksum of a content that gets a map entry.
    checksum: Option<Checksum>,
    is_done: bool,
}

impl<'p> Block<'p> {
    /// The comparison that the block needs with the one that the index has.
    fn to_compare(&self) -> Option<FingerprintMatch<'p>> {
        let KnownContent { pbn, record, .. } = self.found?;
        let is_asked = self.step != BlockFate::Failed && !self.is_zero && !record.is_suspect;
        let (fingerprint, content) = (self.fingerprint, self.content);
        is_asked.then_some(FingerprintMatch { pbn, fingerprint, content })
    }

    fn has_fingerprint(&self, mode: DedupMode) -> bool {
        mode == DedupMode::Inline && self.step != BlockFate::Failed && !self.is_zero
    }

    /// The PBN to which the content is written.
    const fn target(&self) -> Option<Pbn> {
        match self.step {
            BlockFate::Heal(pbn) | BlockFate::Store(pbn) => Some(pbn),
            _ => None,
        }
    }

    /// The PBN that was allocated to the block.
    const fn taken(&self) -> Option<Pbn> {
        match self.step {
            BlockFate::Store(pbn) | BlockFate::Lost(pbn) => Some(pbn),
            _ => None,
        }
    }
}

/// The decisions for a list of blocks.
pub(super) struct Plan<'p> {
    blocks: Vec<Block<'p>>,
    /// The version of the metadata at the look-up.
    version: (u64, usize),
    max_references: u32,
    /// `true` if equal fingerprints do not prove equal contents.
    must_compare: bool,
}

impl<'p> Plan<'p> {
    pub(super) fn new<'a: 'p>(items: &[&'p Item<'a>], patches: &'p Patches) -> Self {
        let mut patched = 0;
        let block = |item: &&'p Item<'a>| {
            let (content, base, step) = match &item.source {
                Source::Whole(content) => (*content, None, BlockFate::Fresh),
                Source::Part(..) | Source::ZeroPart(_) => {
                    patched += 1;
                    match patches.get(patched - 1) {
                        Some((base, content)) => (content, Some(base), BlockFate::Fresh),
                        None => (&[][..], None, BlockFate::Failed),
                    }
                }
            };
            Block {
                lbn: item.lbn,
                request: item.request,
                content,
                base,
                is_zero: false,
                fingerprint: Fingerprint::NONE,
                place: MapEntry::Unmapped,
                found: None,
                step,
                checksum: None,
                is_done: false,
            }
        };
        let blocks: Vec<Block<'p>> = items.iter().map(block).collect();
        assert_eq!(patched, patches.len(), "each patched block was read once");
        Self { blocks, version: (0, 0), max_references: u32::MAX, must_compare: true }
    }

    pub(super) fn take_fingerprints(&mut self, writer: &Writer, mode: DedupMode) {
        let mut contents = Vec::with_capacity(self.blocks.len());
        for block in &mut self.blocks {
            block.is_zero = is_zero(block.content);
            if block.has_fingerprint(mode) {
                contents.push(block.content);
            }
        }
        let mut fingerprints = Vec::with_capacity(contents.len());
        writer.fingerprinter.of_all(&contents, |fingerprint| fingerprints.push(fingerprint));
        assert_eq!(fingerprints.len(), contents.len(), "each content has a fingerprint");
        let wanted = self.blocks.iter_mut().filter(|block| block.has_fingerprint(mode));
        wanted.zip(fingerprints).for_each(|(block, fingerprint)| block.fingerprint = fingerprint);
    }

    /// Looks all blocks up at once.
    pub(super) fn look_up(&mut self, writer: &Writer, volume: &VolumeShared) -> Result<()> {
        let lbns: Vec<Lbn> = self.blocks.iter().map(|block| block.lbn).collect();
        self.max_references = writer.tuning.max_references;
        let fingerprints = self.fingerprints();
        let (version, places, found) = writer.log.look(|state| {
            // Pages that both miss are read in one list.
            let places = state.places(volume.id(), &lbns);
            let (found, places) = (state.find(&fingerprints)?, places?);
            state.backend().prefetch(volume.id(), &lbns, &places)?;
            Ok((state.version(), places, found))
        })?;
        self.version = version;
        self.must_compare = writer.reader.must_compare_in(volume);
        let is_equal = !self.must_compare;
        for (block, (place, known)) in self.blocks.iter_mut().zip(places.into_iter().zip(found)) {
            block.found =
                known.map(|KnownBlock { pbn, record }| KnownContent { pbn, record, is_equal });
            block.place = place;
        }
        Ok(())
    }

    fn fingerprints(&self) -> Vec<Fingerprint> {
        self.blocks.iter().map(|block| block.fingerprint).collect()
    }

    /// Computes the checksums of all contents that get a map entry.
    pub(super) fn take_checksums(&mut self, writer: &Writer) {
        for block in &mut self.blocks {
            block.checksum = match block.step {
                BlockFate::Fresh
                | BlockFate::Share(_)
                | BlockFate::Heal(_)
                | BlockFate::Follow(_) => Some(writer.seed.of_content(block.content)),
                BlockFate::Failed | BlockFate::Retry | BlockFate::Unchanged | BlockFate::Unmap => {
                    None
                }
                BlockFate::Store(_) | BlockFate::Lost(_) => {
                    assert!(block.checksum.is_some(), "a content is written before its checksum");
                    block.checksum
                }
            };
        }
    }

    pub(super) fn decide(&mut self, writer: &Writer) {
        if self.must_compare {
            self.compare(writer);
        }
        let mut leaders: HashTable<usize> = HashTable::with_capacity(self.blocks.len());
        for at in 0..self.blocks.len() {
            let step = self.step(writer, at, &mut leaders);
            if let Some(block) = self.blocks.get_mut(at) {
                block.step = step;
            }
        }
    }

    /// Compares the contents in one list with the blocks that the index has for them.
    fn compare(&mut self, writer: &Writer) {
        let likenesses: Vec<FingerprintMatch<'p>> =
            self.blocks.iter().filter_map(Block::to_compare).collect();
        let equal = writer.reader.are_equal(&likenesses);
        assert_eq!(equal.len(), likenesses.len(), "each comparison has an outcome");
        let asked = self.blocks.iter_mut().filter(|block| block.to_compare().is_some());
        for (block, is_equal) in asked.zip(equal) {
            if let Some(found) = &mut block.found {
                found.is_equal = is_equal;
            }
        }
    }

    /// Decides on one block. `leaders` has the first block of each content in the list.
    fn step(&self, writer: &Writer, at: usize, leaders: &mut HashTable<usize>) -> BlockFate {
        let must_compare = self.must_compare;
        let Some(block) = self.blocks.get(at).filter(|block| block.step != BlockFate::Failed)
        else {
            return BlockFate::Failed;
        };
        if block.is_zero {
            let is_there = block.place == MapEntry::Unmapped;
            return if is_there { BlockFate::Unchanged } else { BlockFate::Unmap };
        }
        if block.fingerprint.is_none() {
            return BlockFate::Fresh;
        }
        if let Some(KnownContent { pbn, record, is_equal: true }) = block.found
            && !record.is_suspect
        {
            if block.place.pbn() == Some(pbn) {
                return BlockFate::Unchanged;
            }
            if record.references < self.max_references {
                return BlockFate::Share(pbn);
            }
        }
        let fingerprint = block.fingerprint;
        let of_leader = |leader: &usize| self.blocks.get(*leader).map(|leader| leader.fingerprint);
        let is_same = |leader: &usize| of_leader(leader) == Some(fingerprint);
        if let Some(leader) = leaders.find(fingerprint.low(), is_same) {
            assert!(*leader < at, "a block follows an earlier one");
            let is_equal =
                self.blocks.get(*leader).is_some_and(|leader| leader.content == block.content);
            return if !must_compare || is_equal {
                BlockFate::Follow(*leader)
            } else {
                BlockFate::Fresh
            };
        }
        let low = |leader: &usize| of_leader(leader).map_or(0, Fingerprint::low);
        leaders.insert_unique(fingerprint.low(), at, low);
        self.healable(writer, block, must_compare).map_or(BlockFate::Fresh, BlockFate::Heal)
    }

    /// Returns the suspect block that has this block's content, if that may be written there again.
    /// Equal fingerprints have to be enough proof, because a damaged content cannot be compared.
    fn healable(&self, writer: &Writer, block: &Block<'p>, must_compare: bool) -> Option<Pbn> {
        let KnownContent { pbn, record, .. } = block.found?;
        let is_shareable = record.references < self.max_references;
        let is_right = record.is_suspect && is_shareable && !must_compare;
        (is_right && !writer.healer.is_unwritable(pbn)).then_some(pbn)
    }

    pub(super) const fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn fresh_blocks(&self) -> usize {
        self.blocks.iter().filter(|block| block.step == BlockFate::Fresh).count()
    }
}
