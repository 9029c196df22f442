//! Changes of fields of a pool's structs, with all checksums made right afterwards.
//!
//! An input is a list of edits. Each names a struct, a field of it, and the way in which its value
//! changes. The pages of trees are then sealed from the leaves up, wherever their links lead, so a
//! link to another page has the checksum of that page.

mod edit;
mod journal;
mod record;
mod superblock;

pub(super) use edit::seeds;
pub(crate) use edit::{EDIT_HEAD_BYTES, of_each_field};

use super::sample::{DataImage, Sample, SampleCommit};
use edit::{EDIT_BYTES, Edit};
use gemelo_format::{
    COMMIT_HEADER_BYTES, CommitOrder, Compression, DIRECTORY_ENTRIES, DedupMode, FlushMark,
    FlushMarks, IndexForm, NODE_REF_BYTES, NewCommit, NodeRef, PAGE_BYTES, Part, Pbn, Policy, Root,
    Slot, StoreTable, Superblock, Tree, VolumeId, build_chain, build_commit,
};
use journal::change_payload;
use record::change_record;
use std::collections::BTreeMap;

/// Most edits of an input.
const MAX_EDITS: usize = 12;
/// The disks of a pool with changed structs.
pub(super) struct Forged {
    pub(super) data: DataImage,
    pub(super) metadata: Vec<u8>,
}

/// Applies the edits of an input, and seals everything.
pub(super) fn apply(sample: &Sample, input: &[u8]) -> Forged {
    let edits = input.as_chunks::<EDIT_BYTES>().0.iter().take(MAX_EDITS).copied().map(Edit::of);
    let mut forge = Forge::new(sample);
    let mut late = Vec::new();
    for edit in edits {
        match edit.target {
            0 => forge.change_superblock(edit),
            1 => forge.change_root(edit),
            2 => forge.change_volume(edit),
            3 => forge.change_tree(edit),
            4 | 5 => forge.change_page(edit),
            6 => forge.change_commit(edit),
            7 => forge.change_mark(edit),
            8 => late.push(edit),
            _ => forge.change_data(edit),
        }
    }
    forge.finish(&late)
}

/// Returns metadata whose table is another stream of bytes.
pub(super) fn with_table(sample: &Sample, stream: &[u8]) -> Vec<u8> {
    let mut forge = Forge::new(sample);
    forge.put_table(stream);
    forge.put_root();
    forge.metadata
}

/// Returns metadata with one more commit in the journal.
pub(super) fn with_commit(sample: &Sample, payload: &[u8], order: CommitOrder) -> Vec<u8> {
    let mut forge = Forge::new(sample);
    let commit =
        NewCommit { number: sample.next_commit, generation: sample.root.generation, order };
    forge.put_commit(sample.head, commit, payload);
    forge.metadata
}

/// Writes bytes at a place. Extends the metadata if necessary.
pub(super) fn put(metadata: &mut Vec<u8>, place: usize, bytes: &[u8]) {
    if metadata.len() < place + bytes.len() {
        metadata.resize(place + bytes.len(), 0);
    }
    if let Some(to) = metadata.get_mut(place..place + bytes.len()) {
        to.copy_from_slice(bytes);
    }
}

/// A pool whose structs are changed.
struct Forge<'s> {
    sample: &'s Sample,
    data: DataImage,
    metadata: Vec<u8>,
    superblock: Superblock,
    /// The copy of block 0 that the last sector of the superblock names.
    moved_copy: Option<Pbn>,
    root: Root,
    table: StoreTable,
    /// The pages of trees, with the size of their values, and where links begin and how far they
    /// are from each other; by level.
    pages: BTreeMap<u8, Vec<(Slot, Layout)>>,
    commits: Option<Vec<(NewCommit, Vec<u8>)>>,
    mark: Option<FlushMark>,
}

/// The places of values in a page.
#[derive(Clone, Copy)]
struct Layout {
    first: usize,
    each: usize,
    /// The offset of the link in a value, if the page has links.
    link: Option<usize>,
}

impl Layout {
    const fn of(part: Part, is_array: bool, level: u8) -> Self {
        let key = if is_array { 0 } else { part.key_bytes() };
        let first = if is_array && !(matches!(part, Part::Index) && level == 0) { 0 } else { 8 };
        match (level, part.value_bytes()) {
            (0, 0) => Self { first, each: 8, link: None },
            (0, bytes) => Self { first, each: key + bytes, link: None },
            _ => Self { first, each: key + NODE_REF_BYTES, link: Some(key) },
        }
    }

