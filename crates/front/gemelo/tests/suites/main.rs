//! Tests of the program as a user runs it: each module is a suite, and its first lines say what it
//! checks.
//!
//! They are one program, because each program would be compiled with the shared parts and linked.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends where it cannot go on, and says what it misses"
)]

mod access;
mod archive;
mod arrows;
mod bench;
mod campaign;
#[path = "../../../../cluster/objects/tests/conformance/ceph.rs"]
#[expect(dead_code, reason = "tests of other crates use the rest")]
mod ceph;
mod clients;
mod cluster;
mod common;
mod compare;
mod compression;
mod content;
mod contract;
mod copies;
mod copies_at_scale;
mod damaged;
mod dedisbench;
mod disk;
mod distribution;
mod documents;
mod drawing;
mod examples;
mod exit_status;
mod figures;
mod filebench;
mod filesystems;
mod full;
mod guest;
mod health;
mod history;
mod hosts;
mod images;
mod kept;
mod killed;
mod limits;
mod members;
mod metrics;
mod names;
mod outputs;
mod packaging;
mod places;
mod pool;
mod pool_rm;
mod pool_shrink;
mod postgres;
mod refused;
mod regressions;
mod replay;
mod report;
mod restarts;
mod scan;
mod schema;
mod schemas;
mod scrub;
mod serve;
mod serve_clients;
mod served;
mod settings;
mod support;
mod support_file;
mod targets;
mod tidy;
mod trace;
mod traces;
mod usage;
mod verbosity;
mod volume;
mod volume_space;
mod volume_versions;
