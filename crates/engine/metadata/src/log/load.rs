//! Reads a checkpoint, and computes what is not stored after the journal was replayed.

use super::map::{MapPage, is_shared, words_mut};
use super::pager::{PageData, PageKey};
use super::records::RecordPage;
use super::{LogBackend, LogVolume, PagedMap};
use crate::error::{MetadataError, Result};
use crate::{BackendContext, Damage, LoadOptions};
use gemelo_base::units::format_counted;
use gemelo_disk::Disk;
use gemelo_format::{
    Fingerprint, Identity, MAP_PAGE_ENTRIES, PAGE_BYTES, Page, PageRef, Pbn, Place, PoolSeed,
    RECORD_PAGE_ENTRIES, Reading, Regions, Root, Table, TableVolume, read_chain, read_slot,
};
use std::collections::HashSet;
use std::sync::Arc;

/// Pages that are read in one call: 1 MiB. Larger reads are no faster.
const READ_PAGES: usize = 256;

/// A page of the checkpoint that is to be read.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    key: PageKey,
    from: PageRef,
}

impl LogBackend {
    /// Reads the checkpoint of a root. The caller has to call `settle` after the journal was
    /// replayed. Fails if the table is damaged or the disk cannot be read.
    pub(super) fn load(
        home: &BackendContext<'_>,
        root: &Root,
        writes_image: bool,
        options: LoadOptions,
        damage: &mut Damage,
    ) -> Result<Self> {
        let (disk, superblock) = (&*home.disk, home.superblock);
        let seed = PoolSeed::of(superblock);
        let mut backend = Self::new(superblock, root.data_blocks, writes_image);
        backend.is_counting = false;
        backend.next_volume = root.next_volume;
        let chain = read_chain(disk, superblock, root, seed)?;
        for slot in &chain.damaged_copies {
            damage.harmless.push(format!("a copy of a page of the table (slot {})", slot.number()));
        }
        let table = Table::decode(&chain.stream)
            .ok_or_else(|| MetadataError::damaged("the checkpoint's table is malformed"))?;
        let wanted = backend.prepare(&table)?;
        for slot in chain.slots.iter().copied().chain(wanted.iter().map(|page| page.from.slot)) {
            if !backend.pager.slots.claim(slot) {
                return Err(MetadataError::damaged(format!(
                    "slot {} is used twice",
                    slot.number()
                )));
            }
        }
        backend.pager.replace_table(chain.slots);
        let reading = if options.salvages { Reading::All } else { Reading::OneGood };
        backend.read_pages(disk, superblock.regions(), &wanted, reading, damage)?;
        Ok(backend)
    }

    /// Adds the volumes of the table. Returns all of its pages in the order of their slots.
    fn prepare(&mut self, table: &Table) -> Result<Vec<Wanted>> {
        let mut wanted = Vec::new();
        for volume in &table.volumes {
            self.prepare_volume(volume, &mut wanted)?;
        }
        let most_records = self.data_blocks.div_ceil(RECORD_PAGE_ENTRIES as u64);
        for page in &table.records {
            if u64::from(page.number) >= most_records {
                return Err(MetadataError::damaged(format!(
                    "the checkpoint's table has record page {}, which is out of range",
                    page.number
                )));
            }
            wanted.push(Wanted { key: PageKey::Record(page.number), from: *page });
        }
        wanted.sort_unstable_by_key(|page| page.from.slot);
        Ok(wanted)
    }

    fn prepare_volume(&mut self, volume: &TableVolume, wanted: &mut Vec<Wanted>) -> Result<()> {
        let record = volume.record.clone();
        self.check_size(record.size_bytes)?;
        let blocks = record.size_bytes / self.block_bytes;
        let most_pages = blocks.div_ceil(MAP_PAGE_ENTRIES as u64);
        for page in &volume.pages {
            if u64::from(page.number) >= most_pages {
                return Err(MetadataError::damaged(format!(
                    "the checkpoint's table has map page {}, which is out of range",
                    page.number
                )));
            }
            wanted.push(Wanted { key: PageKey::Map(record.id, page.number), from: *page });
        }
        let id = record.id;
        let new = LogVolume { record, map: PagedMap::default() };
        if id.0 >= self.next_volume || self.volumes.insert(id, new).is_some() {
            return Err(MetadataError::damaged(format!(
                "the checkpoint's table has volume {id} twice, or has an id that was never assigned"
            )));
        }
        Ok(())
    }

    /// Reads pages in the order of their slots. A page whose first copy is damaged is read from the
    /// second one. Pages with a damaged copy are written anew.
    fn read_pages(
        &mut self,
        disk: &dyn Disk,
        regions: Regions,
        wanted: &[Wanted],
        reading: Reading,
        damage: &mut Damage,
    ) -> Result<()> {
        let mut buffer = vec![0; READ_PAGES * PAGE_BYTES];
        let mut halved = 0;
        let first_copy = |page: &Wanted| {
            let [first, _] = regions.slot(page.from.slot);
            first
        };
        let is_next = |a: &Wanted, b: &Wanted| first_copy(a) + PAGE_BYTES as u64 == first_copy(b);
        for run in wanted.chunk_by(is_next).flat_map(|run| run.chunks(READ_PAGES)) {
            let Some(offset) = run.first().map(first_copy) else { continue };
            let (part, _) = buffer.split_at_mut(run.len() * PAGE_BYTES);
            // With one call for neighbours, unless the second copies have to be read as well.
            let is_read = reading == Reading::OneGood && disk.read_at(offset, part).is_ok();
            let (images, rest) = part.as_chunks::<PAGE_BYTES>();
            assert!(images.len() == run.len() && rest.is_empty(), "a page for each reference");
            for (page, image) in run.iter().zip(images) {
                let seed = self.pager.seed;
                if is_read && seed.checksum(image) == page.from.checksum {
                    self.load_page(*page, Some(image), damage);
                    continue;
                }
                let read = read_slot(disk, regions, page.from.at(), seed, reading)?;
                self.load_page(*page, read.page.as_deref(), damage);
                if read.page.is_some() && read.damaged_copies > 0 {
                    halved += 1;
                    self.to_rewrite.push(page.key);
                }
            }
        }
        if halved > 0 {
            damage
                .harmless
                .push(format!("one of two copies of {}", format_counted(halved, "page")));
        }
        Ok(())
    }