    /// The offsets of the links.
    fn links(self) -> impl Iterator<Item = usize> {
        let Self { first, each, link } = self;
        let count = (PAGE_BYTES - first) / each;
        (0..count.min(DIRECTORY_ENTRIES)).filter_map(move |at| Some(first + at * each + link?))
    }
}

impl<'s> Forge<'s> {
    fn new(sample: &'s Sample) -> Self {
        let mut forge = Self {
            sample,
            data: sample.data.clone(),
            metadata: sample.metadata.clone(),
            superblock: sample.superblock.clone(),
            moved_copy: None,
            root: sample.root.clone(),
            table: sample.table.clone(),
            pages: BTreeMap::new(),
            commits: None,
            mark: None,
        };
        let StoreTable { volumes, counts, many, fingerprints, index, .. } = &sample.table;
        let is_array = sample.root.policy.index() != IndexForm::BTree;
        for volume in volumes {
            forge.list(&volume.map, Part::Map, true);
        }
        forge.list(counts, Part::Counts, true);
        forge.list(many, Part::Many, true);
        forge.list(fingerprints, Part::Fingerprints, true);
        forge.list(index, Part::Index, is_array);
        forge
    }

    /// Lists the pages of a tree.
    fn list(&mut self, tree: &Tree, part: Part, is_array: bool) {
        let mut at: Vec<Slot> = tree.root.map(|root| root.slot).into_iter().collect();
        for level in (0..=tree.height).rev() {
            let layout = Layout::of(part, is_array, level);
            let pages = self.pages.entry(level).or_default();
            at.retain(|slot| pages.iter().all(|(known, _)| known != slot));
            pages.extend(at.iter().map(|slot| (*slot, layout)));
            let below = |slot: &Slot| {
                let page = self.page(*slot).unwrap_or_default();
                layout.links().filter_map(|link| slot_at(page, link)).collect::<Vec<_>>()
            };
            at = at.iter().flat_map(below).collect();
        }
    }

    fn page(&self, slot: Slot) -> Option<&[u8]> {
        let [start, _] = self.sample.superblock.regions().slot(slot);
        self.metadata.get(start as usize..start as usize + PAGE_BYTES)
    }

    /// Writes bytes to both copies of a slot.
    fn put_slot(&mut self, slot: Slot, within: usize, bytes: &[u8]) {
        for start in self.sample.superblock.regions().slot(slot) {
            put(&mut self.metadata, start as usize + within, bytes);
        }
    }

    fn change_root(&mut self, edit: Edit) {
        let table = self.table_at(edit);
        let root = &mut self.root;
        match edit.own_field() {
            0 => edit.change(&mut root.generation),
            1 => edit.change(&mut root.next_commit),
            2 => edit.change(&mut root.journal_offset),
            3 => root.policy = Policy::ALL[edit.value as usize % Policy::ALL.len()],
            4 => edit.change(&mut root.table_bytes),
            5 => edit.change(&mut root.data_blocks),
            6 => edit.change_u32(&mut root.next_volume),
            7 => edit.change(&mut root.references),
            8 => edit.change(&mut root.physical),
            // The table may be at another place, or nowhere.
            _ => root.table = table,
        }
    }

    fn table_at(&self, edit: Edit) -> Option<NodeRef> {
        let old = self.root.table.map_or(0, |table| table.slot.number());
        let slot = Slot::new(edit.new_value(u64::from(old)) as u32)?;
        Some(NodeRef { slot, checksum: self.checksum(slot) })
    }

    fn change_volume(&mut self, edit: Edit) {
        let count = self.table.volumes.len().max(1);
        let Some(volume) = self.table.volumes.get_mut(edit.which % count) else { return };
        let record = &mut volume.record;
        match edit.own_field() {
            0 => edit.change(&mut volume.mapped),
            1 => edit.change(&mut volume.stored),
            2 => {
                let before = edit.new_value(u64::from(volume.follows.map_or(0, |id| id.0)));
                volume.follows = Some(VolumeId(before as u32)).filter(|id| id.0 > 0);
            }
            3 => edit.change(&mut volume.left),
            4 => change_slot(&mut volume.map, edit),
            5 => edit.change_u8(&mut volume.map.height),
            6 => edit.change_u32(&mut record.id.0),
            7 => edit.change(&mut record.size_bytes),
            8 => record.mode = DedupMode::from_byte(edit.value as u8).unwrap_or(record.mode),
            9 => record.read_only = !record.read_only,
            10 => record.is_hidden = !record.is_hidden,
            11 => record.name = "a name".repeat(edit.value as usize % 200),
            12 => record.compression = Compression::Zstd(edit.value as u8),
            _ => change_record(record, edit),
        }
    }

