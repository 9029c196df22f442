//! The Network Block Device protocol.
//!
//! [`wire`] encodes and decodes messages. [`server`] exports block devices. [`client`] reads and
//! writes the exports of any server. The crate `gemelo-device` defines block devices, the names
//! under which they are exported, and the seam that [`server::NbdFrontEnd`] implements.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod certificates;
pub mod client;
pub mod server;
mod socket;
pub mod wire;
