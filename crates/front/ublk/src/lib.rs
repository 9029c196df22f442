//! Block devices of this host's kernel by its driver ublk: a front end by which file systems and
//! programs of this host reach exports as disks `/dev/ublkbN`.
//!
//! `control` has the commands that add, start and remove devices. A device has some queues, each
//! with a thread (`queue`) that receives requests of the kernel and answers them by `io_uring`.
//! The kernel copies the data of requests to and from buffers of this process.
//!
//! A device outlives the process that serves it. The kernel holds its requests until another
//! process takes it over, which finds it by the identity of its export (`identity`) and never by
//! its number. `kept` has the changes that this process makes once more, and `guard` is a process
//! that removes devices which nobody takes over.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod abi;
mod control;
mod device;
mod error;
mod front_end;
mod guard;
mod identity;
mod kept;
mod queue;
mod request;
mod shared;

pub use front_end::{OpenedDriver, UblkFrontEnd, Wanted, guard_devices};
