//! The log: the metadata, their changes, and how these become durable.
//!
//! A change is made in memory and appended to the open commit under one lock. Commits are closed
//! and written to the journal in their order, by one thread at a time, for all who wait. A
//! checkpoint writes the state of one instant, so that the journal before it is not needed any
//! more. Blocks that a change has freed go to the data path when the change is durable.

mod checkpoint;
mod commit;
mod contents;
mod group_commit;
mod journal_data;
mod parts;
mod reserve;
mod state;

pub(crate) use parts::{Log, LogParts};
pub(crate) use reserve::MIN_RESERVE_SLOTS;
pub(crate) use state::State;
