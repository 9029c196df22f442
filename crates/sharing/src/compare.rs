//! The decision whether a shared content is borrowed.

use crate::error::Result;
use crate::foreign::ForeignRead;
use crate::record::{Kind, Place, Record};
use crate::shared::Shared;
use gemelo_format::{Fingerprint, Pbn};
use gemelo_store::ContentRead;
use std::sync::atomic::Ordering;

/// Bytes that are read at once of each side.
const BYTES_AT_ONCE: usize = 1 << 20;

/// Blocks whose contents other members have, and that may be borrowed.
pub(crate) struct Comparison<'a> {
    shared: &'a Shared,
    pairs: Vec<(Pbn, Fingerprint, Place)>,
}

impl<'a> Comparison<'a> {
    pub(crate) const fn new(shared: &'a Shared) -> Self {
        Self { shared, pairs: Vec::new() }
    }

    pub(crate) fn add(&mut self, pbn: Pbn, fingerprint: Fingerprint, place: Place) {
        self.pairs.push((pbn, fingerprint, place));
    }

    /// Returns for each block if it is borrowed, or stays and gives its reference up again. A block
    /// of which either side cannot be read stays.
    pub(crate) fn run(self) -> Result<Vec<(Pbn, Record)>> {
        if self.pairs.is_empty() {
            return Ok(Vec::new());
        }
        let at_once = (BYTES_AT_ONCE / self.shared.below()?.block_bytes()).max(1);
        let mut decided = Vec::with_capacity(self.pairs.len());
        for pairs in self.pairs.chunks(at_once) {
            let equal = match self.shared.compares.load(Ordering::Relaxed) {
                true => self.compare(pairs)?,
                false => vec![true; pairs.len()],
            };
            for ((pbn, fingerprint, place), is_equal) in pairs.iter().zip(equal) {
                let is_there =
                    place.0 != self.shared.member || self.shared.blocks.read().is_kept(place.1);
                let kind = if is_equal && is_there {
                    Kind::Borrowed(*place)
                } else {
                    Kind::Restored(*place)
                };
                decided.push((*pbn, Record { fingerprint: *fingerprint, kind }));
            }
        }
        Ok(decided)
    }

    fn compare(&self, pairs: &[(Pbn, Fingerprint, Place)]) -> Result<Vec<bool>> {
        let below = self.shared.below()?;
        let block_bytes = below.block_bytes();
        let (mut ours, mut theirs) =
            (vec![0; pairs.len() * block_bytes], vec![0; pairs.len() * block_bytes]);
        let mut own: Vec<ContentRead<'_>> = pairs
            .iter()
            .zip(ours.chunks_exact_mut(block_bytes))
            .map(|((pbn, ..), buffer)| ContentRead::new(*pbn, 0, buffer))
            .collect();
        let mut foreign = Vec::new();
        for ((_, _, (home, pbn)), buffer) in pairs.iter().zip(theirs.chunks_exact_mut(block_bytes))
        {
            if *home == self.shared.member {
                own.push(ContentRead::new(*pbn, 0, buffer));
            } else {
                let (home, pbn) = (*home, *pbn);
                foreign.push(ForeignRead { home, pbn, within: 0, buffer, outcome: Ok(()) });
            }
        }
        below.read(&mut own);
        self.shared.foreign.read(&mut foreign);
        // The first reads are those of the blocks themselves, in the order of the pairs.
        let (mut own, mut foreign) = (own.into_iter(), foreign.into_iter());
        let mut is_readable: Vec<bool> =
            own.by_ref().take(pairs.len()).map(|read| read.outcome.is_ok()).collect();
        for ((_, _, (home, _)), is_readable) in pairs.iter().zip(&mut is_readable) {
            let outcome = match *home == self.shared.member {
                true => own.next().map(|read| read.outcome),
                false => foreign.next().map(|read| read.outcome),
            };
            *is_readable &= outcome.is_some_and(|outcome| outcome.is_ok());
        }
        let contents = ours.chunks_exact(block_bytes).zip(theirs.chunks_exact(block_bytes));
        let equal = contents.zip(is_readable);
        Ok(equal.map(|((one, other), is_readable)| is_readable && one == other).collect())
    }
}
