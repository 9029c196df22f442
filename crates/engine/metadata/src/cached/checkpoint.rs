//! Writes a checkpoint. The delta is frozen, merged into the pages, and dropped when the root is
//! durable.

use super::catch_up::Unread;
use super::compact::MemoryIndex;
use super::delta::SpareDelta;
use super::layout::{IndexState, Layout};
use super::map::MapState;
use super::{CachedBackend, Delta, Fresh, Frozen, merge};
use crate::error::Result;
use crate::{Checkpoint, Garbage, Merge, PageWrites, Pressure, Sealed, SlotNeed};
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
/// Layers that a look-up asks one after another. So many ask for a checkpoint, and the most make
/// writers and clones wait for it.
const MANY_SHARED_LAYERS: u64 = 16;
const MAX_SHARED_LAYERS: u64 = 256;
/// Upper bound of the bytes that a volume takes in the table, with the longest names and all holds.
const TABLE_VOLUME_BYTES: u64 = 800;
/// Lower bound of the bytes of the table in one of its pages.
const TABLE_PIECE_BYTES: u64 = 2048;

/// The state that a checkpoint has written. When it is dropped, which takes a while, the memory of
/// its delta is kept.
struct Spent {
    frozen: Option<Arc<Frozen>>,
    spare: SpareDelta,
}

impl Drop for Spent {
    fn drop(&mut self) {
        if let Some(frozen) = self.frozen.take().and_then(Arc::into_inner) {
            self.spare.keep(frozen.delta);
        }
    }
}

impl<L: Layout> Checkpoint for CachedBackend<L> {
    fn pressure(&self) -> Pressure {
        match self.active.bytes() + self.fresh.bytes() {
            bytes if bytes >= self.max_delta_bytes => Pressure::Full,
            _ if !self.has_room_for_clone() => Pressure::Full,
            bytes if bytes >= self.max_delta_bytes / 2 => Pressure::High,
            _ if self.fresh.shared_layers >= MANY_SHARED_LAYERS => Pressure::High,
            _ => Pressure::Low,
        }
    }

    fn has_room_for_clone(&self) -> bool {
        self.fresh.shared_layers < MAX_SHARED_LAYERS
    }

    fn replay_reads(&self) -> u64 {
        let deltas = self.frozen().into_iter().chain([&self.active]);
        let frozen = self.frozen.as_ref().map(|frozen| frozen.fresh).unwrap_or_default();
        deltas.map(|delta| delta.read_counts.pages()).sum::<u64>()
            + self.fresh.and(frozen).read_leaves
    }

    fn freeze(&mut self) {
        assert!(self.frozen.is_none(), "one checkpoint at a time");
        self.pages.begin();
        let volumes = self.volumes.iter_mut().map(|(id, volume)| (*id, volume.frozen())).collect();
        self.frozen = Some(Arc::new(Frozen {
            delta: std::mem::replace(&mut self.active, self.spare.take()),
            volumes,
            removed: std::mem::take(&mut self.removed),
            fresh: std::mem::take(&mut self.fresh),
            pbn_end: self.pbn_end(),
            physical: self.physical,
            lost: self.lost.iter().map(|(part, keys)| (*part, keys.start)).collect(),
            is_image: self.policy.is_image(),
            keeps_index: std::mem::take(&mut self.keeps_index),
        }));
    }

    fn merge(&self) -> Option<Merge> {
        let frozen = Arc::clone(self.frozen.as_ref()?);
        let (pages, version, merged) =
            (Arc::clone(&self.pages), self.version.clone(), Arc::clone(&self.merged));
        Some(Box::new(move || {
            let after = merge::merge::<L>(&pages, &version, &frozen)?;
            *merged.lock() = Some(after);
            pages.flush()
        }))
    }

    fn finish(&mut self) -> Garbage {
        assert!(self.frozen.is_some(), "a checkpoint that ends was begun");
        assert!(self.merged.lock().is_some(), "a checkpoint that ends was merged");
        let frozen = self.frozen.take();
        let merged = self.merged.lock().take();
        if let Some(merged) = &merged {
            self.parents.name_pages(&merged.made);
            let maps = self.volumes.values_mut().map(|volume| &mut volume.map);
            for map in maps.chain(&mut self.removed) {
                map.rebase(&merged.layers);
                map.follow(&merged.moved);
            }
            self.parents.follow(&merged.moved);
            self.version = merged.version.clone();
            self.lost = Vec::new();
        }
        if let Some(index) = self.version.index.in_memory() {
            index.finish();
        }
        if let Some(table) = self.sealed.take() {
            self.table = table;
        }
        self.pages.finish();
        self.grow_cache();
        let made = merged.map(|merged| merged.made);
        Some(Box::new((Spent { frozen, spare: self.spare.clone() }, made)))
    }

    fn abandon(&mut self) {
        *self.merged.lock() = None;
        if let Some(index) = self.version.index.in_memory() {
            index.abandon();
        }
        self.sealed = None;
        if let Some(frozen) = self.frozen.take() {
            self.active.put_under(&frozen.delta);
            self.removed.extend(frozen.removed.iter().map(MapState::share));
            self.fresh = self.fresh.and(frozen.fresh);
        }
        self.pages.abandon();
    }

    fn keep_index(&mut self, keeps: bool) -> Result<()> {
        let index = self.version.index.in_memory().filter(|_| keeps && !self.policy.is_image());
        let is_there = index.is_none_or(|index| index.is_saved() && self.active.entries() == 0);
        // What has changed while it was read makes it worth reading to its end.
        while !is_there && matches!(*self.unread.lock(), Unread::Saved(_)) {
            self.catch_up_a_part()?;
        }
        self.keeps_index = !is_there && matches!(*self.unread.lock(), Unread::Nothing);
        Ok(())
    }

    fn note_allocated(&self, slots: u64) {
        self.pages.note_allocated(slots);
    }

    fn slots(&self) -> SlotNeed {
        let in_use = self.pages.in_use();
        let deltas = self.frozen().into_iter().chain([&self.active]);
        let entries: u64 = deltas.map(Delta::entries).sum();
        let frozen = self.frozen.as_ref().map(|frozen| frozen.fresh);
        let Fresh { leaves: map_leaves, directories, cuts, marks, shared_layers, .. } =
            self.fresh.and(frozen.unwrap_or_default());
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
        let table = self.volumes.len() as u64 * TABLE_VOLUME_BYTES / TABLE_PIECE_BYTES + 1;
        let changed = leaves + above;
        let image = if self.policy.is_image() { in_use + changed } else { 0 };
        let index = self.version.index.in_memory().filter(|_| self.keeps_index);
        let index = index.map_or(0, MemoryIndex::pages_to_save);
        SlotNeed { in_use, next: changed + image + table + index }
    }

    fn seal(&mut self, writes: &mut PageWrites) -> Result<Sealed> {
        let stream = self.table().encode();
        let chain = self.pages.chain(&stream)?;
        self.table.iter().for_each(|slot| self.pages.retire(*slot));
        self.sealed = Some(chain.pages.iter().map(|(slot, _)| *slot).collect());
        writes.extend(chain.pages);
        Ok(Sealed { table: chain.first, table_bytes: stream.len() as u64 })
    }
}
