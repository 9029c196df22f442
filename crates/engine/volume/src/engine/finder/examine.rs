//! Examines blocks: computes their fingerprints, looks them up, and shares each block whose content
//! is known.

use super::super::checked::FingerprintMatch;
use super::super::{State, VolumeShared, Wanted};
use super::FinderReport;
use crate::counters::{PoolCounters, add};
use crate::engine::checked::Reader;
use crate::engine::damage::Healer;
use crate::engine::data::DataPath;
use crate::engine::log::Log;
use crate::engine::parts::Common;
use crate::error::Result;
use crate::pool::Tuning;
use gemelo_format::{Change, Fingerprint, Fingerprinter, MapEntry, Pbn, VolumeId};
use gemelo_metadata::{KnownBlock, Record};
use std::sync::Arc;

/// Blocks that are settled in one hold of the state's lock: some 50 µs, which a writer waits for.
const SETTLED_AT_ONCE: usize = 32;

/// A block without a fingerprint, and the results of its examination.
struct Candidate {
    own: Wanted,
    fingerprint: Fingerprint,
    /// The block that the index has for the fingerprint.
    entry: Option<Pbn>,
    /// `true` if the block of the index has the same content.
    is_equal: bool,
    /// `true` if the block of the index was suspect and its content was written there again.
    is_healed: bool,
    /// `true` if the block was read and passed its checksum.
    is_read: bool,
}

/// Examines chunks of blocks.
pub(crate) struct Examiner {
    data: Arc<DataPath>,
    log: Arc<Log>,
    reader: Arc<Reader>,
    healer: Arc<Healer>,
    fingerprinter: Arc<Fingerprinter>,
    counters: Arc<PoolCounters>,
    tuning: Tuning,
}

impl Examiner {
    pub(in crate::engine) fn new(
        common: &Common,
        reader: &Arc<Reader>,
        healer: &Arc<Healer>,
    ) -> Self {
        Self {
            data: Arc::clone(&common.data),
            log: Arc::clone(&common.log),
            reader: Arc::clone(reader),
            healer: Arc::clone(healer),
            fingerprinter: Arc::clone(&common.fingerprinter),
            counters: Arc::clone(&common.counters),
            tuning: common.tuning,
        }
    }

    /// Examines some blocks. Returns those that have to be examined again, because the index has
    /// changed.
    pub(super) fn examine_chunk(
        &self,
        volume: &VolumeShared,
        chunk: &[Wanted],
        report: &mut FinderReport,
    ) -> Result<Vec<Wanted>> {
        let candidates = self.identify(volume, chunk)?;
        report.examined_blocks += candidates.len() as u64;
        report.aborted_blocks += (chunk.len() - candidates.len()) as u64;
        let mut again = Vec::new();
        let mut scratch = SettleLists::default();
        for some in candidates.chunks(SETTLED_AT_ONCE) {
            let mut state = self.log.write();
            for candidate in some {
                match self.settle(&mut state, volume, candidate, &mut scratch)? {
                    SettledCandidate::Shared => report.shared_blocks += 1,
                    SettledCandidate::Identified => report.identified_blocks += 1,
                    SettledCandidate::Overtaken => report.aborted_blocks += 1,
                    SettledCandidate::Again => {
                        report.examined_blocks -= 1;
                        again.push(candidate.own);
                    }
                }
            }
        }
        Ok(again)
    }

    /// Looks for the contents of blocks, and reads those whose fingerprints are not remembered.
    /// Blocks that cannot be read, or are damaged, are left out.
    fn identify(&self, volume: &VolumeShared, chunk: &[Wanted]) -> Result<Vec<Candidate>> {
        let recalled = self.data.remembered().recall(chunk.iter().map(|wanted| wanted.pbn));
        let mut known = Vec::with_capacity(chunk.len());
        let mut unread = Vec::new();
        for (own, fingerprint) in chunk.iter().zip(recalled) {
            match fingerprint {
                Some(fingerprint) => known.push((*own, fingerprint)),
                None => unread.push(*own),
            }
        }
        let mut candidates = self.identify_known(volume, &known, &mut unread)?;
        self.data.remembered().note_use(candidates.len(), unread.len());
        if !unread.is_empty() {
            candidates.extend(self.identify_read(volume, &unread)?);
        }
        Ok(candidates)
    }

