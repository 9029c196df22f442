//! Counts the references again and compares counts, totals and index with the maps and records.

use super::LogBackend;
use super::blocks::FULL_COUNT;
use super::nodes::{Content, NodeId, Tally};
use gemelo_format::WordForm;
use std::collections::HashMap;

impl LogBackend {
    pub(super) fn prove_counts(&self, most: usize) -> Vec<String> {
        let mut wrong = Vec::new();
        self.prove_nodes(&mut wrong);
        let mut counted = vec![0u32; usize::try_from(self.pbn_end()).unwrap_or(0)];
        for (id, node) in self.nodes.all() {
            node.each_word(|word| {
                let Some(pbn) = WordForm::Narrow.pbn(word) else { return };
                match counted.get_mut(pbn.index()) {
                    Some(count) => *count = count.saturating_add(1),
                    None => wrong.push(format!("node {id:?} refers to block {}", pbn.number())),
                }
            });
        }
        let physical = counted.iter().filter(|count| **count > 0).count() as u64;
        if physical != self.blocks.physical {
            wrong.push(format!(
                "there are references to {physical} blocks, not to {}",
                self.blocks.physical
            ));
        }
        self.blocks.records.visit(&mut |pbn, record| {
            let right = counted.get_mut(pbn.index()).map_or(0, std::mem::take);
            if record.references != right && record.references != FULL_COUNT {
                let number = pbn.number();
                wrong.push(format!(
                    "block {number} has {right} references, not {}",
                    record.references
                ));
            }
        });
        wrong.extend(
            counted.iter().any(|count| *count > 0).then(|| "a block has no record".to_owned()),
        );
        self.prove_index(&mut wrong);
        wrong.truncate(most);
        wrong
    }

    /// Counts the references to every node, and the mapped LBNs below each.
    fn prove_nodes(&self, wrong: &mut Vec<String>) {
        let mut references: HashMap<NodeId, u32> = HashMap::new();
        for root in self.volumes.values().filter_map(|volume| volume.map.root) {
            *references.entry(root).or_default() += 1;
        }
        for (id, node) in self.nodes.all() {
            let children = self.nodes.children(id);
            let mut tally = Tally::default();
            for child in &children {
                *references.entry(*child).or_default() += 1;
                tally.add(self.nodes.get(*child).tally());
            }
            if matches!(node.content, Content::Inner(_))
                && (tally != node.tally() || children.is_empty())
            {
                wrong.push(format!("node {id:?} maps {tally:?}, not {:?}", node.tally()));
            }
        }
        let mut shared = 0;
        for (id, node) in self.nodes.all() {
            let right = references.remove(&id).unwrap_or(0);
            if node.references != right {
                wrong.push(format!("node {id:?} has {right} references, not {}", node.references));
            }
            shared += u64::from(right.saturating_sub(1));
        }
        if !references.is_empty() || shared != self.nodes.shared() {
            wrong.push(format!("{shared} references share nodes, not {}", self.nodes.shared()));
        }
        let mut stored = 0;
        for (id, volume) in &self.volumes {
            let map = volume.map;
            let tally = map.root.map_or(Tally::default(), |root| self.nodes.get(root).tally());
            stored += tally.stored;
            if tally != map.tally {
                wrong.push(format!("volume {id} maps {tally:?}, not {:?}", map.tally));
            }
        }
        if stored != self.references {
            wrong.push(format!("maps have {stored} references, not {}", self.references));
        }
    }

    /// Checks that every index entry leads to a referenced block, and that the fingerprint of that
    /// block leads to an entry. An entry may be missing: a content that is stored twice may have
    /// one entry, which goes with its block.
    fn prove_index(&self, wrong: &mut Vec<String>) {
        let (index, records) = (&self.blocks.index, &self.blocks.records);
        for pbn in index.pbns() {
            let record = records.get(pbn);
            if record.references == 0 || index.find(record.fingerprint, records).is_none() {
                wrong.push(format!("the index has block {}, which it should not", pbn.number()));
            }
        }
    }
}
