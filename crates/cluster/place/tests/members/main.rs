//! Members of a domain at their places, on the simulated store: sharing, hand-over, removal, looks
//! and the check of the domain.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[macro_use]
#[path = "../support/locks.rs"]
mod locks;

mod checks;
mod creation;
mod domain;
mod flush;
mod hand_over;
mod heal;
mod store;
mod together;
mod unreachable;
