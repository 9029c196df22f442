//! Requests to a store, which come in lists.

use gemelo_format::Pbn;
use std::io;

/// A read of a content, or of a part of it.
#[derive(Debug)]
pub struct ContentRead<'a> {
    /// Which content.
    pub pbn: Pbn,
    /// The first byte that is wanted.
    pub within: usize,
    /// It is filled, and ends within the content. After an error its bytes mean nothing.
    pub buffer: &'a mut [u8],
    /// Set by the store.
    pub outcome: io::Result<()>,
}

impl<'a> ContentRead<'a> {
    /// A request that was not made yet.
    pub const fn new(pbn: Pbn, within: usize, buffer: &'a mut [u8]) -> Self {
        Self { pbn, within, buffer, outcome: Ok(()) }
    }
}

/// A write of a whole content.
#[derive(Debug)]
pub struct ContentWrite<'a> {
    /// Which content.
    pub pbn: Pbn,
    /// Its new bytes.
    pub content: &'a [u8],
    /// Set by the store. After an error the content may be anything.
    pub outcome: io::Result<()>,
}

impl<'a> ContentWrite<'a> {
    /// A request that was not made yet.
    pub const fn new(pbn: Pbn, content: &'a [u8]) -> Self {
        Self { pbn, content, outcome: Ok(()) }
    }
}

/// A comparison of a stored content with a given one.
#[derive(Debug)]
pub struct ContentComparison<'a> {
    /// Which content.
    pub pbn: Pbn,
    /// The bytes that it may have.
    pub content: &'a [u8],
    /// Set by the store: true if the bytes are equal.
    pub outcome: io::Result<bool>,
}

impl<'a> ContentComparison<'a> {
    /// A request that was not made yet.
    pub const fn new(pbn: Pbn, content: &'a [u8]) -> Self {
        Self { pbn, content, outcome: Ok(false) }
    }
}
