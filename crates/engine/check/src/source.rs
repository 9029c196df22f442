//! Reads pages again, in lists, that the first pass has found good.

use crate::CheckError;
use crate::map::{Leaf, Region};
use gemelo_disk::{Disk, DiskRead};
use gemelo_format::{
    FormatError, MapEntry, NodeRef, PAGE_BYTES, Page, Pbn, PoolSeed, Reading, Regions, WordForm,
    read_slot,
};
use std::collections::HashMap;
use std::sync::Arc;

/// The entries of a region, in the order of their LBNs.
pub(crate) type Entries = Vec<(u64, MapEntry)>;

/// The metadata disk, and the form of the words of its maps.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) regions: Regions,
    pub(crate) seed: PoolSeed,
    pub(crate) words: WordForm,
    /// The blocks that have the contents of others which maps name.
    pub(crate) moved: HashMap<Pbn, Pbn>,
}

impl Source {
    /// Reads pages, each from a good copy.
    pub(crate) fn read_all(&self, all: &[NodeRef]) -> Result<Vec<Page>, CheckError> {
        let mut pages = vec![[0; PAGE_BYTES]; all.len()];
        let offsets = all.iter().map(|at| self.regions.slot(at.slot)[0]);
        let mut reads: Vec<DiskRead<'_>> = offsets
            .zip(&mut pages)
            .map(|(offset, page)| DiskRead::new(offset, page.as_mut_slice()))
            .collect();
        reads.sort_unstable_by_key(|read| read.offset);
        self.disk.read_many(&mut reads);
        for (at, page) in all.iter().zip(&mut pages) {
            // The checksum of a page that was not read is wrong.
            if self.seed.checksum(page.as_slice()) == at.checksum {
                continue;
            }
            let again = read_slot(&*self.disk, self.regions, *at, self.seed, Reading::OneGood)?;
            *page = *again.page.ok_or_else(|| {
                let number = at.slot.number();
                FormatError::damaged(format!("the page in slot {number} cannot be read again"))
            })?;
        }
        Ok(pages)
    }

    /// Returns the entries of regions, each given with its number.
    pub(crate) fn entries(&self, regions: &[(u64, &Region)]) -> Result<Vec<Entries>, CheckError> {
        let leaves = regions.iter().filter_map(|(_, region)| region.leaf());
        let pages = self.read_all(&leaves.map(Leaf::at).collect::<Vec<_>>())?;
        let mut pages = pages.iter();
        let entries = regions.iter().map(|(number, region)| {
            let page = region.leaf().and_then(|_| pages.next());
            let entries = region.entries(*number, page, self.words).into_iter();
            entries.map(|(lbn, place)| (lbn, self.present_place(place))).collect()
        });
        Ok(entries.collect())
    }

    /// The place of a content now that a map names at an earlier one.
    fn present_place(&self, place: MapEntry) -> MapEntry {
        match place {
            MapEntry::Stored(pbn, checksum) if !self.moved.is_empty() => {
                let next = |pbn: &Pbn| self.moved.get(pbn).copied();
                let last = std::iter::successors(Some(pbn), next).last();
                MapEntry::Stored(last.unwrap_or(pbn), checksum)
            }
            place => place,
        }
    }
}
