//! Writes a checkpoint: freezes the pages that changed, and builds the table that names all pages.

use super::LogBackend;
use super::nodes::NodeId;
use super::pager::{PageKey, Saved, State};
use crate::error::{MetadataError, Result};
use crate::{
    Checkpoint, Garbage, LocalPages, Merge, PageWrites, Pressure, Sealed, SlotNeed, SlotSpace,
};
use gemelo_format::build_chain;

/// Upper bounds of the bytes in the table for each page, and for each volume with the longest name.
const TABLE_PAGE_BYTES: u64 = 24;
const TABLE_VOLUME_BYTES: u64 = 600;
/// Lower bound of the bytes of the table in one of its pages.
const TABLE_PIECE_BYTES: u64 = 2048;

/// Upper bound of the slots of a table of this many pages and volumes.
const fn table_slots(pages: u64, volumes: u64) -> u64 {
    (pages * TABLE_PAGE_BYTES + volumes * TABLE_VOLUME_BYTES) / TABLE_PIECE_BYTES + 1
}

impl Checkpoint for LogBackend {
    fn replay_reads(&self) -> u64 {
        0
    }

    fn freeze(&mut self) {
        if self.writes_image {
            self.touch_all();
        }
        let (mut written, mut inner) = (Vec::new(), Vec::new());
        for key in self.pager.freeze() {
            match key {
                PageKey::Node(id) => match self.nodes.freeze(id) {
                    Some((_, true)) => written.push(key),
                    Some((bits, false)) => inner.push((bits, id)),
                    None => {}
                },
                PageKey::Record(number) => {
                    if let Some(entry) = self.blocks.records.entry_mut(number) {
                        entry.state = State::Frozen;
                        written.push(key);
                    }
                }
            }
        }
        // A node is written after the nodes below it, whose places it names.
        inner.sort_unstable();
        written.extend(inner.into_iter().map(|(_, id): (u8, NodeId)| PageKey::Node(id)));
        self.pager.set_frozen(written);
        let volumes = self.volumes.values();
        let volumes = volumes.map(|volume| (volume.record.clone(), volume.map.root));
        self.frozen_volumes = volumes.collect();
    }

    fn finish(&mut self) -> Garbage {
        self.pager.finish();
        self.nodes.end_checkpoint(&mut self.pager);
        self.frozen_volumes = Vec::new();
        None
    }

    fn abandon(&mut self) {
        let keys = self.pager.abandon();
        self.nodes.end_checkpoint(&mut self.pager);
        self.frozen_volumes = Vec::new();
        for key in keys {
            match key {
                PageKey::Node(id) => self.nodes.touch_again(&mut self.pager, id),
                PageKey::Record(number) => {
                    if let Some(entry) = self.blocks.records.entry_mut(number) {
                        self.pager.touch_again(key, &mut entry.state);
                    }
                }
            }
        }
    }

    fn allows_volume_changes(&self) -> bool {
        true
    }

    fn pressure(&self) -> Pressure {
        Pressure::Low
    }

    fn has_room_for_clone(&self) -> bool {
        true
    }

    fn merge(&self) -> Option<Merge> {
        None
    }

    fn local_pages(&self) -> Option<&dyn LocalPages> {
        Some(self)
    }

    fn local_pages_mut(&mut self) -> Option<&mut dyn LocalPages> {
        Some(self)
    }
}

impl LocalPages for LogBackend {
    fn space(&self) -> SlotSpace {
        self.pager.slots.space()
    }

    fn slots(&self) -> SlotNeed {
        let in_use = self.pager.slots.in_use();
        let changed = self.pager.changed_pages();
        // The next image and the one after it have to fit side by side, and both hold the new
        // pages.
        let pages = if self.writes_image { in_use + 2 * changed } else { changed };
        SlotNeed { in_use, next: pages + table_slots(in_use + pages, self.volumes.len() as u64) }
    }

    fn gather(&mut self, most: usize, writes: &mut PageWrites) -> Result<bool> {
        for _ in 0..most {
            match self.pager.next_frozen() {
                None => return Ok(false),
                Some((PageKey::Node(id), saved)) => {
                    let saved = saved.and_then(Saved::node);
                    self.nodes.gather(&mut self.pager, id, saved, writes)?;
                }
                Some((PageKey::Record(number), saved)) => {
                    if let Some(entry) = self.blocks.records.entry_mut(number) {
                        entry.gather(&mut self.pager, saved.and_then(Saved::record), writes)?;
                    }
                }
            }
        }
        Ok(true)
    }

    fn seal(&mut self, writes: &mut PageWrites) -> Result<Sealed> {
        let stream = self.table().encode();
        let pager = &mut self.pager;
        let slots = &mut pager.slots;
        let chain =
            build_chain(&stream, pager.seed, || slots.take()).ok_or(MetadataError::NoSlot)?;
        pager.replace_table(chain.pages.iter().map(|(slot, _)| *slot).collect());
        writes.extend(chain.pages);
        Ok(Sealed { table: chain.first, table_bytes: stream.len() as u64 })
    }
}
