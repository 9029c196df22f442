//! The saved fingerprint set: a Parquet file; `docs/scan-format.md` has its layout.
//!
//! The file says its own checksum, over every byte. It is checked before anything in the file is believed.

mod checksum;
mod columns;
mod error;
mod merge;
mod read;
mod write;

pub use error::SavedSetError;
pub use merge::{MOST_SETS, merge_sets};
pub(crate) use write::Saving;

use crate::fingerprint::FingerprintKind;
use crate::options::TailPolicy;
use crate::result::{FileCounts, ScanResult};
use crate::tally::BlockTotals;
use serde::{Deserialize, Serialize};

/// What a set says it is. A program that knows only this version refuses others.
pub(crate) const SET_FORMAT: &str = "gemelo.scan-set/1";

/// The key of the head in the file's key-value metadata.
pub(crate) const HEAD_KEY: &str = "gemelo.scan-set";

/// The key of the checksum.
pub(crate) const CHECKSUM_KEY: &str = "gemelo.checksum";

/// A result, and whether the set it was to be saved in was written.
#[derive(Debug)]
pub struct Saved {
    /// The figures, which do not depend on the set.
    pub result: ScanResult,
    /// Why the set was not written. Without a file to save to, this is no error.
    pub set: Result<(), SavedSetError>,
}

/// Everything about a set that is not about a single content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SetHead {
    /// The scan was stopped early.
    pub(crate) partial: bool,
    pub(crate) fingerprint: FingerprintKind,
    pub(crate) tail: TailPolicy,
    pub(crate) files: FileCounts,
    /// Bytes of the scan's order, in which the places of `positions` are counted.
    pub(crate) position_bytes: u64,
    pub(crate) sizes: Vec<SizeHead>,
}

/// The part of the head that is about a block size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct SizeHead {
    pub(crate) block_bytes: u32,
    pub(crate) totals: BlockTotals,
    /// Contents whose nature was measured have fingerprints whose last 64 bits begin with this many zeros.
    pub(crate) nature_level: u32,
    /// So do contents with positions.
    pub(crate) locality_level: u32,
}

/// The head as it stands in the file.
#[derive(Debug, Serialize, Deserialize)]
struct VersionedHead {
    format: String,
    #[serde(flatten)]
    head: SetHead,
}
