//! Computes what is not stored, after the journal was replayed or a repair has restored contents.

use super::LogBackend;
use super::nodes::{Content, Node, NodeId, Nodes, Tally};
use super::pager::PageKey;
use crate::error::{MetadataError, Result};
use gemelo_format::{Fingerprint, Identity, MapEntry, Pbn, WordForm};
use std::collections::{HashMap, HashSet};

impl LogBackend {
    /// Runs after the last replayed change. Counts the references, fills the index, and marks
    /// damaged pages as changed, so that the next checkpoint writes them anew.
    pub(super) fn settle_all(&mut self) -> Result<()> {
        let mut nodes = HashSet::new();
        for key in std::mem::take(&mut self.to_rewrite) {
            match key {
                PageKey::Node(id) => drop(nodes.insert(id)),
                PageKey::Record(number) => self.blocks.records.rewrite(&mut self.pager, number),
            }
        }
        self.rewrite(&nodes);
        self.blocks.is_counting = true;
        self.count_references()?;
        self.blocks.index.fill(self.blocks.physical, &self.blocks.records);
        Ok(())
    }

    /// Marks nodes as changed, and those above them, which name their places.
    fn rewrite(&mut self, nodes: &HashSet<NodeId>) {
        if nodes.is_empty() {
            return;
        }
        for id in self.above(&|id, _| nodes.contains(&id)) {
            self.nodes.touch(&mut self.pager, id);
        }
    }

    /// The nodes of all maps that satisfy a condition, or that have such a node below them.
    pub(super) fn above(&self, is_such: &dyn Fn(NodeId, &Node) -> bool) -> HashSet<NodeId> {
        let mut known = HashMap::new();
        for root in self.volumes.values().filter_map(|volume| volume.map.root) {
            has_below(&self.nodes, root, is_such, &mut known);
        }
        known.into_iter().filter(|(_, has)| *has).map(|(id, _)| id).collect()
    }

    /// A leaf that volumes share is counted once.
    fn count_references(&mut self) -> Result<()> {
        self.blocks.physical = 0;
        let (pbn_end, blocks) = (self.pbn_end(), &mut self.blocks);
        let mut outside = None;
        for (_, node) in self.nodes.all() {
            node.each_word(|word| match WordForm::Narrow.pbn(word) {
                Some(pbn) if pbn.number() >= pbn_end => outside = Some(pbn),
                Some(pbn) => blocks.count(pbn),
                None => {}
            });
        }
        match outside {
            None => Ok(()),
            Some(pbn) => Err(MetadataError::damaged(format!(
                "a map refers to block {}, which is outside of the data store",
                pbn.number()
            ))),
        }
    }

    /// Sums up the mapped LBNs of every map.
    pub(super) fn tally_all(&mut self) {
        let mut known = HashMap::new();
        self.references = 0;
        for volume in self.volumes.values_mut() {
            let root = volume.map.root;
            volume.map.tally = root
                .map_or(Tally::default(), |root| tally_below(&mut self.nodes, root, &mut known));
            self.references += volume.map.tally.stored;
        }
    }

    /// Sets fingerprints that were computed anew, and marks the LBNs of lost contents as damaged.
    pub(super) fn restore_all(
        &mut self,
        computed: &[(Pbn, Fingerprint)],
        lost: &HashSet<MapEntry>,
    ) -> Result<()> {
        for (pbn, fingerprint) in computed {
            let identity = Identity::of(*fingerprint);
            self.blocks.records.set_identity(&mut self.pager, *pbn, identity);
        }
        if !lost.is_empty() {
            self.mark_lost(lost);
        }
        self.blocks.records.forget_counts();
        self.settle_all()
    }

    /// Marks LBNs as damaged, for all volumes that share a leaf at once.
    fn mark_lost(&mut self, lost: &HashSet<MapEntry>) {
        let is_lost = |word: u64| lost.contains(&WordForm::Narrow.entry(word));
        let has_lost = |_: NodeId, node: &Node| {
            let mut has = false;
            node.each_word(|word| has |= is_lost(word));
            has
        };
        for id in self.above(&has_lost) {
            self.nodes.touch(&mut self.pager, id);
            self.nodes.change(id, |content| match content {
                Content::Dense(words, _) => {
                    let words = words.iter_mut().filter(|word| is_lost(**word));
                    words.for_each(|word| *word = WordForm::DAMAGED);
                }
                Content::Sparse(entries) => {
                    let words = entries.iter_mut().filter(|(_, word)| is_lost(*word));
                    words.for_each(|(_, word)| *word = WordForm::DAMAGED);
                }
                Content::Inner(_) | Content::Lost | Content::Gone => {}
            });
        }
        self.tally_all();
    }
}

fn has_below(
    nodes: &Nodes,
    id: NodeId,
    is_such: &dyn Fn(NodeId, &Node) -> bool,
    known: &mut HashMap<NodeId, bool>,
) -> bool {
    if let Some(has) = known.get(&id) {
        return *has;
    }
    let mut has = is_such(id, nodes.get(id));
    for child in nodes.children(id) {
        has |= has_below(nodes, child, is_such, known);
    }
    known.insert(id, has);
    has
}

/// Sums up the mapped LBNs below a node, each shared node once.
fn tally_below(nodes: &mut Nodes, id: NodeId, known: &mut HashMap<NodeId, Tally>) -> Tally {
    if !matches!(nodes.get(id).content, Content::Inner(_)) {
        return nodes.get(id).tally();
    }
    if let Some(tally) = known.get(&id) {
        return *tally;
    }
    let mut tally = Tally::default();
    for child in nodes.children(id) {
        tally.add(tally_below(nodes, child, known));
    }
    nodes.children_mut(id).tally = tally;
    known.insert(id, tally);
    tally
}
