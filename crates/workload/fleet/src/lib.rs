//! One run on many hosts.
//!
//! [`run`] starts this program on each host through a [`Transport`], the user's `ssh` or any other
//! command. Both sides speak JSON lines on the standard streams of the program over there, which
//! [`serve`] answers. All hosts check their tasks before any of them changes anything. They start
//! each of their runs at the same moment, by an offset of their clocks that round trips measure.
//!
//! Nothing goes on over there without the coordinator: the far side stops when its standard input
//! ends or when it hears nothing for the time-out, and then ends by force. In the other direction,
//! a host that says nothing for the time-out is lost, and the others are stopped.
//!
//! This crate does not know what a task is. It prints nothing.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod conductor;
mod error;
mod far;
mod hosts;
mod lines;
mod link;
mod member;
mod message;
mod round_trip;
mod transport;

pub use conductor::{Finished, Orders, run};
pub use error::FleetError;
pub use far::{FarMonitor, Session, serve};
pub use hosts::{Hosts, HostsError};
pub use member::HostEnd;
pub use message::{Done, Refusal};
pub use round_trip::ClockOffset;
pub use transport::{Transport, TransportError};
