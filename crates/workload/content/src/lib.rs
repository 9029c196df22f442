//! The assignment of contents to blocks, and the bytes of contents. This crate does no input or
//! output.
//!
//! - [`Distribution`]: the number of distinct contents for each number of duplicates; it is parsed,
//!   formatted, scaled and fitted.
//! - [`Profile`]: a distribution with the compressibility and the byte entropy of its classes.
//! - [`ContentSpec`]: all parameters that determine the contents of a job.
//! - [`Assignment`]: the content of each write, identified by a [`ContentId`].
//! - [`Generator`]: the bytes of a content, and the recognition of a content from its bytes.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod assignment;
mod builtin;
mod bytes;
mod distribution;
mod id;
mod layout;
mod profile;
mod spec;

pub use assignment::{Assignment, Processes};
pub use builtin::{built_in, built_in_names};
pub use bytes::{Examination, Generator};
pub use distribution::{
    ComparedRange, Comparison, Distribution, DistributionError, DuplicateClass, ExpectedSample,
    FITTED_BLOCKS, Figure, LargestDifference, ParseNote, RANGE_COUNT, RangeRow, RankedContent,
    ScaledClass, ScaledDistribution, Summary, SummaryStats, range_index, range_label, range_start,
};
pub use id::{BlockContent, ContentId};
pub use profile::{PROFILE_SCHEMA, Profile, ProfileClass, ProfileError};
pub use spec::{AssignmentMode, ClassNature, ContentError, ContentSpec, Nature};
