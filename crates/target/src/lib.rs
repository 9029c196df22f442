//! The seam between load and storage.
//!
//! A [`TargetUri`] names storage; [`plan`] checks, without touching anything, that it can carry a [`Layout`]; a
//! [`Plan`] is then prepared into a [`Target`], which has one *place* for each process (a file, or a region of a file
//! or device) and opens a [`Queue`] on it. Load knows queues only, so that every engine and every kind of storage is
//! driven alike.
//!
//! A volume of a pool and an export of an NBD server are targets like a block device: a process has a region of it.
//!
//! What is read, written or measured is left to others.

mod device;
mod direct;
mod error;
mod figures;
mod layout;
mod nbd;
mod null;
mod plan;
mod pool;
mod queue;
mod storage;
mod uri;

pub use error::TargetError;
pub use figures::PoolFigures;
pub use gemelo_volume::DedupMode;
pub use layout::{Access, AtStart, Layout};
pub use plan::{Plan, Target, capacity, check_overwritable, plan};
pub use pool::OpenedPool;
pub use queue::{
    Completion, Engine, IoFailure, Operation, Queue, QueueOptions, Request, UnknownEngine, Wait,
};
pub use uri::{PoolVolume, TargetUri};
