//! A second kind of store: contents of neighbouring PBNs are never side by side, and no content is
//! stored as it is. Code that works with it assumes nothing of the place and the form of a content.

use gemelo_disk::{Disk, DiskRead, DiskWrite};
use gemelo_format::{DiskRole, FormatError, Pbn, Superblock};
use gemelo_store::{
    ContentComparison, ContentRead, ContentWrite, LentContent, Store, StoreRoom, StoreSetUp,
    compare_by_reading,
};
use std::io;
use std::sync::Arc;

/// PBNs are permuted within groups of this many.
const GROUP_BLOCKS: u64 = 8;
/// The permutation: an XOR that separates neighbours.
const SCATTER: u64 = 0b101;
/// An XOR that changes every byte of a stored content.
const MASK: u8 = 0xA5;

pub struct ScatterStore {
    disk: Arc<dyn Disk>,
    block_bytes: usize,
    label: Vec<u8>,
}

impl ScatterStore {
    pub fn open(disk: Arc<dyn Disk>, superblock: &Superblock) -> Arc<dyn Store> {
        let block_bytes = superblock.block_bytes as usize;
        let label = [b"SCATTER.", superblock.pool_id.as_slice()].concat();
        Arc::new(Self { disk, block_bytes, label })
    }

    /// The label comes before the contents.
    fn offset(&self, pbn: Pbn) -> u64 {
        (1 + (pbn.number() ^ SCATTER)) * self.block_bytes as u64
    }
}

/// Converts between a content and its stored form.
fn transform(content: &[u8]) -> Vec<u8> {
    content.iter().rev().map(|byte| byte ^ MASK).collect()
}

impl StoreSetUp for ScatterStore {
    fn blocks(&self) -> io::Result<u64> {
        let blocks = self.disk.len()? / self.block_bytes as u64;
        Ok(blocks.saturating_sub(1) / GROUP_BLOCKS * GROUP_BLOCKS)
    }

    fn enlarge(&self, blocks: u64) -> io::Result<()> {
        let length = (1 + blocks.next_multiple_of(GROUP_BLOCKS)) * self.block_bytes as u64;
        if self.disk.len()? < length { self.disk.set_len(length) } else { Ok(()) }
    }

    fn write_labels(&self) -> Result<(), FormatError> {
        let io = |source| FormatError::Io { disk: DiskRole::Data, action: "write", source };
        self.disk.write_at(0, &self.label).map_err(io)?;
        self.disk.sync().map_err(io)
    }

    fn check_labels(&self) -> Result<Vec<String>, FormatError> {
        let mut label = vec![0; self.label.len()];
        let io = |source| FormatError::Io { disk: DiskRole::Data, action: "read", source };
        self.disk.read_at(0, &mut label).map_err(io)?;
        if label == self.label {
            return Ok(Vec::new());
        }
        Err(FormatError::NotAPool { why: "the data store is not scattered" })
    }

    fn content_of_form(&self, _: Pbn, form: &[u8]) -> Option<Vec<u8>> {
        (form.len() == self.block_bytes).then(|| form.to_vec())
    }

    fn write_forms(&self, forms: &[(Pbn, &[u8])]) -> io::Result<Vec<(Pbn, Vec<u8>)>> {
        let mut unwritten = Vec::new();
        for (pbn, form) in forms {
            let mut writes = [ContentWrite::new(*pbn, form)];
            self.write(&mut writes);
            let [write] = writes;
            match write.outcome {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                    unwritten.push((*pbn, form.to_vec()));
                }
                other => other?,
            }
        }
        Ok(unwritten)
    }
}

impl StoreRoom for ScatterStore {
    fn reserve(&self, _: &mut [ContentWrite<'_>]) {}

    fn wants_reserve_ahead(&self) -> bool {
        false
    }

    fn reserve_ahead(&self) {}

    fn discard(&self, first: Pbn, count: u32) -> io::Result<()> {
        for pbn in (first.number()..first.number() + u64::from(count)).filter_map(Pbn::new) {
            self.disk.discard(self.offset(pbn), self.block_bytes as u64)?;
        }
        Ok(())
    }

    fn min_discard_blocks(&self) -> u32 {
        1
    }

    fn allocated_bytes(&self) -> Option<u64> {
        None
    }
}

impl Store for ScatterStore {
    fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    fn read(&self, reads: &mut [ContentRead<'_>]) {
        let mut stored = vec![vec![0; self.block_bytes]; reads.len()];
        let mut list: Vec<DiskRead<'_>> = reads
            .iter()
            .zip(&mut stored)
            .map(|(read, stored)| DiskRead::new(self.offset(read.pbn), stored))
            .collect();
        self.disk.read_many(&mut list);
        for (read, done) in reads.iter_mut().zip(list) {
            let content = transform(done.buffer);
            read.buffer.copy_from_slice(&content[read.within..][..read.buffer.len()]);
            read.outcome = done.outcome;
        }
    }

    fn lend(&self, _: &[Pbn]) -> Vec<(usize, LentContent)> {
        Vec::new()
    }

    fn write(&self, writes: &mut [ContentWrite<'_>]) {
        let stored: Vec<Vec<u8>> = writes.iter().map(|write| transform(write.content)).collect();
        let mut list: Vec<DiskWrite<'_>> = writes
            .iter()
            .zip(&stored)
            .map(|(write, stored)| DiskWrite::new(self.offset(write.pbn), stored))
            .collect();
        self.disk.write_many(&mut list);
        for (write, done) in writes.iter_mut().zip(list) {
            write.outcome = done.outcome;
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }

    fn read_ready(&self, reads: &mut [ContentRead<'_>]) {
        self.read(reads);
    }

    fn read_medium(&self, reads: &mut [ContentRead<'_>]) {
        self.read(reads);
    }

    fn compare(&self, comparisons: &mut [ContentComparison<'_>]) {
        compare_by_reading(self, comparisons);
    }
}
