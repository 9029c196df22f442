//! Tests of `gemelo bench`, `suite`, `verify` and `replay` on volumes of a pool, exports of NBD
//! servers and vhost-user-blk devices.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it misses"
)]

#[path = "../common/mod.rs"]
mod common;
mod devices;
mod directory;
mod exports;
mod traces;
mod volumes;
