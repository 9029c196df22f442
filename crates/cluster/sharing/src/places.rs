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

/// A read of a whole content at its place.
#[derive(Debug)]
pub(crate) struct PlaceRead {
    pub(crate) place: Place,
    pub(crate) content: Vec<u8>,
    pub(crate) outcome: io::Result<()>,
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

impl PlaceRead {
    /// Compares the content with its fingerprint.
    pub(crate) fn state(&self, fingerprinter: &Fingerprinter, expected: Fingerprint) -> State {
        match &self.outcome {
            Ok(()) if fingerprinter.of(&self.content) == expected => State::Good,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => State::Unknown,
            _ => State::Bad,
        }
    }
}

impl Shared {
    /// Returns the number of contents that are read together.
    pub(crate) fn contents_at_once(&self) -> Result<usize> {
        Ok((BYTES_AT_ONCE / self.below()?.block_bytes()).max(1))
    }

    /// Reads contents together, from the medium and not from a cache of this host: other members
    /// read them there. The reads are in the order of the places.
    pub(crate) fn read_places(&self, places: &[Place]) -> Result<Vec<PlaceRead>> {
        let below = self.below()?;
        let read = |place: &Place| PlaceRead {
            place: *place,
            content: vec![0; below.block_bytes()],
            outcome: Ok(()),
        };
        let mut reads: Vec<PlaceRead> = places.iter().map(read).collect();
        let (mut own, mut foreign) = (Vec::new(), Vec::new());
        let (mut own_outcomes, mut foreign_outcomes) = (Vec::new(), Vec::new());
        for PlaceRead { place: (home, pbn), content, outcome } in &mut reads {
            if *home == self.member {
                own.push(ContentRead::new(*pbn, 0, content));
                own_outcomes.push(outcome);
            } else {
                let (home, pbn, buffer) = (*home, *pbn, content.as_mut_slice());
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
        Ok(reads)
    }

    /// Returns the function that takes fingerprints, which the open pool has.
    pub(crate) fn fingerprinter(&self) -> Result<&Fingerprinter> {
        self.fingerprinter.get().ok_or(SharingError::NoPool)
    }
}
