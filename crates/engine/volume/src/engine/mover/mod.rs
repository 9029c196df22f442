//! The mover: stores contents at other PBNs, and lets the references to them follow.
//!
//! Every content that changes its place does so in four steps:
//!
//! 1. **Find the references.** A walk over the maps collects them, unless the content has one alone
//!    ([`references`]). It moves with all of its references or not at all, because one that was
//!    left would keep the old place. The list may be out of date when it is used.
//! 2. **Take places and write there.** The data path stores the contents as those of any write, in
//!    a run, in the next free blocks, or in blocks of the cleaner.
//! 3. **Carry out in one change** ([`moves`]). Under the state's lock, each reference is compared
//!    again. If all are still to the block that was read, the first one is changed by a *store* and
//!    the others by a *share*; the last one frees the old place. A content that was overtaken
//!    stays, and its new place is given back.
//! 4. **Let the change be durable.** The old place is not reused before, so a crash leaves the one
//!    place or the other.
//!
//! What moves and where to is the choice of five policies beside it:
//!
//! | policy | moves | to |
//! |---|---|---|
//! | [`order`] | blocks of a volume that lie scattered | PBNs in a row |
//! | [`form`] | contents that their volume would compress in another way | blocks in the new form |
//! | [`room`] | contents of packed blocks of which a part was freed | blocks of the cleaner |
//! | [`damage`] | contents whose place is another's now | any free place |
//! | [`end`] | what lies in the last blocks of a store that becomes smaller | any other place |
//!
//! The last one knows no references: its one change takes them all along ([`end`]). A further one
//! chooses [`Content`](moves::Content)s, has the data path store them, and calls
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
