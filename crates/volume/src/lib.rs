//! Volumes that store each block once: the engine and its metadata.
//!
//! A [`Pool`] has a data store, metadata and [`Volume`]s; a volume is a [`gemelo_device::BlockDevice`]. What is on disk is in
//! `docs/reference/format.md`. Nothing here knows of NBD, of load or of printing.
//!
//! The way of a write: [`engine`] cuts batches to segments and blocks, asks the [`backend`] which contents are known,
//! writes fresh ones through [`gemelo_disk`], changes the backend and appends the changes to the [`journal`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod backend;
mod counters;
mod engine;
mod error;
mod journal;
mod load;
mod marker;
mod pool;
mod sync;
mod volume;

pub use backend::{CacheFigures, about_backend};
pub use counters::{PoolActivity, VolumeStat};
pub use engine::{DamagedBlock, FinderReport, GcReport};
pub use error::VolumeError;
pub use load::{LoadStat, OperationKind, OperationStat};
pub use pool::{
    Conversion, LiveCheck, LossChoice, NewPool, Pool, PoolDirectory, PoolOptions, PoolStat,
    RenamedVolume, RepairCost, RepairOptions, RepairOutlook, RepairPlan, Tuning, VolumeSummary,
    convert, record_damage, repair, repair_outlook,
};
pub use volume::Volume;
