//! The arranger: brings blocks together again that are neighbours in a volume and lie scattered in
//! the store.
//!
//! A write never overwrites a block in place, so random overwrites scatter a volume, and a
//! sequential read of it becomes a read for each block. The arranger looks at stretches that were
//! written and then left alone for a while. Where runs are short, it reads the blocks of a chunk,
//! writes them to free PBNs in a row, and then changes each map entry under the state's lock, if
//! it still refers to the block that was read. A block that was overtaken stays, and its new PBN is
//! given back. Each move is an ordinary change *store*: the new block gets the fingerprint, the
//! index leads to it from then on, and the old one is freed like that of an overwrite. The old
//! place is not reused before the change is durable, so a crash leaves the one or the other.
//!
//! Suspect blocks and blocks that the finder has not examined stay where they are. A block with
//! several references moves with all of them ([`references`]), by the command alone.

mod arrange;
mod chunk;
mod clean;
mod marks;
mod moves;
mod recompress;
mod references;
mod room;
mod sample;
mod tuning;
mod walk;
pub(super) mod work;

pub use arrange::ArrangeReport;
pub(crate) use arrange::Arranger;
pub(crate) use clean::SpaceCleaner;
pub(super) use clean::{Effort, Step, clean};
pub(crate) use marks::{Marks, Ticker};
pub(crate) use moves::Mover;
pub use recompress::RecompressReport;
pub(crate) use recompress::Recompressor;
pub use sample::VolumeLayout;
pub(crate) use sample::layout_of;
pub use tuning::LayoutTuning;
