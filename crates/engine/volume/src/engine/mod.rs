//! The engine: carries out requests and commands between volumes and disks.
//!
//! An open pool is an [`Engine`] ([`parts`]), which only puts its parts together:
//!
//! - [`requests`] cuts a batch where requests conflict, and hands reads to the *reader* ([`read`],
//!   [`checked`]) and changes to the *writer* ([`write`], [`plan`]). A writer that finds the store
//!   full goes to the *reclaimer*.
//! - [`volumes`] creates, resizes and removes volumes; [`snapshots`] copies them and goes back to
//!   copies; [`volume_space`] counts their space.
//! - [`differences`] compares volumes and reads what is sent; [`receiving`] makes copies.
//! - [`finder`] shares what off-line volumes have twice, [`mover`] moves contents, and [`damage`]
//!   heals them.
//!
//! All of them stand on the [`data`] path (contents, and which blocks are free), the [`log`]
//! (metadata, commits, checkpoints) and the [`catalogue`] of volumes. The order of all locks is
//! [`locks::Rank`]. Contents are read and written without the lock of the metadata.

mod catalogue;
mod checked;
mod collector;
mod damage;
mod data;
mod differences;
mod finder;
mod health;
mod item;
mod limits;
mod live;
mod locks;
mod log;
mod maintenance;
mod mover;
mod near;
mod overload;
mod pace;
mod parts;
mod patch;
mod pieces;
mod plan;
mod range;
mod read;
mod receiving;
mod reclaimer;
mod references;
mod requests;
mod shared;
mod snapshots;
mod tasks;
mod volume_space;
mod volumes;
mod wanted;
mod worker;
mod write;

pub use catalogue::VolumesActivity;
pub use collector::GcReport;
pub use damage::DamagedBlock;
pub(crate) use data::{ContentSpace, ContentStore, Pin};
pub use data::{LeftBlocks, RememberedStats};
pub use differences::{DifferenceKind, DifferingRange, DifferingRanges, SentContent};
pub use finder::{FinderReport, FinderState, FinderStats, FinderTuning, HeldBack};
pub(crate) use finder::{SampledBlocks, Scope};
pub(crate) use health::Health;
pub(crate) use log::{MIN_RESERVE_SLOTS, State};
pub(crate) use mover::layout_of;
pub use mover::{ArrangeReport, LayoutTuning, RecompressReport, VolumeLayout};
pub use overload::InlineOverload;
pub(crate) use pace::Pace;
pub(crate) use parts::{Engine, EngineParts};
pub(crate) use range::Range;
pub use receiving::Receipt;
pub(crate) use receiving::identity_of;
pub(crate) use shared::VolumeShared;
pub use snapshots::NewCopy;
pub use volume_space::{SnapshotSpace, VolumeSpace};
pub(crate) use wanted::Wanted;
pub(crate) use worker::start_all;
