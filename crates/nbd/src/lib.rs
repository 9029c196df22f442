//! The Network Block Device protocol.
//!
//! [`wire`] is the bytes, [`server`] exports block devices. What a
//! block device is, the crate `gemelo-device` says; which exports there are, an [`server::Exports`] says.

pub mod server;
mod socket;
pub mod wire;
