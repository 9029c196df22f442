//! The interface between load and storage.
//!
//! A [`TargetUri`] names storage, and [`Targets`] finds the [`Storage`] of that name.
//! [`Storage::plan`] checks that the storage can carry a [`PlaceLayout`], without changing
//! anything. The plan is then prepared into a [`Target`], which has one *place* for each process: a
//! file, or a region of a file or device. The target opens a [`Queue`] on each place. Load sees
//! only queues, so it drives every engine and every kind of storage in the same way.
//!
//! This crate contains files, directories, block devices and `null:`. Storage of other kinds comes
//! from an [`Adapter`], which the program registers with [`Targets::with`].
//!
//! This crate leaves to others which data is read and written and how it is measured.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod device;
mod direct;
mod error;
mod figures;
mod files;
mod find;
mod layout;
mod null;
mod queue;
mod registry;
mod storage;
mod uri;

pub use error::{AdapterError, TargetError};
pub use figures::{DedupPolicy, PoolStats};
pub use find::{FileStorage, check_overwritable};
pub use layout::{AtStart, OtherPlaces, PlaceAccess, PlaceLayout};
pub use null::NullStorage;
pub use queue::{
    Buffers, Completion, Engine, IoFailure, Queue, QueueOptions, TargetOperation, TargetRequest,
    UnknownEngine, Wait,
};
pub use registry::{Adapter, Targets};
pub use storage::{LABEL_BYTES, PlannedTarget, Storage, Target};
pub use uri::TargetUri;
