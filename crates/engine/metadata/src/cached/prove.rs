//! Counts the references again and compares counts, totals and index with the maps and
//! fingerprints.

use super::CachedBackend;
use super::layout::Layout;
use crate::error::Result;
use gemelo_format::{Lbn, MapEntry};
use std::collections::BTreeMap;

impl<L: Layout> CachedBackend<L> {
    pub(super) fn prove_counts(&self, most: usize) -> Result<Vec<String>> {
        while self.catch_up_a_part()? {}
        let mut wrong = Vec::new();
        let mut counted: BTreeMap<u32, u32> = BTreeMap::new();
        let mut references = 0;
        for (id, volume) in &self.volumes {
            let (mut mapped, mut next) = (0, Lbn(0));
            while let Some(lbn) = self.next_word(*id, next, Lbn(u64::MAX))? {
                next = Lbn(lbn.0 + 1);
                mapped += 1;
                if let Some(pbn) = MapEntry::from_word(self.word(*id, lbn)?).pbn() {
                    references += 1;
                    *counted.entry(pbn.number()).or_default() += 1;
                }
            }
            if mapped != volume.mapped {
                wrong.push(format!("volume {id} maps {mapped} blocks, not {}", volume.mapped));
            }
        }
        let physical = counted.len() as u64;
        if (references, physical) != (self.references, self.physical) {
            wrong.push(format!(
                "there are {references} references to {physical} blocks, not {} to {}",
                self.references, self.physical
            ));
        }
        let mut used = 0;
        let mut unreferenced = Vec::new();
        self.visit(&mut |pbn| {
            used += 1;
            if !counted.contains_key(&pbn) {
                unreferenced.push(pbn);
            }
        })?;
        wrong.extend(unreferenced.iter().map(|pbn| format!("nothing refers to block {pbn}")));
        if used != physical {
            wrong.push(format!("{used} blocks have a count, not {physical}"));
        }
        for (pbn, right) in counted {
            let count = self.count(pbn)?;
            if count != right {
                wrong.push(format!("block {pbn} has {right} references, not {count}"));
            }
            self.prove_index(pbn, &mut wrong)?;
        }
        wrong.truncate(most);
        Ok(wrong)
    }

    fn visit(&self, visit: &mut dyn FnMut(u32)) -> Result<()> {
        use crate::Index;
        self.visit_used(&mut |pbn| visit(pbn.number()))
    }

    /// Checks that the index leads from a block's fingerprint to it, or to another block with the
    /// same one. A delta has one entry for each fingerprint, and the entry goes with its block.
    /// Another block of the delta with the same content then has no entry until the next
    /// checkpoint.
    fn prove_index(&self, pbn: u32, wrong: &mut Vec<String>) -> Result<()> {
        let fingerprint = self.identity(pbn)?.fingerprint();
        if fingerprint.is_none() {
            return Ok(());
        }
        match self.find_one(fingerprint, &mut Vec::new())? {
            Some(found)
                if self.identity(found.number())?.fingerprint() == fingerprint
                    && self.count(found.number())? > 0 => {}
            Some(_) => wrong.push(format!("the index leads from block {pbn} to another content")),
            None if [Some(&self.active), self.frozen()]
                .into_iter()
                .flatten()
                .any(|delta| delta.identities.contains_key(&pbn)) => {}
            None => wrong.push(format!("the index does not have block {pbn}")),
        }
        Ok(())
    }
}
