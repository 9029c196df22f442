//! The metadata of a pool: maps, index, reference counts and the list of volumes, behind traits.
//!
//! The journal is the engine's: it hands every [`gemelo_format::Change`] to the backend after it
//! was appended, and again when it is replayed after a crash. A backend keeps the state, and at a
//! checkpoint makes it durable. [`log`] keeps everything in memory; [`cached`] reads pages that are
//! not in its cache. `docs/internals/add-a-backend.md` says how to add one.

pub(crate) mod cached;
mod figures;
pub(crate) mod log;
mod registry;
mod slots;
#[cfg(test)]
mod tests;
mod traits;

pub use figures::CacheFigures;
pub(crate) use figures::{Damage, Garbage, Pressure, Record, SlotNeed, Totals};
pub use registry::about_backend;
pub(crate) use registry::{BackendContext, LoadOptions, empty, load};
pub(crate) use traits::{
    Checkpoint, Index, LocalPages, Map, Merge, MetadataBackend, PageWrites, Repair, Sealed, Volumes,
};