    fn change_tree(&mut self, edit: Edit) {
        let StoreTable { counts, many, fingerprints, index, buckets, index_entries, .. } =
            &mut self.table;
        let trees = [counts, many, fingerprints, index];
        match (edit.own_field(), trees) {
            (0, _) => edit.change_u32(buckets),
            (1, _) => edit.change(index_entries),
            (field, trees) => {
                let Some(tree) = trees.into_iter().nth((field - 2) / 2) else { return };
                match field % 2 {
                    0 => change_slot(tree, edit),
                    _ => edit.change_u8(&mut tree.height),
                }
            }
        }
    }

    /// Changes a value of a page, or makes it equal to another one.
    fn change_page(&mut self, edit: Edit) {
        let all: Vec<(Slot, Layout)> = self.pages.values().flatten().copied().collect();
        let Some((slot, layout)) = all.get(edit.which % all.len().max(1)).copied() else { return };
        let Some(page) = self.page(slot) else { return };
        let values = (PAGE_BYTES - layout.first) / layout.each;
        // Most values of a page may be empty.
        let used = (0..values).filter(|at| {
            let start = layout.first + at * layout.each;
            page.get(start..start + layout.each).is_some_and(|value| value.iter().any(|b| *b != 0))
        });
        let used: Vec<usize> = used.collect();
        let at = match edit.operation / 6 % 4 {
            0 if layout.first > 0 => 0,
            1 => layout.first + edit.field % values * layout.each,
            _ => match used.get(edit.field % used.len().max(1)) {
                Some(value) => layout.first + value * layout.each,
                None => return,
            },
        };
        let bytes = match edit.operation / 24 % 6 {
            // Another value of the page.
            0 => {
                let from = layout.first + edit.value as usize % values * layout.each;
                page.get(from..from + layout.each).unwrap_or_default().to_vec()
            }
            width => {
                let width = [1, 2, 4, 5, 8][width as usize - 1].min(layout.each);
                let within = edit.value as usize / 7 % (layout.each - width + 1);
                let mut old = [0; 8];
                let from = page.get(at + within..at + within + width).unwrap_or_default();
                old.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                let new = edit.new_value(u64::from_le_bytes(old)).to_le_bytes();
                let new = new.get(..width).unwrap_or_default().to_vec();
                return self.put_slot(slot, (at + within).min(PAGE_BYTES - width), &new);
            }
        };
        self.put_slot(slot, at.min(PAGE_BYTES - bytes.len()), &bytes);
    }

    fn change_commit(&mut self, edit: Edit) {
        let of = |commit: &SampleCommit| {
            let header = commit.header;
            let new = NewCommit {
                number: header.number,
                generation: header.generation,
                order: header.order,
            };
            (new, commit.payload.clone())
        };
        let (sample, root) = (self.sample, &self.root);
        let commits = self.commits.get_or_insert_with(|| {
            // A pool that was closed gets a commit that does nothing.
            let number = root.next_commit;
            let none = NewCommit {
                number,
                generation: root.generation,
                order: CommitOrder::AfterContents,
            };
            match sample.commits.is_empty() {
                true => vec![(none, Vec::new())],
                false => sample.commits.iter().map(of).collect(),
            }
        });
        let count = commits.len().max(1);
        let Some((header, payload)) = commits.get_mut(edit.which % count) else { return };
        match edit.own_field() {
            0 => edit.change(&mut header.number),
            1 => edit.change(&mut header.generation),
            2 => {
                header.order = match header.order {
                    CommitOrder::AfterContents => CommitOrder::BesideContents,
                    CommitOrder::BesideContents => CommitOrder::AfterContents,
                }
            }
            3 => {
                let at = edit.value as usize % payload.len().max(1);
                payload.get_mut(at).into_iter().for_each(|byte| edit.change_u8(byte));
            }
            _ => change_payload(header.order, payload, edit),
        }
    }

    fn change_mark(&mut self, edit: Edit) {
        let marks = FlushMarks::read(
            &*crate::disk::disk_of(self.metadata.clone()),
            &self.superblock,
            self.sample.seed,
        );
        let mark = self.mark.get_or_insert(marks.newest.unwrap_or(FlushMark {
            commit: self.root.next_commit,
            generation: self.root.generation,
        }));
        match edit.own_field() {
            0 => edit.change(&mut mark.commit),
            _ => edit.change(&mut mark.generation),
        }
    }

    fn change_data(&mut self, edit: Edit) {
        let count = self.data.blocks.len().max(1);
        let Some((_, block)) = self.data.blocks.get_mut(edit.which % count) else { return };
        let at = edit.field % block.len().max(1);
        block.get_mut(at).into_iter().for_each(|byte| edit.change_u8(byte));
    }

