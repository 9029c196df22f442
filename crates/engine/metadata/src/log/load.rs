//! Reads a checkpoint. A node that several maps name is read once, and they share it again.

use super::nodes::{Children, Content, Inner, NodeId, Tally, Words};
use super::pager::PageKey;
use super::tree::Tree;
use super::{LogBackend, LogVolume};
use crate::error::{MetadataError, Result};
use crate::{BackendContext, Damage, LoadOptions, NewMetadata};
use gemelo_base::units::format_counted;
use gemelo_disk::Disk;
use gemelo_format::{
    INNER_BITS, INNER_POSITIONS, MAP_PAGE_ENTRIES, MAX_MAP_BITS, MapKind, MapRef, NodeRef,
    PAGE_BYTES, Page, PoolSeed, RECORD_PAGE_ENTRIES, Reading, Regions, Root, Slot, Table,
    TableVolume, inner_children, is_inner_bits, read_chain, read_slot, sparse_entries,
};
use std::collections::{HashMap, HashSet};

/// Pages that are read in one call: 1 MiB. Larger reads are no faster.
const READ_PAGES: usize = 256;

/// A page of the checkpoint that is to be read.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    key: PageKey,
    at: NodeRef,
}

/// A node of which a parent was read.
#[derive(Debug, Clone, Copy)]
struct Named {
    id: NodeId,
    first: u64,
}

