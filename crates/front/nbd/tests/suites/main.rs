//! Tests of the front end: each module is a suite, and its first lines say what it checks.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test ends where it cannot go on, and says what it misses"
)]

mod attack;
mod client;
mod displaced;
mod front_end;
mod late_reads;
mod limits;
mod long_reads;
mod long_writes;
mod looking;
mod memory;
mod overlap;
mod panics;
mod programs;
mod refused;
mod serving;
mod support;
mod tls;
