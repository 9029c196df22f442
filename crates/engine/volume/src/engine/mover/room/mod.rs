//! The policy of room: empties blocks of a store that compresses of which a part was freed.
//!
//! A packed block is used again when all of its contents are freed. The cleaner moves the contents
//! of blocks that have few to fresh blocks, where they lie densely. It works in passes, each in
//! small steps ([`pass`]):
//!
//! 1. Windows of blocks are chosen by the bits of their slots.
//! 2. All references of their contents are found by a walk over the maps.
//! 3. The contents of one window after another are moved ([`empty`]), those that cost the least
//!    first. A window is worth it if more blocks become free than are filled ([`best`]).
//!
//! If a small store saves nothing so, all of its contents are moved one after another ([`slide`]).
//!
//! A thread does so when few blocks are free. A write that finds no free block does the same steps
//! itself before it fails. One of them works at a time, and goes on where the other stopped.

mod best;
mod empty;
mod pass;
mod slide;
mod step;
mod work;

pub(in crate::engine) use pass::{Effort, Step};
pub(crate) use step::SpaceCleaner;
pub(in crate::engine) use work::work as clean;
