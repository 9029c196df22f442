//! The reasons why a stream is refused.

use gemelo_base::Classified;
use std::io;
use thiserror::Error;

/// The reason why a stream cannot be read.
#[derive(Debug, Error, Classified)]
pub enum StreamError {
    /// The stream cannot be read.
    #[kind(source)]
    #[error("cannot read the stream at byte {at}")]
    Io {
        /// The bytes that were read before.
        at: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// The bytes are no stream.
    #[kind(BadInput)]
    #[error("the input is no stream of 'gemelo volume send'")]
    NotAStream,
    /// The stream needs something that this program does not have.
    #[kind(BadInput)]
    #[error("the stream has {what}, which this version of gemelo does not know")]
    Unknown {
        /// The version or the feature.
        what: String,
    },
    /// The stream ends before its end.
    #[kind(Damaged)]
    #[error("the stream is cut off at byte {at}")]
    CutOff {
        /// The length of the stream.
        at: u64,
    },
    /// A part of the stream is not what was sent at that place.
    #[kind(Damaged)]
    #[error("the stream is damaged between byte {from} and byte {to}: {what}")]
    Damaged {
        /// The first byte of the part.
        from: u64,
        /// The byte after it.
        to: u64,
        /// The part, and how it is wrong.
        what: &'static str,
    },
    /// The sender could not go on.
    #[kind(Failed)]
    #[error("the sender gave up: {why}")]
    GivenUp {
        /// The reason, as the sender tells it.
        why: String,
    },
}
