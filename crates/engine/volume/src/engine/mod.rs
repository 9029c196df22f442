//! The engine: carries out requests and commands between volumes and disks.
//!
//! It stands on four parts, each private to its module: the [`data`] path (contents, and which
//! blocks are free), the [`log`] (metadata, commits, checkpoints), the [`catalogue`] of volumes and
//! the [`damage`] that was found. [`Engine`] ([`parts`]) has them, and the other modules let it
//! carry out requests and commands. The
//! order of all locks is [`locks::Rank`]. Contents are read and written without the lock of the
//! metadata.

mod catalogue;
mod checked;
mod collector;
mod damage;
mod data;
mod finder;
mod health;
mod item;
mod layout;
mod locks;
mod log;
mod maintenance;
mod near;
mod overload;
mod pace;
mod parts;
mod patch;
mod pieces;
mod plan;
mod range;
mod read;
mod segment;
mod shared;
mod stop_signal;
mod supply;
mod tasks;
mod volume_space;
mod volumes;
mod wanted;
mod worker;
mod write;

pub use catalogue::VolumesActivity;
pub use collector::GcReport;
pub use damage::DamagedBlock;
pub(crate) use data::{ContentSpace, ContentStore, Pin, Remembered};
pub use data::{LeftBlocks, RememberedStats};
pub(crate) use finder::{FinderPolicy, SampledBlocks, Scope};
pub use finder::{FinderReport, FinderState, FinderStats, FinderTuning, HeldBack};
pub(crate) use health::Health;
pub use layout::{ArrangeReport, LayoutTuning, RecompressReport, VolumeLayout};
pub(crate) use log::{MIN_RESERVE_SLOTS, State};
pub use overload::InlineOverload;
pub(crate) use pace::Pace;
pub(crate) use parts::{Engine, EngineParts};
pub(crate) use range::Range;
pub(crate) use shared::VolumeShared;
pub use volume_space::{SnapshotSpace, VolumeSpace};
pub(crate) use wanted::Wanted;
pub(crate) use worker::Worker;
