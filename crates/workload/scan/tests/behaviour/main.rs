//! Scans of real files through the crate's public interface.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod accounting;
mod data;
mod effort;
mod reference;
mod saved;
mod sharing;
mod troubled;
