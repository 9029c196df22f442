//! Targets of load other than files and devices: volumes of a pool whose engine runs in this
//! process, exports of NBD servers, and vhost-user-blk devices.
//!
//! A program registers [`PoolAdapter`], [`NbdAdapter`] and [`VhostAdapter`] with
//! [`gemelo_target::Targets`]. Load itself does not know them, so it depends on neither the engine
//! nor the protocols.
//!
//! The engine is in the crate `gemelo-volume`, and the protocols in `gemelo-nbd` and
//! `gemelo-vhost`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod nbd;
mod pool;
mod vhost;

pub use nbd::{ExportError, NbdAdapter};
pub use pool::{PoolAdapter, PoolHost, PoolTargetError, PoolVolume};
pub use vhost::{VhostAdapter, VhostDeviceError};
