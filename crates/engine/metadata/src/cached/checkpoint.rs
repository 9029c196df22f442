//! Writes a checkpoint. The delta is frozen, merged into the pages, and dropped when the root is
//! durable.

use super::CachedBackend;
use super::compact::MemoryIndex;
use super::delta::Delta;
use super::layout::{IndexState, Layout};
use super::maps::Fresh;
use super::merge::Frozen;
use crate::error::Result;
use crate::{Checkpoint, Garbage, Merge, PageWrites, Pressure, Sealed, SlotNeed};
use gemelo_format::{Pbn, StoreTable};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A delta adds at most one leaf for this many entries, because a half-full leaf of the largest
/// entries holds as many.
const LEAF_ENTRIES: u64 = 64;
/// At most one page in this many is an inner page.
const ABOVE_PART: u64 = 64;
/// Pages on the paths from the roots of all trees to a leaf, including those that split.
const PATH_PAGES: u64 = 64;
/// Pages on the two paths to the ends of a cut, without the leaves.
const CUT_PAGES: u64 = 8;
/// Pages of a map that a reference to a moved block has written anew: its leaf and those above.
const MOVED_PAGES: u64 = 5;
/// Layers that a look-up asks one after another. So many ask for a checkpoint, and the most make
/// writers and clones wait for it.
const MANY_SHARED_LAYERS: u64 = 16;
const MAX_SHARED_LAYERS: u64 = 256;
/// Upper bound of the bytes that a volume takes in the table, with the longest names and all holds.
const TABLE_VOLUME_BYTES: u64 = 800;
/// Lower bound of the bytes of the table in one of its pages.
const TABLE_PIECE_BYTES: u64 = 2048;

impl<L: Layout> Checkpoint for CachedBackend<L> {
    fn pressure(&self) -> Pressure {
        let (fresh, most) = (&self.maps.fresh, self.max_delta_bytes());
        match self.records.active.bytes() + fresh.bytes() + self.maps.moved.active_bytes() {
            bytes if bytes >= most => Pressure::Full,
            _ if !self.has_room_for_clone() => Pressure::Full,
            bytes if bytes >= most / 2 => Pressure::High,
            _ if fresh.shared_layers >= MANY_SHARED_LAYERS => Pressure::High,
            _ => Pressure::Low,
        }
    }

    fn has_room_for_clone(&self) -> bool {
        self.maps.fresh.shared_layers < MAX_SHARED_LAYERS
    }

    fn replay_reads(&self) -> u64 {
        let count_pages = self.records.deltas().map(|delta| delta.read_counts.pages());
        count_pages.sum::<u64>() + self.maps.unwritten().read_leaves
    }

    fn has_moved_blocks(&self) -> bool {
        !self.maps.moved.is_empty()
    }

    fn is_moved_away(&self, pbn: Pbn) -> bool {
        self.maps.moved.has(pbn)
    }

    fn freeze(&mut self) {
        self.pages.begin();
        self.maps.freeze();
        self.records.freeze();
        self.index.freeze();
    }

    fn merge(&self) -> Option<Merge> {
        let frozen = Frozen {
            maps: Arc::clone(self.maps.frozen()?),
            records: Arc::clone(self.records.frozen.as_ref()?),
            before: self.records.stored.clone(),
            index: self.index.state.clone(),
            form: self.maps.form,
            saves_index: self.index.is_saving,
            is_image: self.policy.is_image(),
        };
        let (pages, merged) = (Arc::clone(&self.pages), Arc::clone(&self.merged));
        Some(Box::new(move || {
            let after = frozen.merge::<L>(&pages)?;
            *merged.lock() = Some(after);
            pages.flush()
        }))
    }

    fn finish(&mut self) -> Garbage {
        let merged = self.merged.lock().take();
        assert!(merged.is_some(), "a checkpoint that ends was merged");
        let garbage = merged.map(|merged| {
            let maps = self.maps.finish(&merged);
            self.index.finish(merged.index);
            (maps, self.records.finish(merged.records), merged.made)
        });
        if let Some(table) = self.sealed.take() {
            self.table = table;
        }
        self.pages.finish();
        self.grow_cache();
        Some(Box::new(garbage))
    }

    fn abandon(&mut self) {
        *self.merged.lock() = None;
        self.index.abandon();
        self.sealed = None;
        self.maps.abandon();
        self.records.abandon();
        self.pages.abandon();
    }

    fn keep_index(&mut self, keeps: bool) -> Result<()> {
        self.index.keep(keeps && !self.policy.is_image(), &self.records)
    }

    fn note_allocated(&self, slots: u64) {
        self.pages.note_allocated(slots);
    }

    fn slots(&self) -> SlotNeed {
        let in_use = self.pages.in_use();
        let entries: u64 = self.records.deltas().map(Delta::entries).sum();
        let Fresh { leaves: map_leaves, directories, cuts, marks, shared_layers, moved, .. } =
            self.maps.unwritten();
        // Each entry changes one leaf, and may add to the leaves. Inner pages are few beside the
        // leaves, but for those of sparse maps and those that a map has copied apart. A cut changes
        // the pages on two paths.
        let leaves = entries.min(in_use) + entries / LEAF_ENTRIES + map_leaves;
        let trees = 1 + shared_layers;
        let is_changed = leaves + cuts > 0;
        let above = leaves.min(in_use / ABOVE_PART * trees)
            + directories
            + marks
            + cuts * CUT_PAGES
            + PATH_PAGES * trees * u64::from(is_changed);
        let table = self.maps.volumes.len() as u64 * TABLE_VOLUME_BYTES / TABLE_PIECE_BYTES + 1;
        let changed = leaves + above;
        // Each reference to a moved block is on a path of its own, at most.
        let moved = moved.saturating_mul(MOVED_PAGES).min(in_use);
        let image = if self.policy.is_image() { in_use + changed } else { 0 };
        let index = self.index.state.in_memory().filter(|_| self.index.is_kept);
        let index = index.map_or(0, MemoryIndex::pages_to_save);
        SlotNeed { in_use, next: changed + moved + image + table + index }
    }

    fn seal(&mut self, writes: &mut PageWrites) -> Result<Sealed> {
        let stream = self.merged_table().encode();
        let chain = self.pages.chain(&stream)?;
        self.table.iter().for_each(|slot| self.pages.retire(*slot));
        self.sealed = Some(chain.pages.iter().map(|(slot, _)| *slot).collect());
        writes.extend(chain.pages);
        Ok(Sealed { table: chain.first, table_bytes: stream.len() as u64 })
    }
}

impl<L: Layout> CachedBackend<L> {
    /// The table of the checkpoint that was merged.
    fn merged_table(&self) -> StoreTable {
        let (merged, none) = (self.merged.lock(), BTreeMap::new());
        let (records, index, maps) = match &*merged {
            Some(merged) => (&merged.records, &merged.index, &merged.maps),
            None => (&self.records.stored, &self.index.state, &none),
        };
        let index = index.stored();
        StoreTable {
            volumes: self.maps.stored_volumes(maps),
            counts: *records.counts,
            many: *records.many,
            fingerprints: *records.fingerprints,
            index: index.tree,
            buckets: index.buckets,
            index_entries: index.entries,
        }
    }
}