    /// Looks for contents by their remembered fingerprints. Adds those to `unread` whose bytes are
    /// needed: to be compared, or to be written to a damaged block again.
    fn identify_known(
        &self,
        volume: &VolumeShared,
        known: &[(Wanted, Fingerprint)],
        unread: &mut Vec<Wanted>,
    ) -> Result<Vec<Candidate>> {
        if known.is_empty() {
            return Ok(Vec::new());
        }
        let fingerprints: Vec<Fingerprint> =
            known.iter().map(|(_, fingerprint)| *fingerprint).collect();
        let found = self.look_up_contents(volume, &fingerprints)?;
        assert_eq!(found.len(), known.len(), "each content is looked up once");
        let must_compare = self.reader.must_compare_in(volume);
        let mut candidates = Vec::with_capacity(known.len());
        for ((own, fingerprint), entry) in known.iter().zip(found) {
            if entry.is_some_and(|known| must_compare || known.record.is_suspect) {
                unread.push(*own);
                continue;
            }
            candidates.push(Candidate {
                own: *own,
                fingerprint: *fingerprint,
                entry: entry.map(|known| known.pbn),
                is_equal: entry.is_some(),
                is_healed: false,
                is_read: false,
            });
        }
        Ok(candidates)
    }

    /// Returns the block that the index knows for each content.
    fn look_up_contents(
        &self,
        volume: &VolumeShared,
        fingerprints: &[Fingerprint],
    ) -> Result<Vec<Option<KnownBlock>>> {
        let (pool, own) = (&self.counters, volume.counters());
        for (lookups, batches) in
            [(&pool.index_lookups, &pool.index_batches), (&own.index_lookups, &own.index_batches)]
        {
            add(lookups, fingerprints.len() as u64);
            add(batches, 1);
        }
        self.log.look(|state| state.find(fingerprints))
    }

    /// Reads blocks and looks for their contents.
    fn identify_read(&self, volume: &VolumeShared, chunk: &[Wanted]) -> Result<Vec<Candidate>> {
        let block_bytes = self.data.block_bytes();
        let mut contents = vec![0; chunk.len() * block_bytes];
        let good = self.read_each(volume.id(), chunk, &mut contents);
        let blocks = || contents.chunks_exact(block_bytes).zip(&good).filter(|(_, good)| **good);
        let good_contents: Vec<&[u8]> = blocks().map(|(content, _)| content).collect();
        let mut fingerprints = Vec::with_capacity(good_contents.len());
        self.fingerprinter.of_all(&good_contents, |fingerprint| fingerprints.push(fingerprint));
        assert_eq!(fingerprints.len(), good_contents.len(), "each content has a fingerprint");
        let found = self.look_up_contents(volume, &fingerprints)?;
        let must_compare = self.reader.must_compare_in(volume);
        let compared = if must_compare {
            let known = good_contents.iter().zip(&fingerprints).zip(&found);
            let likenesses: Vec<FingerprintMatch<'_>> = known
                .filter_map(|((content, fingerprint), known)| {
                    let KnownBlock { pbn, .. } = known.filter(|known| !known.record.is_suspect)?;
                    Some(FingerprintMatch { pbn, fingerprint: *fingerprint, content })
                })
                .collect();
            self.reader.are_equal(&likenesses)
        } else {
            Vec::new()
        };
        let mut compared = compared.into_iter();
        let mut candidates = Vec::with_capacity(fingerprints.len());
        let owns = chunk.iter().zip(&good).filter(|(_, good)| **good).map(|(own, _)| *own);
        let looked_up = fingerprints.into_iter().zip(found);
        for ((own, (fingerprint, known)), content) in owns.zip(looked_up).zip(good_contents) {
            let entry = known.map(|known| known.pbn);
            let is_suspect = known.is_some_and(|known| known.record.is_suspect);
            let is_healed = is_suspect && !must_compare && self.healer.heal(entry, content);
            let is_compared = must_compare && entry.is_some() && !is_suspect;
            let is_known = entry.is_some() && !is_suspect;
            let is_same = if is_compared { compared.next() == Some(true) } else { !must_compare };
            let is_equal = is_healed || is_known && is_same;
            let is_read = true;
            candidates.push(Candidate { own, fingerprint, entry, is_equal, is_healed, is_read });
        }
        Ok(candidates)
    }

