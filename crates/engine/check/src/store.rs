//! The trees of the backends `table`, `btree` and `compact`, read page by page with code of its
//! own.

use crate::pages::Pages;
use crate::tree::{Below as BelowMap, LostLbns};
use gemelo_format::{
    DIRECTORY_ENTRIES, Fingerprint, FormatError, MapEntry, NODE_REF_BYTES, Node, NodeRef, Page,
    Part, Slot, StoreTable, Tree, WordForm, array_value, bucket_entries, bucket_of, index_entry,
};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// The values of a tree by key, and the keys of pages that are lost.
#[derive(Default)]
pub(crate) struct TreeContent {
    pub(crate) values: Vec<(u64, u128)>,
    pub(crate) lost: Vec<Range<u64>>,
}

/// The nodes of maps that were read, by slot: the node's address, its level and its first LBN.
/// Several maps may have a node at one place.
pub(crate) type KnownNodes = HashMap<Slot, ((NodeRef, u8, u64), Arc<BelowMap>)>;

/// Reads the trees of a checkpoint.
pub(crate) struct TreeReader<'r, 's> {
    pub(crate) is_table: bool,
    pub(crate) buckets: u32,
    /// The form of the words of maps.
    pub(crate) words: WordForm,
    pub(crate) pages: &'r mut Pages<'s>,
}

impl TreeReader<'_, '_> {
    pub(crate) fn read(&mut self, tree: Tree, part: Part) -> Result<TreeContent, FormatError> {
        let mut found = TreeContent::default();
        if let Some(root) = tree.root {
            self.node(root, tree.height, 0..u64::MAX, part, &mut found)?;
        }
        Ok(found)
    }

    /// Reads a map. The nodes of arrays may be shared by maps, and are read once.
    pub(crate) fn map(
        &mut self,
        tree: Tree,
        known: &mut KnownNodes,
    ) -> Result<Arc<BelowMap>, FormatError> {
        match tree.root {
            Some(root) if self.is_table => self.map_node((root, tree.height, 0), known),
            _ => {
                let found = self.read(tree, Part::Map)?;
                let mut below = BelowMap::of(self.places(&found.values));
                below.lost = found.lost.into_iter().map(fresh_loss).collect();
                Ok(Arc::new(below))
            }
        }
    }

    fn map_node(
        &mut self,
        node: (NodeRef, u8, u64),
        known: &mut KnownNodes,
    ) -> Result<Arc<BelowMap>, FormatError> {
        let (at, level, first) = node;
        let span = |level: u8| {
            let leaf = Part::Map.array_entries() as u64;
            leaf.saturating_mul((DIRECTORY_ENTRIES as u64).saturating_pow(level.into()))
        };
        let lost = || {
            let lost = vec![fresh_loss(first..first.saturating_add(span(level)))];
            Arc::new(BelowMap { regions: Vec::new(), lost })
        };
        if let Some((same, below)) = known.get(&at.slot) {
            if *same == node {
                return Ok(Arc::clone(below));
            }
            let what = format!("slot {} is used in two ways", at.slot.number());
            self.pages.report.add(true, what);
            return Ok(lost());
        }
        let below = match self.pages.read(at)? {
            None => lost(),
            Some(page) if level == 0 => {
                let values = self.array_leaf(&page, first, Part::Map).unwrap_or_default();
                Arc::new(BelowMap::of(self.places(&values)))
            }
            Some(page) => {
                let mut all = BelowMap::default();
                for (child, keys) in directory(&page, first, span(level - 1)) {
                    let below = self.map_node((child, level - 1, keys.start), known)?;
                    all.regions.extend(below.regions.iter().cloned());
                    all.lost.extend(below.lost.iter().cloned());
                }
                Arc::new(all)
            }
        };
        known.insert(at.slot, (node, Arc::clone(&below)));
        Ok(below)
    }

    /// Reads a node. `keys` is the range of keys below it; a page of an array has as many of them
    /// as fit, from the start of the range.
    fn node(
        &mut self,
        at: NodeRef,
        level: u8,
        keys: Range<u64>,
        part: Part,
        found: &mut TreeContent,
    ) -> Result<(), FormatError> {
        let each = part.array_entries() as u64;
        let span = |level: u8| {
            each.saturating_mul((DIRECTORY_ENTRIES as u64).saturating_pow(level.into()))
        };
        let keys =
            if self.is_table { keys.start..keys.start.saturating_add(span(level)) } else { keys };
        let page = self.pages.read(at)?;
        let below = page.as_ref().and_then(|page| match (self.is_table, level) {
            (true, 0) => self.array_leaf(page, keys.start, part).map(Below::Values),
            (true, _) => Some(Below::Nodes(directory(page, keys.start, span(level - 1)))),
            (false, _) => node_entries(page, part, level, &keys),
        });
        match below {
            None => found.lost.push(keys),
            Some(Below::Values(values)) => found.values.extend(values),
            Some(Below::Nodes(nodes)) => {
                for (child, keys) in nodes {
                    self.node(child, level.saturating_sub(1), keys, part, found)?;
                }
            }
        }
        Ok(())
    }

    fn places(&self, values: &[(u64, u128)]) -> impl Iterator<Item = (u64, MapEntry)> {
        let words = self.words;
        values.iter().map(move |(lbn, word)| (*lbn, words.entry(*word as u64)))
    }

