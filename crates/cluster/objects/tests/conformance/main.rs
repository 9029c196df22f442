//! The promises of `Objects` and `Locks`, on the simulated store and on Ceph.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking"
)]

mod ceph;
mod rados;
mod simulated;
mod suite;