    /// Reads blocks in one list; true for those that are good. The contents become those of other
    /// LBNs, so they are checked even without `verify_reads`.
    fn read_each(&self, volume: VolumeId, chunk: &[Wanted], contents: &mut [u8]) -> Vec<bool> {
        let buffers = contents.chunks_exact_mut(self.data.block_bytes());
        self.reader.read_blocks(volume, chunk, buffers).iter().map(Result::is_ok).collect()
    }

    /// Applies the change for one block, if the results of its examination still hold.
    fn settle(
        &self,
        state: &mut State,
        volume: &VolumeShared,
        candidate: &Candidate,
        scratch: &mut SettleLists,
    ) -> Result<SettledCandidate> {
        let Candidate { own: Wanted { lbn, pbn, checksum }, fingerprint, entry, .. } = *candidate;
        scratch.clear();
        state.backend().look_up(volume.id(), &[lbn], &mut scratch.places)?;
        state.backend().records(&[pbn], &mut scratch.records)?;
        let [own] = scratch.records.as_slice() else { return Ok(SettledCandidate::Overtaken) };
        // A damaged block stays as it is, whether it was read or not.
        let is_damaged = own.is_suspect && !candidate.is_read;
        if scratch.places != [MapEntry::Stored(pbn, checksum)] || is_damaged {
            return Ok(SettledCandidate::Overtaken);
        }
        if !own.fingerprint.is_none() {
            // An earlier LBN with the same block was examined first.
            return Ok(SettledCandidate::Identified);
        }
        state.backend().find(&[fingerprint], &mut scratch.found)?;
        let known = scratch.found.first().copied().flatten().map(|known| known.pbn);
        // A block that became known since the look-up is equal if fingerprints prove it.
        let is_as_before = known == entry;
        if !is_as_before && self.reader.must_compare_in(volume) {
            return Ok(SettledCandidate::Again);
        }
        let is_healed = candidate.is_healed && is_as_before;
        let is_equal = if is_as_before { candidate.is_equal } else { known.is_some() };
        if let Some(known) = known.filter(|_| is_equal)
            && self.can_share(state, (known, fingerprint), is_healed, scratch)?
        {
            if is_healed {
                self.healer.mend(state, known)?;
            }
            let change = Change::Share { volume: volume.id(), lbn, pbn: known, checksum };
            self.log.apply(state, &change)?;
            return Ok(SettledCandidate::Shared);
        }
        self.log.apply(state, &Change::Identify { pbn, fingerprint })?;
        Ok(SettledCandidate::Identified)
    }

    /// Returns whether another reference to a block of the index can be made.
    fn can_share(
        &self,
        state: &State,
        (known, fingerprint): (Pbn, Fingerprint),
        is_healed: bool,
        scratch: &mut SettleLists,
    ) -> Result<bool> {
        scratch.records.clear();
        state.backend().records(&[known], &mut scratch.records)?;
        Ok(scratch.records.iter().all(|record| {
            (1..self.tuning.max_references).contains(&record.references)
                && record.fingerprint == fingerprint
                && (is_healed || !record.is_suspect)
        }))
    }
}

/// Lists that are reused, so that nothing is allocated per block.
#[derive(Default)]
struct SettleLists {
    places: Vec<MapEntry>,
    records: Vec<Record>,
    found: Vec<Option<KnownBlock>>,
}

impl SettleLists {
    fn clear(&mut self) {
        self.places.clear();
        self.records.clear();
        self.found.clear();
    }
}

/// The outcome of a candidate.
enum SettledCandidate {
    Shared,
    Identified,
    Overtaken,
    /// The index has another block for the fingerprint now.
    Again,
}
