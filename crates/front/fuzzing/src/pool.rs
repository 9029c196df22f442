//! Fuzz targets for the structs on the metadata disk of a pool.
//!
//! A fuzzer does not guess checksums. The input therefore replaces a struct of a small pool, all
//! checksums are made correct, and the pool is opened, used and checked. The target `damage` leaves
//! checksums wrong.

use crate::disk::{disk_of, small_pool, use_pool};
use gemelo_format::{
    COMMIT_HEADER_BYTES, Change, CommitHeader, CommitOrder, FingerprintKind, NewCommit, PAGE_BYTES,
    Pbn, Policy, PoolSeed, Root, Slot, StoreTable, Superblock, build_chain, build_commit,
    find_roots, read_chain, read_superblock,
};
use std::sync::LazyLock;

/// Length of a patch in bytes: the index of a page (1), an offset in the page (2), the new byte
/// (1).
const PATCH_BYTES: usize = 4;

/// The small pool and its structs.
struct Sample {
    data: Vec<u8>,
    metadata: Vec<u8>,
    superblock: Superblock,
    seed: PoolSeed,
    root: Root,
    table: StoreTable,
    /// The payloads of the journal's commits.
    payloads: Vec<Vec<u8>>,
    /// Number of the next commit.
    next_commit: u64,
    /// Its offset in the rings.
    head: usize,
}

static SAMPLE: LazyLock<Option<Sample>> = LazyLock::new(|| Sample::make().ok());

impl Sample {
    fn make() -> anyhow::Result<Self> {
        let (data, metadata) = small_pool(Policy::Compact)?;
        let disk = disk_of(metadata.clone());
        let superblock = read_superblock(&*disk, &mut Vec::new())?;
        let seed = PoolSeed::of(&superblock);
        let root = find_roots(&*disk, &superblock, seed)?.newest;
        let chain = read_chain(&*disk, &superblock, &root, seed)?;
        let table = StoreTable::decode(&chain.stream).unwrap_or_default();
        let next_commit = root.next_commit;
        let mut sample = Self {
            data,
            metadata,
            superblock,
            seed,
            root,
            table,
            payloads: Vec::new(),
            next_commit,
            head: 0,
        };
        sample.read_journal();
        Ok(sample)
    }

    fn read_journal(&mut self) {
        let regions = self.superblock.regions();
        // It is in one piece.
        let Some(ring) = regions.ring(0, regions.ring_bytes() as usize).next() else { return };
        let [start, _] = ring.offsets;
        for offset in (0..ring.bytes.len()).step_by(PAGE_BYTES) {
            let Some(bytes) = self.metadata.get(start as usize + offset..) else { continue };
            let Some(header) = CommitHeader::decode(bytes, self.seed) else { continue };
            let payload =
                bytes.get(COMMIT_HEADER_BYTES..COMMIT_HEADER_BYTES + header.payload_bytes as usize);
            self.payloads.extend(payload.map(<[u8]>::to_vec));
            self.head = offset + header.copy_bytes().unwrap_or_default() as usize;
            self.next_commit = header.number + 1;
        }
    }

    fn run(&self, metadata: Vec<u8>) {
        use_pool(self.data.clone(), metadata);
    }

    /// Returns the metadata with another superblock.
    fn with_superblock(&self, superblock: &Superblock) -> Vec<u8> {
        let mut metadata = self.metadata.clone();
        for place in Superblock::offsets() {
            put(&mut metadata, place as usize, &*superblock.encode());
        }
        metadata
    }

    /// Replaces the root in the metadata.
    fn put_root(&self, metadata: &mut Vec<u8>, root: &Root) {
        for offset in Root::offsets(root.generation) {
            put(metadata, offset as usize, &*root.encode(&self.superblock, self.seed));
        }
    }

    /// Writes another table to slots that are free, and a root that refers to it.
    fn put_table(&self, metadata: &mut Vec<u8>, stream: &[u8]) {
        let mut number = (metadata.len() / PAGE_BYTES) as u32;
        let next_slot = || {
            number += 1;
            Slot::new(number)
        };
        let Some(chain) = build_chain(stream, self.seed, next_slot) else { return };
        for (slot, page) in chain.pages {
            self.put_slot(metadata, slot, 0, &*page);
        }
        let root =
            Root { table: chain.first, table_bytes: stream.len() as u64, ..self.root.clone() };
        self.put_root(metadata, &root);
    }

