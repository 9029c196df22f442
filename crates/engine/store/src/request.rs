//! Requests to a store, which come in lists.

use gemelo_format::Pbn;
use std::io;
use std::num::NonZeroU64;

/// A read of a content, or of a part of it.
#[derive(Debug)]
pub struct ContentRead<'a> {
    /// The content to read.
    pub pbn: Pbn,
    /// The offset of the first byte to read, within the content.
    pub within: usize,
    /// Filled by the store; it ends within the content. After an error its bytes are undefined.
    pub buffer: &'a mut [u8],
    /// The reader compares the content with a checksum of its own. A store that has another one
    /// need not look at it then.
    pub is_compared: bool,
    /// Set by the store. Bytes that were read and are no content, because they are damaged, are an
    /// error of the kind [`io::ErrorKind::InvalidData`].
    pub outcome: io::Result<()>,
}

impl<'a> ContentRead<'a> {
    /// Makes a request without an outcome.
    pub const fn new(pbn: Pbn, within: usize, buffer: &'a mut [u8]) -> Self {
        Self { pbn, within, buffer, is_compared: false, outcome: Ok(()) }
    }

    /// Returns the same read by a reader that compares what it gets with a checksum of its own.
    #[must_use]
    pub fn compared(self) -> Self {
        Self { is_compared: true, ..self }
    }

    /// Returns whether [`crate::Store::read_ready`] has left it.
    #[must_use]
    pub fn is_left(&self) -> bool {
        matches!(&self.outcome, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Has the store below execute these reads of a list. `execute` gets them as a list of their own.
pub(crate) fn read_below(
    reads: Vec<&mut ContentRead<'_>>,
    execute: impl FnOnce(&mut [ContentRead<'_>]),
) {
    let lent = |read| {
        let ContentRead { pbn, within, buffer, is_compared, outcome }: &mut ContentRead<'_> = read;
        let lent = ContentRead::new(*pbn, *within, buffer);
        (outcome, ContentRead { is_compared: *is_compared, ..lent })
    };
    let (outcomes, mut list): (Vec<_>, Vec<_>) = reads.into_iter().map(lent).unzip();
    execute(&mut list);
    assert_eq!(outcomes.len(), list.len(), "each read has an outcome");
    outcomes.into_iter().zip(list).for_each(|(outcome, read)| *outcome = read.outcome);
}

/// A write of a whole content.
#[derive(Debug)]
pub struct ContentWrite<'a> {
    /// The content to write.
    pub pbn: Pbn,
    /// The new bytes.
    pub content: &'a [u8],
    /// The number by which a [`crate::WriteObserver`] knows this write of the PBN from others;
    /// [`None`] if no observer wants it.
    pub ticket: Option<NonZeroU64>,
    /// Set by the store. After an error the content may be anything.
    pub outcome: io::Result<()>,
}

impl<'a> ContentWrite<'a> {
    /// Makes a request without an outcome and without a ticket.
    pub const fn new(pbn: Pbn, content: &'a [u8]) -> Self {
        Self { pbn, content, ticket: None, outcome: Ok(()) }
    }
}

/// A comparison of a stored content with a given one.
#[derive(Debug)]
pub struct ContentComparison<'a> {
    /// The content to compare.
    pub pbn: Pbn,
    /// The bytes to compare it with.
    pub content: &'a [u8],
    /// Set by the store: `true` if the bytes are equal.
    pub outcome: io::Result<bool>,
}

impl<'a> ContentComparison<'a> {
    /// Makes a request without an outcome.
    pub const fn new(pbn: Pbn, content: &'a [u8]) -> Self {
        Self { pbn, content, outcome: Ok(false) }
    }
}
