//! The blocks of a write, and the way in which their failures are told.

use crate::error::VolumeError;
use gemelo_format::Lbn;
use std::ops::Range;

/// The new content of a block.
#[derive(Debug)]
pub(super) enum Source<'a> {
    /// Replaces the whole block.
    Whole(&'a [u8]),
    /// Overwrites the block from this offset.
    Part(usize, &'a [u8]),
    /// Overwrites this part of the block with zeros.
    ZeroPart(Range<usize>),
}

/// A block of a write.
#[derive(Debug)]
pub(super) struct Item<'a> {
    pub(super) request: usize,
    pub(super) lbn: Lbn,
    pub(super) source: Source<'a>,
}

impl Item<'_> {
    pub(super) const fn is_patch(&self) -> bool {
        !matches!(self.source, Source::Whole(_))
    }
}

/// Receives the number of a request that failed, and the error.
pub(super) type Failed<'f> = dyn FnMut(usize, &VolumeError) + 'f;
