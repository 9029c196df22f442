//! Changes that this program cannot decode.

use crate::error::FormatError;

/// The reason why changes cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadChange {
    /// The bytes are malformed, or name a block that the pool cannot have.
    Malformed,
    /// No change that this program knows has this tag: a later program made it.
    Unknown {
        /// The tag of the change.
        tag: u8,
    },
}

impl BadChange {
    /// Returns the error of a commit with such a change.
    pub(crate) fn of_commit(self, number: u64) -> FormatError {
        match self {
            Self::Malformed => {
                FormatError::damaged(format!("the changes of commit {number} cannot be decoded"))
            }
            Self::Unknown { tag } => {
                FormatError::Unknown { what: format!("the change {tag} in its journal") }
            }
        }
    }
}
