//! Block devices of this host's kernel: a front end by which file systems and programs of this host
//! reach exports as disks, `/dev/ublkbN` of its driver ublk, or `/dev/nbdN` of its driver for NBD.
//!
//! `driver` is the seam between the disks and the two drivers. That of ublk is `control`, with the
//! commands that add, start and remove devices, and `queue`: a thread for each queue of a device
//! receives requests of the kernel and answers them by `io_uring`. That of NBD is `kernel_nbd`. The
//! kernel copies the data of requests to and from buffers of this process.
//!
//! A device outlives the process that serves it. The kernel holds its requests until another
//! process takes it over, which finds it by the identity of its export (`identity`) and never by
//! its number. `kept` has the changes that this process makes once more, `rights` lets the server
//! give up its rights, and `guard` is a process that removes devices which nobody takes over.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod abi;
mod configured;
mod control;
mod device;
mod driver;
mod error;
mod front_end;
mod gate;
mod guard;
mod identity;
mod kept;
mod kernel_nbd;
mod last_tag;
mod missing;
mod queue;
mod request;
mod rights;
mod shared;

pub use configured::{OpenedDriver, UblkFrontEnd, Wanted, guard_devices, open_drivers};
pub use driver::DriverKind;
