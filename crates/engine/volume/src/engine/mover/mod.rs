//! The mover: stores contents at other PBNs, and lets the references to them follow.
//!
//! Every content that changes its place does so in four steps:
//!
//! 1. **Choose how its references follow** ([`moves::Followers`]). Either all are known, and their
//!    map entries change one by one. Or one change of the block, a *move*, takes all of them along,
//!    however many there are and whoever shares them.
//! 2. **Take places and write there.** The data path stores the contents as those of any write, in
//!    a run, in the next free blocks, or in blocks of the cleaner.
//! 3. **Carry out in one change** ([`moves`]). Under the state's lock, each map entry that is to
//!    change is compared again. If all are still to the block that was read, the first one is
//!    changed by a *store* and the others by a *share*; the last one frees the old place. A content
//!    that was overtaken stays, and its new place is given back.
//! 4. **Let the change be durable.** The old place is not reused before, so a crash leaves the one
//!    place or the other. After a *move* it waits for the next checkpoint, which walks over all
//!    maps and writes those leaves anew that name the old place.
//!
//! What moves, where to, and with which references is the choice of five policies beside it:
//!
//! | policy | moves | to | with |
//! |---|---|---|---|
//! | [`order`] | blocks of a volume that lie scattered | PBNs in a row | one or all |
//! | [`form`] | contents that are to be compressed in another way | a new form | one or all |
//! | [`room`] | packed contents beside free parts | the cleaner's blocks | up to 16, or all |
//! | [`damage`] | contents whose place is another's now | any free place | its own |
//! | [`end`] | what lies in the last blocks of a store to be cut | any other place | all |
//!
//! *One* is the entry of a content that has no other reference; *all* follow by a *move*, in
//! [`order`] by the command only, in [`room`] for a write that would fail; the others are found by
//! a walk over all maps ([`references`]).
//!
//! A *move* is not the way of all, because the checkpoint after it reads every leaf of every map: 2
//! GiB for 1 TiB in blocks of 4 KiB. Commands pay that for many contents at once.
//!
//! - The arranger in the background would pay it at each checkpoint, for entries whose leaves are
//!   written anyway.
//! - The cleaner has room for 256 blocks at most, and goes on with the blocks that it has emptied.
//!   One walk gives it the references of 65,536 to 4 million contents. By *moves* it needs a
//!   checkpoint, and so a walk, for each 500 to 1,800 contents that fill its room. So it moves
//!   contents that have more than 16 references, or that volumes share by a part of their maps,
//!   when a write would fail without.
//! - A lost place may be another content's by now, whose references must not follow.
//!
//! A further policy chooses [`Content`](moves::Content)s, has the data path store them, and calls
//! [`Mover::carry_out`]. The finder needs no mover: the content that it finds twice has a place
//! already, so it makes one *share* (`finder/examine.rs`).

mod chunk;
mod damage;
mod end;
mod form;
mod moves;
mod order;
mod references;
mod room;
mod tuning;

pub(crate) use damage::Relocator;
pub(crate) use end::Shrinker;
pub use form::RecompressReport;
pub(crate) use form::Recompressor;
pub(crate) use moves::Mover;
pub(super) use order::work as arrange;
pub use order::{ArrangeReport, VolumeLayout};
pub(crate) use order::{Arranger, Marks, Ticker, layout_of};
pub(crate) use room::SpaceCleaner;
pub(super) use room::{Effort, Step, clean};
pub use tuning::LayoutTuning;
