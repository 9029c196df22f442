//! The decision whether a shared content is borrowed. A member gives up its own block only after it
//! has read the home's and found it good.

use crate::error::Result;
use crate::places::State;
use crate::record::{BlockState, Elsewhere, Place, Record};
use crate::shared::Shared;
use gemelo_format::{Fingerprint, Pbn};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that read and compare lists of contents, where there are as many lists. The store reads
/// for one while another takes fingerprints.
const READERS: usize = 3;

/// A block whose content another member has, and that may be borrowed.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    pbn: Pbn,
    fingerprint: Fingerprint,
    other: Elsewhere,
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

    pub(crate) fn add(&mut self, pbn: Pbn, fingerprint: Fingerprint, other: Elsewhere) {
        self.candidates.push(Candidate { pbn, fingerprint, other });
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
        self.candidates.sort_unstable_by_key(|candidate| candidate.other.place());
        let lists: Vec<&[Candidate]> =
            self.candidates.chunks(self.shared.contents_at_once()?).collect();
        let (next, decided) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let decide = || {
            while let Some(list) = lists.get(next.fetch_add(1, Ordering::Relaxed)) {
                let found = self.decide(list);
                decided.lock().push(found);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..lists.len().min(READERS) {
                // If no thread starts, this one reads all of them.
                let _ = std::thread::Builder::new().spawn_scoped(scope, decide);
            }
            decide();
        });
        let decided = decided.into_inner().into_iter().collect::<Result<Vec<_>>>()?.concat();
        assert_eq!(decided.len(), self.candidates.len(), "each candidate is decided");
        Ok(decided)
    }

    fn decide(&self, candidates: &[Candidate]) -> Result<Vec<(Pbn, Record)>> {
        let good = self.are_good(candidates)?;
        assert_eq!(good.len(), candidates.len(), "each candidate of a list is decided");
        let decided = |(Candidate { pbn, fingerprint, other }, is_good): (&Candidate, bool)| {
            let kind = match is_good {
                true => BlockState::Borrowed(*other),
                false => BlockState::Restored(*other),
            };
            (*pbn, Record { fingerprint: *fingerprint, kind })
        };
        Ok(candidates.iter().zip(good).map(decided).collect())
    }

    /// Returns for each candidate if the content at its home is the right one. One read of the
    /// home's content tells where the fingerprint proves it, and one of each side otherwise.
    fn are_good(&self, candidates: &[Candidate]) -> Result<Vec<bool>> {
        let places: Vec<Place> = candidates.iter().map(|one| one.other.place()).collect();
        let theirs = self.shared.read_places(&places)?;
        let fingerprints = candidates.iter().map(|candidate| candidate.fingerprint);
        let states = theirs.states(self.shared.fingerprinter()?, fingerprints);
        assert_eq!(states.len(), candidates.len(), "each candidate's home was read");
        let is_good = |(candidate, state): (&Candidate, State)| {
            let (home, content) = candidate.other.place();
            let is_there =
                home != self.shared.member || self.shared.blocks.read().may_be_in_index(content);
            is_there && state == State::Good
        };
        let mut good: Vec<bool> = candidates.iter().zip(states).map(is_good).collect();
        if self.shared.compares.load(Ordering::Relaxed) {
            let own: Vec<Place> =
                candidates.iter().map(|one| (self.shared.member, one.pbn)).collect();
            let ours = self.shared.read_places(&own)?;
            for ((ours, theirs), is_good) in ours.iter().zip(theirs.iter()).zip(&mut good) {
                *is_good &= ours.is_some() && ours == theirs;
            }
        }
        Ok(good)
    }
}
