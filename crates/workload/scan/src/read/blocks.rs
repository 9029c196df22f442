//! Counting of the blocks of one block size.

use super::router::Router;
use crate::file_ref::FileRef;
use crate::fingerprint::{ScanFingerprint, ScanFingerprintKind};
use crate::locality::{LocalitySampler, Occurrence, Saturated};
use crate::nature::NatureSampler;
use crate::options::ScanOptions;
use crate::request::TailPolicy;
use crate::set::{CountingSet, Record, Rise};
use crate::sharing::{Collected, DirectoryTotals, SharingSampler};
use crate::tally::BlockTotals;
use crate::walk::DirectoryNumber;
use gemelo_base::is_zero;
use std::collections::BTreeMap;
use std::io;

/// The occurrences that a reader collects before it hands them to the sampler.
const MAX_OCCURRENCES: usize = 512;

/// The number of sampled contents that a reader remembers, so that it does not offer a frequent
/// content again and again.
const SEEN: usize = 256;

/// The state of one block size that all readers share.
pub(crate) struct SizeState {
    pub(crate) block_bytes: u32,
    pub(crate) set: CountingSet,
    pub(crate) nature: NatureSampler,
    pub(crate) locality: LocalitySampler,
    /// The sample of copies by directory and file. The smallest block size alone has it, if it is
    /// asked for.
    pub(crate) sharing: Option<SharingSampler>,
}

impl SizeState {
    pub(crate) fn new(options: &ScanOptions, block_bytes: u32) -> Self {
        let request = options.request();
        let has_sharing =
            request.directory_depth.is_some() && request.block_bytes.first() == Some(&block_bytes);
        Self {
            block_bytes,
            set: CountingSet::new(options.budget().set_limit(block_bytes)),
            nature: NatureSampler::new(options.budget().nature_contents(block_bytes)),
            locality: LocalitySampler::new(),
            sharing: has_sharing.then(SharingSampler::new),
        }
    }

    /// Returns the highest last 64 bits of a fingerprint that is in one of the samples.
    #[inline]
    fn sampled_low(&self, in_locality: bool) -> u64 {
        let locality = if in_locality { self.locality.highest_low() } else { 0 };
        let sharing = self.sharing.as_ref().map_or(0, SharingSampler::highest_low);
        self.nature.highest_low().max(locality).max(sharing)
    }
}

/// The counts of a reader that do not go through the counting set.
#[derive(Debug, Clone, Default)]
pub(crate) struct SizeCounts {
    pub(crate) totals: BlockTotals,
    /// The number of zero blocks by their length.
    pub(crate) zeros: BTreeMap<u32, u64>,
    /// The totals by directory, if they are asked for.
    pub(crate) directories: Vec<DirectoryTotals>,
}

impl SizeCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.totals.add(&other.totals);
        let length = self.directories.len().max(other.directories.len());
        self.directories.resize(length, DirectoryTotals::default());
        for (sum, part) in self.directories.iter_mut().zip(&other.directories) {
            sum.add(part);
        }
        for (length, count) in &other.zeros {
            *self.zeros.entry(*length).or_insert(0) += count;
        }
    }

    /// Adds to a directory what was counted since the totals were `before`.
    fn count_with(&mut self, directory: DirectoryNumber, before: &BlockTotals) {
        let at = directory as usize;
        if self.directories.len() <= at {
            self.directories.resize(at + 1, DirectoryTotals::default());
        }
        let now = &self.totals;
        let counted = DirectoryTotals {
            blocks: now.blocks - before.blocks,
            data_bytes: now.data_bytes - before.data_bytes,
            zero_blocks: now.zero_blocks - before.zero_blocks,
            zero_bytes: now.zero_bytes - before.zero_bytes,
        };
        if let Some(sum) = self.directories.get_mut(at) {
            sum.add(&counted);
        }
    }

    fn zero_blocks(&mut self, length_bytes: u32, count: u64) {
        if count == 0 {
            return;
        }
        let bytes = u64::from(length_bytes) * count;
        self.totals.blocks += count;
        // The sum can exceed 64 bits, because sparse files can be that large together.
        self.totals.data_bytes = self.totals.data_bytes.saturating_add(bytes);
        self.totals.zero_blocks += count;
        self.totals.zero_bytes = self.totals.zero_bytes.saturating_add(bytes);
        *self.zeros.entry(length_bytes).or_insert(0) += count;
    }
}

