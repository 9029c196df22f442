//! Tests of packing.

use super::*;
use crate::{BlockStore, BufferOptions, WriteBuffer};
use gemelo_base::ManualClock;
use gemelo_disk::testing::MemoryDisk;
use gemelo_disk::{Disk, DiskRead, DiskWrite};
use gemelo_format::{FingerprintKind, PACKED_TABLE_BYTES, StoreKind};
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) fn superblock(block_bytes: u32) -> Superblock {
    Superblock {
        block_bytes,
        pool_id: [1; 16],
        key: [2; 32],
        fingerprint: FingerprintKind::Blake3,
        ring_pages: 8,
        header_copy: None,
        words: gemelo_format::WordForm::Narrow,
        unknown: gemelo_format::Features::NONE,
        store: StoreKind::Packed(Compression::Lz4),
    }
}

/// A disk whose reads fail in one way, once that is set. It notes the longest list of reads.
struct Unreadable {
    disk: MemoryDisk,
    kind: Mutex<Option<io::ErrorKind>>,
    /// The number of reads that fail.
    failing: AtomicUsize,
    longest: AtomicUsize,
}

impl Unreadable {
    fn new(image: Vec<u8>, kind: Option<io::ErrorKind>) -> Arc<Self> {
        let disk = MemoryDisk::new(image, u64::MAX);
        let (failing, longest) = (AtomicUsize::new(usize::MAX), AtomicUsize::new(0));
        Arc::new(Self { disk, kind: Mutex::new(kind), failing, longest })
    }

    fn store(self: &Arc<Self>, superblock: &Superblock) -> PackedStore {
        let blocks = BlockStore::new(Arc::clone(self) as Arc<dyn Disk>, superblock);
        PackedStore::over(Arc::new(blocks), superblock)
    }
}

impl Disk for Unreadable {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.disk.set_len(length)
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        self.longest.fetch_max(reads.len(), Ordering::Relaxed);
        let fails = self.failing.load(Ordering::Relaxed) > 0;
        match self.kind.lock().filter(|_| fails) {
            Some(kind) => {
                self.failing.fetch_sub(1, Ordering::Relaxed);
                reads.iter_mut().for_each(|read| read.outcome = Err(kind.into()));
            }
            None => self.disk.read_many(reads),
        }
    }

    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        self.disk.write_many(writes);
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.disk.discard(offset, length)
    }
}

#[test]
fn a_block_that_is_not_read_in_time_keeps_its_other_contents() {
    let (superblock, image) = (superblock(512), vec![7; 16 * 512]);
    for (kind, is_kept) in [(io::ErrorKind::TimedOut, true), (io::ErrorKind::Other, false)] {
        let disk = Unreadable::new(image.clone(), Some(kind));
        let store = disk.store(&superblock);
        let pbn = PackedPlace { block: 3, slot: 1 }.pbn().unwrap();
        let form = [&20u16.to_le_bytes()[..], &[1; 40]].concat();
        let outcome = store.write_forms(&[(pbn, &form)]);
        assert_eq!(outcome.err().map(|error| error.kind()), is_kept.then_some(kind));
        assert_eq!(disk.disk.image() == image, is_kept);
    }
}

/// A content, two of which share a block.
fn content(number: usize) -> Vec<u8> {
    (0..512).map(|at| if at < 150 { (at * at * number / 7) as u8 } else { number as u8 }).collect()
}

