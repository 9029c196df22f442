//! The metadata of a pool: maps, index, reference counts and the list of volumes, behind traits.
//!
//! The journal is the engine's: it hands every [`gemelo_format::Change`] to the backend after it
//! was appended, and again when it is replayed after a crash. A backend keeps the state, and at a
//! checkpoint makes it durable. [`log`] keeps everything in memory; [`cached`] reads pages that are
//! not in its cache. `docs/internals/add-a-backend.md` says how to add one.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod cached;
mod error;
mod estimate;
mod found_damage;
mod log;
mod registry;
mod sampling;
mod slots;
mod stats;
#[cfg(test)]
mod tests;
mod traits;

pub use cached::{HeldPages, MissingPages};
pub use error::MetadataError;
pub use estimate::{Needs, PlannedPool, estimate};
pub use found_damage::FoundDamage;
pub use registry::{BackendContext, LoadOptions, NewMetadata, about_backend, empty, load};
pub use sampling::IndexSampling;
pub use slots::SlotSpace;
pub use stats::{CacheStats, Damage, Garbage, Pressure, Record, SlotNeed, Totals};
pub use traits::{
    Checkpoint, Index, LocalPages, Map, Merge, MetadataBackend, PageWrites, Repair, Sealed, Volumes,
};