/// The position of a chunk of bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkPlace<'file> {
    /// The index of the piece that contains the chunk, in the reader's list of pieces.
    pub(super) spot: u32,
    /// The offset of the chunk in the piece, in bytes.
    pub(super) offset_in_piece: u64,
    /// The offset of the chunk in the batch of files, in bytes.
    pub(super) offset_in_batch: u64,
    pub(super) file: &'file FileRef,
}

/// The low bits of a mark that number the blocks of a piece; the high bits are the index of the
/// piece.
pub(super) const BLOCK_BITS: u32 = 13;

/// The state of one block size that a reader does not share.
pub(super) struct SizeWorker {
    pub(super) counts: SizeCounts,
    pub(super) rises: Vec<Rise>,
    kind: ScanFingerprintKind,
    tail: TailPolicy,
    router: Router,
    occurrences: Vec<Occurrence>,
    saturated: Saturated,
    shared: Collected,
    has_directories: bool,
    seen: Box<[Option<ScanFingerprint>]>,
    padded: Vec<u8>,
}

impl SizeWorker {
    pub(super) fn new(options: &ScanOptions) -> Self {
        Self {
            counts: SizeCounts::default(),
            rises: Vec::new(),
            kind: options.request().fingerprint,
            tail: options.request().tail,
            router: Router::new(),
            occurrences: Vec::with_capacity(MAX_OCCURRENCES),
            saturated: Saturated::default(),
            shared: Collected::default(),
            has_directories: options.request().directory_depth.is_some(),
            seen: vec![None; SEEN].into(),
            padded: Vec::new(),
        }
    }

    /// Counts the blocks of a chunk. Only the last chunk of a file may end with a short block.
    pub(super) fn chunk(
        &mut self,
        state: &SizeState,
        data: &[u8],
        place: &ChunkPlace<'_>,
    ) -> io::Result<()> {
        let block_bytes = state.block_bytes as usize;
        let before = self.counts.totals;
        let sampled_low = state.sampled_low(place.file.in_locality);
        let first_index = place.offset_in_piece / u64::from(state.block_bytes);
        let mut result = Ok(());
        let blocks = data.chunks_exact(block_bytes);
        let tail = blocks.remainder();
        let mut whole_blocks = 0;
        for (index, block) in (0u64..).zip(blocks) {
            if is_zero(block) {
                self.counts.zero_blocks(state.block_bytes, 1);
                continue;
            }
            whole_blocks += 1;
            let fingerprint = self.kind.of(block);
            if fingerprint.low <= sampled_low {
                self.sample(state, fingerprint, block, place, index);
            }
            let mark = place.spot << BLOCK_BITS | (first_index + index) as u32;
            let record = Record::new(fingerprint, state.block_bytes, mark);
            // Blocks are counted after an error too, so that the figures agree with each other.
            result = self.router.push(fingerprint, record, &state.set, &mut self.rises).and(result);
        }
        self.counts.totals.blocks += whole_blocks;
        self.counts.totals.data_bytes += whole_blocks * block_bytes as u64;
        if !tail.is_empty() {
            let index = (data.len() / block_bytes) as u64;
            result = self.short_block(state, tail, place, index, first_index + index).and(result);
        }
        if self.has_directories {
            self.counts.count_with(place.file.directory, &before);
        }
        result
    }

    /// Counts a hole of `length_bytes` bytes. A hole that is not a whole number of blocks ends the
    /// file.
    pub(super) fn hole(&mut self, block_bytes: u32, length_bytes: u64, directory: DirectoryNumber) {
        let before = self.counts.totals;
        self.counts.zero_blocks(block_bytes, length_bytes / u64::from(block_bytes));
        // The remainder is less than a block size, which has 32 bits.
        let tail_bytes = (length_bytes % u64::from(block_bytes)) as u32;
        if tail_bytes > 0 && self.admit_tail(block_bytes, tail_bytes) {
            let length = if self.tail == TailPolicy::Pad { block_bytes } else { tail_bytes };
            self.counts.zero_blocks(length, 1);
        }
        if self.has_directories {
            self.counts.count_with(directory, &before);
        }
    }

