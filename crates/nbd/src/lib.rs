//! The Network Block Device protocol.
//!
//! [`wire`] is the bytes, [`server`] exports block devices, [`client`] reads and writes what any server exports. What a
//! block device is, the crate `gemelo-device` says; which exports there are, an [`server::Exports`] says.

mod certificates;
pub mod client;
pub mod server;
mod socket;
pub mod wire;
