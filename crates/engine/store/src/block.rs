//! A store that keeps each content unchanged, at byte PBN × block size of a disk.

use crate::preallocated::Preallocated;
use crate::{
    ContentComparison, ContentRead, ContentWrite, LentContent, Store, StoreRoom, StoreSetUp,
    compare_by_reading, write_blocks,
};
use gemelo_disk::{Disk, DiskRead, DiskWrite};
use gemelo_format::{DiskRole, FormatError, Pbn, Superblock, data_header, is_data_store};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The fewest neighbouring blocks that are worth a discard in the background. A hole for each
/// single block would fragment a file, and these blocks are reused first.
const MIN_DISCARD_BLOCKS: u32 = 16;

/// A store that keeps contents unchanged. Contents of consecutive PBNs lie side by side.
pub struct BlockStore {
    disk: Arc<dyn Disk>,
    superblock: Superblock,
    preallocated: Preallocated,
}

impl BlockStore {
    /// Makes the store of the pool with this superblock.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, superblock: &Superblock) -> Self {
        let preallocated = Preallocated::new(superblock.block_bytes);
        Self { disk, superblock: superblock.clone(), preallocated }
    }

    /// Does the same as [`Self::new`], for a caller that may open another kind of store.
    #[must_use]
    pub fn open(disk: Arc<dyn Disk>, superblock: &Superblock) -> Arc<dyn Store> {
        Arc::new(Self::new(disk, superblock))
    }

    /// Returns the byte of the disk at which the content of a PBN begins, in a store of blocks of
    /// this size.
    #[must_use]
    pub const fn offset_of(pbn: Pbn, block_bytes: u32) -> u64 {
        pbn.number() * block_bytes as u64
    }

    const fn offset(&self, pbn: Pbn) -> u64 {
        Self::offset_of(pbn, self.superblock.block_bytes)
    }

    /// Reads by a list of requests to the disk, in the order of their places: contents that lie
    /// side by side are then one run, whatever the order of their LBNs.
    fn read_by(&self, reads: &mut [ContentRead<'_>], read_disk: impl FnOnce(&mut [DiskRead<'_>])) {
        let mut sorted: Vec<&mut ContentRead<'_>> = reads.iter_mut().collect();
        sorted.sort_by_key(|read| (read.pbn, read.within));
        let mut outcomes = Vec::with_capacity(sorted.len());
        let mut list: Vec<DiskRead<'_>> = Vec::with_capacity(sorted.len());
        for read in sorted {
            let ContentRead { pbn, within, buffer, outcome, .. } = read;
            assert!(*within + buffer.len() <= self.block_bytes(), "one content is read");
            list.push(DiskRead::new(self.offset(*pbn) + *within as u64, buffer));
            outcomes.push(outcome);
        }
        read_disk(&mut list);
        assert_eq!(list.len(), outcomes.len(), "each read has an outcome");
        outcomes.into_iter().zip(list).for_each(|(outcome, read)| *outcome = read.outcome);
    }

    /// Offsets in bytes of the label, which is block 0, and of its copy, which is the block named
    /// by the superblock.
    pub fn label_offsets(&self) -> impl Iterator<Item = u64> {
        let copy = self.superblock.header_copy.map(|pbn| self.offset(pbn));
        std::iter::once(0).chain(copy)
    }
}

impl StoreSetUp for BlockStore {
    fn blocks(&self) -> io::Result<u64> {
        Ok(self.disk.len()? / u64::from(self.superblock.block_bytes))
    }

    fn enlarge(&self, blocks: u64) -> io::Result<()> {
        let length = blocks * u64::from(self.superblock.block_bytes);
        // A failed attempt may have made the disk longer. The disk is never shortened, because its
        // blocks may be in use.
        if self.disk.len()? < length { self.disk.set_len(length) } else { Ok(()) }
    }

    fn cut(&self, blocks: Range<u64>) -> io::Result<()> {
        let bytes = |blocks: u64| blocks * u64::from(self.superblock.block_bytes);
        self.preallocated.forget(blocks.clone());
        // What follows these blocks is not the store's.
        if self.disk.len()? > bytes(blocks.end) {
            return Ok(());
        }
        self.disk.set_len(bytes(blocks.start))
    }

    fn copy_label(&self, to: Pbn) -> Result<(), FormatError> {
        let io = |action| FormatError::io(DiskRole::Data, action);
        let header = data_header(&self.superblock);
        self.disk.write_at(self.offset(to), &header).map_err(io("write"))?;
        self.disk.sync().map_err(io("sync"))
    }

