//! A store in memory or in files, with several clients, whose delays and faults follow from a seed.
//!
//! Time is the simulation's own. A thread that calls a client outside of [`World::run`] moves the
//! time itself. Within `run` each client has a thread, and exactly one of them runs at a time: the
//! one whose next event is the earliest. A run therefore repeats exactly.

mod call;
mod client;
mod faults;
mod files;
mod store;
mod world;

pub use client::{Client, ClientClock};
pub use faults::Faults;
pub use world::World;
