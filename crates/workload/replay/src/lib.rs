//! Replays recorded block I/O with its content: equal hashes become equal blocks.
//!
//! A trace is read twice. The first reading makes a [`ReplayPlan`]: the size of the target, the
//! location of each place of the trace on the target, and the contents to populate before the
//! start. The second reading is the [`replay`]. One thread reads records and sends operations to
//! processes. Each process owns a part of the target and uses a queue of its own.
//!
//! Operations on the same block go to the same process in the order of the trace, and never overlap
//! if one of them writes. The content of a block at any time therefore follows from the trace, and
//! reads can be checked.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod batch;
mod contents;
mod dispatch;
mod error;
mod merge;
mod options;
mod plan;
mod populate;
mod result;
mod run;
mod seconds;
mod shared;
mod worker;

pub use contents::{ReplayContents, content_of_hash};
pub use error::ReplayError;
pub use merge::{ReplayPart, merge};
pub use options::{ReplayOptions, Speed, SpeedError};
pub use plan::{Capacity, MapRule, PlanError, PlanOptions, ReplayPlan};
pub use result::{
    Lateness, ReplayMismatch, ReplayResult, ReplaySecond, ReplayStats, ReplayVerification,
    SecondStats,
};
pub use run::replay;