    fn write_labels(&self) -> Result<(), FormatError> {
        let io = |action| FormatError::io(DiskRole::Data, action);
        let header = data_header(&self.superblock);
        // The labels are written and synced one after another, so that a crash damages one of them
        // at most.
        for offset in self.label_offsets() {
            self.disk.write_at(offset, &header).map_err(io("write"))?;
            self.disk.sync().map_err(io("sync"))?;
        }
        Ok(())
    }

    fn check_labels(&self) -> Result<Vec<String>, FormatError> {
        let right = data_header(&self.superblock);
        let (mut damaged, mut is_known) = (Vec::new(), false);
        for offset in self.label_offsets() {
            let mut label = right;
            match self.disk.read_at(offset, &mut label) {
                Ok(()) if label == right => is_known = true,
                // An unreadable sector must not keep the copy from being read.
                Ok(()) | Err(_) => {
                    damaged.push(format!("the header of the data store at byte {offset}"));
                }
            }
        }
        if is_known {
            return Ok(damaged);
        }
        let mut label = right;
        match self.disk.read_at(0, &mut label) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                Err(FormatError::io(DiskRole::Data, "read")(error))
            }
            Ok(()) if is_data_store(&*self.disk) => Err(FormatError::NotAPool {
                why: "the data store belongs to another pool than the metadata",
            }),
            Ok(()) | Err(_) => Err(FormatError::LostHeads {
                what: "no header of the data store is whole: if it is the right disk, restore it \
                       and the metadata from a backup",
            }),
        }
    }

    fn content_of_form(&self, _: Pbn, form: &[u8]) -> Option<Vec<u8>> {
        (form.len() == self.block_bytes()).then(|| form.to_vec())
    }

    fn write_forms(&self, forms: &[(Pbn, &[u8])]) -> io::Result<Vec<(Pbn, Vec<u8>)>> {
        write_blocks(self, forms)
    }
}

impl StoreRoom for BlockStore {
    fn reserve(&self, writes: &mut [ContentWrite<'_>]) {
        let follows = |one: &ContentWrite<'_>, next: &ContentWrite<'_>| {
            one.pbn.number() + 1 == next.pbn.number()
        };
        for run in writes.chunk_by_mut(follows) {
            let first = run.first().map_or(0, |write| write.pbn.number());
            let end = run.last().map_or(0, |write| write.pbn.number() + 1);
            if self.preallocated.reserve(&*self.disk, first..end).is_ok() {
                continue;
            }
            for write in run {
                let number = write.pbn.number();
                write.outcome = self.preallocated.reserve(&*self.disk, number..number + 1);
            }
        }
    }

    fn wants_reserve_ahead(&self) -> bool {
        self.preallocated.wants_ahead()
    }

    fn reserve_ahead(&self) {
        self.preallocated.reserve_ahead(&*self.disk);
    }

    fn discard(&self, first: Pbn, count: u32) -> io::Result<()> {
        let bytes = u64::from(count) * u64::from(self.superblock.block_bytes);
        let numbers = first.number()..first.number() + u64::from(count);
        let discarded = self.disk.discard(self.offset(first), bytes);
        // Afterwards: space that was allocated ahead meanwhile may be gone as well.
        self.preallocated.forget(numbers);
        discarded
    }

    fn allocated_bytes(&self) -> Option<u64> {
        self.disk.allocated_bytes().ok().flatten()
    }

    fn min_discard_blocks(&self) -> u32 {
        MIN_DISCARD_BLOCKS
    }
}

impl Store for BlockStore {
    fn block_bytes(&self) -> usize {
        self.superblock.block_bytes as usize
    }

    fn read(&self, reads: &mut [ContentRead<'_>]) {
        self.read_by(reads, |list| self.disk.read_many(list));
    }

    fn read_ready(&self, reads: &mut [ContentRead<'_>]) {
        self.read_by(reads, |list| self.disk.read_ready(list));
    }

    fn read_medium(&self, reads: &mut [ContentRead<'_>]) {
        self.read_by(reads, |list| self.disk.read_medium(list));
    }

    fn lend(&self, _: &[Pbn]) -> Vec<(usize, LentContent)> {
        Vec::new()
    }

    fn write(&self, writes: &mut [ContentWrite<'_>]) {
        let mut list: Vec<DiskWrite<'_>> = Vec::with_capacity(writes.len());
        for write in writes.iter() {
            assert!(write.content.len() == self.block_bytes(), "a whole content is written");
            list.push(DiskWrite::new(self.offset(write.pbn), write.content));
        }
        self.disk.write_many(&mut list);
        assert_eq!(list.len(), writes.len(), "each write has an outcome");
        for (write, done) in writes.iter_mut().zip(list) {
            write.outcome = done.outcome;
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }

    fn compare(&self, comparisons: &mut [ContentComparison<'_>]) {
        compare_by_reading(self, comparisons);
    }
}
