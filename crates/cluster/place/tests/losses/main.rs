//! Each object of a domain and each kind of its keys, lost, cut in half, with one bit flipped, or
//! older than the rest: nobody destroys what is intact, nobody reads wrong bytes, and the check
//! says so before. Members are served, read, searched, scrubbed, collected and repaired.
//!
//! It runs on objects in files in every run, and each kind of object and of key once on Ceph.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking"
)]

#[path = "../../../objects/tests/conformance/ceph.rs"]
#[allow(dead_code, reason = "other tests use the directory of the cluster")]
mod ceph;

mod base;
mod case;
mod faults;
mod forged;
mod in_tenure;
mod kept;
mod matrix;
mod on_ceph;
mod snapshot;
mod whole;
