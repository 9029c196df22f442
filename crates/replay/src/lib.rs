//! Recorded block I/O as load, with its content: equal hashes become equal blocks.
//!
//! A trace is read twice. The first time makes a [`Plan`]: how large the target has to be, where each place of the
//! trace lies on it, what it has to hold before the start. The second time it is [`replay`]ed: one thread reads records
//! and hands operations to processes, each of which owns a part of the target and drives it through a queue.
//!
//! Operations on the same block go to the same process, in the trace's order, and never overlap where one of them
//! writes; so what a block holds at any time follows from the trace, and reads can be checked.

mod contents;
mod dispatch;
mod plan;
mod populate;
mod result;
mod run;
mod worker;

pub use contents::{ReplayContents, content_of_hash};
pub use plan::{Capacity, MapRule, Plan, PlanError, PlanOptions};
pub use result::{Lateness, Mismatch, OperationFigures, ReplayResult, Verification};
pub use run::{ReplayError, ReplayOptions, Speed, SpeedError, replay};
