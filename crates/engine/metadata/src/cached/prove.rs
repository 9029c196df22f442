//! Counts the references again and compares counts, totals and index with the maps and
//! fingerprints.

use super::CachedBackend;
use super::layout::Layout;
use super::map::{MapNode, MapView, NodeKey};
use crate::error::Result;
use gemelo_format::{Lbn, Pbn, VolumeId};
use std::collections::{BTreeMap, HashMap};

impl<L: Layout> CachedBackend<L> {
    pub(super) fn prove_counts(&self, most: usize) -> Result<Vec<String>> {
        while self.catch_up_a_part()? {}
        let mut wrong = Vec::new();
        let mut counted: BTreeMap<u64, u32> = BTreeMap::new();
        let mut references = 0;
        let mut known = HashMap::new();
        for (id, volume) in &self.volumes {
            let (mapped, stored) = if L::SHARES_MAPS {
                let view = self.view(&volume.map);
                self.count_beside(*id, &mut counted)?;
                let root = view.root();
                let tally = root.map(|root| prove_node(view, &root, &mut known));
                tally.transpose()?.unwrap_or_default()
            } else {
                self.count_words(*id, &mut counted)?
            };
            references += volume.stored;
            let is_right = match Self::is_counted(volume) {
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
            let parents = self.parents.beyond_one(key) + 1;
            if parents != node.parents {
                let right = node.parents;
                wrong.push(format!("node {key:?} has {right} parents, not {parents}"));
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

    /// Counts the mapped LBNs of a volume, and those that have a block.
    fn count_words(&self, id: VolumeId, counted: &mut BTreeMap<u64, u32>) -> Result<(u64, u64)> {
        let (mut mapped, mut stored, mut next) = (0, 0, Lbn(0));
        while let Some(lbn) = self.next_word(id, next, Lbn(u64::MAX))? {
            next = Lbn(lbn.0 + 1);
            mapped += 1;
            if let Some(pbn) = self.words.pbn(self.word(id, lbn)?) {
                stored += 1;
                *counted.entry(pbn.number()).or_default() += 1;
            }
        }
        Ok((mapped, stored))
    }

    /// Counts the entries of a volume that differ from those of the volume before it.
    fn count_beside(&self, id: VolumeId, counted: &mut BTreeMap<u64, u32>) -> Result<()> {
        let mut next = self.volume(id)?.place.left;
        while next < u64::MAX {
            let neighbours = self.neighbours(id, next)?;
            let [before, _] = neighbours.volumes;
            self.differing(id, before, next..neighbours.end, &mut |pbn| {
                *counted.entry(pbn).or_default() += 1;
            })?;
            next = neighbours.end;
        }
        Ok(())
    }

    fn visit(&self, visit: &mut dyn FnMut(u64)) -> Result<()> {
        use crate::Index;
        self.visit_used(Pbn::FIRST, &mut |pbn| visit(pbn.number()))
    }

    /// Checks that the index leads from a block's fingerprint, if the index has such contents, to
    /// it, or to another block with the same one. A delta has one entry for each fingerprint, and
    /// the entry goes with its block. Another block of the delta with the same content then has no
    /// entry until the next checkpoint.
    fn prove_index(&self, pbn: u64, wrong: &mut Vec<String>) -> Result<()> {
        let fingerprint = self.identity(pbn)?.fingerprint();
        if fingerprint.is_none() || !self.sampling.has_content(fingerprint) {
            return Ok(());
        }
        match self.find_one(fingerprint)? {
            Some(found)
                if self.identity(found.number())?.fingerprint() == fingerprint
                    && self.count(found.number())? > 0 => {}
            Some(_) => wrong.push(format!("the index leads from block {pbn} to another content")),
            None if [Some(&self.active), self.frozen()]
                .into_iter()
                .flatten()
                .any(|delta| delta.identities.has(pbn)) => {}
            None => wrong.push(format!("the index does not have block {pbn}")),
        }
        Ok(())
    }
}

/// A node that was looked at.
struct KnownNode {
    parents: u32,
    /// Mapped LBNs below the node, and those that have a block.
    tally: (u64, u64),
}

/// Counts the mapped LBNs below a node, and those that have a block.
fn prove_node(
    view: MapView<'_>,
    node: &MapNode,
    known: &mut HashMap<NodeKey, KnownNode>,
) -> Result<(u64, u64)> {
    if let Some(node) = known.get_mut(&node.key) {
        node.parents += 1;
        return Ok(node.tally);
    }
    let mut tally = (0, 0);
    if node.at.level > 0 {
        for child in view.children(node)? {
            let (mapped, stored) = prove_node(view, &child, known)?;
            tally = (tally.0 + mapped, tally.1 + stored);
        }
    } else {
        for (_, word) in view.words(node)? {
            tally.0 += 1;
            tally.1 += u64::from(view.form.pbn(word).is_some());
        }
    }
    known.insert(node.key, KnownNode { parents: 1, tally });
    Ok(tally)
}
