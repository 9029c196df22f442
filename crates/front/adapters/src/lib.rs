//! Targets of load other than files and devices: volumes of a pool whose engine runs in this
//! process, and exports of NBD servers.
//!
//! A program registers [`PoolAdapter`] and [`NbdAdapter`] with [`gemelo_target::Targets`]. Load
//! itself does not know them, so it depends on neither the engine nor TLS.
//!
//! The engine is in the crate `gemelo-volume`, and the protocol in `gemelo-nbd`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod nbd;
mod pool;

pub use nbd::{ExportError, NbdAdapter};
pub use pool::{PoolAdapter, PoolHost, PoolTargetError, PoolVolume};
