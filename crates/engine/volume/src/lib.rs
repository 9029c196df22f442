//! Volumes that store each block once: the engine and its metadata.
//!
//! A [`Pool`] has a data store, metadata and [`Volume`]s; a volume is a
//! [`gemelo_device::BlockDevice`]. `docs/internals/format.md` describes the format on disk. This
//! crate knows nothing of NBD, load or printing.
//!
//! A write takes this path: [`engine`] cuts batches into segments and blocks, asks
//! [`gemelo_metadata`] which contents are known, writes fresh ones through [`gemelo_store`],
//! changes the backend and appends the changes to the [`journal`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod counters;
mod engine;
mod error;
mod journal;
mod load;
mod marker;
mod pool;
mod sync;
mod volume;

pub use counters::{PoolActivity, VolumeStat};
pub use engine::{
    ArrangeReport, DamagedBlock, DifferenceKind, DifferingRange, DifferingRanges, FinderReport,
    FinderState, FinderStats, FinderTuning, GcReport, HeldBack, InlineOverload, LayoutTuning,
    LeftBlocks, NewCopy, Receipt, RecompressReport, RememberedStats, SentContent, SnapshotSpace,
    VolumeLayout, VolumeSpace, VolumesActivity,
};
pub use error::{StopReason, VolumeError};
pub use gemelo_metadata::{CacheSize, CacheStats, IndexSampling, Needs, about_policy};
pub use load::{LoadStat, OperationKind, OperationStat, Traffic};
pub use pool::{
    ChangesSince, DamagedContent, FindEstimate, FullPool, Incoming, LossChoice, NewPool, Outgoing,
    Pool, PoolDirectory, PoolOptions, PoolRemoval, PoolStat, RemovalStep, RenamedVolume,
    RepairCost, RepairOptions, RepairOutlook, RepairPlan, ScrubOptions, ScrubReport, ShrinkOptions,
    ShrinkReport, Tuning, UnfinishedCopy, VolumeSummary, VolumeTuning, record_damage, repair,
    repair_outlook, repair_outlook_within, repair_within,
};
pub use volume::Volume;
