//! Volumes that store each block once: the engine, its metadata and its checker.
//!
//! A [`Pool`] has a data store, metadata and [`Volume`]s; a volume is a [`gemelo_device::BlockDevice`]. What is on disk is in
//! `docs/reference/format.md`. Nothing here knows of NBD, of load or of printing.
//!
//! The way of a write: [`engine`] cuts batches to segments and blocks, asks the [`backend`] which contents are known,
//! writes fresh ones through [`gemelo_disk`], changes the backend and appends the changes to the [`journal`].

mod backend;
pub mod check;
mod counters;
mod engine;
mod error;
mod fingerprint;
pub mod format;
mod hash_many;
mod journal;
mod load;
mod pool;
pub mod store;
mod sync;
mod types;
mod volume;

pub use backend::{CacheFigures, about_backend};
pub use check::{CheckOptions, CheckReport, Problem, RepairCost, check, record_damage};
pub use counters::{PoolActivity, VolumeStat};
pub use engine::{DamagedBlock, FinderReport, GcReport};
pub use error::{DiskRole, VolumeError};
pub use fingerprint::Fingerprinter;
pub use load::{LoadStat, OperationKind, OperationStat};
pub use pool::{
    Conversion, LiveCheck, NewPool, Pool, PoolDirectory, PoolDisks, PoolOptions, PoolStat, Tuning,
    VolumeSummary, convert,
};
pub use types::{
    BackendKind, Checksum, DedupMode, Fingerprint, FingerprintKind, Identity, Layout, Lbn,
    MAX_NAME_BYTES, MAX_VOLUME_BLOCKS, Pbn, Place, VolumeId,
};
pub use volume::Volume;
