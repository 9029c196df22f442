//! The cleaner: empties blocks of a store that compresses of which a part was freed.
//!
//! A packed block is used again when all of its contents are freed. The cleaner moves the contents
//! of blocks that have few to fresh blocks, where they lie densely. It works in passes, each in
//! small steps: it chooses windows of blocks by the bits of their slots, finds all references of
//! their contents by a walk over the maps ([`step`]), and then moves the contents of one window
//! after another ([`empty`]), those that cost the least first. Each move is the same change as a
//! move by the arranger, so the same holds for races and crashes.
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
