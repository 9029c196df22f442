//! Which content goes where, and the bytes of a content. No input or output happens here.
//!
//! - [`Distribution`]: how many distinct contents have how many duplicates; read, written, scaled, fitted.
//! - [`Profile`]: a distribution whose classes also say how compressible and how random their contents are.
//! - [`ContentSpec`]: everything that decides what a job writes.
//! - [`Assignment`]: which content each write has; [`ContentId`] names it.
//! - [`Generator`]: the bytes of a content, and which content some bytes are.

mod assignment;
mod builtin;
mod bytes;
mod distribution;
mod id;
mod layout;
mod profile;
mod spec;

pub use assignment::Assignment;
pub use builtin::{built_in, built_in_names};
pub use bytes::{Examination, Generator};
pub use distribution::{
    ComparedRange, Comparison, Distribution, DistributionError, DuplicateClass, ExpectedSample,
    FITTED_BLOCKS, Figure, LargestDifference, ParseNote, RANGE_COUNT, RangeRow, RankedContent,
    ScaledClass, ScaledDistribution, Summary, SummaryFigures, range_index, range_label,
    range_start,
};
pub use id::{ContentId, UniqueIdError};
pub use profile::{PROFILE_SCHEMA, Profile, ProfileClass, ProfileError};
pub use spec::{AssignmentMode, ClassNature, ContentError, ContentSpec, Nature};