/// A checkpoint that is being read.
struct Loader<'l> {
    disk: &'l dyn Disk,
    regions: Regions,
    reading: Reading,
    damage: &'l mut Damage,
    /// The nodes by slot.
    nodes: HashMap<Slot, Named>,
    firsts: HashMap<NodeId, u64>,
    inner: Vec<Wanted>,
    others: Vec<Wanted>,
    lost: HashSet<NodeId>,
    /// Pages of which one copy is damaged.
    halved: u64,
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
        let (data_blocks, next_volume) = (root.data_blocks, root.next_volume);
        let new = NewMetadata { data_blocks, next_volume, cache_bytes: 0 };
        let mut backend = Self::new(superblock, &home.slots, new, writes_image);
        backend.blocks.is_counting = false;
        let chain = read_chain(disk, superblock, root, seed)?;
        for slot in &chain.damaged_copies {
            damage.harmless.push(format!("a copy of a page of the table (slot {})", slot.number()));
        }
        let table = Table::decode(&chain.stream)
            .ok_or_else(|| MetadataError::damaged("the checkpoint's table is malformed"))?;
        chain.slots.iter().try_for_each(|slot| backend.claim(*slot))?;
        backend.pager.replace_table(chain.slots);
        let mut loader = Loader {
            disk,
            regions: superblock.regions(),
            reading: if options.salvages { Reading::All } else { Reading::OneGood },
            damage,
            nodes: HashMap::new(),
            firsts: HashMap::new(),
            inner: Vec::new(),
            others: Vec::new(),
            lost: HashSet::new(),
            halved: 0,
        };
        backend.prepare(&table, &mut loader)?;
        while !loader.inner.is_empty() {
            let wanted = std::mem::take(&mut loader.inner);
            backend.read_pages(wanted, &mut loader)?;
        }
        let wanted = std::mem::take(&mut loader.others);
        backend.read_pages(wanted, &mut loader)?;
        if loader.halved > 0 {
            let pages = format_counted(loader.halved, "page");
            loader.damage.harmless.push(format!("one of two copies of {pages}"));
        }
        let lost = loader.lost;
        backend.tally_all();
        backend.report_lost(&lost, damage)?;
        Ok(backend)
    }

    fn claim(&mut self, slot: Slot) -> Result<()> {
        if self.pager.slots.claim(slot) {
            return Ok(());
        }
        Err(MetadataError::damaged(format!("slot {} is used twice", slot.number())))
    }

    /// Adds the volumes of the table, and the pages that it names to those that are to be read.
    fn prepare(&mut self, table: &Table, loader: &mut Loader<'_>) -> Result<()> {
        for volume in &table.volumes {
            self.prepare_volume(volume, loader)?;
        }
        let max_records = self.pbn_end().div_ceil(RECORD_PAGE_ENTRIES as u64);
        for page in &table.records {
            if u64::from(page.number) >= max_records {
                return Err(MetadataError::damaged(format!(
                    "the checkpoint's table has record page {}, which is out of range",
                    page.number
                )));
            }
            self.claim(page.slot)?;
            loader.others.push(Wanted { key: PageKey::Record(page.number), at: page.at() });
        }
        Ok(())
    }

    fn prepare_volume(&mut self, volume: &TableVolume, loader: &mut Loader<'_>) -> Result<()> {
        let record = volume.record.clone();
        self.check_size(record.size_bytes)?;
        if volume.root.is_some_and(|root| !is_inner_bits(root.bits)) {
            return Err(MetadataError::damaged(format!(
                "the map of volume {} has a root of a wrong size",
                record.id
            )));
        }
        let root = match volume.root {
            Some(root) => Some(self.name(root, 0, loader)?),
            None => None,
        };
        let id = record.id;
        let new = LogVolume { record, map: Tree { root, tally: Tally::default() } };
        if id.0 >= self.next_volume || self.volumes.insert(id, new).is_some() {
            return Err(MetadataError::damaged(format!(
                "the checkpoint's table has volume {id} twice, or has an id that was never assigned"
            )));
        }
        Ok(())
    }

    /// The node with the LBNs from `first` on that a page or the table names. The first time, it is
    /// added to the pages that are to be read.
    fn name(&mut self, node: MapRef, first: u64, loader: &mut Loader<'_>) -> Result<NodeId> {
        let Some((kind, at)) = node.page else {
            return Ok(self.nodes.load(node.bits, Content::Lost, Some(node)));
        };
        if let Some(known) = loader.nodes.get(&at.slot) {
            if known.first != first || self.nodes.get(known.id).written != Some(node) {
                let what = format!("slot {} is used in two ways", at.slot.number());
                return Err(MetadataError::damaged(what));
            }
            self.nodes.share(known.id);
            return Ok(known.id);
        }
        self.claim(at.slot)?;
        let id = self.nodes.load(node.bits, Content::Gone, Some(node));
        loader.nodes.insert(at.slot, Named { id, first });
        loader.firsts.insert(id, first);
        let wanted = Wanted { key: PageKey::Node(id), at };
        match kind {
            MapKind::Inner => loader.inner.push(wanted),
            MapKind::Dense | MapKind::Sparse => loader.others.push(wanted),
        }
        Ok(id)
    }

    /// Reads pages in the order of their slots. A page whose first copy is damaged is read from the
    /// second one. Pages with a damaged copy are written anew.
    fn read_pages(&mut self, mut wanted: Vec<Wanted>, loader: &mut Loader<'_>) -> Result<()> {
        wanted.sort_unstable_by_key(|page| page.at.slot);
        let (disk, regions, reading) = (loader.disk, loader.regions, loader.reading);
        let seed = self.pager.seed;
        let mut buffer = vec![0; READ_PAGES.min(wanted.len()) * PAGE_BYTES];
        let first_copy = |page: &Wanted| {
            let [first, _] = regions.slot(page.at.slot);
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
                if is_read && seed.checksum(image) == page.at.checksum {
                    self.load_page(*page, Some(image), loader)?;
                    continue;
                }
                let read = read_slot(disk, regions, page.at, seed, reading)?;
                self.load_page(*page, read.page.as_deref(), loader)?;
                if read.page.is_some() && read.damaged_copies > 0 {
                    loader.halved += 1;
                    self.to_rewrite.push(page.key);
                }
            }
        }
        Ok(())
    }

    /// Stores a page that was read, or a substitute for a lost page.
    fn load_page(
        &mut self,
        page: Wanted,
        image: Option<&Page>,
        loader: &mut Loader<'_>,
    ) -> Result<()> {
        match page.key {
            PageKey::Node(id) => {
                let content = match image {
                    Some(image) => self.content_of(id, image, loader)?,
                    None => None,
                };
                if content.is_none() {
                    loader.lost.insert(id);
                    self.to_rewrite.push(page.key);
                }
                self.nodes.fill(id, content.unwrap_or(Content::Lost));
            }
            PageKey::Record(number) => {
                self.blocks.records.entry_or_new(number).load(page.at, image);
                if image.is_none() {
                    let what = format!("fingerprints of 256 blocks (record page {number})");
                    loader.damage.harmless.push(what);
                    self.lost_records.insert(number);
                    self.to_rewrite.push(page.key);
                }
            }
        }
        Ok(())
    }

    /// The content of a node, or `None` if its page is malformed.
    fn content_of(
        &mut self,
        id: NodeId,
        image: &Page,
        loader: &mut Loader<'_>,
    ) -> Result<Option<Content>> {
        let node = self.nodes.get(id);
        let (bits, kind) = (node.bits, node.written.and_then(|written| written.page));
        let first = loader.firsts.remove(&id).unwrap_or(0);
        match kind.map(|(kind, _)| kind) {
            Some(MapKind::Inner) => match inner_children(image, bits) {
                Some(children) => self.inner_of(bits, first, &children, loader).map(Some),
                None => Ok(None),
            },
            Some(MapKind::Sparse) => Ok(sparse_entries(image, first, bits).map(Content::Sparse)),
            Some(MapKind::Dense) => {
                let mut words: Box<Words> = Box::new([0; MAP_PAGE_ENTRIES]);
                for (word, bytes) in words.iter_mut().zip(image.as_chunks::<8>().0) {
                    *word = u64::from_le_bytes(*bytes);
                }
                let mapped = words.iter().filter(|word| **word != 0).count();
                Ok((mapped > 0).then_some(Content::Dense(words, mapped as u16)))
            }
            None => Ok(None),
        }
    }

    fn inner_of(
        &mut self,
        bits: u8,
        first: u64,
        named: &[(usize, MapRef)],
        loader: &mut Loader<'_>,
    ) -> Result<Content> {
        let below = bits - INNER_BITS;
        let mut children: Children = [None; INNER_POSITIONS];
        for (position, child) in named {
            let id = self.name(*child, first + ((*position as u64) << below), loader)?;
            let places = children.iter_mut().skip(*position).take(1 << (child.bits - below));
            places.for_each(|place| *place = Some(id));
        }
        Ok(Content::Inner(Box::new(Inner { children, tally: Tally::default() })))
    }

    /// Reports the LBNs of lost nodes, for every volume that has them. A lost node says nothing of
    /// the LBNs beyond a volume's end, which become unmapped.
    fn report_lost(&mut self, lost: &HashSet<NodeId>, damage: &mut Damage) -> Result<()> {
        if lost.is_empty() {
            return Ok(());
        }
        let above = self.above(&|id, _| lost.contains(&id));
        let with_lost = self
            .volumes
            .iter()
            .filter(|(_, volume)| volume.map.root.is_some_and(|root| above.contains(&root)));
        let mut cut = Vec::new();
        for (id, volume) in with_lost {
            let blocks = volume.record.size_bytes / self.block_bytes;
            cut.push((*id, blocks));
            let mut waiting: Vec<(NodeId, u64)> =
                volume.map.root.iter().map(|root| (*root, 0)).collect();
            while let Some((id, first)) = waiting.pop() {
                let node = self.nodes.get(id);
                if lost.contains(&id) && first < blocks {
                    let last = (first + (1 << node.bits)).min(blocks) - 1;
                    let name = &volume.record.name;
                    damage
                        .lost
                        .push(format!("where blocks {first} to {last} of volume '{name}' are"));
                }
                if let Content::Inner(inner) = &node.content {
                    let children = super::nodes::distinct(&inner.children);
                    let below = node.bits - INNER_BITS;
                    let children = children.filter(|(_, child)| above.contains(child));
                    waiting.extend(
                        children.map(|(place, child)| (child, first + ((place as u64) << below))),
                    );
                }
            }
        }
        for (id, blocks) in cut {
            let rest = (1 << MAX_MAP_BITS) - blocks;
            self.unmap(id, gemelo_format::Lbn(blocks), rest, &mut Vec::new())?;
        }
        Ok(())
    }
}
