//! The metadata of a pool: maps, index, reference counts and the list of volumes, behind traits.
//!
//! The journal is the engine's: it hands every [`gemelo_format::Change`] to the backend after it
//! was appended, and again when it is replayed after a crash. A backend keeps the state, and at a
//! checkpoint makes it durable. There is one engine, [`cached`], which reads pages that are not in
//! its cache. Its policies differ in their index, their memory, and what a checkpoint writes.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod cache_size;
mod cached;
mod error;
mod estimate;
mod found_damage;
mod registry;
mod sampling;
mod slot_owners;
mod slots;
mod stats;
#[cfg(test)]
mod tests;
mod traits;

pub use cache_size::CacheSize;
pub use cached::{HeldPages, MissingPages};
pub use error::MetadataError;
pub use estimate::{Needs, PlannedPool, estimate};
pub use found_damage::FoundDamage;
pub use registry::{BackendContext, LoadOptions, NewMetadata, about_policy, empty, load};
pub use sampling::IndexSampling;
pub use stats::{CacheStats, Damage, Garbage, KnownBlock, Pressure, Record, SlotNeed, Totals};
pub use traits::{
    Checkpoint, Differences, DifferingEntry, Index, Map, Merge, MetadataBackend, PageWrites,
    Repair, Sealed, Volumes,
};