    fn array_leaf(&self, page: &Page, first: u64, part: Part) -> Option<Vec<(u64, u128)>> {
        if part != Part::Index {
            let values = (first..)
                .zip((0..part.array_entries()).map(|at| array_value(page, at, part.value_bytes())));
            return Some(values.filter(|(_, value)| *value != 0).collect());
        }
        let entries = bucket_entries(page)?;
        let bucket = first / part.array_entries() as u64 / 2;
        let belongs =
            |entry: &u64| u64::from(bucket_of((entry >> 32) as u32, self.buckets)) == bucket;
        entries.iter().all(belongs).then(|| entries.into_iter().map(|entry| (entry, 1)).collect())
    }
}

fn fresh_loss(lbns: Range<u64>) -> LostLbns {
    LostLbns { lbns, is_known: false }
}

/// The contents of a page.
enum Below {
    Values(Vec<(u64, u128)>),
    Nodes(Vec<(NodeRef, Range<u64>)>),
}

fn directory(page: &Page, first: u64, each: u64) -> Vec<(NodeRef, Range<u64>)> {
    let child = |at: usize| {
        let start = first.saturating_add(at as u64 * each);
        let child = NodeRef::from_bits(array_value(page, at, NODE_REF_BYTES))?;
        Some((child, start..start.saturating_add(each)))
    };
    (0..DIRECTORY_ENTRIES).filter_map(child).collect()
}

/// Returns the entries of a node, if they are in order and within its range of keys.
fn node_entries(page: &Page, part: Part, level: u8, keys: &Range<u64>) -> Option<Below> {
    let entries: Vec<(u64, u128)> = Node::of(page, part, level)?.entries().collect();
    let is_ordered = entries.is_sorted_by(|a, b| a.0 < b.0);
    let is_within = entries.iter().all(|(key, _)| keys.contains(key));
    if !is_ordered || !is_within || entries.is_empty() {
        return None;
    }
    if level == 0 {
        return Some(Below::Values(entries));
    }
    let ends = entries.iter().skip(1).map(|(key, _)| *key).chain([keys.end]);
    let starts = std::iter::once(keys.start).chain(entries.iter().skip(1).map(|(key, _)| *key));
    let children = entries.iter().zip(starts.zip(ends));
    let nodes =
        children.map(|((_, bits), (start, end))| Some((NodeRef::from_bits(*bits)?, start..end)));
    nodes.collect::<Option<Vec<_>>>().map(Below::Nodes)
}

/// The reference counts by PBN. Two bits of a group's value are one count; those with both bits set
/// are large ones. Reports large counts that are missing, or that no such bits stand for.
pub(crate) fn decode_counts(
    groups: &[(u64, u128)],
    large: &[(u64, u128)],
    pages: &mut Pages<'_>,
) -> HashMap<u64, u128> {
    const PBNS: u64 = 64;
    let mut large: HashMap<u64, u128> = large.iter().copied().collect();
    let mut counts = HashMap::new();
    for (group, bits) in groups {
        for place in 0..PBNS {
            let pbn = group.saturating_mul(PBNS).saturating_add(place);
            let count = match bits >> (2 * place) & 3 {
                0 => continue,
                3 => large.remove(&pbn).filter(|count| *count >= 3).unwrap_or(0),
                small => small,
            };
            counts.insert(pbn, count);
        }
    }
    for pbn in large.keys() {
        let what = format!("block {pbn} has a large count, but few references");
        pages.report.add(false, what);
    }
    counts
}

/// Compares the counts on disk with what the maps refer to.
pub(crate) fn compare_counts(
    counts: &HashMap<u64, u128>,
    references: &HashMap<u64, u64>,
    pages: &mut Pages<'_>,
) {
    for (pbn, right) in references {
        let count = counts.get(pbn).copied().unwrap_or(0);
        if count != u128::from(*right) {
            pages.report.add(
                false,
                format!("block {pbn} has {right} references, but its count is {count}"),
            );
        }
    }
    for (pbn, count) in counts {
        if !references.contains_key(pbn) {
            pages
                .report
                .add(false, format!("block {pbn} has no references, but its count is {count}"));
        }
    }
}

/// Compares the index with the fingerprints of referenced blocks. An entry may be missing if its
/// bucket is full.
pub(crate) fn compare_index(
    index: &[(u64, u128)],
    table: &StoreTable,
    fingerprints: &HashMap<u64, Fingerprint>,
    references: &HashMap<u64, u64>,
    pages: &mut Pages<'_>,
) {
    let entries: HashSet<u64> = index.iter().map(|(entry, _)| *entry).collect();
    let live = fingerprints.iter().filter(|(pbn, _)| references.contains_key(pbn));
    let right: HashSet<u64> = live
        .map(|(pbn, fingerprint)| index_entry((fingerprint.low() >> 32) as u32, *pbn))
        .collect();
    for entry in entries.difference(&right) {
        pages.report.add(
            false,
            format!(
                "the index has block {}, which is unreferenced or has another fingerprint",
                *entry as u32
            ),
        );
    }
    let mut sizes: HashMap<u32, usize> = HashMap::new();
    let bucket = |entry: &u64| bucket_of((entry >> 32) as u32, table.buckets);
    entries.iter().for_each(|entry| *sizes.entry(bucket(entry)).or_default() += 1);
    for entry in right.difference(&entries) {
        let is_full =
            sizes.get(&bucket(entry)).is_some_and(|size| *size >= 2 * Part::Index.array_entries());
        if !(is_full && table.buckets > 0) {
            pages.report.add(false, format!("the index has no entry for block {}", *entry as u32));
        }
    }
}
