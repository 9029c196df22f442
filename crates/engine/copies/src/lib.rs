//! Copies of snapshots between pools.
//!
//! [`send`] writes a snapshot as a stream: all of it, or what differs from an earlier snapshot.
//! [`receive`] makes a snapshot of a stream, which becomes visible when it is whole and durable.
//! [`stream`] is the format, which `docs/reference/stream.md` describes.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod exchange;
mod first_blocks;
mod giving_way;
mod parts;
mod receive;
mod send;
pub mod stream;
mod survey;

pub use exchange::{Answers, Asked, Naming};
pub use receive::{ReceiveError, ReceiveOptions, Received, receive};
pub use send::{LEVELS, MayAnswer, SendError, SendOptions, Sent, send};