    /// The checksum of what is in a slot.
    fn checksum(&self, slot: Slot) -> u64 {
        self.sample.seed.checksum(self.page(slot).unwrap_or(&[]))
    }

    /// Makes the checksums of all links right, and writes everything.
    fn finish(mut self, late: &[Edit]) -> Forged {
        self.seal_pages();
        let mut table = std::mem::take(&mut self.table);
        let StoreTable { volumes, counts, many, fingerprints, index, .. } = &mut table;
        let maps = volumes.iter_mut().map(|volume| &mut volume.map);
        for tree in maps.chain([counts, many, fingerprints, index]) {
            if let Some(root) = &mut tree.root {
                root.checksum = self.checksum(root.slot);
            }
        }
        let mut stream = table.encode();
        for edit in late {
            let at = edit.field % stream.len().max(1);
            stream.get_mut(at).into_iter().for_each(|byte| edit.change_u8(byte));
        }
        if table != self.sample.table || !late.is_empty() {
            self.put_table(&stream);
        }
        self.put_root();
        self.put_superblock();
        if let Some(mark) = self.mark {
            let page = mark.encode(&self.superblock.pool_id, self.sample.seed);
            FlushMarks::OFFSETS.into_iter().for_each(|at| {
                put(&mut self.metadata, at as usize, &*page);
            });
        }
        self.put_commits();
        Forged { data: self.data, metadata: self.metadata }
    }

    fn seal_pages(&mut self) {
        let levels = std::mem::take(&mut self.pages);
        for (slot, layout) in levels.values().flatten() {
            for link in layout.links() {
                let Some(child) = self.page(*slot).and_then(|page| slot_at(page, link)) else {
                    continue;
                };
                let checksum = self.checksum(child).to_le_bytes();
                self.put_slot(*slot, link + 4, &checksum);
            }
        }
        self.pages = levels;
    }

    /// Writes a table to slots that are free, and lets the root refer to it.
    fn put_table(&mut self, stream: &[u8]) {
        let used = self.pages.values().flatten().map(|(slot, _)| slot.number()).max();
        let mut number = used.unwrap_or(0) + 64;
        let next_slot = || {
            number += 1;
            Slot::new(number)
        };
        let Some(chain) = build_chain(stream, self.sample.seed, next_slot) else { return };
        for (slot, page) in chain.pages {
            self.put_slot(slot, 0, &*page);
        }
        self.root.table = chain.first;
        if self.root.table_bytes == self.sample.root.table_bytes {
            self.root.table_bytes = stream.len() as u64;
        }
    }

    fn put_root(&mut self) {
        let page = self.root.encode(&self.superblock, self.sample.seed);
        for offset in Root::offsets(self.root.generation) {
            put(&mut self.metadata, offset as usize, &*page);
        }
    }

    /// Writes the commits one after another.
    fn put_commits(&mut self) {
        let mut at = self.sample.root.journal_offset as usize;
        for (commit, payload) in self.commits.take().into_iter().flatten() {
            at = self.put_commit(at, commit, &payload);
        }
    }

    /// Writes a commit at an offset of the rings, or at their start if they end before it. Returns
    /// its end.
    fn put_commit(&mut self, at: usize, commit: NewCommit, payload: &[u8]) -> usize {
        let mut bytes = vec![0; COMMIT_HEADER_BYTES];
        bytes.extend_from_slice(payload);
        build_commit(
            &mut bytes,
            NewCommit { number: commit.number.max(1), ..commit },
            self.sample.seed,
        );
        let regions = self.sample.superblock.regions();
        let fits = |at: usize| at + bytes.len() <= regions.ring_bytes() as usize;
        let start = [at, 0].into_iter().find(|at| fits(*at));
        let pieces = start.map(|start| regions.ring(start as u64, bytes.len()));
        for piece in pieces.into_iter().flatten() {
            for offset in piece.offsets {
                let part = bytes.get(piece.bytes.clone()).unwrap_or_default();
                put(&mut self.metadata, offset as usize, part);
            }
        }
        start.unwrap_or(at) + bytes.len()
    }
}

fn slot_at(page: &[u8], at: usize) -> Option<Slot> {
    let bytes = page.get(at..at + 4)?.first_chunk()?;
    Slot::new(u32::from_le_bytes(*bytes))
}

fn change_slot(tree: &mut Tree, edit: Edit) {
    let old = tree.root.map_or(0, |root| root.slot.number());
    let slot = Slot::new(edit.new_value(u64::from(old)) as u32);
    tree.root = slot.map(|slot| NodeRef { slot, checksum: 0 });
}
