//! The reasons why contents are not written out.

use crate::is_no_space;
use std::io;
use thiserror::Error;

/// Contents could not be written out.
#[derive(Debug, Error)]
pub enum Unwritten {
    /// The store below failed. The contents are in memory, where reads find them, and a later call
    /// tries them again. Nothing is known to be wrong with what was written before.
    #[error(transparent)]
    Failed(#[from] io::Error),
    /// A thread of the buffer panicked, which is a defect of this program. Contents may be in
    /// flight that nobody writes.
    #[error("a thread of the write buffer panicked, which is a defect of this program")]
    Broken,
}

impl Unwritten {
    /// Returns whether there was no space, which may change.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Failed(error) if is_no_space(error))
    }

    /// Returns the error of the store below.
    #[must_use]
    pub fn into_io(self) -> io::Error {
        match self {
            Self::Failed(error) => error,
            broken @ Self::Broken => io::Error::other(broken.to_string()),
        }
    }
}

/// The error of callers that would wait for a broken buffer.
pub(super) fn broken() -> io::Error {
    Unwritten::Broken.into_io()
}
