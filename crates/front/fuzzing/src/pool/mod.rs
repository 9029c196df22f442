//! Fuzz targets for the structs on the disks of a pool.
//!
//! A fuzzer does not guess checksums. The input therefore changes structs of small pools of every
//! kind, all checksums are made correct, and the pool is checked, opened, used and repaired. The
//! target `damage` leaves checksums wrong. The first byte of each input selects the pool. The
//! target `pool_kept` does the same to the pools that are kept for ever.

mod forge;
mod kept;
mod sample;

use crate::disk::use_pool;
pub(crate) use forge::EDIT_HEAD_BYTES;
use forge::Forged;
use gemelo_format::{Change, CommitOrder, PAGE_BYTES, Pbn, StoreTable};
use gemelo_store::PoolDisks;
use sample::{Sample, samples, selected};
use std::io;
use std::path::Path;

/// The number of kinds of pools.
pub(crate) fn kinds() -> usize {
    samples().len()
}

/// The disks of one of the pools, which has the volumes `one`, `other` and `three`.
pub(crate) fn disks_of_a_pool() -> Option<PoolDisks> {
    let (sample, _) = selected(&[0])?;
    Some(Sample::disks(&sample.data, &sample.metadata))
}

/// Length of a patch in bytes: the index of a page (2), an offset in the page (2), the new byte
/// (1).
const PATCH_BYTES: usize = 5;

/// The number of kept pools that can be read.
pub(crate) fn kept_pools() -> usize {
    kept::samples().len()
}

/// Opens the pool with fields of any structs changed, and with correct checksums.
pub(crate) fn forged(bytes: &[u8]) {
    if let Some((sample, edits)) = selected(bytes) {
        use_forged(sample, edits);
    }
}

/// The same with a kept pool.
pub(crate) fn kept(bytes: &[u8]) {
    if let Some((sample, edits)) = kept::selected(bytes) {
        use_forged(sample, edits);
    }
}

/// A kept pool with changed fields and correct checksums, for programs that open it by its files.
pub struct ForgedPool(Forged);

impl ForgedPool {
    /// Makes the pool that an input of the target `pool_kept` describes; [`None`] without `tar` and
    /// `zstd`.
    #[must_use]
    pub fn of_kept(input: &[u8]) -> Option<Self> {
        let (sample, edits) = kept::selected(input)?;
        Some(Self(forge::apply(sample, edits)))
    }

    /// Writes the files of the pool to its directory.
    ///
    /// # Errors
    /// Fails if a file cannot be written.
    pub fn write_to(&self, directory: &Path) -> io::Result<()> {
        std::fs::write(directory.join("metadata"), &self.0.metadata)?;
        self.0.data.write_to(&directory.join("data"))
    }
}

/// Returns inputs of the target `pool_kept` that together change each field of each struct of a
/// pool.
pub(crate) fn field_inputs(pool: usize) -> Vec<Vec<u8>> {
    let edits = forge::of_each_field(pool as u64).into_iter();
    edits.map(|edit| [&[pool as u8], &edit[..]].concat()).collect()
}

fn use_forged(sample: &Sample, edits: &[u8]) {
    let Forged { data, metadata } = forge::apply(sample, edits);
    use_pool(|| Sample::disks(&data, &metadata));
}

/// Opens the pool with another table of volumes and their pages.
pub(crate) fn table(bytes: &[u8]) {
    let Some((sample, stream)) = selected(bytes) else { return };
    if let Some(table) = StoreTable::decode(stream) {
        assert_eq!(
            StoreTable::decode(&table.encode()).as_ref(),
            Some(&table),
            "a decoded table must survive encoding"
        );
    }
    let metadata = forge::with_table(sample, stream);
    use_pool(|| Sample::disks(&sample.data, &metadata));
}

/// Opens the pool with a further commit in the journal.
pub(crate) fn changes(bytes: &[u8]) {
    let Some((sample, payload)) = selected(bytes) else { return };
    if let Ok(changes) = Change::decode_all(payload, Pbn::new) {
        let mut encoded = Vec::new();
        changes.iter().for_each(|change| change.encode(&mut encoded));
        assert_eq!(
            Change::decode_all(&encoded, Pbn::new),
            Ok(changes),
            "decoded changes must survive encoding"
        );
    }
    for order in [CommitOrder::AfterContents, CommitOrder::BesideContents] {
        let metadata = forge::with_commit(sample, payload, order);
        use_pool(|| Sample::disks(&sample.data, &metadata));
    }
}

/// Opens a pool with bytes changed anywhere in its metadata, and checksums left as they are.
pub(crate) fn damage(bytes: &[u8]) {
    let Some((sample, patches)) = selected(bytes) else { return };
    let mut metadata = sample.metadata.clone();
    let page_count = metadata.len() / PAGE_BYTES;
    for [low, high, offset @ .., byte] in patches.as_chunks::<PATCH_BYTES>().0 {
        let page = usize::from(u16::from_le_bytes([*low, *high])) % page_count.max(1);
        let within = usize::from(u16::from_le_bytes(*offset)) % PAGE_BYTES;
        forge::put(&mut metadata, page * PAGE_BYTES + within, &[*byte]);
    }
    use_pool(|| Sample::disks(&sample.data, &metadata));
}

/// Returns the encoded tables of the pools.
pub(crate) fn table_seeds() -> Vec<Vec<u8>> {
    let seed =
        |(number, sample): (usize, &Sample)| [vec![number as u8], sample.table.encode()].concat();
    samples().iter().enumerate().map(seed).collect()
}

/// Returns payloads of commits.
pub(crate) fn change_seeds() -> Vec<Vec<u8>> {
    let of_sample = |(number, sample): (usize, &Sample)| {
        let payloads = sample.commits.iter().map(|commit| commit.payload.clone());
        payloads.map(|payload| [vec![number as u8], payload].concat()).collect::<Vec<_>>()
    };
    let mut seeds: Vec<Vec<u8>> = samples().iter().enumerate().flat_map(of_sample).collect();
    seeds.retain(|seed| seed.len() < 1000);
    seeds.extend((0..samples().len()).map(|number| vec![number as u8]));
    seeds
}

/// Returns inputs that change nothing or few bits of each pool.
pub(crate) fn patch_seeds() -> Vec<Vec<u8>> {
    let patches: [&[u8]; 4] = [&[], &[2], &[0, 0, 8, 1, 255], &[3, 2, 1, 0, 7, 1, 2, 3, 4, 5]];
    let numbers = 0..samples().len() as u8;
    numbers.flat_map(|number| patches.map(|patch| [&[number], patch].concat())).collect()
}

/// Returns inputs that change one field of each struct of each pool.
pub(crate) fn forged_seeds() -> Vec<Vec<u8>> {
    seeds_of(samples())
}

/// The same for each kept pool.
pub(crate) fn kept_seeds() -> Vec<Vec<u8>> {
    seeds_of(kept::samples())
}

fn seeds_of(samples: &[Sample]) -> Vec<Vec<u8>> {
    (0..samples.len().max(1) as u8)
        .flat_map(|number| {
            forge::seeds().into_iter().map(move |edit| [vec![number], edit].concat())
        })
        .collect()
}
