//! Counts the slots in use again, by the pages that something refers to.

use super::CachedBackend;
use super::array;
use super::layout::{Layout, Visitor};
use crate::error::Result;
use gemelo_base::SparseBits;
use gemelo_format::{NodeRef, Part};
use std::ops::Range;

/// The slots of pages that were reached.
#[derive(Default)]
struct Reached {
    slots: SparseBits,
    /// A slot that two trees have that do not share pages.
    twice: Option<u32>,
    is_map: bool,
}

impl Visitor for Reached {
    fn node(&mut self, at: NodeRef, _keys: Range<u64>) -> Result<bool> {
        let is_new = self.slots.insert(u64::from(at.slot.number()));
        if !is_new && !self.is_map {
            self.twice = Some(at.slot.number());
        }
        Ok(is_new)
    }

    fn wants_values(&self) -> bool {
        false
    }

    fn reads_ahead(&self) -> bool {
        true
    }
}

impl<L: Layout> CachedBackend<L> {
    /// Compares the slots in use with those that the state on disk has and that the checkpoint
    /// under way has taken. A pool with lost pages is not looked at.
    pub(super) fn prove_slots(&self) -> Result<Vec<String>> {
        if !self.lost.is_empty() || self.pages.is_damaged() {
            return Ok(Vec::new());
        }
        let mut reached = Reached { is_map: true, ..Reached::default() };
        let volumes = self.volumes.values().map(|volume| &volume.map);
        let frozen = self.frozen.iter().flat_map(|frozen| &frozen.removed);
        for map in volumes.chain(&self.removed).chain(frozen) {
            array::walk(&self.pages, &map.base, Part::Map, 0, &mut reached)?;
        }
        reached.is_map = false;
        for (tree, part) in [
            (&self.version.counts, Part::Counts),
            (&self.version.many, Part::Many),
            (&self.version.fingerprints, Part::Fingerprints),
        ] {
            array::walk(&self.pages, tree, part, 0, &mut reached)?;
        }
        L::walk_index(&self.pages, &self.version.index, &mut reached)?;
        let (in_use, taken) = self.pages.accounted();
        let mut wrong: Vec<String> = reached
            .twice
            .map(|slot| format!("slot {slot} is used in two ways"))
            .into_iter()
            .collect();
        let mut expected = reached.slots;
        for slot in self.table.iter().chain(&taken) {
            if !expected.insert(u64::from(slot.number())) {
                wrong.push(format!("slot {} is used in two ways", slot.number()));
            }
        }
        if expected.ones() != in_use {
            wrong.push(format!("{in_use} slots are in use, which should be {}", expected.ones()));
        }
        Ok(wrong)
    }
}
