//! Reading contents where they lie: in the member's own store, or in that of another member.

use crate::error::{Result, SharingError};
use crate::foreign::ForeignRead;
use crate::record::Place;
use crate::shared::Shared;
use gemelo_format::{Fingerprint, Fingerprinter};
use gemelo_store::ContentRead;
use std::io;

/// Bytes of contents that are read together.
const BYTES_AT_ONCE: usize = 4 << 20;

/// Whole contents that were read at their places, in the order of the places.
pub(crate) struct Contents {
    block_bytes: usize,
    /// They lie side by side, so that those which also do so in an object are read at once.
    bytes: Vec<u8>,
    outcomes: Vec<io::Result<()>>,
}

/// The outcome of reading a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It was read and has its fingerprint.
    Good,
    /// It cannot be read, or has other bytes.
    Bad,
    /// The store did not answer in time.
    Unknown,
}

/// The error about places that did not answer.
pub(crate) fn unanswered(action: &'static str) -> SharingError {
    SharingError::Contents { action, source: io::Error::from(io::ErrorKind::TimedOut) }
}

impl Contents {
    fn new(block_bytes: usize, count: usize) -> Self {
        let outcomes = std::iter::repeat_with(|| Ok(())).take(count).collect();
        Self { block_bytes, bytes: vec![0; block_bytes * count], outcomes }
    }

    /// Returns each content, if it was read.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let contents = self.bytes.chunks_exact(self.block_bytes).zip(&self.outcomes);
        contents.map(|(content, outcome)| outcome.is_ok().then_some(content))
    }

    /// Compares the contents with their fingerprints.
    pub(crate) fn states(
        &self,
        fingerprinter: &Fingerprinter,
        expected: impl Iterator<Item = Fingerprint>,
    ) -> Vec<State> {
        let contents: Vec<&[u8]> = self.bytes.chunks_exact(self.block_bytes).collect();
        let (mut outcomes, mut expected) = (self.outcomes.iter(), expected);
        let mut states = Vec::with_capacity(contents.len());
        fingerprinter.of_all(&contents, |found| {
            let is_expected = expected.next() == Some(found);
            states.push(match outcomes.next() {
                Some(Ok(())) if is_expected => State::Good,
                Some(Err(error)) if error.kind() == io::ErrorKind::TimedOut => State::Unknown,
                _ => State::Bad,
            });
        });
        assert_eq!(states.len(), self.outcomes.len(), "each content has a state");
        states
    }
}

impl Shared {
    /// Returns the number of contents that are read together.
    pub(crate) fn contents_at_once(&self) -> Result<usize> {
        Ok((BYTES_AT_ONCE / self.below()?.block_bytes()).max(1))
    }

    /// Reads contents together, from the medium and not from a cache of this host: other members
    /// read them there. The reads are in the order of the places.
    pub(crate) fn read_places(&self, places: &[Place]) -> Result<Contents> {
        let below = self.below()?;
        let mut contents = Contents::new(below.block_bytes(), places.len());
        let (mut own, mut foreign) = (Vec::new(), Vec::new());
        let (mut own_outcomes, mut foreign_outcomes) = (Vec::new(), Vec::new());
        let buffers = contents.bytes.chunks_exact_mut(contents.block_bytes);
        let reads = places.iter().zip(buffers).zip(&mut contents.outcomes);
        for (((home, pbn), buffer), outcome) in reads {
            let (home, pbn) = (*home, *pbn);
            if home == self.member {
                own.push(ContentRead::new(pbn, 0, buffer));
                own_outcomes.push(outcome);
            } else {
                foreign.push(ForeignRead { home, pbn, within: 0, buffer, outcome: Ok(()) });
                foreign_outcomes.push(outcome);
            }
        }
        if !own.is_empty() {
            below.read_medium(&mut own);
        }
        if !foreign.is_empty() {
            self.foreign.read(&mut foreign);
        }
        assert_eq!(own.len(), own_outcomes.len(), "each own read has its outcome");
        assert_eq!(foreign.len(), foreign_outcomes.len(), "each foreign read has its outcome");
        own_outcomes.into_iter().zip(own).for_each(|(to, read)| *to = read.outcome);
        foreign_outcomes.into_iter().zip(foreign).for_each(|(to, read)| *to = read.outcome);
        Ok(contents)
    }

    /// Returns the function that takes fingerprints, which the open pool has.
    pub(crate) fn fingerprinter(&self) -> Result<&Fingerprinter> {
        self.fingerprinter.get().ok_or(SharingError::NoPool)
    }
}
