//! The interface between load and storage.
//!
//! A [`TargetUri`] names storage. [`plan`] checks that the storage can carry a [`Layout`], without
//! changing anything. A [`Plan`] is then prepared into a [`Target`], which has one *place* for each
//! process: a file, or a region of a file or device. The target opens a [`Queue`] on each place.
//! Load sees only queues, so it drives every engine and every kind of storage in the same way.
//!
//! A volume of a pool and an export of an NBD server are used like a block device: each process has
//! a region of it.
//!
//! This crate leaves to others which data is read and written and how it is measured.

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
pub use gemelo_format::DedupMode;
pub use layout::{Access, AtStart, Layout};
pub use plan::{Plan, Target, capacity, check_overwritable, plan};
pub use pool::OpenedPool;
pub use queue::{
    Completion, Engine, IoFailure, Operation, Queue, QueueOptions, Request, UnknownEngine, Wait,
};
pub use uri::{PoolVolume, TargetUri};
