//! Which duplicates data has: files and devices to blocks, blocks to fingerprints, fingerprints to figures.
//!
//! - [`scan`] reads what [`ScanOptions`] name and gives a [`ScanResult`]; [`plan`](fn@plan) says beforehand what that will take.
//! - [`scan_and_save`] keeps the fingerprint set; [`merge_sets`] unites sets to the result of one scan.
//!
//! Nothing here knows of load or prints: progress and trouble go to a [`gemelo_base::Monitor`].

mod budget;
mod error;
mod estimate;
mod fingerprint;
mod halt;
mod levels;
mod locality;
mod nature;
mod options;
mod plan;
mod queue;
mod read;
mod result;
mod saved;
mod scan;
mod set;
mod tally;
mod trouble;
mod walk;

pub use error::ScanError;
pub use fingerprint::{Fingerprint, FingerprintKind};
pub use options::{
    BLOCK_STEP_BYTES, Counting, ESTIMATE_BYTES, MOST_BLOCK_BYTES, MOST_BLOCK_SIZES,
    MOST_COMMON_BYTES, MOST_THREADS, OptionsError, ScanOptions, ScanRequest, TailPolicy,
    ZeroPolicy,
};
pub use plan::{PlanResult, PlanSize, plan};
pub use result::{
    BlockSizeResult, ENTROPY_STEPS, Effort, EstimateResult, FileCounts, Interval, LocalityResult,
    NatureClass, NatureFigures, NatureResult, RangeInterval, RangeResult, Repeated, ScanResult,
};
pub use saved::{MOST_SETS, Saved, SavedSetError, merge_sets};
pub use scan::{scan, scan_and_save};
pub use set::Place;
