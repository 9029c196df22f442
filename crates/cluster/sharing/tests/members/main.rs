//! Members of a domain with real engines, on the simulated store.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod damage;
mod disk;
mod domain;
mod full;
mod member;
mod model;
mod moved;
mod packed;
mod proof;
mod races;
#[path = "../../../../engine/volume/tests/common/repeat.rs"]
mod repeat;
mod rot;
mod simulation;
mod together;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 512;
/// The time after which a client gives up a call, where calls are lost.
pub(crate) const TIMEOUT_NS: u64 = 40_000_000;
/// Time after which a member tries again what it has postponed.
pub(crate) const RETRY_INTERVAL_NS: u64 = 600 * 1_000_000_000;
