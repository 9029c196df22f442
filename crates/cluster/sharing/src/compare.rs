//! The decision whether a shared content is borrowed. A member gives up its own block only after it
//! has read the home's and found it good.

use crate::error::Result;
use crate::places::State;
use crate::record::{BlockState, Place, Record};
use crate::shared::Shared;
use gemelo_format::{Fingerprint, Pbn};
use std::sync::atomic::Ordering;

/// A block whose content another member has, and that may be borrowed.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    pbn: Pbn,
    fingerprint: Fingerprint,
    place: Place,
}

/// Blocks whose contents other members have, and that may be borrowed.
pub(crate) struct Comparison<'a> {
    shared: &'a Shared,
    candidates: Vec<Candidate>,
}

impl<'a> Comparison<'a> {
    pub(crate) const fn new(shared: &'a Shared) -> Self {
        Self { shared, candidates: Vec::new() }
    }

    pub(crate) fn add(&mut self, pbn: Pbn, fingerprint: Fingerprint, place: Place) {
        self.candidates.push(Candidate { pbn, fingerprint, place });
    }

    /// Returns the number of contents that are compared.
    pub(crate) fn len(&self) -> u64 {
        self.candidates.len() as u64
    }

    /// Returns for each block if it is borrowed, or stays and gives its reference up again. A block
    /// whose home cannot be read, or has other bytes, stays.
    pub(crate) fn run(mut self) -> Result<Vec<(Pbn, Record)>> {
        if self.candidates.is_empty() {
            return Ok(Vec::new());
        }
        // They come in the order of their fingerprints, which is a random one. Copies of the same
        // data lie side by side at their home, so that in this order one request reads many.
        self.candidates.sort_unstable_by_key(|candidate| candidate.place);
        let at_once = self.shared.contents_at_once()?;
        let mut decided = Vec::with_capacity(self.candidates.len());
        for candidates in self.candidates.chunks(at_once) {
            let good = self.are_good(candidates)?;
            assert_eq!(good.len(), candidates.len(), "each candidate is decided");
            for (Candidate { pbn, fingerprint, place }, is_good) in candidates.iter().zip(good) {
                let kind = if is_good {
                    BlockState::Borrowed(*place)
                } else {
                    BlockState::Restored(*place)
                };
                decided.push((*pbn, Record { fingerprint: *fingerprint, kind }));
            }
        }
        Ok(decided)
    }

    /// Returns for each candidate if the content at its home is the right one. One read of the
    /// home's content tells where the fingerprint proves it, and one of each side otherwise.
    fn are_good(&self, candidates: &[Candidate]) -> Result<Vec<bool>> {
        let fingerprinter = self.shared.fingerprinter()?;
        let places: Vec<Place> = candidates.iter().map(|candidate| candidate.place).collect();
        let theirs = self.shared.read_places(&places)?;
        assert_eq!(theirs.len(), candidates.len(), "each candidate's home was read");
        let mut good: Vec<bool> = Vec::with_capacity(candidates.len());
        for (candidate, theirs) in candidates.iter().zip(&theirs) {
            let (home, content) = candidate.place;
            let is_there = home != self.shared.member || self.shared.blocks.read().is_kept(content);
            let state = theirs.state(fingerprinter, candidate.fingerprint);
            good.push(is_there && state == State::Good);
        }
        if self.shared.compares.load(Ordering::Relaxed) {
            let own: Vec<Place> =
                candidates.iter().map(|one| (self.shared.member, one.pbn)).collect();
            let ours = self.shared.read_places(&own)?;
            assert_eq!(ours.len(), theirs.len(), "both sides were read");
            for ((ours, theirs), is_good) in ours.iter().zip(&theirs).zip(&mut good) {
                *is_good &= ours.outcome.is_ok() && ours.content == theirs.content;
            }
        }
        Ok(good)
    }
}
