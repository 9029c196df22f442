//! The finder: looks for duplicates in volumes with off-line deduplication, after their writes were
//! acknowledged.
//!
//! A write to such a volume gets a block without a fingerprint and marks its LBN ([`dirty`]). The
//! finder reads marked blocks that have no fingerprint, and shares each whose content the index
//! knows, or makes it known ([`examine`]). Blocks are never written in place, so "nothing has
//! changed meanwhile" is "the LBN still has this PBN", looked at under the state's lock. Both
//! outcomes are ordinary changes in the journal. In the background it keeps to a pace ([`pace`]).

mod control;
mod dirty;
mod examine;
mod pace;
mod report;
mod rewrites;
mod sample;
mod search;
mod tuning;
mod turns;
mod while_written;
mod work;

pub use control::{FinderState, FinderStats, HeldBack};
pub(crate) use dirty::{Backlog, DirtyGroups};
pub(crate) use examine::Examiner;
pub use report::FinderReport;
pub(crate) use report::Scope;
pub(crate) use rewrites::DelayBounds;
pub(crate) use sample::SampledBlocks;
pub(crate) use search::Finder;
pub use tuning::FinderTuning;
pub(crate) use turns::Turn;
pub(super) use work::work;
