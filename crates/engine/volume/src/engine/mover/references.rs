//! The references of blocks, collected by walks over the maps.
//!
//! The list may be out of date when it is used, so each reference is compared again under the
//! state's lock.

use super::Mover;
use crate::engine::VolumeShared;
use crate::engine::references::next_references;
use crate::error::Result;
use gemelo_format::{Lbn, Pbn, VolumeId};

/// Most references of a block that is moved: its map entries are changed in one hold of the lock.
pub(super) const MAX_OF_BLOCK: u32 = 16;
/// Most references that are remembered: 64 MiB. Blocks whose references are not all among them stay
/// where they are.
pub(super) const MAX_REFERENCES: usize = 4 << 20;

/// A reference to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reference {
    pub(super) pbn: Pbn,
    pub(super) volume: VolumeId,
    pub(super) lbn: Lbn,
}

/// References of blocks, in the order of these.
#[derive(Debug)]
pub(super) struct References {
    sorted: Vec<Reference>,
}

impl References {
    pub(super) fn new(mut all: Vec<Reference>) -> Self {
        all.sort_unstable();
        Self { sorted: all }
    }

    /// Returns all references of a block that are known.
    pub(super) fn of(&self, pbn: Pbn) -> &[Reference] {
        let first = self.sorted.partition_point(|reference| reference.pbn < pbn);
        let rest = self.sorted.get(first..).unwrap_or_default();
        let count = rest.partition_point(|reference| reference.pbn == pbn);
        rest.get(..count).unwrap_or_default()
    }
}

/// The blocks whose references are collected. One that volumes share by a part of their maps is
/// counted once, so most movers leave it out.
#[derive(Clone, Copy)]
pub(super) struct Sought<'s> {
    /// By the PBN, before anything is looked up for it.
    pub(super) is_looked_at: &'s dyn Fn(Pbn) -> bool,
    /// By the number of references, and whether this one is in a shared part.
    pub(super) is_wanted: &'s dyn Fn(u32, bool) -> bool,
}

impl Mover {
    /// Adds the references in the next piece of a map to blocks that are wanted. Returns the LBN at
    /// which the following piece begins.
    pub(super) fn add_references(
        &self,
        (volume, from): (&VolumeShared, Lbn),
        Sought { is_looked_at, is_wanted }: Sought<'_>,
        all: &mut Vec<Reference>,
    ) -> Result<Option<Lbn>> {
        // A volume that has become smaller may still map LBNs beyond its end, which nothing changes
        // but their removal. A block with such a reference has one that is not known here.
        let piece = (from, Lbn(volume.blocks()));
        let mut found = Vec::new();
        let next = next_references(&self.log, volume.id(), piece, is_looked_at, &mut found)?;
        let wanted = found.iter().filter(|one| is_wanted(one.count, one.is_in_shared_part));
        all.extend(wanted.map(|one| Reference { pbn: one.pbn, volume: volume.id(), lbn: one.lbn }));
        Ok(next)
    }
}
