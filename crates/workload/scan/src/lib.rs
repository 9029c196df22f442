//! Analysis of the duplicates in data: files and devices are read as blocks, blocks are
//! fingerprinted, and fingerprints are counted.
//!
//! - [`scan`] reads the paths of [`ScanOptions`] and returns a [`ScanResult`]; [`plan`](fn@plan)
//!   predicts its time and memory.
//! - [`scan_and_save`] also writes the fingerprint set; [`merge_sets`] combines sets to the result
//!   of one scan.
//!
//! This crate knows nothing about load, and it does not print: progress and warnings go to a
//! [`gemelo_base::Monitor`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod budget;
mod copies;
mod error;
mod estimate;
mod file_ref;
mod fingerprint;
mod halt;
mod levels;
mod locality;
mod nature;
mod options;
mod plan;
mod read;
mod request;
mod result;
mod saved;
mod scan;
mod set;
mod sharing;
mod tally;
mod trouble;
mod walk;

pub use error::ScanError;
pub use fingerprint::{ScanFingerprint, ScanFingerprintKind};
pub use options::{
    BLOCK_STEP_BYTES, ESTIMATE_BYTES, MAX_BLOCK_BYTES, MAX_BLOCK_SIZES, MAX_COMMON_BYTES,
    MAX_THREADS, OptionsError, ScanOptions,
};
pub use plan::{PlanResult, PlanSize, plan};
pub use request::{Counting, ScanInput, ScanRequest, TailPolicy};
pub use result::{
    BlockSizeResult, ConfidenceInterval, DirectoryResult, ENTROPY_STEPS, Effort, EstimateResult,
    FileCounts, FileGroup, LocalityResult, NatureClass, NatureResult, NatureStats, PoolPrediction,
    RangeInterval, RangeResult, Repeated, SCAN_SCHEMA, ScanResult, SharingResult, WithZeros,
};
pub use saved::{MAX_SETS, Saved, SavedSetError, merge_sets};
pub use scan::{scan, scan_and_save};
pub use set::ContentLocation;