    /// Writes bytes to both copies of a slot.
    fn put_slot(&self, metadata: &mut Vec<u8>, slot: Slot, within: usize, bytes: &[u8]) {
        for start in self.superblock.regions().slot(slot) {
            put(metadata, start as usize + within, bytes);
        }
    }

    /// Returns the metadata with patched pages of maps and records, and with correct checksums.
    fn with_pages(&self, patches: &[u8]) -> Vec<u8> {
        let mut metadata = self.metadata.clone();
        let mut table = self.table.clone();
        let StoreTable { volumes, counts, many, fingerprints, index, .. } = &mut table;
        let maps = volumes.iter_mut().map(|volume| &mut volume.map);
        let roots =
            maps.chain([counts, many, fingerprints, index]).filter_map(|tree| tree.root.as_mut());
        let mut refs: Vec<(Slot, &mut u64)> =
            roots.map(|root| (root.slot, &mut root.checksum)).collect();
        let count = refs.len();
        for patch in patches.as_chunks::<PATCH_BYTES>().0 {
            let Some((slot, _)) = refs.get(usize::from(patch[0]) % count.max(1)) else { continue };
            self.put_slot(&mut metadata, *slot, place_in_page(*patch), &patch[3..]);
        }
        for (slot, checksum) in &mut refs {
            let [start, _] = self.superblock.regions().slot(*slot);
            let start = start as usize;
            **checksum =
                self.seed.checksum(metadata.get(start..start + PAGE_BYTES).unwrap_or_default());
        }
        let stream = table.encode();
        self.put_table(&mut metadata, &stream);
        metadata
    }

    /// Returns the metadata with one more commit in the journal.
    fn with_commit(&self, payload: &[u8], order: CommitOrder) -> Vec<u8> {
        let mut metadata = self.metadata.clone();
        let mut commit = vec![0; COMMIT_HEADER_BYTES];
        commit.extend_from_slice(payload);
        let (number, generation) = (self.next_commit, self.root.generation);
        build_commit(&mut commit, NewCommit { number, generation, order }, self.seed);
        let regions = self.superblock.regions();
        let ring = regions.ring(0, regions.ring_bytes() as usize).next();
        for start in ring.into_iter().flat_map(|ring| ring.offsets) {
            put(&mut metadata, start as usize + self.head, &commit);
        }
        metadata
    }
}

const fn place_in_page(patch: [u8; PATCH_BYTES]) -> usize {
    u16::from_le_bytes([patch[1], patch[2]]) as usize % PAGE_BYTES
}

/// Writes bytes at a place. Extends the metadata if necessary.
fn put(metadata: &mut Vec<u8>, place: usize, bytes: &[u8]) {
    if metadata.len() < place + bytes.len() {
        metadata.resize(place + bytes.len(), 0);
    }
    if let Some(to) = metadata.get_mut(place..place + bytes.len()) {
        to.copy_from_slice(bytes);
    }
}

/// Reads numbers from the front of an input, and zeros after its end. Callers combine them with
/// valid values by exclusive or, so a short input changes few values.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn next(&mut self) -> u64 {
        let (first, rest) = self.0.split_at(self.0.len().min(8));
        self.0 = rest;
        first.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

/// Opens the pool with a changed superblock.
pub(crate) fn superblock(bytes: &[u8]) {
    let Some(sample) = &*SAMPLE else { return };
    let mut words = Words(bytes);
    let superblock = Superblock {
        block_bytes: sample.superblock.block_bytes ^ words.next() as u32,
        ring_pages: sample.superblock.ring_pages ^ words.next(),
        fingerprint: FingerprintKind::from_byte(words.next() as u8).unwrap_or_default(),
        ..sample.superblock.clone()
    };
    sample.run(sample.with_superblock(&superblock));
}

/// Number of blocks or slots above which a pool does not fit into a fuzzer's memory and is not
/// opened.
const LARGEST: u64 = 1 << 20;

