//! Writing a checkpoint: the delta is frozen, merged into the pages, and then no longer needed.

use super::layout::Layout;
use super::{CachedBackend, Delta, Frozen, merge};
use crate::backend::{Checkpoint, Garbage, LocalPages, Merge, PageWrites, Pressure, SlotNeed};
use crate::error::Result;
use gemelo_format::Link;
use std::sync::Arc;

/// Entries of a delta that need a page more than those they change: a leaf of the largest entries, half full.
const LEAF_ENTRIES: u64 = 64;
/// One page in this many is above others, at most.
const ABOVE_PART: u64 = 64;
/// Pages from the roots of all trees down, those that split included.
const PATH_PAGES: u64 = 64;
/// Bytes of the table for each volume with the longest name, at most.
const TABLE_VOLUME_BYTES: u64 = 512;
/// Bytes of the table in a page of its own, which is written twice: a lower bound.
const TABLE_PIECE_BYTES: u64 = 2048;

impl<L: Layout> Checkpoint for CachedBackend<L> {
    fn pressure(&self) -> Pressure {
        match self.active.bytes() {
            bytes if bytes >= self.most_delta_bytes => Pressure::Full,
            bytes if bytes >= self.most_delta_bytes / 2 => Pressure::High,
            _ => Pressure::Low,
        }
    }

    fn freeze(&mut self) {
        self.pages.begin();
        let frozen =
            Frozen { delta: std::mem::take(&mut self.active), volumes: self.volumes.clone() };
        self.frozen = Some(Arc::new(frozen));
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
        let garbage = (self.frozen.take(), std::mem::take(&mut self.forgotten));
        if let Some(version) = self.merged.lock().take() {
            self.version = version;
        }
        if let Some(table) = self.sealed.take() {
            self.table = table;
        }
        self.pages.finish();
        Some(Box::new(garbage))
    }

    fn abandon(&mut self) {
        *self.merged.lock() = None;
        self.sealed = None;
        if let Some(frozen) = self.frozen.take() {
            self.active.put_under(&frozen.delta);
        }
        self.pages.abandon();
    }

    fn local_pages(&self) -> Option<&dyn LocalPages> {
        Some(self)
    }

    fn local_pages_mut(&mut self) -> Option<&mut dyn LocalPages> {
        Some(self)
    }
}

impl<L: Layout> LocalPages for CachedBackend<L> {
    fn slots(&self) -> SlotNeed {
        let in_use = self.pages.in_use();
        let deltas = self.frozen().into_iter().chain([&self.active]);
        let entries: u64 = deltas.map(Delta::entries).sum();
        // Each entry changes a page of a leaf, and adds to it; those above are few of many.
        let leaves = entries.min(in_use) + entries / LEAF_ENTRIES;
        let above = leaves.min(in_use / ABOVE_PART) + PATH_PAGES * u64::from(entries > 0);
        let table = 2 * (self.volumes.len() as u64 * TABLE_VOLUME_BYTES / TABLE_PIECE_BYTES + 1);
        SlotNeed { in_use, next: leaves + above + table }
    }

    fn gather(&mut self, _most: usize, _writes: &mut PageWrites) -> Result<bool> {
        Ok(false)
    }

    fn seal(&mut self, writes: &mut PageWrites) -> Result<(Link, u64)> {
        let stream = self.table().encode();
        let (pages, link) = self.pages.chain(&stream)?;
        self.table.iter().for_each(|slot| self.pages.retire(*slot));
        self.sealed = Some(pages.iter().map(|(slot, _)| *slot).collect());
        writes.extend(pages);
        Ok((link, stream.len() as u64))
    }
}
