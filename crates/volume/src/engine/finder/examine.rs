//! Examines blocks: computes their fingerprints, looks them up, and shares each block whose content
//! is known.

use super::super::checked::FingerprintMatch;
use super::super::{Engine, State, VolumeShared, Wanted};
use super::FinderReport;
use crate::error::Result;
use gemelo_format::{Change, Fingerprint, Pbn, Place, VolumeId};
use gemelo_store::ContentWrite;

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
}

impl Engine {
    /// Examines some blocks. Returns those that have to be examined again, because the index has
    /// changed.
    pub(super) fn examine_chunk(
        &self,
        volume: &VolumeShared,
        chunk: &[Wanted],
        report: &mut FinderReport,
    ) -> Result<Vec<Wanted>> {
        let candidates = self.identify(volume.id(), chunk)?;
        report.examined_blocks += candidates.len() as u64;
        report.aborted_blocks += (chunk.len() - candidates.len()) as u64;
        let mut again = Vec::new();
        self.warm_pieces(volume, candidates.iter().map(|candidate| candidate.own.lbn))?;
        for some in candidates.chunks(SETTLED_AT_ONCE) {
            let mut state = self.state_to_change();
            for candidate in some {
                match self.settle(&mut state, volume, candidate)? {
                    Settled::Shared => report.shared_blocks += 1,
                    Settled::Identified => report.identified_blocks += 1,
                    Settled::Overtaken => report.aborted_blocks += 1,
                    Settled::Again => again.push(candidate.own),
                }
            }
        }
        Ok(again)
    }

    /// Reads blocks and looks for their contents. Blocks that cannot be read, or are damaged, are
    /// left out.
    fn identify(&self, volume: VolumeId, chunk: &[Wanted]) -> Result<Vec<Candidate>> {
        let block_bytes = self.block_bytes();
        let mut contents = vec![0; chunk.len() * block_bytes];
        let good = self.read_each(volume, chunk, &mut contents);
        let blocks = || contents.chunks_exact(block_bytes).zip(&good).filter(|(_, good)| **good);
        let good_contents: Vec<&[u8]> = blocks().map(|(content, _)| content).collect();
        let mut fingerprints = Vec::with_capacity(good_contents.len());
        self.fingerprinter.of_all(&good_contents, |fingerprint| fingerprints.push(fingerprint));
        let mut found = Vec::with_capacity(fingerprints.len());
        let mut records = Vec::with_capacity(fingerprints.len());
        {
            let state = self.state();
            state.backend().find(&fingerprints, &mut found)?;
            let pbns: Vec<Pbn> = found.iter().map(|pbn| pbn.unwrap_or(Pbn::FIRST)).collect();
            state.backend().records(&pbns, &mut records)?;
        }
        let must_compare = self.tuning.verify_bytes || self.fingerprinter.must_compare();
        let compared = if must_compare {
            let known = good_contents.iter().zip(&fingerprints).zip(found.iter().zip(&records));
            let likenesses: Vec<FingerprintMatch<'_>> = known
                .filter(|(_, (_, record))| !record.is_suspect)
                .filter_map(|((content, fingerprint), (pbn, _))| {
                    Some(FingerprintMatch { pbn: (*pbn)?, fingerprint: *fingerprint, content })
                })
                .collect();
            self.are_equal(&likenesses)
        } else {
            Vec::new()
        };
        let mut compared = compared.into_iter();
        let mut candidates = Vec::with_capacity(fingerprints.len());
        let owns = chunk.iter().zip(&good).filter(|(_, good)| **good).map(|(own, _)| *own);
        let looked_up = fingerprints.into_iter().zip(found).zip(records);
        for ((own, ((fingerprint, entry), record)), content) in
            owns.zip(looked_up).zip(good_contents)
        {
            let is_suspect = entry.is_some() && record.is_suspect;
            let is_healed = is_suspect && !must_compare && self.heal(entry, content);
            let is_compared = must_compare && entry.is_some() && !record.is_suspect;
            let is_known = entry.is_some() && !is_suspect;
            let is_same = if is_compared { compared.next() == Some(true) } else { !must_compare };
            let is_equal = is_healed || is_known && is_same;
            candidates.push(Candidate { own, fingerprint, entry, is_equal, is_healed });
        }
        Ok(candidates)
    }

    /// Reads blocks in one list; true for those that are good. The contents become those of other
    /// LBNs, so they are checked even without `verify_reads`.
    fn read_each(&self, volume: VolumeId, chunk: &[Wanted], contents: &mut [u8]) -> Vec<bool> {
        let buffers = contents.chunks_exact_mut(self.block_bytes());
        self.read_blocks(volume, chunk, buffers).iter().map(Result::is_ok).collect()
    }

    /// Writes the content of a suspect block to that block again.
    fn heal(&self, entry: Option<Pbn>, content: &[u8]) -> bool {
        let Some(pbn) = entry.filter(|pbn| !self.damages.is_unwritable(*pbn)) else { return false };
        let mut writes = [ContentWrite::new(pbn, content)];
        self.data.write(&mut writes);
        let [write] = writes;
        let is_written = write.outcome.is_ok();
        if !is_written {
            self.damages.note_unwritable(pbn);
        }
        is_written
    }

    /// Applies the change for one block, if the results of its examination still hold.
    fn settle(
        &self,
        state: &mut State,
        volume: &VolumeShared,
        candidate: &Candidate,
    ) -> Result<Settled> {
        let Candidate {
            own: Wanted { lbn, pbn, checksum },
            fingerprint,
            entry,
            is_equal,
            is_healed,
        } = *candidate;
        let (mut places, mut records, mut found) = (Vec::new(), Vec::new(), Vec::new());
        state.backend().look_up(volume.id(), &[lbn], &mut places)?;
        state.backend().records(&[pbn, entry.unwrap_or(pbn)], &mut records)?;
        let [own, other] = records.as_slice() else { return Ok(Settled::Overtaken) };
        if places != [Place::Stored(pbn, checksum)] {
            return Ok(Settled::Overtaken);
        }
        if !own.fingerprint.is_none() {
            // An earlier LBN with the same block was examined first.
            return Ok(Settled::Identified);
        }
        state.backend().find(&[fingerprint], &mut found)?;
        if found != [entry] {
            return Ok(Settled::Again);
        }
        let can_share = (1..self.tuning.most_references).contains(&other.references);
        match entry {
            Some(known)
                if is_equal
                    && can_share
                    && other.fingerprint == fingerprint
                    && (is_healed || !other.is_suspect) =>
            {
                if is_healed {
                    self.mend(state, known)?;
                }
                self.log.apply(
                    state,
                    &Change::Share { volume: volume.id(), lbn, pbn: known, checksum },
                )?;
                Ok(Settled::Shared)
            }
            _ => {
                self.log.apply(state, &Change::Identify { pbn, fingerprint })?;
                Ok(Settled::Identified)
            }
        }
    }
}

/// The outcome of a candidate.
enum Settled {
    Shared,
    Identified,
    Overtaken,
    /// The index has another block for the fingerprint now.
    Again,
}