#[test]
fn a_long_list_of_contents_at_hand_is_read_in_pieces_and_a_failure_shows_nothing_read_before() {
    const CONTENTS: usize = 900;
    let superblock = superblock(512);
    let disk = Unreadable::new(vec![0; (CONTENTS / 2 + 1) * 512], None);
    let store = disk.store(&superblock);
    let places = (0..CONTENTS)
        .map(|number| PackedPlace { block: 1 + number as u32 / 2, slot: 1 + number as u8 % 2 });
    let pbns: Vec<Pbn> = places.map(|place| place.pbn().unwrap()).collect();
    let mut offset = PACKED_TABLE_BYTES;
    let forms = (0..).zip(&pbns).map(|(number, pbn)| {
        let compressed = store.codec.compress(Compression::Lz4, &[&content(number)]);
        let mut form = Vec::new();
        form_into(&mut form, store.reader.seed, *pbn, compressed.parts().next().unwrap().unwrap());
        offset = if number % 2 == 0 { PACKED_TABLE_BYTES } else { offset };
        let stored = [&(offset as u16).to_le_bytes(), &*form].concat();
        offset += form.len();
        stored
    });
    let forms: Vec<Vec<u8>> = forms.collect();
    let pairs: Vec<(Pbn, &[u8])> =
        pbns.iter().zip(&forms).map(|(pbn, form)| (*pbn, &**form)).collect();
    assert_eq!(store.write_forms(&pairs).unwrap(), []);
    disk.longest.store(0, Ordering::Relaxed);
    let mut bytes = vec![0; CONTENTS * 512];
    let list = |bytes: &mut [u8], read: fn(&PackedStore, &mut [ContentRead<'_>])| {
        let buffers = bytes.chunks_exact_mut(512).zip(&pbns);
        let mut reads: Vec<ContentRead<'_>> =
            buffers.map(|(buffer, pbn)| ContentRead::new(*pbn, 0, buffer)).collect();
        read(&store, &mut reads);
        reads.into_iter().filter(|read| read.outcome.is_ok()).count()
    };
    assert_eq!(list(&mut bytes, Store::read_ready), CONTENTS);
    for (number, found) in bytes.chunks_exact(512).enumerate() {
        assert!(found == content(number), "content {number}");
    }
    assert_eq!(disk.longest.load(Ordering::Relaxed), reads::READY_BYTES / 512 / 2);
    *disk.kind.lock() = Some(io::ErrorKind::Other);
    assert_eq!(list(&mut bytes, Store::read_ready), 0);
    assert_eq!(list(&mut bytes, Store::read), 0);
}

/// Returns a packed block with these contents.
fn block_with(store: &PackedStore, block: u32, numbers: &[usize]) -> Vec<u8> {
    let contents = numbers.iter().map(|number| (*number, Compression::Lz4));
    block_of(store, block, &contents.collect::<Vec<_>>())
}

/// Does the same with contents that are compressed in these ways.
fn block_of(store: &PackedStore, block: u32, contents: &[(usize, Compression)]) -> Vec<u8> {
    let mut image = BlockImage::new(512, &[]);
    for (slot, (number, compression)) in (1..).zip(contents) {
        let pbn = PackedPlace { block, slot }.pbn().unwrap();
        let compressed = store.codec.compress(*compression, &[&content(*number)]);
        let mut form = Vec::new();
        form_into(&mut form, store.reader.seed, pbn, compressed.parts().next().unwrap().unwrap());
        image.add(slot, &form);
    }
    image.bytes().to_vec()
}

/// Reads contents; [`None`] for one that cannot be read.
fn read(store: &PackedStore, places: &[(u32, u8)], is_compared: bool) -> Vec<Option<Vec<u8>>> {
    let mut bytes = vec![0; places.len() * 512];
    let buffers = bytes.chunks_exact_mut(512).zip(places);
    let mut reads: Vec<ContentRead<'_>> = buffers
        .map(|(buffer, (block, slot))| {
            let pbn = PackedPlace { block: *block, slot: *slot }.pbn().unwrap();
            ContentRead { is_compared, ..ContentRead::new(pbn, 0, buffer) }
        })
        .collect();
    store.read(&mut reads);
    reads.into_iter().map(|read| read.outcome.is_ok().then(|| read.buffer.to_vec())).collect()
}

#[test]
fn blocks_of_the_cache_are_read_where_they_are_unless_newer_ones_wait() {
    let superblock = superblock(512);
    let disk = Unreadable::new(vec![0; 16 * 512], None);
    let blocks = Arc::new(BlockStore::new(Arc::clone(&disk) as Arc<dyn Disk>, &superblock));
    let options = BufferOptions {
        bytes: 8 * 512,
        cache_bytes: 8 * 512,
        caches_reads: false,
        background: false,
        threads: 1,
    };
    let clock = Arc::new(ManualClock::new());
    let buffer = WriteBuffer::new(blocks, options, clock, None, Arc::new(|_| ())).unwrap();
    let buffer = Arc::new(buffer);
    let store = PackedStore::over(Arc::clone(&buffer) as Arc<dyn Store>, &superblock);
    let write = |block: u32, numbers: &[usize]| {
        let bytes = block_with(&store, block, numbers);
        let mut writes = [ContentWrite::new(block_number(block).unwrap(), &bytes)];
        buffer.write(&mut writes);
        assert!(writes[0].outcome.is_ok());
    };
    (3..7).for_each(|block| write(block, &[block as usize]));
    buffer.sync().unwrap();
    let places: Vec<(u32, u8)> = (3..7).map(|block| (block, 1)).collect();
    let all: Vec<Option<Vec<u8>>> = (3..7).map(|number| Some(content(number))).collect();
    assert!(read(&store, &places, false) == all);
    assert_eq!(buffer.cache_figures().hits, 4);
    assert!(store.memory.lend(|memory| memory.is_empty()), "no block was copied");
    write(5, &[5, 9]);
    let places = [(5, 2), (4, 1), (5, 1), (7, 1)];
    let expected = [Some(content(9)), Some(content(4)), Some(content(5)), None];
    assert!(read(&store, &places, false) == expected);
    assert_eq!(store.memory.lend(|memory| memory.len()), 2 * 512);
}

#[test]
fn a_reader_with_a_checksum_does_not_need_that_of_the_form() {
    let superblock = superblock(512);
    let disk = Unreadable::new(vec![0; 16 * 512], None);
    let store = disk.store(&superblock);
    let mut block = block_with(&store, 3, &[1, 2]);
    block[PACKED_TABLE_BYTES + 4] ^= 1;
    disk.disk.write_at(3 * 512, &block).unwrap();
    let places = [(3, 1), (3, 2)];
    assert!(read(&store, &places, true) == [Some(content(1)), Some(content(2))]);
    assert!(read(&store, &places, false) == [None, Some(content(2))]);
}

#[test]
fn a_read_that_fails_once_does_not_cost_the_other_contents_of_a_block() {
    let superblock = superblock(512);
    for (failing, is_kept) in [(1, true), (2, false)] {
        let disk = Unreadable::new(vec![0; 16 * 512], None);
        let store = disk.store(&superblock);
        disk.disk.write_at(3 * 512, &block_with(&store, 3, &[1])).unwrap();
        disk.failing.store(failing, Ordering::Relaxed);
        *disk.kind.lock() = Some(io::ErrorKind::Other);
        let pbn = PackedPlace { block: 3, slot: 2 }.pbn().unwrap();
        let form = [&400u16.to_le_bytes()[..], &[1; 40]].concat();
        assert_eq!(store.write_forms(&[(pbn, &form)]).unwrap(), []);
        assert_eq!(read(&store, &[(3, 1)], false) == [Some(content(1))], is_kept);
    }
}

#[test]
fn a_damaged_length_lets_a_content_be_healed_over_no_other_one() {
    let superblock = superblock(512);
    let disk = Unreadable::new(vec![0; 16 * 512], None);
    let store = disk.store(&superblock);
    let length = |compression| {
        let compressed = store.codec.compress(compression, &[&content(1)]);
        compressed.parts().next().unwrap().unwrap().1.len()
    };
    let mut ways = [Compression::Lz4, Compression::Zstd(1)];
    ways.sort_by_key(|way| length(*way));
    let [short, long] = ways;
    assert!(length(short) < length(long));
    let good = block_of(&store, 3, &[(1, short), (2, Compression::Lz4)]);
    for (told, is_healed) in [(length(short), true), (length(long), false)] {
        let mut block = good.clone();
        block[PACKED_TABLE_BYTES..][..2].copy_from_slice(&(told as u16).to_le_bytes());
        block[PACKED_TABLE_BYTES + 20] ^= 1;
        disk.disk.write_at(3 * 512, &block).unwrap();
        let one = content(1);
        let pbn = PackedPlace { block: 3, slot: 1 }.pbn().unwrap();
        let mut writes = [ContentWrite::new(pbn, &one)];
        store.write(&mut writes);
        assert_eq!(writes[0].outcome.is_ok(), is_healed);
        let expected = [is_healed.then_some(one), Some(content(2))];
        assert!(read(&store, &[(3, 1), (3, 2)], false) == expected);
    }
}
