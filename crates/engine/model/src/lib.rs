//! The protocol of the engine as a model for a model checker: writes, the finder, the collector,
//! commits, checkpoints, changes of whole volumes, crashes and recovery.
//!
//! [`Protocol`] is a model of `stateright`: a set of [`State`]s and the [`Action`]s between them.
//! Each action is a step that the engine makes under one hold of a lock, or one call to a disk. A
//! [`Guard`] is a check or an order of the engine that can be left out, to see which promise it
//! keeps. `README.md` of this crate states what the model covers.
//!
//! The crate contains no code of the engine. The tests compare the two: the model must explain
//! what the engine does.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod action;
mod bounds;
mod change;
mod clients;
mod collector;
mod commit;
mod crash;
mod explain;
mod finder;
mod guard;
mod numbers;
mod possible;
mod properties;
mod protocol;
mod rest;
mod set;
mod state;
mod step;
mod symmetry;
mod volumes;

pub use action::Action;
pub use bounds::{Bounds, Budget};
pub use change::Change;
pub use explain::{Answer, Event, Explanation, Request, Unexplained, explain};
pub use guard::Guard;
pub use numbers::{Cell, Content, Fingerprint, Mode, Pbn};
pub use properties::{
    BLOCKS, CRASH, FORGOTTEN, INDEX, ONCE, OWNERS, READ, REFERENCES, REST, REUSE,
};
pub use protocol::Protocol;
pub use state::State;