    /// Counts a short last block as short, skipped or padded. Returns whether it counts as a block.
    fn admit_tail(&mut self, block_bytes: u32, tail_bytes: u32) -> bool {
        let totals = &mut self.counts.totals;
        match self.tail {
            TailPolicy::Skip => {
                totals.skipped_tails += 1;
                totals.skipped_tail_bytes += u64::from(tail_bytes);
                return false;
            }
            TailPolicy::Pad => totals.padding_bytes += u64::from(block_bytes - tail_bytes),
            TailPolicy::Keep => totals.short_blocks += 1,
        }
        true
    }

    fn short_block(
        &mut self,
        state: &SizeState,
        tail: &[u8],
        place: &ChunkPlace<'_>,
        index: u64,
        index_in_piece: u64,
    ) -> io::Result<()> {
        if !self.admit_tail(state.block_bytes, tail.len() as u32) {
            return Ok(());
        }
        let mut padded = std::mem::take(&mut self.padded);
        padded.clear();
        padded.extend_from_slice(tail);
        if self.tail == TailPolicy::Pad {
            padded.resize(state.block_bytes as usize, 0);
        }
        let length_bytes = padded.len() as u32;
        let mut result = Ok(());
        if is_zero(&padded) {
            self.counts.zero_blocks(length_bytes, 1);
        } else {
            let fingerprint = self.kind.of(&padded);
            self.sample(state, fingerprint, &padded, place, index);
            self.counts.totals.blocks += 1;
            self.counts.totals.data_bytes += u64::from(length_bytes);
            let mark = place.spot << BLOCK_BITS | index_in_piece as u32;
            let record = Record::new(fingerprint, length_bytes, mark);
            result = self.router.push(fingerprint, record, &state.set, &mut self.rises);
        }
        self.padded = padded;
        result
    }

    /// Offers a block to the samples. Once the samples have risen to their final level, this is
    /// rare.
    #[cold]
    fn sample(
        &mut self,
        state: &SizeState,
        fingerprint: ScanFingerprint,
        block: &[u8],
        place: &ChunkPlace<'_>,
        index: u64,
    ) {
        if fingerprint.low <= state.nature.highest_low() {
            let seen = self.seen.get_mut(fingerprint.high as usize % SEEN);
            if let Some(seen) = seen.filter(|seen| **seen != Some(fingerprint)) {
                *seen = Some(fingerprint);
                state.nature.offer(fingerprint, block);
            }
        }
        if let Some(sharing) = &state.sharing
            && fingerprint.low <= sharing.highest_low()
        {
            self.shared.push(fingerprint, block.len() as u32, place.file);
            if self.shared.is_full() {
                sharing.take(&mut self.shared);
            }
        }
        if place.file.in_locality && fingerprint.low <= state.locality.highest_low() {
            let offset_bytes =
                place.offset_in_batch.saturating_add(index * u64::from(state.block_bytes));
            let is_of_use = self.saturated.is_empty()
                || self
                    .saturated
                    .get(&fingerprint)
                    .is_none_or(|last| (place.file.batch, offset_bytes) < *last);
            if is_of_use {
                let batch = place.file.batch;
                self.occurrences.push(Occurrence { fingerprint, batch, offset_bytes });
            }
            if self.occurrences.len() >= MAX_OCCURRENCES {
                self.saturated = state.locality.take(&mut self.occurrences);
            }
        }
    }

    /// Hands all buffered occurrences and records over.
    pub(super) fn flush(&mut self, state: &SizeState) -> io::Result<()> {
        self.saturated = state.locality.take(&mut self.occurrences);
        if let Some(sharing) = &state.sharing {
            sharing.take(&mut self.shared);
        }
        self.router.flush(&state.set, &mut self.rises)
    }
}
