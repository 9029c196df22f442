//! Writes a checkpoint: freezes the pages that changed, and builds the table that names all pages.

use super::LogBackend;
use super::pager::PageKey;
use crate::error::{MetadataError, Result};
use crate::{Checkpoint, Garbage, LocalPages, PageWrites, Sealed, SlotNeed};
use gemelo_format::build_chain;

/// Upper bounds of the bytes in the table for each page, and for each volume with the longest name.
const TABLE_PAGE_BYTES: u64 = 24;
const TABLE_VOLUME_BYTES: u64 = 512;
/// Lower bound of the bytes of the table in one of its pages.
const TABLE_PIECE_BYTES: u64 = 2048;

/// Upper bound of the slots of a table of this many pages and volumes.
const fn table_slots(pages: u64, volumes: u64) -> u64 {
    (pages * TABLE_PAGE_BYTES + volumes * TABLE_VOLUME_BYTES) / TABLE_PIECE_BYTES + 1
}

impl Checkpoint for LogBackend {
    fn freeze(&mut self) {
        if self.writes_image {
            self.touch_all();
        }
        for key in self.pager.freeze() {
            match key {
                PageKey::Map(id, number) => {
                    if let Some(entry) =
                        self.volumes.get_mut(&id).and_then(|volume| volume.map.entry_mut(number))
                    {
                        entry.freeze();
                    }
                }
                PageKey::Record(number) => {
                    if let Some(entry) = self.records.entry_mut(number) {
                        entry.freeze();
                    }
                }
            }
        }
    }

    fn finish(&mut self) -> Garbage {
        self.pager.finish();
        None
    }

    fn abandon(&mut self) {
        for key in self.pager.abandon() {
            match key {
                PageKey::Map(id, number) => {
                    if let Some(entry) =
                        self.volumes.get_mut(&id).and_then(|volume| volume.map.entry_mut(number))
                    {
                        self.pager.touch_again(key, entry);
                    }
                }
                PageKey::Record(number) => {
                    if let Some(entry) = self.records.entry_mut(number) {
                        self.pager.touch_again(key, entry);
                    }
                }
            }
        }
    }

    fn local_pages(&self) -> Option<&dyn LocalPages> {
        Some(self)
    }

    fn local_pages_mut(&mut self) -> Option<&mut dyn LocalPages> {
        Some(self)
    }
}

impl LocalPages for LogBackend {
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
            let Some(key) = self.pager.next_frozen() else { return Ok(false) };
            match key {
                PageKey::Map(id, number) => {
                    // A volume removed before the freeze has left keys of its pages behind.
                    let Some(volume) = self.volumes.get_mut(&id) else { continue };
                    if let Some(entry) = volume.map.entry_mut(number) {
                        self.pager.gather(key, entry, writes)?;
                    }
                }
                PageKey::Record(number) => {
                    if let Some(entry) = self.records.entry_mut(number) {
                        self.pager.gather(key, entry, writes)?;
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
