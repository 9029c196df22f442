//! Which content goes where, and the bytes of a content. No input or output happens here.
//!
//! - [`Distribution`]: how many distinct contents have how many duplicates; read, written, scaled, fitted.
//! - [`Profile`]: a distribution whose classes also say how compressible and how random their contents are.
//! - [`ContentId`]: names one content in generated load.

mod distribution;
mod id;
mod profile;

pub use distribution::{
    Distribution, DistributionError, DuplicateClass, ParseNote, RANGE_COUNT, RangeRow, RankedContent,
    ScaledClass, ScaledDistribution, Summary, range_index, range_label, range_start,
};
pub use id::{ContentId, UniqueIdError};
pub use profile::{PROFILE_SCHEMA, Profile, ProfileClass, ProfileError};
