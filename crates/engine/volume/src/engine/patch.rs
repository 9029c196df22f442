//! Patches: blocks that are written in part get their present content with the new bytes in it.
//!
//! Patches of one block wait for each other. A write of the whole block does not wait, and is
//! noticed afterwards.

use super::item::{Failed, Item, Source};
use super::read::wanted_at;
use super::{VolumeShared, Wanted};
use crate::engine::write::Writer;
use crate::error::{Result, VolumeError};
use gemelo_format::{Lbn, MapEntry};

/// The patched blocks of a list.
#[derive(Default)]
pub(super) struct Patches {
    /// Their contents, one after another.
    contents: Vec<u8>,
    /// Their places before, in the order of the list; `None` if the content could not be read.
    bases: Vec<Option<MapEntry>>,
    block_bytes: usize,
}

impl Patches {
    /// The number of patched blocks.
    pub(super) const fn len(&self) -> usize {
        self.bases.len()
    }

    /// The base and the new content of the patched block of this number among the patched ones.
    pub(super) fn get(&self, number: usize) -> Option<(MapEntry, &[u8])> {
        let base = (*self.bases.get(number)?)?;
        let start = number * self.block_bytes;
        Some((base, self.contents.get(start..start + self.block_bytes)?))
    }
}

impl Writer {
    /// Reads the blocks that are written in part, and changes those parts.
    pub(super) fn patch(
        &self,
        volume: &VolumeShared,
        items: &[&Item<'_>],
        failed: &mut Failed<'_>,
    ) -> Result<Patches> {
        let lbns: Vec<Lbn> =
            items.iter().filter(|item| item.is_patch()).map(|item| item.lbn).collect();
        if lbns.is_empty() {
            return Ok(Patches::default());
        }
        let block_bytes = self.data.block_bytes();
        let places = self.log.places(volume.id(), &lbns)?;
        let mut patches =
            Patches { contents: vec![0; lbns.len() * block_bytes], bases: Vec::new(), block_bytes };
        let places_and_lbns = places.iter().zip(&lbns);
        let wanted: Vec<Wanted> =
            places_and_lbns.filter_map(|(place, lbn)| wanted_at((lbn.0, place))).collect();
        let blocks = patches.contents.chunks_exact_mut(block_bytes).zip(&places);
        let stored = blocks.filter(|(_, place)| matches!(place, MapEntry::Stored(..)));
        // Even without `verify_reads` the checksums are compared: a damaged content would get one
        // that it passes.
        let mut read =
            self.reader.read_blocks(volume.id(), &wanted, stored.map(|(block, _)| block));
        assert_eq!(read.len(), wanted.len(), "each stored block was read");
        let mut read = read.drain(..);
        let patched = items.iter().filter(|item| item.is_patch());
        let blocks = patches.contents.chunks_exact_mut(block_bytes);
        for ((item, place), content) in patched.zip(places).zip(blocks) {
            let base = match place {
                MapEntry::Unmapped => Ok(()),
                MapEntry::Stored(..) => {
                    read.next().unwrap_or(Err(VolumeError::DamagedBlock { lbn: item.lbn.0 }))
                }
                MapEntry::Damaged => Err(VolumeError::DamagedBlock { lbn: item.lbn.0 }),
            };
            match base {
                Ok(()) => {
                    overlay(&item.source, content);
                    patches.bases.push(Some(place));
                }
                Err(error) => {
                    failed(item.request, &error);
                    patches.bases.push(None);
                }
            }
        }
        assert!(read.next().is_none(), "a block was read for nobody");
        assert_eq!(patches.bases.len(), lbns.len(), "each patched block has a base or failed");
        Ok(patches)
    }
}

fn overlay(source: &Source<'_>, content: &mut [u8]) {
    match source {
        Source::Whole(_) => {}
        Source::Part(at, bytes) => {
            for (to, from) in content.iter_mut().skip(*at).zip(*bytes) {
                *to = *from;
            }
        }
        Source::ZeroPart(within) => {
            if let Some(part) = content.get_mut(within.clone()) {
                part.fill(0);
            }
        }
    }
}
