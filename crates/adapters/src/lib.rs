//! Storage that is more than a file or a device, as targets of load: volumes of a pool whose engine
//! runs in this process, and exports of NBD servers.
//!
//! A program registers [`PoolAdapter`] and [`NbdAdapter`] with [`gemelo_target::Targets`]. Load
//! itself knows neither, so it depends on neither the engine nor TLS.
//!
//! This crate leaves the work to the crates `gemelo-volume` and `gemelo-nbd`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod nbd;
mod pool;

pub use nbd::{ExportError, NbdAdapter};
pub use pool::{OnOpen, PoolAdapter, PoolTargetError, PoolVolume};
