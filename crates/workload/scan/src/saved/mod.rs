//! The saved fingerprint set: a Parquet file. `docs/reference/scan-format.md` specifies its layout.
//!
//! The file contains a checksum over every byte. Readers check it before they use any other value.

mod checksum;
mod columns;
mod error;
mod merge;
mod read;
mod write;

pub use error::SavedSetError;
pub use merge::{MAX_SETS, merge_sets};
pub(crate) use write::Saving;

use crate::fingerprint::ScanFingerprintKind;
use crate::request::TailPolicy;
use crate::result::{FileCounts, ScanResult};
use crate::tally::BlockTotals;
use serde::{Deserialize, Serialize};

/// The format version of a set. A reader refuses other versions.
pub(crate) const SET_FORMAT: &str = "gemelo.scan-set/1";

/// The key of the head in the file's key-value metadata.
pub(crate) const HEAD_KEY: &str = "gemelo.scan-set";

/// The key of the checksum in the file's key-value metadata.
pub(crate) const CHECKSUM_KEY: &str = "gemelo.checksum";

/// A result, and the outcome of writing the set.
#[derive(Debug)]
pub struct Saved {
    /// The figures, which do not depend on the set.
    pub result: ScanResult,
    /// The outcome of writing the set; `Ok` if no set was to be written.
    pub set: Result<(), SavedSetError>,
}

/// The values of a set that do not belong to a single content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SetHead {
    /// `true` if the scan was stopped early.
    pub(crate) partial: bool,
    pub(crate) fingerprint: ScanFingerprintKind,
    pub(crate) tail: TailPolicy,
    pub(crate) files: FileCounts,
    /// The length of the scan's order in bytes, in which `positions` are counted.
    pub(crate) position_bytes: u64,
    pub(crate) sizes: Vec<SizeHead>,
}

/// The values of a set that belong to one block size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct SizeHead {
    pub(crate) block_bytes: u32,
    pub(crate) totals: BlockTotals,
    /// The level of the nature sample: the last 64 bits of its fingerprints begin with this many
    /// zeros.
    pub(crate) nature_level: u32,
    /// The level of the locality sample.
    pub(crate) locality_level: u32,
}

/// The head as it is serialised in the file.
#[derive(Debug, Serialize, Deserialize)]
struct VersionedHead {
    format: String,
    #[serde(flatten)]
    head: SetHead,
}
