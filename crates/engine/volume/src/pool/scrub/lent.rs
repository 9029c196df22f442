//! The part of a scrub for blocks that only other pools use. No map has their checksums, so their
//! fingerprints tell if they are damaged. The owner of the veto heals them, from copies that are
//! found here: it alone knows if a block is still used.

use super::{DamagedContent, LookedUp, MAX_DAMAGED, MAX_LISTED, Scrub, Stored, expected};
use crate::engine::VolumeShared;
use crate::error::Result;
use gemelo_base::SparseBits;
use gemelo_format::{Fingerprint, Pbn};
use gemelo_store::ContentRead;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A search for copies of damaged contents that only others use.
#[derive(Default)]
struct LentSearch {
    /// The damaged blocks, and the copies found so far, by fingerprint.
    damaged: BTreeMap<[u8; 16], (Pbn, Option<Pbn>)>,
    /// The blocks that were read.
    seen: SparseBits,
}

impl Scrub<'_> {
    /// Checks the blocks that only others use.
    pub(super) fn check_lent(&mut self) -> Result<()> {
        let mut search = LentSearch::default();
        for (pbn, fingerprint) in self.damaged_lent()? {
            search.damaged.insert(fingerprint.to_bytes(), (pbn, None));
        }
        if !search.damaged.is_empty() && self.engine.reader.proves_equality() {
            let volumes: Vec<Arc<VolumeShared>> =
                self.engine.catalogue.all().into_values().collect();
            for volume in &volumes {
                self.walk(volume, |scrub, chunk| scrub.find_copies(&mut search, chunk))?;
            }
        }
        for (pbn, copy) in search.damaged.into_values() {
            self.engine.data.doubt(pbn, copy.filter(|_| self.options.heals));
            let block = pbn.number();
            let what = format!("the content of block {block}, which only others use, is damaged");
            match self.report.problems.len() < MAX_LISTED {
                true => {
                    let can_be_healed = copy.is_some();
                    self.report.problems.push(DamagedContent { what, can_be_healed });
                }
                false => self.report.more_problems += 1,
            }
        }
        Ok(())
    }

    fn damaged_lent(&mut self) -> Result<Vec<(Pbn, Fingerprint)>> {
        let at_once = self.contents.len() / self.engine.data.block_bytes();
        let (mut damaged, mut after) = (Vec::new(), None);
        loop {
            let lent = self.engine.data.lent(after, at_once)?;
            let Some((last, _)) = lent.last() else { return Ok(damaged) };
            assert!(lent.len() <= at_once, "no more is listed than was asked for");
            let mut bad = self.read_lent(&lent);
            if !bad.is_empty() {
                // A block that was given back meanwhile may have another content.
                let still = self.engine.data.lent(after, at_once)?;
                bad.retain(|one| still.contains(one));
            }
            let room = MAX_DAMAGED.saturating_sub(damaged.len()).min(bad.len());
            self.report.more_problems += (bad.len() - room) as u64;
            damaged.extend(bad.into_iter().take(room));
            after = Some(*last);
            self.pace.go_on(lent.len() as u64)?;
        }
    }

    /// Reads blocks, and returns those that do not have their fingerprints.
    fn read_lent(&mut self, lent: &[(Pbn, Fingerprint)]) -> Vec<(Pbn, Fingerprint)> {
        let buffers = self.contents.chunks_exact_mut(self.engine.data.block_bytes());
        let mut reads: Vec<ContentRead<'_>> = lent
            .iter()
            .zip(buffers)
            .map(|((pbn, _), buffer)| ContentRead::new(*pbn, 0, buffer))
            .collect();
        assert_eq!(reads.len(), lent.len(), "each block has a buffer");
        self.engine.data.read_medium(&mut reads);
        self.monitor.advance(lent.len() as u64);
        self.report.checked_contents += lent.len() as u64;
        let fingerprinter = &self.engine.fingerprinter;
        let is_bad = |(read, (_, fingerprint)): &(ContentRead<'_>, &(Pbn, Fingerprint))| {
            read.outcome.is_err() || fingerprinter.of(read.buffer) != *fingerprint
        };
        reads.into_iter().zip(lent).filter(is_bad).map(|(_, one)| *one).collect()
    }

    /// Reads the blocks of a chunk that may have one of the contents.
    fn find_copies(&mut self, search: &mut LentSearch, chunk: &LookedUp<'_>) -> Result<usize> {
        let mut content = vec![0; self.engine.data.block_bytes()];
        let mut read = 0;
        for Stored { wanted, record } in &chunk.stored {
            let recorded = record.fingerprint;
            let may_be = recorded.is_none() || search.damaged.contains_key(&recorded.to_bytes());
            if !may_be
                || self.damaged.contains_key(&expected(wanted))
                || !search.seen.insert(wanted.pbn.number())
            {
                continue;
            }
            read += 1;
            let buffers = std::iter::once(content.as_mut_slice());
            let outcomes = self.engine.reader.read_blocks(chunk.volume, &[*wanted], buffers);
            let fingerprint = self.engine.fingerprinter.of(&content).to_bytes();
            if outcomes.iter().all(Result::is_ok)
                && let Some((pbn, copy)) = search.damaged.get_mut(&fingerprint)
                && *pbn != wanted.pbn
            {
                *copy = Some(wanted.pbn);
            }
        }
        Ok(read)
    }
}
