//! Counts the references again and compares counts, totals and index with the maps and
//! fingerprints, and the slots in use with the pages that something refers to.

use super::array;
use super::find::Finder;
use super::index::ContentIndex;
use super::layout::{Layout, Visitor};
use super::maps::Maps;
use super::pages::Pages;
use super::records::Records;
use super::recount::{Recount, count_lbns_of};
use crate::error::Result;
use gemelo_base::SparseBits;
use gemelo_format::{NodeRef, Part, Slot};
use std::collections::HashMap;
use std::ops::Range;

/// PBNs whose references are counted at once, in a byte each.
const WINDOW_PBNS: u64 = 64 << 20;

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

/// Proves a state.
pub(super) struct Proof<'p, L: Layout> {
    pub(super) maps: &'p Maps,
    pub(super) records: &'p Records,
    pub(super) index: &'p ContentIndex<L>,
}

impl<L: Layout> Proof<'_, L> {
    pub(super) fn counts(&self, most: usize) -> Result<Vec<String>> {
        while self.index.catch_up(self.records)? {}
        let mut wrong = Vec::new();
        self.volumes(&mut wrong)?;
        let found = Recount::count(self.maps, self.records, WINDOW_PBNS, &mut |some| {
            self.blocks(some, &mut wrong)
        })?;
        let references = self.maps.volumes.values().map(|volume| volume.stored).sum::<u64>();
        // A block outside of the data store is missing in the sum.
        if (references, found.used) != (self.maps.references, self.records.physical) {
            wrong.push(format!(
                "there are {references} references to {} blocks, not {} to {}",
                found.used, self.maps.references, self.records.physical
            ));
        }
        if found.counted != found.used {
            wrong.push(format!("{} blocks have a count, not {}", found.counted, found.used));
        }
        wrong.truncate(most);
        Ok(wrong)
    }

    /// Counts what each volume maps, and the parents of each node.
    fn volumes(&self, wrong: &mut Vec<String>) -> Result<()> {
        let mut known = HashMap::new();
        for (id, volume) in &self.maps.volumes {
            let (mapped, stored) = count_lbns_of(self.maps, *id, &mut known, &|_| true)?;
            let is_right = match volume.is_counted() {
                true => (mapped, stored) == (volume.mapped, volume.stored),
                false => mapped <= volume.mapped && stored <= volume.stored,
            };
            if !is_right {
                wrong.push(format!(
                    "volume {id} maps {mapped} LBNs and {stored} blocks, not {} and {}",
                    volume.mapped, volume.stored
                ));
            }
        }
        for (key, node) in known {
            let parents = self.maps.parents.beyond_one(key) + 1;
            if parents != node.parents {
                let right = node.parents;
                wrong.push(format!("node {key:?} has {right} parents, not {parents}"));
            }
        }
        Ok(())
    }

    /// Compares the counts of PBNs with the references to them.
    fn blocks(&self, some: &[(u64, u64)], wrong: &mut Vec<String>) -> Result<()> {
        let pbns: Vec<u64> = some.iter().map(|(pbn, _)| *pbn).collect();
        for ((pbn, right), count) in some.iter().zip(self.records.counts_of(&pbns)?) {
            if *right == 0 {
                wrong.push(format!("nothing refers to block {pbn}"));
                continue;
            }
            if u64::from(count) != *right {
                wrong.push(format!("block {pbn} has {right} references, not {count}"));
            }
            self.index_entry(*pbn, wrong)?;
        }
        Ok(())
    }

    /// Checks that the index leads from a block's fingerprint, if the index has such contents, to
    /// it, or to another block with the same one. A delta has one entry for each fingerprint, and
    /// the entry goes with its block. Another block of the delta with the same content then has no
    /// entry until the next checkpoint.
    fn index_entry(&self, pbn: u64, wrong: &mut Vec<String>) -> Result<()> {
        let fingerprint = self.records.identity(pbn)?.fingerprint();
        if fingerprint.is_none() || !self.index.sampling.has_content(fingerprint) {
            return Ok(());
        }
        match Finder::new(self.index, self.records).find_one(fingerprint)? {
            Some(found)
                if self.records.identity(found.number())?.fingerprint() == fingerprint
                    && self.records.count(found.number())? > 0 => {}
            Some(_) => wrong.push(format!("the index leads from block {pbn} to another content")),
            None if self.records.deltas().any(|delta| delta.has_identity(pbn)) => {}
            None => wrong.push(format!("the index does not have block {pbn}")),
        }
        Ok(())
    }

    /// Compares the slots in use with those that the state on disk has, its table among them, and
    /// that the checkpoint under way has taken. A pool with lost pages is not looked at.
    pub(super) fn slots(&self, pages: &Pages, table: &[Slot]) -> Result<Vec<String>> {
        if !self.records.lost.is_empty() || pages.is_damaged() {
            return Ok(Vec::new());
        }
        let mut reached = Reached { is_map: true, ..Reached::default() };
        for map in self.maps.all() {
            array::walk(pages, &map.base, Part::Map, 0, &mut reached)?;
        }
        reached.is_map = false;
        for (array, part, _) in self.records.stored.arrays() {
            array::walk(pages, array, part, 0, &mut reached)?;
        }
        L::walk_index(pages, &self.index.state, &mut reached)?;
        let (in_use, taken) = pages.accounted();
        let mut wrong: Vec<String> = reached
            .twice
            .map(|slot| format!("slot {slot} is used in two ways"))
            .into_iter()
            .collect();
        let mut expected = reached.slots;
        for slot in table.iter().chain(&taken) {
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
