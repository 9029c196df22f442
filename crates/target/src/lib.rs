//! The seam between load and storage.
//!
//! A [`TargetUri`] names storage; [`plan`] checks, without touching anything, that it can carry a [`Layout`]; a
//! [`Plan`] is then prepared into a [`Target`], which has one *place* for each process (a file, or a region of a file
//! or device) and opens a [`Queue`] on it. Load knows queues only, so that every engine and every kind of storage is
//! driven alike.
//!
//! What is read, written or measured is left to others.

mod device;
mod direct;
mod error;
mod layout;
mod null;
mod plan;
mod queue;
mod storage;
mod uri;

pub use error::TargetError;
pub use layout::{Access, AtStart, Layout};
pub use plan::{Plan, Target, check_overwritable, plan};
pub use queue::{
    Completion, Engine, IoFailure, Operation, Queue, QueueOptions, Request, UnknownEngine, Wait,
};
pub use uri::TargetUri;
