//! Contents that are put back into blocks which have others.

use super::image::put;
use super::{OFFSET_BYTES, invalid};
use gemelo_format::{PACKED_MAGIC, PACKED_TABLE_BYTES, PackedPlace, Pbn};
use std::collections::BTreeMap;
use std::io;

/// A block that gets contents.
pub(super) struct Patched {
    pub(super) bytes: Vec<u8>,
    pub(super) is_changed: bool,
}

/// Blocks that get contents, by their numbers.
pub(super) struct Patches<'s> {
    pub(super) block_bytes: usize,
    /// Returns the present bytes of a block, if it can be read.
    pub(super) read: &'s dyn Fn(u32) -> Option<Vec<u8>>,
    pub(super) blocks: BTreeMap<u32, Patched>,
}

impl Patches<'_> {
    /// Puts a form where its PBN names.
    pub(super) fn put(&mut self, pbn: Pbn, form: &[u8]) -> io::Result<()> {
        let no_sense = || invalid("a content in the journal makes no sense");
        let (place, block_bytes) = (PackedPlace::of(pbn), self.block_bytes);
        if place.is_whole() {
            if form.len() != block_bytes {
                return Err(no_sense());
            }
            self.blocks.insert(place.block, Patched { bytes: form.to_vec(), is_changed: true });
            return Ok(());
        }
        let (offset, form) = form.split_first_chunk::<OFFSET_BYTES>().ok_or_else(no_sense)?;
        let at = usize::from(u16::from_le_bytes(*offset));
        if !(PACKED_TABLE_BYTES..block_bytes).contains(&at) {
            return Err(no_sense());
        }
        let (start, rest) = form.split_at(form.len().min(block_bytes - at));
        let is_split = !rest.is_empty();
        if place.is_spanning() != is_split || rest.len() > block_bytes - PACKED_TABLE_BYTES {
            return Err(no_sense());
        }
        self.patch(place.block, &[(2 * usize::from(place.slot), offset), (at, start)]);
        if is_split {
            self.patch(place.block + 1, &[(PACKED_TABLE_BYTES, rest)]);
        }
        Ok(())
    }

    /// Changes parts of a packed block. One that was not written before the crash becomes one.
    fn patch(&mut self, number: u32, parts: &[(usize, &[u8])]) {
        let (read, block_bytes) = (self.read, self.block_bytes);
        let block = self.blocks.entry(number).or_insert_with(|| {
            let present = read(number).filter(|bytes| bytes.starts_with(&PACKED_MAGIC));
            let is_changed = present.is_none();
            let bytes = present.unwrap_or_else(|| {
                let mut bytes = vec![0; block_bytes];
                put(&mut bytes, 0, &PACKED_MAGIC);
                bytes
            });
            Patched { bytes, is_changed }
        });
        for (at, part) in parts {
            if block.bytes.get(*at..*at + part.len()) != Some(*part) {
                put(&mut block.bytes, *at, part);
                block.is_changed = true;
            }
        }
    }
}
