//! vhost-user-blk: a front end by which virtual machines on this host reach block devices through
//! shared memory. Each export has a socket file. One virtual machine at a time connects to it, and
//! shares the memory of its guest and the queues of its driver.
//!
//! Guests are not trusted. `request` checks all places in their memory, and `batch` copies data
//! between it and memory of this process, so a guest that changes data while it is written changes
//! nothing that has a fingerprint already.
//!
//! [`Driver`] is the other side: it reaches a device as a guest would.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod batch;
mod chain;
mod client;
mod config;
mod doors;
mod driver;
mod front_end;
mod fuzz;
mod guest;
mod inflight;
mod queue;
mod request;
mod session;
mod taken;

pub use driver::{Driver, DriverError, DriverQueue, DriverRequest, Finished};
pub use front_end::VhostFrontEnd;
#[doc(hidden)]
pub use fuzz::fuzz_queue;