    /// Stores a page that was read, or a substitute for a lost page.
    fn load_page(&mut self, wanted: Wanted, image: Option<&Page>, damage: &mut Damage) {
        let Wanted { key, from } = wanted;
        match key {
            PageKey::Map(id, number) => {
                let Some(volume) = self.volumes.get_mut(&id) else { return };
                let entry = volume.map.entry_or_new(number);
                let mut page = Arc::<MapPage>::empty();
                let first = u64::from(number) * MAP_PAGE_ENTRIES as u64;
                let blocks = (volume.record.size_bytes / self.block_bytes).saturating_sub(first);
                fill(&mut page, image, |page| {
                    for word in words_mut(page)
                        .iter_mut()
                        .take(usize::try_from(blocks).unwrap_or(usize::MAX))
                    {
                        *word = Place::Damaged.word();
                    }
                });
                let counts = page.words;
                entry.load(from, page);
                volume.map.count_words(&counts);
                if image.is_none() {
                    let last = first + blocks.min(MAP_PAGE_ENTRIES as u64) - 1;
                    damage.lost.push(format!(
                        "where blocks {first} to {last} of volume '{}' are",
                        volume.record.name
                    ));
                    self.to_rewrite.push(key);
                }
            }
            PageKey::Record(number) => {
                let entry = self.records.entry_or_new(number);
                let mut page = Box::<RecordPage>::empty();
                fill(&mut page, image, |_| {});
                entry.load(from, page);
                if image.is_none() {
                    damage
                        .harmless
                        .push(format!("fingerprints of 256 blocks (record page {number})"));
                    self.lost_records.insert(number);
                    self.to_rewrite.push(key);
                }
            }
        }
    }

    /// Runs after the last replayed change. Counts the references, fills the index, and marks
    /// damaged pages as changed, so that the next checkpoint writes them anew.
    pub(super) fn settle_all(&mut self) -> Result<()> {
        for key in std::mem::take(&mut self.to_rewrite) {
            match key {
                PageKey::Map(id, number) => {
                    if let Some(entry) =
                        self.volumes.get_mut(&id).and_then(|volume| volume.map.entry_mut(number))
                    {
                        self.pager.touch(key, entry);
                    }
                }
                PageKey::Record(number) => {
                    if let Some(entry) = self.records.entry_mut(number) {
                        self.pager.touch(key, entry);
                    }
                }
            }
        }
        self.is_counting = true;
        self.count_references()?;
        self.index.fill(self.physical, &self.records);
        Ok(())
    }

    /// A page that volumes share is counted once.
    fn count_references(&mut self) -> Result<()> {
        (self.shared_pages, self.physical) = (0, 0);
        let mut counted = HashSet::new();
        for page in
            self.volumes.values().flat_map(|volume| volume.map.pages().map(|(_, page)| page))
        {
            if is_shared(page) && !counted.insert(Arc::as_ptr(page)) {
                self.shared_pages += 1;
                continue;
            }
            for word in &page.words {
                let Some(pbn) = Place::from_word(*word).pbn() else { continue };
                if u64::from(pbn.number()) >= self.data_blocks {
                    return Err(MetadataError::damaged(format!(
                        "a map refers to block {}, which is outside of the data store",
                        pbn.number()
                    )));
                }
                let count = self.records.count_mut(pbn);
                self.physical += u64::from(*count == 0);
                *count = count.saturating_add(1);
            }
        }
        Ok(())
    }

    /// Sets fingerprints that were computed anew, and marks the LBNs of lost contents as damaged.
    pub(super) fn restore_all(
        &mut self,
        computed: &[(Pbn, Fingerprint)],
        lost: &HashSet<Place>,
    ) -> Result<()> {
        for (pbn, fingerprint) in computed {
            self.records.set_identity(&mut self.pager, *pbn, Identity::of(*fingerprint));
        }
        if !lost.is_empty() {
            let is_lost = |word: u64| lost.contains(&Place::from_word(word));
            for (id, volume) in &mut self.volumes {
                let lbns = volume.map.lbns_where(is_lost);
                for lbn in lbns {
                    volume.map.set(*id, &mut self.pager, lbn, Place::Damaged);
                }
            }
        }
        self.records.forget_counts();
        self.settle_all()
    }
}

/// Fills a page from its image, or with a substitute if the page is lost.
fn fill<P: PageData>(page: &mut P, image: Option<&Page>, lost: impl FnOnce(&mut P)) {
    match image {
        Some(image) => page.fill_from(image),
        None => lost(page),
    }
}