/// Opens the pool with a changed root.
pub(crate) fn root(bytes: &[u8]) {
    let Some(sample) = &*SAMPLE else { return };
    let mut words = Words(bytes);
    let mut root = sample.root.clone();
    for field in [
        &mut root.data_blocks,
        &mut root.journal_offset,
        &mut root.next_commit,
        &mut root.table_bytes,
        &mut root.generation,
        &mut root.references,
        &mut root.physical,
    ] {
        *field ^= words.next();
    }
    root.next_volume ^= words.next() as u32;
    if let Some(table) = &mut root.table {
        table.checksum ^= words.next();
        table.slot = Slot::new(table.slot.number() ^ words.next() as u32).unwrap_or(table.slot);
    }
    if (LARGEST..=u64::from(u32::MAX)).contains(&root.data_blocks) {
        return;
    }
    let mut metadata = sample.metadata.clone();
    sample.put_root(&mut metadata, &root);
    sample.run(metadata);
}

/// Opens the pool with a changed table of volumes and their pages.
pub(crate) fn table(bytes: &[u8]) {
    if let Some(table) = StoreTable::decode(bytes) {
        let StoreTable { volumes, counts, many, fingerprints, index, .. } = &table;
        let trees = volumes.iter().map(|volume| &volume.map);
        let roots = trees.chain([counts, many, fingerprints, index]).filter_map(|tree| tree.root);
        let is_large = roots.map(|root| root.slot).any(|slot| u64::from(slot.number()) > LARGEST);
        assert_eq!(
            StoreTable::decode(&table.encode()).as_ref(),
            Some(&table),
            "a decoded table must survive encoding"
        );
        if is_large {
            return;
        }
    }
    let Some(sample) = &*SAMPLE else { return };
    let mut metadata = sample.metadata.clone();
    sample.put_table(&mut metadata, bytes);
    sample.run(metadata);
}

/// Opens the pool with changed pages of maps and records.
pub(crate) fn pages(bytes: &[u8]) {
    let Some(sample) = &*SAMPLE else { return };
    sample.run(sample.with_pages(bytes));
}

/// Opens the pool with a further commit in the journal.
pub(crate) fn changes(bytes: &[u8]) {
    if let Some(changes) = Change::decode_all(bytes, Pbn::new) {
        let mut encoded = Vec::new();
        changes.iter().for_each(|change| change.encode(&mut encoded));
        assert_eq!(
            Change::decode_all(&encoded, Pbn::new),
            Some(changes),
            "decoded changes must survive encoding"
        );
    }
    let Some(sample) = &*SAMPLE else { return };
    for order in [CommitOrder::AfterContents, CommitOrder::BesideContents] {
        sample.run(sample.with_commit(bytes, order));
    }
}

/// Data and metadata of the small pool, for each policy.
static POOLS: LazyLock<Vec<(Vec<u8>, Vec<u8>)>> = LazyLock::new(|| {
    let policies = Policy::ALL;
    policies.into_iter().filter_map(|policy| small_pool(policy).ok()).collect()
});

/// Opens a pool with bytes changed anywhere in its metadata, and checksums left as they are. The
/// first byte selects the policy.
pub(crate) fn damage(bytes: &[u8]) {
    let (first, patches) = bytes.split_first().unwrap_or((&0, &[]));
    let Some((data, metadata)) = POOLS.get(usize::from(*first) % POOLS.len().max(1)) else {
        return;
    };
    let mut metadata = metadata.clone();
    let page_count = metadata.len() / PAGE_BYTES;
    for patch in patches.as_chunks::<PATCH_BYTES>().0 {
        let page = usize::from(patch[0]) % page_count.max(1);
        put(&mut metadata, page * PAGE_BYTES + place_in_page(*patch), &patch[3..]);
    }
    use_pool(data.clone(), metadata);
}

/// Returns the encoded table of the small pool.
pub(crate) fn table_seeds() -> Vec<Vec<u8>> {
    SAMPLE.iter().map(|sample| sample.table.encode()).collect()
}

/// Returns the payloads of the small pool's commits.
pub(crate) fn change_seeds() -> Vec<Vec<u8>> {
    SAMPLE.iter().flat_map(|sample| sample.payloads.clone()).collect()
}

/// Returns inputs that change nothing or few bits.
pub(crate) fn patch_seeds() -> Vec<Vec<u8>> {
    vec![
        vec![],
        vec![2],
        vec![3],
        vec![0; 8 * 12],
        vec![0, 0, 0, 1, 2, 0, 1, 255],
        vec![1; PATCH_BYTES * 3],
    ]
}
