//! The seal of an object of the ledger: the value of its key `version`, which every change writes.
//! It says what the other keys are, so that a key that is lost or older than the rest is found.

use gemelo_domain::codec::{Reader, Reason, Writer};

pub(crate) const VERSION_KEY: &str = "version";
/// The form of the records, in the version of each object. Form 0 had a key for each block, the
/// head of form 1 named no pages, and the objects of form 2 had no digests.
const FORM: u8 = 3;

/// What an object says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Seal {
    /// The number of changes of the object.
    pub(crate) version: u64,
    /// Of a page: the version that the head had when the page was changed, so that the head is not
    /// older. Of the head: the tenure in which the ledger was taken, as its member counts them.
    pub(crate) other: u64,
    /// The digest of the other keys, but not of those of fingerprints.
    pub(crate) keys: u64,
    /// The digest of the keys of fingerprints, which a take-over does not read.
    pub(crate) fingerprints: u64,
}

impl Seal {
    pub(crate) fn encode(self) -> Vec<u8> {
        let Self { version, other, keys, fingerprints } = self;
        let writer = Writer::new(FORM).u64(version).u64(other).u64(keys).u64(fingerprints);
        writer.finish(VERSION_KEY)
    }

    pub(crate) fn decode(value: &[u8]) -> Result<Self, Reason> {
        let mut reader = Reader::new(VERSION_KEY, value)?;
        if reader.tag != FORM {
            return Err("it has the format of another version of gemelo");
        }
        let (version, other) = (reader.count()?, reader.count()?);
        let (keys, fingerprints) = (reader.u64()?, reader.u64()?);
        reader.finish().map(|()| Self { version, other, keys, fingerprints })
    }
}
